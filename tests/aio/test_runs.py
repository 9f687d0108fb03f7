"""The async face of work: leases, turns and status from tasks, also from those that are cancelled."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import clew
from clew import AsyncRun, AsyncSession
from clew.run import Run
from clew.testing.backend.base import user
from tests.aio.test_store import a_session, in_loop, refused, said
from tests.behaviour.runs.test_lease_time import let_time_pass
from tests.behaviour.views import status_of
from tests.support.waiting import until as blocked_until


async def until(condition: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Wait for something that must become true."""
    while not await condition():  # noqa: ASYNC110 (nobody tells when it is so)
        await asyncio.sleep(0.005)


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def status(s: AsyncSession) -> str:
    return (await s.info).status


async def outcome(s: AsyncSession) -> tuple[str, str | None]:
    """The status, and the error of the run."""
    return await asyncio.to_thread(status_of, s._session)


@in_loop
async def test_a_run_is_entered_or_awaited(url: str) -> None:
    """Both ways take the lease; leaving the block completes the run and gives it back."""
    async with a_session(url) as s:
        async with s.run("fix it", task="bugfix", owner="w", lease=60) as run:
            assert isinstance(run, AsyncRun)
            assert (run.id, run.owner, run.epoch, run.task, run.lost) == ("s", "w", 1, "bugfix", False)
            assert repr(run).startswith("<AsyncRun 1 of 's'")
            lease = await s.lease
            assert lease is not None
            assert (lease.owner, lease.epoch) == ("w", 1)
            held = await refused(clew.LeaseHeldError, s.append(user("x")))
            assert held.owner == "w"
            await refused(clew.LeaseHeldError, _taken(s))
            [entry] = await run.append(user("a"))
            assert entry.epoch == 1
            await s.outside_lease().append(user("remark"))
        assert (await status(s), await s.lease) == ("completed", None)
        run = await s.attach((await s.run(detached=True)).secret)
        async with run:
            await run.append(user("b"))
            await run.complete("done")
        assert await said(s) == ["a", "remark", "b"]
        info = await s.info
        assert info.run is not None
        assert (info.run.response, info.epoch) == ("done", 2)


async def _taken(s: AsyncSession, **options: Any) -> AsyncRun:
    return await s.run(**options)


@in_loop
async def test_an_exception_fails_the_run(url: str) -> None:
    """With its text; it comes out as it was."""
    async with a_session(url) as s:

        async def work() -> None:
            async with s.run() as run:
                await run.append(user("a"))
                raise ZeroDivisionError("by zero")

        await refused(ZeroDivisionError, work())
        assert await outcome(s) == ("failed", "ZeroDivisionError: by zero")


@in_loop
async def test_a_lost_lease_gives_the_messages_back(url: str) -> None:
    """Of an append, and of all that nobody waited for; the block says so too."""
    async with clew.open_async(url) as store:
        s = await store.session("s")

        async def work() -> None:
            async with s.run() as run:
                await s.run(owner="thief", steal=True)
                lost = await refused(clew.LeaseLostError, run.append(user("a"), user("b")))
                assert (lost.epoch, lost.current_epoch, lost.owner) == (1, 2, "thief")
                assert lost.messages == (user("a"), user("b"))
                run.append_nowait(user("c"))
                run.append_nowait(user("d"))
                posted = await refused(clew.LeaseLostError, store.flush())
                assert posted.messages == (user("c"), user("d"))

        await refused(clew.LeaseLostError, work())
        assert await said(s) == []


@in_loop
async def test_bad_leases_and_waits_are_refused(url: str) -> None:
    """I-25: as on the sync face, before anything is taken."""
    async with a_session(url) as s:
        for options in ({"lease": 0}, {"lease": float("nan")}, {"wait": -1}, {"wait": float("nan")}):
            await refused(clew.InvalidError, _taken(s, **options))
        assert await status(s) == "pending"


@in_loop
async def test_a_turn_stays_or_is_off_the_path(url: str) -> None:
    """An exception rewinds, undo brings the turn back."""
    async with a_session(url) as s:
        async with s.turn() as turn:
            assert turn is s
            await s.append(user("a"))

        async def work() -> None:
            async with s.turn():
                await s.append(user("b"))
                raise ZeroDivisionError

        await refused(ZeroDivisionError, work())
        assert await said(s) == ["a"]
        await s.undo()
        assert await said(s) == ["a", "b"]


