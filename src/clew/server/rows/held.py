"""Transactions that stay open between requests, each in a thread of its own.

While one is open other writers wait. So it may not last: one that hears nothing for IDLE seconds, or is not
done after WHOLE, is undone; so are all when the server stops. There are only so many in all, and one of each
caller: whoever needs a second one waits for the first.
"""

from __future__ import annotations

import logging
import queue
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from clew.backends.contract import Backend, Reader
from clew.backends.http.calls import Step
from clew.backends.http.calls.base import Write
from clew.backends.http.wire import Answers
from clew.backends.memory import MemoryBackend
from clew.errors import InvalidError, StoreBusyError
from clew.server.rows import steps
from clew.server.rows.steps import Caller, RowsChangedError, Stepper, translated

log = logging.getLogger("clew.server")

IDLE: Final = 5.0
WHOLE: Final = 30.0
SNAPSHOT_IDLE: Final = 30.0
SNAPSHOT_WHOLE: Final = 600.0
"""Seconds. A snapshot keeps no writer waiting, and a backup takes its time."""
MOST: Final = 32
MOST_OF_ONE: Final = 1
SNAPSHOTS_OF_ONE: Final = 8


class _UndoneError(Exception):
    """Leaves a transaction."""


class Held:
    """One transaction, or one snapshot, that stays open."""

    def __init__(
        self, backend: Backend, now: Callable[[], float], caller: Caller, *, is_snapshot: bool
    ) -> None:
        self.id = secrets.token_hex(16)
        self.owner = caller.principal.id
        self.is_over = False
        self._backend = backend
        self._now = now
        self._caller = caller
        self.is_snapshot = is_snapshot
        self._steps: queue.SimpleQueue[tuple[Step, Future[Answers]] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="clew-held", daemon=True)
        self._thread.start()

    def send(self, step: Step) -> Future[Answers]:
        """Carry out a step; the answer comes when it is done."""
        answer: Future[Answers] = Future()
        with self._lock:
            if self.is_over:
                answer.set_exception(RowsChangedError())
            else:
                self._steps.put((step, answer))
        return answer

    def undo(self) -> None:
        """Undo it, from outside."""
        self._steps.put(None)

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    # -- in its thread

    def _work(self) -> None:
        failure: BaseException = RowsChangedError()
        ending: tuple[Future[Answers], Answers] | None = None
        try:
            if self.is_snapshot:
                with _snapshot(self._backend) as reader:
                    self._serve_snapshot(reader)
            else:
                with self._backend.write() as tx:
                    ending = self._serve(Stepper(tx, self._caller))
        except _UndoneError:
            pass
        except Exception as error:
            failure = translated(error)
            if type(failure).__name__ == "BackendError":
                log.exception("a held transaction failed")
        finally:
            self._end(failure, ending)

    def _end(self, failure: BaseException, ending: tuple[Future[Answers], Answers] | None) -> None:
        with self._lock:
            self.is_over = True
        if self._current is not None and ending is None:
            self._current.set_exception(failure)
        elif ending is not None:
            ending[0].set_result(ending[1])
        while True:
            try:
                waiting = self._steps.get_nowait()
            except queue.Empty:
                return
            if waiting is not None:
                waiting[1].set_exception(failure)

    _current: Future[Answers] | None = None
    """The answer to the step that is under way."""

    def _next(self, idle: float, deadline: float) -> tuple[Step, Future[Answers]]:
        left = deadline - self._now()
        try:
            found = self._steps.get(timeout=min(idle, left)) if left > 0 else None
        except queue.Empty:
            raise _UndoneError from None
        if found is None:
            raise _UndoneError
        return found

    def _serve(self, stepper: Stepper) -> tuple[Future[Answers], Answers]:
        deadline = self._now() + WHOLE
        while True:
            step, answer = self._next(IDLE, deadline)
            if step.end == "undo":
                answer.set_result(Answers(answers=[]))
                raise _UndoneError
            self._current = answer
            found = stepper.run(step)
            if step.end == "commit":
                if found.problem is not None:
                    answer.set_result(found)  # nothing behind the read that failed was done
                    self._current = None
                    raise _UndoneError
                return answer, found
            self._current = None
            answer.set_result(_with_id(found, self.id))

    def _serve_snapshot(self, reader: Any) -> None:
        deadline = self._now() + SNAPSHOT_WHOLE
        while True:
            step, answer = self._next(SNAPSHOT_IDLE, deadline)
            if step.end:
                answer.set_result(Answers(answers=[]))
                return
            if step.expect or any(isinstance(call, Write) for call in step.calls):
                answer.set_exception(InvalidError("nothing can be written in a snapshot"))
                continue
            answer.set_result(_with_id(steps.read(reader, step.calls), self.id))


def _snapshot(backend: Backend) -> AbstractContextManager[Reader]:
    """In memory, one who reads and one who writes exclude each other: there a copy is read."""
    if isinstance(backend, MemoryBackend):
        return nullcontext(backend.copied())
    return backend.read_snapshot()


def _with_id(found: Answers, id: str) -> Answers:
    return Answers(answers=found.answers, problem=found.problem, transaction=id)


class HeldTransactions:
    """All that are open."""

    def __init__(self, backend: Backend, now: Callable[[], float]) -> None:
        self._backend = backend
        self._now = now
        self._lock = threading.Lock()
        self._open: dict[str, Held] = {}
        self._is_closed = False

    def begin(self, caller: Caller, *, is_snapshot: bool = False) -> Held:
        """StoreBusyError: there are too many."""
        with self._lock:
            self._open = {id: held for id, held in self._open.items() if not held.is_over}
            wanted = (caller.principal.id, is_snapshot)
            mine = sum((held.owner, held.is_snapshot) == wanted for held in self._open.values())
            most = SNAPSHOTS_OF_ONE if is_snapshot else MOST_OF_ONE
            if self._is_closed or len(self._open) >= MOST or mine >= most:
                raise StoreBusyError("too many transactions are open on the server; try again")
            held = Held(self._backend, self._now, caller, is_snapshot=is_snapshot)
            self._open[held.id] = held
            return held

    def find(self, id: str, caller: Caller) -> Held:
        """RowsChangedError: it is over, or it never was this caller's."""
        with self._lock:
            held = self._open.get(id)
        if held is None or held.is_over or held.owner != caller.principal.id:
            raise RowsChangedError
        return held

    def close(self) -> None:
        """Undo all of them. Idempotent."""
        with self._lock:
            self._is_closed = True
            open, self._open = list(self._open.values()), {}
        for held in open:
            held.undo()
        for held in open:
            held.join(2)
