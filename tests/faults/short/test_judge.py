"""The judge of the fault campaigns: for each thing that it looks at, a planted wrong that it finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

import clew
from tests.faults.crash.common import message
from tests.faults.history.checker import check_whole
from tests.faults.workload.moves import Move, Standing, World, difference, played, standing_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with clew.open(tmp_path / "a.db") as store:
        session = store.create("s")
        session.append(message("one"), message("two"))
        (tmp_path / "files").mkdir()
        (tmp_path / "files" / "a").write_bytes(b"a" * 5_000)
        session.checkpoint("files", files=tmp_path / "files")
    return tmp_path / "a.db"


def rules_after(path: Path, statement: str) -> set[str]:
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()
    with clew.open(path) as store:
        return {violation.rule for violation in check_whole(store)}


def test_a_sound_store_has_no_violations(path: Path) -> None:
    assert rules_after(path, "SELECT 1") == set()


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("UPDATE entries SET digest = zeroblob(32) WHERE key & 0xFFFFFFFF = 1", "J10"),
        ("UPDATE entries SET body = zeroblob(9) WHERE key & 0xFFFFFFFF = 1", "J10"),
        ("DELETE FROM objects", "J10"),
        ("UPDATE entries SET messages = 7 WHERE key & 0xFFFFFFFF = 1", "J11"),
        ("UPDATE sessions SET messages = 7", "J11"),
        ("UPDATE sessions SET size = 7", "J11"),
    ],
)
def test_j10_j11_a_wrong_hash_reference_or_counter_is_found(path: Path, statement: str, rule: str) -> None:
    """A planted bug each: what another program changed in the tables."""
    assert rule in rules_after(path, statement)


MOVES: list[tuple[Move, Callable[[clew.Session], object]]] = [
    (Move("append", "s", ["three", "four"]), lambda s: s.append(message("three"), message("four"))),
    (Move("checkpoint", "s", name="early"), lambda s: s.checkpoint("early")),
    (Move("compact", "s", name="c1"), lambda s: s.compact("c1")),
    (Move("checkpoint", "s", name="undone"), lambda s: s.checkpoint("undone")),
    (Move("undo", "s"), lambda s: s.undo()),
    (Move("compact", "s", name="c2"), lambda s: s.compact("c2")),
    (Move("fork", "s", at=4, name="late"), lambda s: s.fork("late", at=4)),
    (Move("rewind", "s", at=0), lambda s: s.rewind(0)),
    (Move("set_var", "s", at=5, name="v"), lambda s: s.set_var("v", 5)),
    (Move("undo", "s"), lambda s: s.undo()),
    (Move("checkpoint", "s", name="p"), lambda s: s.checkpoint("p")),
    (Move("fork", "s", at=1, name="f"), lambda s: s.fork("f", at=1)),
]


def test_the_model_of_the_moves_is_where_a_store_is(path: Path) -> None:
    with clew.open(path) as store:
        session = store.get("s")
        world: World = {"s": standing_of(session)}
        for move, make in MOVES:
            make(session)
            world = played(world, move)
            found = {info.id: standing_of(store.get(info.id)) for info in store.list()}
            assert difference(world, found) == "", move


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"s": Standing(["a"])},
        {"s": Standing(["a", "b"], {"p": ["a"]})},
        {"s": Standing(["a", "b"], {}, {"v": 2})},
        {"s": Standing(["a", "b"], {}, {"v": 1}), "t": Standing()},
    ],
)
def test_worlds_that_differ_are_told_apart(other: World) -> None:
    world = {"s": Standing(["a", "b"], {}, {"v": 1})}

    assert difference(world, other) != ""
    assert difference(world, {"s": Standing(["a", "b"], {}, {"v": 1}, ["before"])}) == ""
