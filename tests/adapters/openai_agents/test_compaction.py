"""When the Agents SDK compacts a session in a Clew store: what is replaced stays reachable."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from agents import TResponseInputItem

import clew
from clew.adapters.openai_agents import ClewSession
from clew.testing.adapter import run
from tests.adapters.openai_agents.items import item, items, texts


@pytest.fixture
def session(url: str) -> Iterator[ClewSession]:
    with clew.open(url) as store:
        yield ClewSession("talk", store)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[ClewSession]:
    """On one kind of store, for what does not depend on it."""
    with clew.open(tmp_path / "agents.db") as store:
        yield ClewSession("talk", store)


def kept(session: ClewSession) -> clew.Session:
    return session.clew


def test_the_latest_items_are_replaced_and_the_old_ones_stay(session: ClewSession) -> None:
    async def compact() -> tuple[list[Any], bool, bool]:
        await session.add_items(items(*"abcd"))
        snapshot = await session._get_compaction_snapshot(3)
        assert snapshot is not None
        replaced = await snapshot.replace_suffix(1, items("c+d"))
        return snapshot.items, snapshot.complete, replaced

    assert run(compact()) == (items(*"bcd"), False, True)
    assert texts(run(session.get_items())) == ["a", "b", "c+d"]
    kept(session).undo()
    assert texts(run(session.get_items())) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("limit", "complete"), [(1, False), (3, False), (4, True), (5, True)], ids=lambda value: str(value)
)
def test_a_snapshot_knows_whether_it_is_all(local: ClewSession, limit: int, complete: bool) -> None:
    run(local.add_items(items(*"abcd")))
    kept(local).set_summary("four letters")
    snapshot = run(local._get_compaction_snapshot(limit))
    assert texts(snapshot.items) == list("abcd")[-limit:]
    assert snapshot.complete is complete
    assert run(snapshot.replace_suffix(0, [])) is True
    assert texts(run(local.get_items())) == list("abcd")[:-limit]


def test_nothing_is_replaced_when_somebody_wrote_meanwhile(session: ClewSession) -> None:
    async def late() -> list[bool]:
        await session.add_items(items(*"ab"))
        snapshot = await session._get_compaction_snapshot(5)
        assert snapshot is not None
        await session.add_items(items("c"))
        appended = await snapshot.replace_suffix(0, items("summary"))
        await session.pop_item()
        await session.pop_item()
        await session.add_items(items("b"))  # looks the same, and is another one
        return [appended, await snapshot.replace_suffix(0, items("summary"))]

    assert run(late()) == [False, False]
    assert texts(run(session.get_items())) == ["a", "b"]
    nothing = run(ClewSession("nobody", session._blocking)._get_compaction_snapshot(5))
    assert (nothing.items, nothing.complete) == ([], True)
    assert run(nothing.replace_suffix(0, items("x"))) is False


@pytest.mark.parametrize(
    ("expired", "left"), [("", "abS"), ("a", "bS"), ("ab", "S"), ("b", "abS")], ids=lambda value: value or "-"
)
def test_what_is_expired_at_the_beginning_goes_with_a_replacement(
    local: ClewSession, expired: str, left: str
) -> None:
    run(local.add_items(items(*"abcd")))
    snapshot = run(
        local._get_compaction_snapshot(2, prune_prefix=lambda each: cast("Any", each)["content"] in expired)
    )
    assert run(snapshot.replace_suffix(0, items("S"))) is True
    assert texts(run(local.get_items())) == list(left)
    kept(local).undo()
    assert texts(run(local.get_items())) == list("abcd")


def test_the_whole_history_is_replaced_at_once(session: ClewSession) -> None:
    run(session.add_items(items(*"abc")))
    assert run(session._atomic_replace_items(items("summary"))) is True
    assert texts(run(session.get_items())) == ["summary"]
    kept(session).undo()
    assert texts(run(session.get_items())) == ["a", "b", "c"]


def test_a_replacement_that_is_not_json_leaves_all_as_it_was(local: ClewSession) -> None:
    run(local.add_items(items(*"abc")))
    bad = cast("TResponseInputItem", {"role": "user", "content": object()})
    odd = cast("TResponseInputItem", {"role": "user", "content": ("b", "c")})
    snapshot = run(local._get_compaction_snapshot(2))
    for replace in (lambda each: snapshot.replace_suffix(0, [each]), lambda each: replaced_by(local, each)):
        with pytest.raises(TypeError):
            run(replace(bad))
        assert texts(run(local.get_items())) == ["a", "b", "c"]
    assert run(snapshot.replace_suffix(0, [odd])) is True
    assert run(local.get_items(1)) == [{"role": "user", "content": ["b", "c"]}]
    assert len(run(local.get_items())) == 2
    assert run(replaced_by(local, odd)) is True
    assert run(local.get_items()) == [{"role": "user", "content": ["b", "c"]}]


async def replaced_by(session: ClewSession, item: TResponseInputItem) -> bool:
    return await session._atomic_replace_items([item])


def test_a_replacement_that_is_cancelled_is_over_when_that_is_heard_of(local: ClewSession) -> None:
    async def cancel_it() -> list[str]:
        await local.add_items(items(*"abc"))
        snapshot = await local._get_compaction_snapshot(2)
        assert snapshot is not None
        replacing = asyncio.ensure_future(snapshot.replace_suffix(0, items("b+c")))
        await asyncio.sleep(0)
        replacing.cancel()
        later = asyncio.ensure_future(local.add_items(items("d")))
        with pytest.raises(asyncio.CancelledError):
            await replacing
        await later
        return texts(await local.get_items())

    assert run(cancel_it()) == ["a", "b+c", "d"]


def test_a_subclass_with_items_of_its_own_is_not_written_past(local: ClewSession) -> None:
    class Shouting(ClewSession):
        async def add_items(self, items: list[TResponseInputItem], *, wrapper: Any = None) -> None:
            loud = [item(cast("Any", each)["content"].upper()) for each in items]
            await super().add_items(loud, wrapper=wrapper)

    session = Shouting("talk", local._blocking)
    run(session.add_items(items("a")))
    assert run(session._get_compaction_snapshot(5)) is None
    assert run(session._atomic_replace_items(items("b"))) is False
    assert texts(run(session.get_items())) == ["A"]
