"""The async face does what the sync one does, from one loop and from several."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import wraps
from typing import Any, ParamSpec

import pytest

import clew
from clew import AsyncSession, AsyncStore, Head
from clew.backends.memory import MemoryBackend
from clew.testing.backend.base import Ticking, user
from clew.testing.chain import check_store

P = ParamSpec("P")


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a coroutine as a test, in debug mode: what is never awaited or blocks is told."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@asynccontextmanager
async def a_session(url: str) -> AsyncIterator[AsyncSession]:
    async with clew.open_async(url) as store:
        yield await store.session("s")


async def said(s: AsyncSession) -> list[Any]:
    return [message["content"] for message in await s.messages()]


async def refused(error: type[Exception], call: Awaitable[Any]) -> Any:
    with pytest.raises(error) as caught:
        await call
    return caught.value


@in_loop
async def test_a_store_is_awaited_or_entered(url: str) -> None:
    """Both ways open it; leaving the block closes it; closing twice is fine."""
    store = await clew.open_async(url)
    await store.session("a")
    await store.close()
    await store.close()
    await refused(clew.errors.StoreClosedError, store.list())

    async with clew.open_async(url) as store, store:
        assert isinstance(store, AsyncStore)
        assert store.location
        assert store.capabilities.durability in ("full", "memory")
        assert "AsyncStore" in repr(store)
    await refused(clew.errors.StoreClosedError, store.stats())


@in_loop
async def test_a_store_over_a_backend_or_a_sync_store() -> None:
    """`AsyncStore(backend)` and `AsyncStore.over(store)`: one store, two faces."""
    clock = Ticking()
    async with AsyncStore(MemoryBackend(), clock=clock) as store:
        (entry,) = await (await store.session("s")).append(user("a"))
        assert entry.stamp == clock.now
    sync = clew.Store(MemoryBackend())
    store = AsyncStore.over(sync)
    await (await store.create("s")).append(user("a"))

    assert sync.get("s").messages() == [user("a")]
    await store.close()


@in_loop
async def test_a_handle_is_that_of_its_session(url: str) -> None:
    """Equal handles lead to one session; `get` raises where `find` gives None."""
    async with clew.open_async(url) as store:
        s = await store.create("s")
        assert await store.get("s") == s == await store.find("s") == await store.session("s")
        assert hash(s) == hash(await store.get("s"))
        assert repr(s).startswith("<AsyncSession 's'")
        assert (await store.session()).id == "default"
        assert await store.find("never") is None
        await refused(clew.SessionNotFoundError, store.get("never"))
        await refused(clew.SessionExistsError, store.create("s"))


@in_loop
async def test_messages(url: str) -> None:
    """append with key, expect and at, append_nowait, flush, messages, entries."""
    moment = datetime(2019, 5, 1, tzinfo=UTC)
    async with clew.open_async(url) as store:
        s = await store.session("s")
        head = await s.head
        assert head == Head("", -1)
        first = await s.append(user("a"), '{"role": "user",  "content": "b"}', key="k", expect=head)
        assert await s.append(user("a"), '{"role": "user",  "content": "b"}', key="k") == first
        assert await s.append() == []
        moved = await refused(clew.HeadMovedError, s.append(user("x"), expect=head))
        assert (moved.expected, moved.actual) == (head, await s.head)
        await refused(clew.KeyReusedError, s.append(user("x"), key="k"))
        await refused(clew.errors.InvalidEntryError, s.append(user("x"), {"bad": float("nan")}))
        s.append_nowait(user("c"))
        s.add_event_nowait("tick", 1)
        assert [event.data for event in await s.events()] == [1]
        [last] = await s.append(user("d"), at=moment)
        await store.flush()

        assert last.time == moment
        assert await said(s) == ["a", "b", "c", "d"]
        assert await s.messages(last=1) == [user("d")]
        assert await s.messages(after=1, before=3) == [user("c")]
        assert [e.position async for e in s.entries(newest_first=True)] == [3, 2, 1, 0]
        assert [e async for e in s.entries(last=4)][:2] == first
        await s.annotate(first[0], label="l", note=1)
        assert [dict(e.annotations) async for e in s.entries(label="l")] == [{"label": "l", "note": 1}]


@in_loop
async def test_flush_raises_what_went_wrong(url: str) -> None:
    """Once, as on the sync face; a bad message is refused at once."""
    async with clew.open_async(url) as store:
        s = await store.session("s")
        with pytest.raises(clew.errors.InvalidEntryError):
            s.append_nowait({"bad": float("inf")})
        await store.delete("s")
        s.append_nowait(user("lost"))
        await refused(clew.SessionDeletedError, store.flush())
        await store.flush()


@in_loop
async def test_bad_options_are_refused_as_on_the_sync_face(url: str) -> None:
    """The same errors, at the first step of an iteration at the latest."""
    async with a_session(url) as s:
        await refused(clew.errors.InvalidQueryError, s.messages(last=-1))
        await refused(clew.errors.InvalidQueryError, anext(s.entries(damaged="ignore")))  # type: ignore[arg-type]
        await refused(clew.errors.InvalidQueryError, anext(s.entries(last=-1)))
        await refused(clew.errors.EntryNotFoundError, anext(s.entries(after=5)))


@in_loop
async def test_an_iteration_can_be_left(url: str) -> None:
    """Half-way, or while messages are appended: no storage is held between two entries."""
    async with a_session(url) as s:
        await s.append(*[user(f"{number}") for number in range(200)])
        entries = s.entries()
        assert (await anext(entries)).position == 0
        await s.append(user("later"))
        await s.clear()
        assert [entry.position async for entry in entries] == list(range(1, 200))
        async for entry in s.entries(newest_first=True):
            assert entry.kind == "message"
            break
        await s.append(user("after"))


@in_loop
async def test_many_tasks_append_at_once(url: str) -> None:
    """Every message once, each task's in its order; one that is refused harms no other."""
    async with clew.open_async(url) as store:

        async def work(name: str) -> None:
            mine = await store.session(name)
            shared = await store.session("shared")
            for number in range(5):
                await mine.append(user(f"{number}"), key=f"{number}")
                await refused(clew.KeyReusedError, mine.append(user("other"), key=f"{number}"))
                await shared.append(user(f"{name} {number}"))

        await asyncio.gather(*(work(f"t{number}") for number in range(8)))
        shared = await said(await store.get("shared"))

        assert len(shared) == 40
        for number in range(8):
            assert await said(await store.get(f"t{number}")) == [f"{n}" for n in range(5)]
            assert [text for text in shared if text.startswith(f"t{number} ")] == [
                f"t{number} {n}" for n in range(5)
            ]


def test_one_store_serves_several_event_loops(url: str) -> None:
    """Made in one loop, used in others, and from a plain thread by its sync face."""
    sync = clew.open(url)
    store = AsyncStore.over(sync)

    async def work(name: str) -> None:
        s = await store.session("s")
        await s.append(user(name))
        assert await (await store.session("s")).summary is None

    for name in ("first", "second", "third"):
        asyncio.run(work(name))
    sync.get("s").append(user("fourth"))

    assert [message["content"] for message in sync.get("s").messages()] == [
        "first",
        "second",
        "third",
        "fourth",
    ]
    check_store(sync)
    sync.close()


@in_loop
async def test_calls_do_not_block_the_loop(url: str) -> None:
    """While one task waits for storage, others run."""
    async with a_session(url) as s:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        for number in range(20):
            await s.append(user(f"{number}"))
            await s.messages()
        counting.cancel()

        assert turns >= 20
