"""Group commit: many callers, one transaction, one fsync.

The caller that arrives first leads: it commits everything that is queued, its own operation and those of all
who arrived meanwhile, while they wait. A lone caller pays no thread hop; a crowd shares the fsync.

An operation is a function of a transaction. It must check before it writes: one that raises a
ClewError before its first write fails alone. After any other failure the transaction is undone and
each operation gets a transaction of its own, so that only the culprit fails. An operation may thus
run more than once and must have no effects outside the transaction.

An operation whose outcome is unknown, because the answer to its commit was lost, is not run again, unless it
is `repeatable`: an append with a key finds out by itself whether it happened.

A backend far away may answer from what it remembers, and compare that when it commits (see `Stale` in the
contract). Then an operation that fails, or writes nothing, is repeated by itself before it is believed.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from clew.backends.contract import Backend, Stale, Transaction
from clew.errors import BackendError, ClewError, OutcomeUnknownError, StoreBusyError, StoreClosedError

TRIES: Final = 12
PAUSE: Final = 0.001
LONGEST_PAUSE: Final = 0.2
"""Seconds, between the tries of an operation that others came in between of."""

T = TypeVar("T")

Deliver = Callable[[Sequence["Pending[Any]"]], None]


class Pending(Generic[T]):
    """An operation on its way, and what became of it."""

    __slots__ = ("deliver", "deserted", "done", "error", "result", "settled", "tag", "wake", "waking", "work")

    def __init__(
        self, work: Callable[[Transaction], T], deliver: Deliver | None = None, tag: object = None
    ) -> None:
        self.work = work
        self.result: T
        self.error: BaseException | None = None
        self.settled = False
        """It was committed, or it failed. Done but not settled: the outcome is unknown."""
        self.done = False
        """The caller need not wait any more."""
        self.deliver = deliver
        self.tag = tag
        self.wake: threading.Lock | None = None
        self.waking: list[threading.Lock] = []
        """Of a leader: the callers that it still has to wake."""
        self.deserted = False

    def outcome(self) -> T:
        if self.error is not None:
            raise self.error
        return self.result


def repeatable(work: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
    """Say of an operation that it happens once, however often it is run."""
    work.is_repeatable = True  # type: ignore[attr-defined]
    return work


class Committer:
    """The one way to write to a backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.reset()

    def reset(self) -> None:
        """Forget everybody: for a forked child, whose other threads are gone."""
        self._mutex = threading.Lock()
        self._queue: deque[Pending[Any]] = deque()
        self._leader: Pending[Any] | None = None
        self._batch: Sequence[Pending[Any]] = ()
        """What the leader is committing."""
        self._led_by = 0
        """The thread in which it does."""

    def is_led_here(self) -> bool:
        """Whether operations run in this very thread, below the caller."""
        return self._led_by == threading.get_ident()

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Commit one operation and return its result."""
        pending = Pending(work)
        self.run_all([pending])
        return pending.outcome()

    def run_all(self, group: Sequence[Pending[Any]]) -> None:
        """Commit several operations, in order; each then knows its outcome."""
        last = group[-1]
        try:
            with self._mutex:
                self._queue.extend(group)
                if self._leader is None:
                    self._leader = last
                else:
                    last.wake = threading.Lock()
                    last.wake.acquire()
            if last.wake is not None:
                last.wake.acquire()  # until it is done, or it is this thread's turn to lead
            if not last.done:
                self._lead(last)
        except BaseException:
            # Ctrl-C, at whatever step: the operation stays queued or is of unknown outcome, but no caller
            # must wait for this thread. All that it had begun can be done again, and is.
            with self._mutex:
                last.deserted = True
            if self._leader is last:
                self._hand_over(last)
            self._wake(last)
            self._lead(last)
            raise

    def _lead(self, leader: Pending[Any]) -> None:
        """Commit what is queued, until nothing is left or another caller leads."""
        while self._leader is leader:
            fresh: deque[Pending[Any]] = deque()
            with self._mutex:
                # Two plain assignments: no signal handler can run between them.
                self._batch = self._queue
                self._queue = fresh
            self._led_by = threading.get_ident()
            try:
                self._commit(self._batch)
            finally:
                self._led_by = 0
            self._hand_over(leader)

    def _hand_over(self, leader: Pending[Any]) -> None:
        """Wake the callers whose operations are done, and the next leader. An interrupted one is repeated."""
        with self._mutex:
            for pending in self._batch:
                if not pending.settled:
                    pending.error = OutcomeUnknownError("interrupted while committing")
                pending.done = True
            following = next((p for p in self._queue if p.wake is not None and not p.deserted), None)
            waking = [p.wake for p in self._batch if p is not leader and p.wake is not None]
            if following is not None and following.wake is not None:
                waking.append(following.wake)
            moves_on = following is not None or not self._queue
            leader.waking = leader.waking + waking
            self._batch = ()
            if moves_on:
                self._leader = following
        self._wake(leader)

    @staticmethod
    def _wake(leader: Pending[Any]) -> None:
        while leader.waking:
            try:
                leader.waking[-1].release()
            except RuntimeError:
                pass  # it was woken before an interrupt came
            leader.waking.pop()

    def _commit(self, batch: Sequence[Pending[Any]]) -> None:
        rest = list(batch)
        while rest:
            try:
                settled = self._attempt(rest, certain=False)
            except Exception as exc:  # noqa: BLE001 (whatever it is, the waiting callers must get it)
                if len(rest) == 1 and not isinstance(exc, Stale):
                    _fail(rest, exc)
                else:
                    for pending in rest:
                        self._commit_alone(pending)
                return
            rest = rest[settled:]
            if rest:  # in its turn: those behind it may build upon it
                self._commit_alone(rest.pop(0))

    def _commit_alone(self, pending: Pending[Any], *, repeats: bool = False) -> None:
        for again in range(TRIES):
            try:
                self._attempt([pending], certain=True, repeats=repeats)
            except Stale:
                _pause(again)
            except Exception as exc:  # noqa: BLE001 (the waiting callers must get it)
                _fail([pending], exc)
                return
            else:
                return
        _fail([pending], StoreBusyError(f"others changed the same things {TRIES} times in between"))

    def _repeat(self, pending: Pending[Any], unknown: Exception) -> None:
        """Run an operation again whose outcome is unknown."""
        pending.settled = False
        self._commit_alone(pending, repeats=True)
        if isinstance(pending.error, BackendError):  # which says nothing of the first time
            _fail([pending], unknown)

    def _attempt(self, batch: Sequence[Pending[Any]], *, certain: bool, repeats: bool = False) -> int:
        """Commit operations in one transaction; how many, from the first on. The one behind them relied on
        what the backend remembers, and did nothing by which that could be compared."""
        count, began = len(batch), False
        writing = self._backend.write(certain)
        try:
            with writing as transaction:
                began = True
                for index, pending in enumerate(batch):
                    if not _perform(pending, transaction):
                        count = index
                        break
        except Exception as exc:
            writing.__exit__(type(exc), exc, None)  # see the contract
            if began and not isinstance(exc, OutcomeUnknownError):
                raise
            _fail(batch, exc)  # nothing is gained, or even lost, by another try
            if began and not repeats:
                for pending in batch[:count]:
                    if getattr(pending.work, "is_repeatable", False):
                        self._repeat(pending, exc)
        except BaseException as exc:
            writing.__exit__(type(exc), exc, None)
            raise
        for pending in batch[:count]:
            pending.settled = True
        return count


def _pause(again: int) -> None:
    """So that two that got in each other's way do not do so again."""
    from random import uniform  # seldom needed, and slow to import

    time.sleep(uniform(0, min(PAUSE * 2**again, LONGEST_PAUSE)))


