"""A command that fails, or only reads, makes no store; and what an import leaves out is an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import clew
from clew.cli import COMMANDS
from tests.cli.commands.test_import import CLAUDE
from tests.cli.processes import Clew
from tests.support.rows import each_row, named

NOTHING = {
    "notes.txt": "not a session",
    "torn.jsonl": '{"type": "user", "uu',
    "own.jsonl": '{"x":"0123456789abcdef","end":1,"kind":"log","format":1}\n',
    "cut.db": "SQLite format 3\0",
}


def claude(place: Path, *more: str) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    file = place / "a.jsonl"
    file.write_text("".join(line + "\n" for line in [*map(json.dumps, CLAUDE), *more]))
    return file


@each_row("name", NOTHING)
def test_an_import_of_nothing_makes_no_store(cli: Clew, name: str) -> None:
    folder = cli.home / f"from {name}"
    folder.mkdir()
    (folder / name).write_text(NOTHING[name])
    for path in (folder, folder / name):
        for option in ([], ["--strict"], ["--dry-run"]):
            cli("import", str(path), *option, code=1)
            assert not cli.store.exists()


def test_an_import_of_a_path_that_is_not_there_makes_no_store(cli: Clew) -> None:
    assert "there is no file absent" in cli("import", "absent", code=1).err
    cli("import", "--scan", code=1)
    assert list(cli.home.iterdir()) == []


def test_a_strict_import_that_refuses_makes_no_store(cli: Clew) -> None:
    claude(cli.home / "from", '{"type": "assistant", "uuid": BROKEN')
    cli("import", "--strict", "from", code=1)
    assert not cli.store.exists()
    cli("import", "from", code=3)
    assert cli.store.exists()


def test_a_snapshot_that_is_refused_makes_no_store(cli: Clew) -> None:
    cli("snapshot", str(cli.home), code=1)
    assert not cli.store.exists()


ARGUMENTS = {
    "show": ["x"], "log": ["x"], "search": ["x"], "tail": ["x"], "export": ["x"],
    "copy": ["gone.db", "to.db"], "backup": ["b.db"],
    "checkpoint": ["x", "y"], "rewind": ["x", "1"], "undo": ["x"], "redo": ["x"], "follow": ["x"],
    "cat": ["x", "y"],
    "fork": ["x"], "diff": ["x"], "restore": ["x"], "title": ["x"], "tag": ["x"], "close": ["x"],
    "reopen": ["x"], "resume": ["x"], "rm": ["x"], "secrets": ["scan"], "trash": ["ls"],
    "repair": ["--to", "to.db"], "share": ["x"], "token": ["ls"],
}  # fmt: skip
MAKE_STORES = {"import", "sync", "watch", "serve", "mcp", "snapshot", "demo"}
NEED_NONE = {"completion", "config", "help", "hooks", "version", "doctor", "ui"}


@pytest.mark.parametrize("kind", ["absent", "an empty file", "an empty directory"])
def test_a_command_without_a_store_makes_none(cli: Clew, kind: str) -> None:
    if kind == "an empty file":
        cli.store.touch()
    elif kind == "an empty directory":
        cli.store.mkdir()
    before = sorted(cli.home.rglob("*"))
    for name in COMMANDS:
        if name not in MAKE_STORES | NEED_NONE:
            with named(name):
                assert "no store at" in cli(name, *ARGUMENTS.get(name, []), code=1).err
                assert sorted(cli.home.rglob("*")) == before


def test_what_is_left_out_is_named_and_ends_with_1(cli: Clew) -> None:
    claude(cli.home / "from")
    (cli.home / "from" / "torn.jsonl").write_text(NOTHING["torn.jsonl"])
    done = cli("import", "from", code=1)
    assert f"clew: {cli.home}/from/torn.jsonl: it has the name of a log" in done.err
    assert "1 session new" in done.err
    assert ["new"] == [row[0] for row in done.rows]
    with clew.open(cli.store) as store:
        assert len(store.list()) == 1
