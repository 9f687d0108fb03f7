"""F-32, F-33: cancelled awaits, several event loops, loops that are closed meanwhile."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import clew
from clew.backends.contract import Transaction
from tests.faults.crash.common import chain_of, message, said, texts
from tests.faults.crash.threads import together
from tests.faults.history.checker import History, check, log_of
from tests.support.rows import each_row

LOTS = 40

Steps = Callable[[clew.AsyncStore], Coroutine[Any, Any, Any]]


def play(path: str, steps: Steps) -> Any:
    """Run a coroutine on a store."""

    async def run() -> Any:
        async with clew.open_async(path) as store:
            return await steps(store)

    return asyncio.run(run())


async def works(store: clew.AsyncStore) -> bool:
    """Nothing is locked: an append, an operation in a thread and a read go through."""
    session = await store.session("afterwards")
    entries = await session.append(message("still"))
    found = await session.messages(last=1)
    return len(entries) == 1 and found == [message("still")]


async def cancel_after(turns: int, awaitable: Coroutine[Any, Any, Any]) -> bool:
    """Cancel a task after so many turns of the loop; whether it was cancelled before it was done."""
    task = asyncio.ensure_future(awaitable)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


@contextmanager
def busy(store: clew.AsyncStore) -> Iterator[None]:
    """Keep the writer busy, so that what is posted meanwhile waits."""
    started, finish = threading.Event(), threading.Event()

    def occupy(_: Transaction) -> None:
        started.set()
        finish.wait()

    occupant = threading.Thread(target=store._store._engine.run, args=(occupy,))
    occupant.start()
    started.wait()
    try:
        yield
    finally:
        finish.set()
        occupant.join()


def test_f32_an_append_cancelled_at_any_turn_of_the_loop_is_whole_or_absent(url: str) -> None:
    """P2; and the next append works, whenever the cancellation came."""
    history = History()

    async def steps(store: clew.AsyncStore) -> list[bool]:
        session = await store.session("s")

        async def append(turns: int) -> None:
            values = [f"{turns}.{part}" for part in range(3)]
            with history.append("client", "s", values):
                await session.append(*map(message, values))

        cancelled = [await cancel_after(turns, append(turns)) for turns in range(LOTS)]
        assert await works(store)
        return cancelled

    cancelled = play(url, steps)

    assert cancelled[0]
    with clew.open(url) as store:
        session = store.get("s")
        assert said(check(history.operations, {"s": log_of(session)})) == ""
        assert chain_of(session) == []


def test_f32_an_append_that_is_cancelled_before_it_was_handed_over_never_happens(url: str) -> None:
    async def steps(store: clew.AsyncStore) -> list[dict[str, Any]]:
        session = await store.session("s")
        assert await cancel_after(0, session.append(message("never")))
        assert await cancel_after(1, session.append(message("never either")))
        await session.append(message("next"))
        return await session.messages()

    assert play(url, steps) == [message("next")]


def test_f32_an_append_that_is_cancelled_while_it_waits_for_the_writer_happens_as_a_whole(
    url: str,
) -> None:
    async def steps(store: clew.AsyncStore) -> list[dict[str, Any]]:
        session = await store.session("s")
        with busy(store):
            assert await cancel_after(5, session.append(message("one"), message("two")))
        assert await works(store)
        return await session.messages()

    assert play(url, steps) in ([], [message("one"), message("two")])


METHODS: dict[str, Callable[[clew.AsyncSession], Awaitable[Any]]] = {
    "messages": lambda s: s.messages(),
    "context": lambda s: s.context(),
    "rewind": lambda s: s.rewind(0),
    "undo": lambda s: s.undo(),
    "compact": lambda s: s.compact("in short"),
    "checkpoint": lambda s: s.checkpoint("here"),
    "set_var": lambda s: s.set_var("k", 1),
    "fork": lambda s: s.fork(),
    "info": lambda s: s.info,
}


@each_row("method", METHODS)
def test_f32_any_call_cancelled_at_any_turn_leaves_nothing_locked(url: str, method: str) -> None:
    async def steps(store: clew.AsyncStore) -> None:
        session = await store.session(method)
        await session.append(message("a"), message("b"))

        async def use() -> None:
            try:
                await METHODS[method](session)
            except clew.errors.NothingToUndoError:
                pass

        for turns in range(0, LOTS, 4):
            await cancel_after(turns, use())
            assert await works(store)

    play(url, steps)

    with clew.open(url) as store:
        assert [line for info in store.list() for line in chain_of(store.get(info.id))] == []


def test_f32_a_timeout_leaves_the_batch_whole_or_absent(url: str) -> None:
    async def steps(store: clew.AsyncStore) -> list[dict[str, Any]]:
        session = await store.session("s")
        with busy(store), pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await session.append(message("one"), message("two"))
        assert await works(store)
        return await session.messages()

    assert play(url, steps) in ([], [message("one"), message("two")])


def test_f32_a_task_group_that_fails_leaves_batches_whole_and_the_store_usable(url: str) -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("one of us failed")

    async def append_all(sessions: list[clew.AsyncSession]) -> None:
        async with asyncio.TaskGroup() as group:
            for number, session in enumerate(sessions):
                group.create_task(session.append(message(f"{number}a"), message(f"{number}b")))
            group.create_task(fail())

    async def steps(store: clew.AsyncStore) -> list[list[dict[str, Any]]]:
        sessions = [await store.session(f"s{number}") for number in range(8)]
        with pytest.raises(ExceptionGroup), busy(store):
            await append_all(sessions)
        assert await works(store)
        return [await session.messages() for session in sessions]

    for number, found in enumerate(play(url, steps)):
        assert found in ([], [message(f"{number}a"), message(f"{number}b")])


def test_f32_a_repeated_append_with_its_key_after_a_cancellation_is_there_once(url: str) -> None:
    """P4: what a cancelled caller should do who must know."""

    async def steps(store: clew.AsyncStore) -> list[dict[str, Any]]:
        session = await store.session("s")
        for turns in range(LOTS):
            await cancel_after(turns, session.append(message(f"{turns}"), key=f"k{turns}"))
            await session.append(message(f"{turns}"), key=f"k{turns}")
        return await session.messages()

    assert play(url, steps) == [message(f"{turns}") for turns in range(LOTS)]


def test_f32_an_opening_that_is_cancelled_leaves_the_file_free(url: str) -> None:
    async def steps() -> None:
        for turns in range(6):

            async def open_it() -> None:
                async with clew.open_async(url) as store:
                    await store.session("s")

            await cancel_after(turns, open_it())
        async with clew.open_async(url) as store:
            assert await works(store)

    asyncio.run(steps())


def test_f33_one_store_serves_two_loops_and_threads_at_once(url: str) -> None:
    history = History()
    with clew.open(url) as plain:
        store = clew.AsyncStore.over(plain)
        plain.session("s")

        def in_a_loop(name: str) -> None:
            async def use() -> None:
                session = await store.session("s")

                async def one(number: int) -> None:
                    values = [f"{name}.{number}", f"{name}.{number}+"]
                    with history.append(f"{name}.{number}", "s", values):
                        await session.append(*map(message, values))

                for start in range(0, 30, 10):
                    await asyncio.gather(*map(one, range(start, start + 10)))

            asyncio.run(use())

        def in_a_thread(name: str) -> None:
            session = plain.get("s")
            for number in range(20):
                with history.append(name, "s", [f"{name}.{number}"]):
                    session.append(message(f"{name}.{number}"))
                history.read(name, "s", lambda: texts(session))

        raised = together(
            [
                lambda: in_a_loop("loop-1"),
                lambda: in_a_loop("loop-2"),
                lambda: in_a_thread("thread-1"),
                lambda: in_a_thread("thread-2"),
            ]
        )

        assert raised == []
        assert said(check(history.operations, {"s": log_of(plain.get("s"))})) == ""
        assert len(texts(plain.get("s"))) == 2 * 30 * 2 + 2 * 20


def test_f33_a_loop_that_is_closed_while_an_append_is_under_way_harms_nobody(url: str) -> None:
    """The write happens; nobody is left to hear of it; other loops and threads go on."""
    with clew.open(url) as plain:
        store = clew.AsyncStore.over(plain)
        session = plain.session("s")
        left_behind: list[asyncio.Future[Any]] = []

        async def leave() -> None:
            handle = await store.session("s")
            left_behind.append(asyncio.ensure_future(handle.append(message("one"), message("two"))))
            for _ in range(5):
                await asyncio.sleep(0)

        loop = asyncio.new_event_loop()
        with busy(store):
            loop.run_until_complete(leave())
            for task in left_behind:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
            loop.close()

        assert asyncio.run(works(store))
        session.append(message("three"))
        assert texts(session) in (["three"], ["one", "two", "three"])
        plain.flush()


def test_f33_a_store_that_is_closed_says_so_to_every_call_of_the_async_face(url: str) -> None:
    async def steps() -> None:
        store = await clew.open_async(url)
        session = await store.session("s")
        await store.close()
        await store.close()
        for call in (
            lambda: session.append(message("x")),
            lambda: session.messages(),
            lambda: session.info,
            lambda: store.session("s"),
            lambda: store.list(),
        ):
            with pytest.raises(clew.errors.StoreClosedError):
                await call()
        with pytest.raises(clew.errors.StoreClosedError):
            session.append_nowait(message("x"))

    asyncio.run(steps())


def test_f33_a_loop_that_is_over_is_not_kept_in_memory_by_the_store(url: str) -> None:
    loops = []

    async def use(store: clew.AsyncStore) -> None:
        session = await store.session("s")
        await session.append(message("x"))
        loops.append(weakref.ref(asyncio.get_running_loop()))

    with clew.open(url) as plain:
        store = clew.AsyncStore.over(plain)
        for _ in range(3):
            asyncio.run(use(store))
        gc.collect()

        assert [loop() for loop in loops[:-1]] == [None] * 2  # the last may still be in some frame