def _perform(pending: Pending[Any], transaction: Transaction) -> bool:
    """Whether its outcome can be believed once the transaction is committed."""
    before = transaction.writes
    pending.error = None
    try:
        pending.result = pending.work(transaction)
    except Exception as exc:
        if isinstance(exc, ClewError) and transaction.writes == before:
            pending.error = exc
        elif transaction.is_certain:
            raise
        else:
            raise Stale from exc
    return transaction.is_certain or transaction.writes != before


def _fail(batch: Sequence[Pending[Any]], error: BaseException) -> None:
    for pending in batch:
        pending.error = error
        pending.settled = True


class BackgroundWriter:
    """Takes the operations of callers that do not wait: the async face, and `append_nowait`.

    One thread, started with the first operation; it commits all that came in while it committed the
    last ones. The order of posting is the order of committing.
    """

    LIMIT = 10_000
    """Operations that may be on their way at once: a caller that posts faster waits."""

    def __init__(self, committer: Committer, location: str) -> None:
        self._committer = committer
        self._location = location
        self.reset()

    def reset(self) -> None:
        self._changed = threading.Condition()
        self._posted: list[Pending[Any]] = []
        self._under_way = 0
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._stopped = False

    def post(self, group: Sequence[Pending[Any]], *, wait: bool = True) -> None:
        """Hand over operations. Blocks while too many are on their way, unless `wait` is False.

        StoreClosedError, and nothing is handed over, if the store is closed, be it meanwhile.
        """
        with self._changed:
            while wait and self._under_way >= self.LIMIT and not self._stopping:
                self._changed.wait()
            if self._stopping:
                raise StoreClosedError(self._location)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="clew-writer", daemon=True)
                try:
                    self._thread.start()
                except BaseException:
                    if not self._thread.is_alive():
                        self._thread = None  # the next one tries again
                    raise
                atexit.register(self.stop)
            self._under_way += len(group)  # in this order: Ctrl-C between the two cannot upset the count
            self._posted.extend(group)
            self._changed.notify_all()

    @property
    def is_busy(self) -> bool:
        """Whether something is on its way."""
        return self._under_way > 0

    def drain(self) -> None:
        """Wait until everything posted so far was committed or failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._under_way == 0 or self._stopped)

    def wait_for(self, pending: Pending[Any]) -> bool:
        """Wait until an operation that was posted is committed or has failed. False, at once, in a thread
        that commits: it would wait for itself."""
        if self._committer.is_led_here():
            return False
        with self._changed:
            self._changed.wait_for(lambda: pending.done or self._stopped)
        return True

    def stop(self) -> None:
        """Finish what was posted, then end the thread. Idempotent."""
        with self._changed:
            self._stopping = True
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        if thread is not None:
            thread.join()
            atexit.unregister(self.stop)

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._posted:
                    if self._stopping:
                        self._stopped = True
                        self._changed.notify_all()
                        return
                    self._changed.wait()
                group, self._posted = self._posted, []
            self._committer.run_all(group)
            self._deliver(group)
            with self._changed:
                self._under_way -= len(group)
                self._changed.notify_all()

    @staticmethod
    def _deliver(group: Sequence[Pending[Any]]) -> None:
        """Tell each receiver once, of all its operations."""
        by_receiver: dict[Deliver, list[Pending[Any]]] = {}
        for pending in group:
            if pending.deliver is not None:
                by_receiver.setdefault(pending.deliver, []).append(pending)
        for deliver, mine in by_receiver.items():
            deliver(mine)
