"""S-52: moves that lead to themselves or to each other: undo and redo would go round for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import clew
from clew.backends.contract import Transaction
from clew.core.conversation.moves import Move
from clew.store import Store
from tests.core.conversation.forged_branches import KINDS, make


@pytest.fixture(params=KINDS)
def hostile(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with Store(make(request.param, tmp_path, request)) as store:
        s = store.session("s")
        s.append(*({"role": "user", "content": str(n)} for n in range(4)))
        s.rewind(2)
        s.rewind(1)
        s.rewind(0)
        store.session("other").append({"role": "user", "content": "hi"})
        sid = s._access.sid
        store._engine.run(lambda tx: _lead(tx, sid, 2, link=3))
        yield store


def _lead(tx: Transaction, sid: int, number: int, *, link: int) -> None:
    name = f"{number:012d}"
    value = tx.get_record(sid, "move", name)
    assert value is not None
    move = msgspec.structs.replace(msgspec.json.decode(value, type=Move), link=link)
    tx.put_record(sid, "move", name, msgspec.json.encode(move))


def test_s52_undo_ends(hostile: Store) -> None:
    s = hostile.get("s")
    s.undo()
    with pytest.raises(clew.CorruptError, match=r"move 2 of session 's'"):
        s.undo()
    s.append({"role": "user", "content": "on we go"})
    s.rewind(0)
    s.undo()


def test_s52_verify_names_the_move(hostile: Store) -> None:
    problems = hostile.verify(full=True).details
    assert [(problem.session, problem.kind) for problem in problems] == [("s", "record")]
    assert "000000000002" in problems[0].text


def test_s52_repair_leaves_the_moves_out(hostile: Store, tmp_path: Path) -> None:
    report = hostile.repair(to=tmp_path / "new.db")
    assert any(lost.session == "s" and "move" in (lost.name or "") for lost in report.lost)
    with clew.open(tmp_path / "new.db") as new:
        assert len(new.get("s").messages()) == 1
        with pytest.raises(clew.errors.NothingToUndoError):
            new.get("s").undo()
        assert new.verify(full=True).ok
