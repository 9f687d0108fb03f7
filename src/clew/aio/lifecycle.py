"""`Lifecycle` for tasks. What each method promises is written there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Generator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from clew.aio.bridge import Bridge
from clew.core.runs.lease import Bid
from clew.errors import LeaseHeldError
from clew.lifecycle import Pauses
from clew.model import Json, LeaseInfo, Resumption, StatusChange
from clew.session import Session

if TYPE_CHECKING:
    from clew.aio.run import AsyncRun

H = TypeVar("H", bound="AsyncLifecycle")


class AsyncLifecycle:
    """Status, runs and turns of a session, with `await`."""

    _bridge: Bridge
    _session: Session

    async def start(self, request: Json = None, *, task: str | None = None) -> None:
        await self._bridge.call(self._session.start, request, task=task)

    async def complete(self, response: Json = None) -> None:
        await self._bridge.call(self._session.complete, response)

    async def fail(self, error: str | BaseException) -> None:
        await self._bridge.call(self._session.fail, error)

    async def close(self) -> None:
        await self._bridge.call(self._session.close)

    async def reopen(self) -> None:
        await self._bridge.call(self._session.reopen)

    async def status_changes(self) -> list[StatusChange]:
        return await self._bridge.call(self._session.status_changes)

    @property
    def lease(self) -> Awaitable[LeaseInfo | None]:
        return self._bridge.call(lambda: self._session.lease)

    def run(
        self,
        request: Json = None,
        *,
        task: str | None = None,
        lease: float = 30.0,
        owner: str | None = None,
        wait: float | None = None,
        steal: bool = False,
    ) -> Taking:
        """`async with s.run(…) as run:`, or `run = await s.run(…)`."""
        return Taking(self._bridge, self._session, (request, task, lease, owner, steal), wait)

    async def resume(
        self, *, system_prompt: Json = None, tools_hash: str | None = None, model: str | None = None
    ) -> Resumption:
        return await self._bridge.call(
            self._session.resume, system_prompt=system_prompt, tools_hash=tools_hash, model=model
        )

    @asynccontextmanager
    async def turn(self: H) -> AsyncIterator[H]:
        """`async with s.turn():`"""
        began = await self._bridge.call(lambda: self._session.head)
        try:
            yield self
        except BaseException as failure:
            await self._bridge.call(self._session._abort, began, failure)
            raise


class Taking:
    """A lease about to be taken: awaited, or entered with `async with`."""

    def __init__(self, bridge: Bridge, session: Session, wishes: tuple[Any, ...], wait: float | None) -> None:
        self._bridge = bridge
        self._session = session
        self._wishes = wishes
        self._wait = wait
        self._run: AsyncRun | None = None

    async def _take(self) -> AsyncRun:
        from clew.aio.run import AsyncRun  # a run is a session too

        bid: Bid = self._session._bid(*self._wishes)
        pauses = Pauses(self._wait)
        while True:
            try:
                run = await self._bridge.acquire(
                    lambda: self._session._take(bid), lambda run: run.fail("cancelled before it began")
                )
            except LeaseHeldError:
                pause = pauses.next()
                if pause is None:
                    raise
                await asyncio.sleep(pause)
            else:
                self._run = AsyncRun(self._bridge, run)
                return self._run

    def __await__(self) -> Generator[Any, Any, AsyncRun]:
        return self._take().__await__()

    async def __aenter__(self) -> AsyncRun:
        return await self._take()

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._run is not None:
            await self._run.__aexit__(kind, exc, trace)