@in_loop
async def test_waiting_for_a_lease_does_not_block_other_tasks(url: str) -> None:
    """`wait=`: the others go on, more than the pool has threads; then each gets it in its turn."""
    async with a_session(url) as s:
        first = await s.run(owner="first")
        epochs: list[int] = []

        async def work() -> None:
            async with s.run(wait=math.inf) as run:
                epochs.append(run.epoch)

        waiting = [asyncio.create_task(work()) for _ in range(6)]
        await asyncio.sleep(0)
        for number in range(20):
            await first.append(user(f"{number}"))
            assert len(await s.messages()) == number + 1
        assert epochs == []
        await first.complete()
        await asyncio.gather(*waiting)

        assert epochs == [2, 3, 4, 5, 6, 7]
        await (await s.run()).complete()
        held = await s.run(owner="held")
        await refused(clew.LeaseHeldError, _taken(s, wait=0.02))
        await held.complete()


@in_loop
async def test_who_is_cancelled_while_taking_a_lease_gives_it_back(url: str) -> None:
    """F-20: at whatever moment; the session is free again, and no run is left as running."""
    async with a_session(url) as s:
        for _ in range(10):
            taking = asyncio.create_task(_taken(s, lease=600))
            await asyncio.sleep(0)  # it has handed the call to a thread by now
            await cancelled(taking)
            async with s.run(wait=math.inf) as run:
                await run.append(user("mine"))
        assert len(await said(s)) == 10
        changes = [change.status for change in await s.status_changes()]
        assert changes.count("running") == changes.count("completed") + changes.count("failed")
        assert changes.count("completed") == 10


@in_loop
async def test_a_lease_that_came_with_the_cancellation_is_given_back(url: str) -> None:
    """F-20: the thread had taken it when the task was cancelled: it is never left behind."""
    async with a_session(url) as s:
        took, go_on = threading.Event(), threading.Event()
        session = s._session
        take = session._take

        def slowly(bid: Any) -> Any:
            run = take(bid)
            took.set()
            go_on.wait()
            return run

        session._take = slowly  # type: ignore[method-assign]
        taking = asyncio.create_task(_taken(s))
        await asyncio.to_thread(took.wait)
        await cancelled(taking)
        assert await status(s) == "running"
        go_on.set()

        async def is_free() -> bool:
            return await s.lease is None

        await until(is_free)
        assert await outcome(s) == ("failed", "cancelled before it began")


@in_loop
async def test_a_run_that_is_cancelled_has_failed(url: str) -> None:
    """Its lease is free, what it wrote is there."""
    async with a_session(url) as s:
        inside = asyncio.Event()

        async def work() -> None:
            async with s.run() as run:
                await run.append(user("a"))
                inside.set()
                await asyncio.Event().wait()

        working = asyncio.create_task(work())
        await inside.wait()
        await cancelled(working)
        assert (await outcome(s), await s.lease) == (("failed", "CancelledError"), None)
        assert await said(s) == ["a"]


@in_loop
async def test_a_turn_that_is_cancelled_is_off_the_path(url: str) -> None:
    """Half a turn does not stay; it can be brought back."""
    async with a_session(url) as s:
        await s.append(user("a"))
        inside = asyncio.Event()

        async def work() -> None:
            async with s.turn():
                await s.append(user("b"))
                inside.set()
                await asyncio.Event().wait()

        working = asyncio.create_task(work())
        await inside.wait()
        await cancelled(working)
        assert await said(s) == ["a"]
        await s.undo()
        assert await said(s) == ["a", "b"]


@in_loop
async def test_the_heartbeat_needs_no_loop(url: str) -> None:
    """A lease is renewed while the loop is blocked."""
    async with a_session(url) as s:
        async with s.run(lease=30) as run:
            first = await s.lease
            assert first is not None
            assert isinstance(run._session, Run)
            let_time_pass(run._session, 10)
            blocked_until(lambda: (now := s._session.lease) and now.expires_at > first.expires_at)
            await run.append(user("a"))
            assert run.lost is False
        assert (await status(s), (await s.info).epoch) == ("completed", 1)
