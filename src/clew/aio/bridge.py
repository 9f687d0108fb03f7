"""Between event loops and the synchronous core.

Appends go to the background writer, the one thread that commits for all tasks: no thread hop for each, and
all that was posted during one turn of a loop is committed together. Everything else runs in a small pool of
threads. Cancelling an await never stops a write half-way: it happens as a whole, or (when it had not
been handed over yet) not at all.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from clew.backends.contract import Transaction
from clew.core.engine.commit import Pending
from clew.core.engine.engine import Engine
from clew.errors import StoreClosedError

P = ParamSpec("P")
T = TypeVar("T")

THREADS: Final = 4


class Bridge:
    """Lets tasks of any event loop use an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.closed = False
        self._start()

    def _start(self) -> None:
        self._generation = self._engine.generation
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="clew-io")
        self._mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Mailbox] = WeakKeyDictionary()
        self._mailbox: _Mailbox | None = None

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run something that blocks in a thread of the pool."""
        if self._generation != self._engine.generation:
            self._start()
        if self.closed:
            raise StoreClosedError(self._engine.backend.location)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(function, *args, **kwargs))

    async def acquire(self, take: Callable[[], T], give_back: Callable[[T], object]) -> T:
        """As `call`, for a thing that must not be left behind: a cancelled task gives it back."""
        taking = asyncio.ensure_future(self.call(take))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            taking.add_done_callback(partial(self._give_back, give_back))
            raise

    def _give_back(self, give_back: Callable[[T], object], taking: asyncio.Future[T]) -> None:
        if not taking.cancelled() and taking.exception() is None and not self.closed:
            self._pool.submit(give_back, taking.result())

    def commit(self, work: Callable[[Transaction], T]) -> asyncio.Future[T]:
        """Commit an operation together with those of other tasks."""
        if self._generation != self._engine.generation:
            self._start()
        loop = asyncio.get_running_loop()
        mailbox = self._mailbox  # nearly always there is but one loop
        if mailbox is None or mailbox.loop() is not loop:
            mailbox = self._mailboxes.get(loop)
            if mailbox is None:
                mailbox = self._mailboxes[loop] = _Mailbox(self._engine, loop)
            self._mailbox = mailbox
        return mailbox.put(loop, work)

    def stop(self) -> None:
        self.closed = True
        self._pool.shutdown(wait=False)

    def after_fork(self) -> None:
        """Nothing: the next call notices that it is in a child."""


class _Mailbox:
    """The operations of one event loop, on their way to the background writer and back.

    Knows its loop weakly: a loop that is closed and forgotten must not live on in here.
    """

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self.loop = weakref.ref(loop)
        self._outgoing: list[Pending[Any]] = []

    def put(self, loop: asyncio.AbstractEventLoop, work: Callable[[Transaction], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = loop.create_future()
        if not self._outgoing:
            # Not at once: the tasks that are ready now get to add theirs first.
            loop.call_soon(self._send)
        self._outgoing.append(Pending(work, self._deliver, future))
        return future

    def _send(self) -> None:
        group = [pending for pending in self._outgoing if not _future(pending).cancelled()]
        self._outgoing = []
        if group:
            try:
                self._engine.background.post(group, wait=False)
            except Exception as exc:  # noqa: BLE001 (whatever it is, the tasks that wait must hear of it)
                for pending in group:
                    pending.error = exc
                self._settle(group)

    def _deliver(self, group: Sequence[Pending[Any]]) -> None:
        """In the thread of the background writer: one wake-up for all."""
        loop = self.loop()
        if loop is not None:
            # A loop that was closed raises: no task waits any more, and the write is done.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._settle, group)

    def _settle(self, group: Sequence[Pending[Any]]) -> None:
        for pending in group:
            future = _future(pending)
            if future.done():
                continue
            if pending.error is not None:
                future.set_exception(pending.error)
            else:
                future.set_result(pending.result)


def _future(pending: Pending[Any]) -> asyncio.Future[Any]:
    assert isinstance(pending.tag, asyncio.Future)
    return pending.tag
