"""Ids that begin with a dash, as those of the Claude Agent SDK do, or hold what a shell takes apart."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import clew
from clew.cli import COMMANDS
from clew.cli.app import SessionArgument
from tests.cli.processes import Clew
from tests.support.rows import named

DASHED = "-birds/0b5f"
TYPED: dict[str, list[str]] = {
    "cat": ["cat", "--", f"{DASHED}@plan", "a.txt"],
    "checkpoint": ["checkpoint", "--", DASHED, "here"],
    "close": ["close", "--", DASHED],
    "diff": ["diff", "--stat", "--", f"{DASHED}@plan"],
    "export": ["export", "--", DASHED],
    "files": ["files", "--", DASHED, "missing.txt"],
    "follow": ["follow", "--", DASHED],
    "fork": ["fork", "--", DASHED],
    "log": ["log", "--", DASHED],
    "redo": ["redo", "--", DASHED],
    "reopen": ["reopen", "--", DASHED],
    "restore": ["restore", "--yes", "--", f"{DASHED}@plan"],
    "resume": ["resume", "--in", "codex", "--directory", ".", "--", DASHED],
    "rewind": ["rewind", "--yes", "--", DASHED, "0"],
    "rm": ["rm", "--", DASHED],
    "show": ["show", "--", f"{DASHED}@0"],
    "stats": ["stats", "--", DASHED],
    "tag": ["tag", "--", DASHED, "work"],
    "tail": ["tail", "--", DASHED],
    "title": ["title", "--", DASHED],
    "undo": ["undo", "--", DASHED],
    "usage": ["usage", "--", DASHED],
}
REFUSED = {"follow": "nothing to follow", "redo": "nothing to redo", "undo": "nothing to undo"}
"""What is not there to be done; but it is said of the session."""


def with_a_dash(home: Path) -> Clew:
    cli = Clew(home)
    with clew.open(cli.store) as store:
        s = store.session(DASHED, title="Herons")
        s.append({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"})
        (home / "work").mkdir()
        (home / "work" / "a.txt").write_text("a")
        s.checkpoint("plan", files=home / "work")
        store.session("other").append({"role": "user", "content": "newer"})
    return cli


@pytest.fixture
def dashed(tmp_path: Path) -> Clew:
    return with_a_dash(tmp_path)


def test_every_command_that_takes_a_session_is_tried_here() -> None:
    takes = set()
    for name, place in COMMANDS.items():
        command = getattr(import_module(f"clew.cli.{place.module}"), f"{name}_command")
        if any(isinstance(one, SessionArgument) for one in command.params):
            takes.add(name)
    assert takes == set(TYPED)


@pytest.mark.parametrize("dashes", ["--", None], ids=["behind two dashes", "pasted without them"])
def test_an_id_is_an_id_for_every_command(tmp_path: Path, dashes: str | None) -> None:
    for name, words in TYPED.items():
        (tmp_path / name).mkdir()
        with named(name):
            said = with_a_dash(tmp_path / name)(
                *(word for word in words if word != "--" or dashes), code=1 if name in REFUSED else 0
            ).err
            assert REFUSED.get(name, "") in said
            assert "no such option" not in said


def test_what_is_neither_an_option_nor_an_id_is_told(dashed: Clew) -> None:
    assert "no session '-rf'" in dashed("rm", "-rf", "other", code=1).err
    assert "no option --jsom; did you mean one of --json, --store?" in dashed("show", "--jsom", code=2).err
    assert "no option -x" in dashed("show", "-x", code=2).err
    assert "no option -q" in dashed("show", "-qq", "--json", code=2).err
    assert "no option -q" in dashed("ls", "-qq", code=2).err
    with clew.open(dashed.store) as store:
        assert len(list(store.list())) == 2


def test_a_new_id_that_begins_with_a_dash_is_taken_or_the_error_says_how(dashed: Clew) -> None:
    dashed("fork", "other", "-birds/two")
    for short in ("-B", "--birds"):
        said = dashed("fork", "other", short, code=2).err
        assert f"no option {short}; if that is an id, put -- before it: clew fork other -- {short};" in said
        dashed("fork", "other", "--", short)
    assert "put -- before it, and options before that;" in dashed("fork", "other", "-C", "--json", code=2).err
    assert "if that is an id" not in dashed("ls", "-C", code=2).err
    with clew.open(dashed.store) as store:
        assert {"-birds/two", "-B", "--birds"} <= {info.id for info in store.list()}


def test_an_option_takes_an_id_that_begins_with_a_dash(dashed: Clew) -> None:
    dashed("search", "a", "--session", DASHED)
    [row] = dashed("search", "a", "--session", DASHED, "-newer").rows
    assert row[0].startswith(DASHED)


def test_an_id_with_a_dash_is_completed_behind_two_dashes(dashed: Clew) -> None:
    env = {"_CLEW_COMPLETE": "bash", "COMP_LINE": "clew show -- -bi", "COMP_PART": "-bi"}
    assert dashed(env=env).lines == [f"word\t{DASHED}"]
