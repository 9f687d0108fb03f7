"""Events and usage on the async face: the same as on the sync one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.model import EventCounts, UsageTotals
from tests.aio.test_store import in_loop, refused

NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)


@pytest.fixture(params=["memory:", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory:" else f"{tmp_path}/clew.db"


@asynccontextmanager
async def a_session(url: str) -> AsyncIterator[clew.AsyncSession]:
    async with clew.open_async(url) as store:
        yield await store.session("s")


@in_loop
async def test_events(url: str) -> None:
    async with a_session(url) as s:
        first = await s.add_event("a", {"n": 1}, stream="x", id="1")
        batch = await s.add_events([{"type": "b"}, {"type": "a", "data": {"n": 1}, "stream": "x", "id": "1"}])

        assert await s.add_event("a", {"n": 1}, stream="x", id="1") == first == batch[1]
        assert await s.events() == [first, batch[0]]
        assert await s.events(stream="x") == await s.events(limit=1) == [first]
        assert await s.events(after=first) == [batch[0]]
        assert await s.add_events([]) == []
        assert await s.count_events() == EventCounts(added=2, kept=2, dropped=0)
        await refused(clew.KeyReusedError, s.add_event("other", id="1"))
        await refused(clew.InvalidError, s.add_event(""))
        await refused(clew.InvalidError, s.add_events([{"type": "a", "unknown": 1}]))
        await refused(clew.errors.InvalidQueryError, s.events(limit=0))


@in_loop
async def test_events_of_many_tasks_are_numbered_without_a_gap(url: str) -> None:
    async with a_session(url) as s:

        async def work(name: str) -> list[Any]:
            return [(await s.add_event(name, number)).cursor for number in range(10)]

        cursors = await asyncio.gather(*(work(f"t{number}") for number in range(8)))

        assert sorted(cursor for mine in cursors for cursor in mine) == list(range(1, 81))
        assert all(mine == sorted(mine) for mine in cursors)
        assert len(await s.events()) == 80


@in_loop
async def test_usage(url: str) -> None:
    async with a_session(url) as s:
        [entry] = await s.append({"role": "user", "content": "a"})
        first = await s.add_usage(model="m", cost="0.5", input_tokens=5, entry=entry, at=NOON, id="1")
        assert (first.entry, first.cost) == (entry.id, Decimal("0.5"))
        assert await s.add_usage(cost="0.5", input_tokens=5, id="1") == first
        second = await s.add_usage(
            vendor="v",
            endpoint="e",
            source="x",
            output_tokens=1,
            cache_read_tokens=2,
            cache_write_tokens=3,
            reasoning_tokens=4,
        )

        assert await s.usage_records() == [first, second]
        assert await s.usage_records(after=first, limit=1) == [second]
        assert await s.usage() == UsageTotals(
            calls=2,
            input_tokens=5,
            output_tokens=1,
            cache_read_tokens=2,
            cache_write_tokens=3,
            reasoning_tokens=4,
            cost=Decimal("0.5"),
            unpriced=1,
        )
        assert set(await s.usage(by="model")) == {"m", None}
        assert (await s.usage(since=NOON, until=NOON.replace(hour=13))).calls == 1
        await refused(clew.InvalidError, s.add_usage(cost=0.5))  # type: ignore[arg-type]
        await refused(clew.errors.InvalidQueryError, s.usage(by="colour"))  # type: ignore[call-overload]
