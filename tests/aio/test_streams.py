"""Events and usage on the async face: the same as on the sync one."""

from __future__ import annotations

import asyncio
from typing import Any

import clew
from clew.model import EventCounts
from tests.aio.test_store import a_session, in_loop, refused


@in_loop
async def test_events(url: str) -> None:
    async with a_session(url) as s:
        first = await s.add_event("a", {"n": 1}, stream="x", id="1")
        batch = await s.add_events([{"type": "b"}, {"type": "a", "data": {"n": 1}, "stream": "x", "id": "1"}])

        assert await s.add_event("a", {"n": 1}, stream="x", id="1") == first == batch[1]
        assert await s.events() == [first, batch[0]]
        assert await s.add_events([]) == []
        assert await s.count_events() == EventCounts(added=2, kept=2, dropped=0)
        await refused(clew.KeyReusedError, s.add_event("other", id="1"))
        await refused(clew.InvalidError, s.add_event(""))
        await refused(clew.InvalidError, s.add_events([{"type": "a", "unknown": 1}]))


@in_loop
async def test_events_of_many_tasks_are_numbered_without_a_gap(url: str) -> None:
    async with a_session(url) as s:

        async def work(name: str) -> list[Any]:
            return [(await s.add_event(name, number)).cursor for number in range(10)]

        cursors = await asyncio.gather(*(work(f"t{number}") for number in range(8)))

        assert sorted(cursor for mine in cursors for cursor in mine) == list(range(1, 81))
        assert all(mine == sorted(mine) for mine in cursors)
        assert len(await s.events()) == 80
