"""Watching a store from another process, and from tasks."""

from __future__ import annotations

import asyncio
from itertools import islice
from pathlib import Path

import clew
from tests.support.children import call


def append_elsewhere(path: str, count: int) -> None:
    with clew.open(path) as store:
        for number in range(count):
            store.session(f"s{number}").append({"role": "user", "content": "hi"})


def test_what_another_process_does_is_told(tmp_path: Path) -> None:
    path = str(tmp_path / "clew.db")
    with clew.open(path) as store:
        watching = store.watch(every=0.01)
        call(append_elsewhere, path, 3)

        assert [change.session for change in islice(watching, 3)] == ["s0", "s1", "s2"]


def test_tasks_watch_with_async_for(tmp_path: Path) -> None:
    async def main() -> list[str]:
        found = []
        async with clew.open_async(tmp_path / "clew.db") as store:
            started = asyncio.Event()

            async def follow() -> None:
                changes = store.watch(every=0.01)
                pending = asyncio.ensure_future(anext(changes))
                await asyncio.sleep(0)
                started.set()
                found.append((await pending).session)
                async for change in changes:
                    found.append(change.session)
                    if change.session == "last":
                        break

            following = asyncio.create_task(follow())
            await started.wait()
            number = 0
            while not found:  # until the watcher has had its first look
                await store.session(f"s{number}")
                number += 1
            await store.session("last")
            await following
        return found

    assert asyncio.run(main())[-1] == "last"
