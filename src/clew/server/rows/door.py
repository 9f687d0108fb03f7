"""What the server does for stores that are opened over HTTP."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from clew.backends.http.calls import ReadRequest, Step
from clew.backends.http.calls.objects import UnsearchedTrees
from clew.backends.http.wire import (
    ENCODINGS,
    PROTOCOL,
    Answers,
    Hello,
    Outcome,
    OutcomeQuestion,
    Pause,
    Paused,
)
from clew.core.engine.commit import Pending
from clew.core.engine.engine import Engine
from clew.core.engine.wakes import Wakes
from clew.core.messages.search_text import PageQuery
from clew.errors import ClewError, OutcomeUnknownError, ReadOnlyError, StoreBusyError
from clew.model.search import SearchPage
from clew.server.access.principal import Principal
from clew.server.rows import steps
from clew.server.rows.held import Held, HeldTransactions
from clew.server.rows.outcomes import Outcomes
from clew.server.rows.steps import Caller, RowsChangedError, Stepper, translated

T = TypeVar("T")

LOOK: Final = 2.0
"""Seconds between two looks whether anybody still waits for news."""
PATIENCE: Final = 2.0
"""Seconds that a transaction waits for one of the same caller that is open."""
LOOK_FOR_TURN: Final = 0.01


class Door:
    """One for each server. Methods that are not `async` block, and are called in a thread."""

    def __init__(
        self, engine: Engine, *, read_only: bool = False, is_checked: bool = True, is_alone: bool = True
    ) -> None:
        """`is_alone`: no other process serves the same store to the same clients."""
        self._engine = engine
        self._read_only = read_only
        self._is_checked = is_checked
        self._instance = secrets.token_hex(8)
        self._held = HeldTransactions(engine.backend, engine.host.elapsed)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By caller: who waits for a transaction of it."""
        self._outcomes = Outcomes(engine.host.elapsed, is_alone=is_alone)
        self._news = News(engine)

    def caller(self, principal: Principal) -> Caller:
        return Caller(principal, self._is_checked)

    def hello(self) -> Hello:
        return Hello(
            protocol=PROTOCOL,
            instance=self._instance,
            durability=self._engine.capabilities.durability,
            read_only=self._read_only,
            reason="the server serves it for reading only" if self._read_only else "",
            encodings=list(ENCODINGS),
        )

    @property
    def now(self) -> int:
        """The clock that all clients share, in microseconds."""
        shared = self._engine.backend.clock()
        return self._engine.host.now() if shared is None else shared

    # -- reading

    def read(self, request: ReadRequest) -> Answers:
        if any(isinstance(call, UnsearchedTrees) for call in request.calls):
            self.index()
        with self._engine.read() as reader:
            return steps.read(reader, request.calls)

    def index(self) -> None:
        """Make everything findable: here, where the texts are. Clients never do it."""
        from clew.core.search.index import catch_up

        catch_up(self._engine.read, self._engine.run_in_turn)

    def search(self, query: PageQuery) -> SearchPage:
        """A page of hits: all that a search takes, where the store is."""
        from clew.core.search.search import request_from, search

        return search(self._engine, request_from(query))

    async def look(self, caller: Caller, step: Step) -> Answers:
        """Read the store as it is at one moment, step by step."""
        if step.transaction is not None:
            held = self._held.find(step.transaction, caller)
        else:
            held = self._held.begin(caller, is_snapshot=True)
        return await _done(held.send(step))

    # -- writing

    async def step(self, caller: Caller, step: Step) -> Answers:
        """A whole transaction, or one step of one that is held open."""
        self._check_writable()
        steps.note(caller.principal, step.calls)
        if step.end != "commit":
            return await self._held_step(caller, step)
        outcome = self._outcomes.begin(step.commit) if step.commit is not None else Future()
        if outcome is None:
            raise RowsChangedError  # the client has given it up, or it was sent twice
        try:
            if step.transaction is None:
                found = await self._commit(caller, step)
            else:
                found = await self._held_step(caller, step)
        except OutcomeUnknownError:
            outcome.set_result("unknown")
            raise
        except asyncio.CancelledError:
            outcome.set_result("unknown")
            raise
        except BaseException:
            outcome.set_result("undone")
            raise
        outcome.set_result("undone" if found.problem is not None else "done")
        return found

    async def _held_step(self, caller: Caller, step: Step) -> Answers:
        if step.transaction is not None:
            held = self._held.find(step.transaction, caller)
        elif step.end == "undo":
            return Answers(answers=[])
        else:
            held = await self._begin(caller)
        return await _done(held.send(step))

    async def _begin(self, caller: Caller) -> Held:
        """Those who need a transaction of one caller get it in the order in which they came.
        StoreBusyError: the ones before took too long."""
        turns = self._turns.setdefault(caller.principal.id, asyncio.Lock())
        deadline = time.monotonic() + PATIENCE
        async with turns:
            while True:
                try:
                    return self._held.begin(caller)
                except StoreBusyError:
                    if time.monotonic() >= deadline:
                        raise
                await asyncio.sleep(LOOK_FOR_TURN)

    async def _commit(self, caller: Caller, step: Step) -> Answers:
        """All of a transaction at once, together with those of others: one fsync for all."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def settle(_: Any) -> None:
            loop.call_soon_threadsafe(_finish, done)

        pending = Pending(lambda tx: self._carry_out(Stepper(tx, caller), step), settle)
        self._engine.background.post([pending], wait=False)
        await asyncio.shield(done)
        try:
            return pending.outcome()
        except _FailedReadError as failed:
            return failed.answers
        except ClewError:
            raise
        except Exception as error:
            raise translated(error) from error

    @staticmethod
    def _carry_out(stepper: Stepper, step: Step) -> Answers:
        found = stepper.run(step)
        if found.problem is not None:
            raise _FailedReadError(found)
        return found

    async def outcome(self, question: OutcomeQuestion) -> Outcome:
        if question.instance != self._instance:
            return Outcome(outcome="unknown")
        return Outcome(outcome=await _done(self._outcomes.ask(question.commit)))

    # -- waiting

    async def pause(self, question: Pause) -> Paused:
        """Until something may have been written, or the time is over."""
        return Paused(count=await self._news.wait(question.seen, question.seconds))

    # -- upkeep

    def scrub(self) -> None:
        self._check_writable()
        self._engine.backend.scrub()

    def bytes_on_disk(self) -> int:
        return self._engine.backend.bytes_on_disk()

    def damage(self, *, full: bool, seconds: float) -> list[str]:
        """What is wrong with the storage. What takes longer than this is not looked at."""
        deadline = time.monotonic() + seconds
        found: list[str] = []

        def go_on() -> None:
            if time.monotonic() > deadline:
                raise _TimeIsUpError

        try:
            with self._engine.read() as reader:
                for sentence in reader.damage(full=full, go_on=go_on):
                    found.append(sentence)
                    go_on()
        except _TimeIsUpError:
            pass
        return found

    def _check_writable(self) -> None:
        if self._read_only:
            raise ReadOnlyError("the server serves this store for reading only")

    def close(self) -> None:
        """Undo what is held open. Idempotent."""
        self._held.close()
        self._news.close()


async def _done(answer: Future[T]) -> T:
    """What a thread answers. A request that is given up does not take the answer away from the thread."""
    return await asyncio.shield(asyncio.wrap_future(answer))


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


class _FailedReadError(Exception):
    """A call of a whole transaction that reads failed: nothing is committed."""

    def __init__(self, answers: Answers) -> None:
        super().__init__()
        self.answers = answers


class _TimeIsUpError(Exception):
    pass


class News:
    """Wakes those who wait for changes: one thread looks for all of them, as long as there are any."""

    def __init__(self, engine: Engine) -> None:
        self._wakes = engine.service(Wakes)
        self._lock = threading.Lock()
        self._waiting: dict[int, Callable[[], object]] = {}
        self._number = 0
        self._thread: threading.Thread | None = None
        self._is_closed = False

    async def wait(self, seen: int | None, seconds: float) -> int:
        """Until something may have been written behind this count, or the time is over; the count then."""
        loop = asyncio.get_running_loop()
        news = asyncio.Event()
        with self._lock:
            if self._is_closed or seen != self._wakes.count:
                return self._wakes.count
            self._number += 1
            me = self._number
            self._waiting[me] = partial(loop.call_soon_threadsafe, news.set)
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="clew-news", daemon=True)
                self._thread.start()
        try:
            await asyncio.wait_for(news.wait(), seconds)
        except TimeoutError:
            pass
        finally:
            with self._lock:
                self._waiting.pop(me, None)
        return self._wakes.count

    def close(self) -> None:
        self._is_closed = True
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for wake in waiting.values():
            try:
                wake()
            except RuntimeError:
                pass  # its loop is closed

    def _look(self) -> None:
        seen = self._wakes.count
        while True:
            with self._lock:
                if not self._waiting or self._is_closed:
                    self._thread = None
                    return
            try:
                self._wakes.wait(seen, LOOK)
            except ClewError:
                self.close()
            if self._wakes.count != seen:
                seen = self._wakes.count
                self._tell()
