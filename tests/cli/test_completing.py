"""Tab completes sessions and places in them, in real shells: short ids, own ids, ids with a colon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

import clew
from tests.cli.conftest import assistant, user
from tests.cli.processes import Clew
from tests.cli.shells import SHELLS, Typist

UUID = "0b1c2d3e-4f50-4a61-8b72-93a4b5c6d7e8"
PARENT = f"claude-code:{UUID}"
OTHER = "codex:7e5a9f00-1111-7222-8333-444455556666"
GONE = "codex:9d000000-1111-7222-8333-444455556666"


def filled(home: Path) -> Path:
    with clew.open(home / "a.db") as store:
        parent = store.create(PARENT, title="Fix the login: now")
        parent.add_alias(UUID)
        parent.append(user("Fix it"), assistant("Done."))
        parent.checkpoint("plan")
        store.create(f"{PARENT}/agent-a1b2c3d4", title="Look around", metadata={"parent": PARENT})
        store.create(OTHER, title="Something else")
        store.create(GONE, title="Gone")
        store.delete(GONE)
    return home / "a.db"


@pytest.fixture(scope="module", params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typist]:
    """A shell that has read what `clew completion` prints; all tests type into it, one after the other."""
    cli = Clew(tmp_path_factory.mktemp(request.param))
    script = cli("completion", request.param).out
    one = Typist(request.param, cli.home, script, {**cli.env, "CLEW_STORE": str(filled(cli.home))})
    yield one
    one.leave()


def test_a_real_clew_answers_a_real_shell(shell: Typist) -> None:
    with shell.asking_a_process():
        assert shell.enter("clew show 0b\t") == ["show", "0b1c2d3e"]


def test_a_session_is_completed_from_each_of_its_names(shell: Typist) -> None:
    for typed, meant in {
        "0b": "0b1c2d3e",
        "0b1c2d3e-": UUID,
        "claude-code:0": PARENT,
        "codex:": OTHER,
        "7": "7e5a9f00",
        "0b1c2d3e/": "0b1c2d3e/a1b2",
    }.items():
        assert shell.enter(f"clew show {typed}\t") == ["show", meant]


def test_a_place_is_completed_behind_an_at_sign(shell: Typist) -> None:
    assert shell.enter("clew show 0b1c2d3e@p\t") == ["show", "0b1c2d3e@plan"]
    assert shell.enter("clew show claude-code:0b1c@pl\t") == ["show", "claude-code:0b1c@plan"]
    assert shell.enter("clew fork 0b\t@pl\t") in (["fork", "0b1c2d3e@plan"], ["fork", "0b1c2d3e", "@pl"])
    assert shell.enter("clew rewind 0b1c p\t") == ["rewind", "0b1c", "plan"]


def test_a_removing_command_gets_an_id_that_it_takes(shell: Typist) -> None:
    assert shell.enter("clew rm 0b\t") == ["rm", "0b1c2d3e"]
    assert shell.enter("clew rm codex:\t") == ["rm", OTHER]
    assert shell.enter("clew rm 7\t") == ["rm", "7e5a9f00"]
    assert shell.enter("clew trash restore 9\t") == ["trash", "restore", "9d000000"]


def test_titles_are_shown_where_a_shell_shows_them(shell: Typist) -> None:
    shell.enter("clew show \t\t\t\r")
    assert b"0b1c2d3e" in shell.seen
    if shell.shell != "bash":
        assert b"Something else" in shell.seen
        assert b"Look around" not in shell.seen  # subagents are folded into their parent


def asked(cli: Clew, line: str) -> list[str]:
    return cli(env={"_CLEW_COMPLETE": "fish", "COMP_LINE": line}).lines


def test_entries_are_proposed_by_their_short_names(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        session = store.create("s")
        session.append(user("Hello"), assistant("World"))
        session.checkpoint("plan")
    plan, last, first = asked(cli, "clew show s@")
    assert plan == "word\ts@plan\tcheckpoint at 1"
    assert last.endswith(".1\tassistant: World")
    assert first.endswith(".0\tuser: Hello")
    place = last.split("\t")[1]
    assert asked(cli, f"clew show {place[:5]}") == [last, first]
    assert "World" in cli("show", place).out


def test_an_id_that_holds_an_at_sign_is_completed_too(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        store.create("me@home")
    assert asked(cli, "clew show me@") == ["word\tme@home"]


def test_a_damaged_session_hides_no_other_one(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        store.create("one", title="First")
        store.create("only", title="Second")
    connection = apsw.Connection(str(cli.store))
    connection.execute("UPDATE sessions SET messages = -5 WHERE id = 'one'")
    connection.close()
    assert asked(cli, "clew show o") == ["word\tone", "word\tonly\tSecond"]
