"""What every handle of a store shares: the backend, the way to write to it, the clock."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from clew.backends.contract import Backend, Capabilities, Reader, Transaction
from clew.core.engine.commit import BackgroundWriter, Committer, Pending
from clew.core.engine.host import Clock, Host, wall_clock
from clew.errors import InvalidError, LeaseLostError

if TYPE_CHECKING:
    from clew.core.redact.incoming import Incoming

T = TypeVar("T")


class Service(Protocol):
    """Something that works beside the callers of an engine, such as a thread."""

    def stop(self) -> None:
        """Idempotent."""

    def after_fork(self) -> None:
        """In a forked child: threads of the parent are not there."""


H = TypeVar("H")
S = TypeVar("S", bound=Service)


TURN: Final = 0.025
"""Seconds that long work writes without a pause."""
GAP: Final = 0.005
"""Seconds of such a pause: longer than others pause between two looks whether they can write."""


class EngineLike(Protocol):
    """What the operations of a store need: an `Engine`, or a `TransactionScope` that stands for one.

    What only an engine can do (threads, files, the backend itself) is asked of `outside(…)`, which a scope
    refuses: so it is refused before anything is written.
    """

    host: Host
    now: Clock

    @property
    def location(self) -> str:
        """Where the store is, fit to be shown."""

    @property
    def capabilities(self) -> Capabilities:
        """What the store promises."""

    @property
    def is_reading(self) -> bool:
        """Inside `read()`: nothing can be written."""

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Commit one operation, or make it part of the transaction."""

    def run_in_turn(self, work: Callable[[Transaction], T]) -> T:
        """As `run`, for one transaction of many: others, of whatever process, write in between."""

    def read(self) -> AbstractContextManager[Reader]: ...

    def wait_for_posted(self) -> None:
        """Wait until what was posted is committed, or has failed."""

    def redactor(self) -> Incoming | None:
        """What takes definite secrets out of all that callers store; None: it is stored as it is."""

    def prepare(self, work: Callable[[], object]) -> None:
        """Do something slow that must not be done while others wait for a transaction."""

    def offered(self, kind: type[H]) -> type[H]:
        """`Store` or `Session`, as it is here: inside a transaction it refuses most methods."""

    def outside(self, what: str, *, waits: bool = True) -> Engine:
        """The engine itself. InvalidError, which names `what`, inside a transaction. `waits`: also for a
        handle from outside, in the thread of a transaction, because `what` waits until that ends."""


class Engine:
    """A backend in use. Safe from any thread; notices when it finds itself in a forked child."""

    def __init__(self, backend: Backend, clock: Clock = wall_clock, steady: Clock | None = None) -> None:
        self.backend = backend
        self.host = Host(clock, steady, backend.clock)
        self.now: Clock = self.host.now
        self.committer = Committer(backend)
        self.background = BackgroundWriter(self.committer, backend.location)
        self._closing = threading.Lock()
        self._services: dict[type, Service] = {}
        self._noting = threading.Lock()
        self._failures: list[BaseException] = []
        self._posting = threading.Lock()
        self._posted: Pending[Any] | None = None
        """The last operation that `post` took, until somebody has waited for it."""
        self._staying: set[int] = set()
        """The threads in which a function of the caller runs while the storage is read from."""
        self._gave_way = 0.0
        """When long work last let others write."""
        self.transacting: set[int] = set()
        """The threads in which a function of the caller runs as part of a transaction."""
        self.generation = 0
        """Grows in every forked child: threads of the parent are not there any more."""
        self._appends: tuple[Incoming | None] | None = None
        """What appends pass through, once the policy of the store is known."""
        _engines.add(self)

    is_reading = False

    @property
    def location(self) -> str:
        return self.backend.location

    @property
    def capabilities(self) -> Capabilities:
        return self.backend.capabilities

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Commit one operation; durable when this returns."""
        if self.transacting and threading.get_ident() in self.transacting:
            raise InvalidError(
                "this write would wait for itself: inside transact() use the store that it gives you,"
                " and for the session of a run transact(…, run=run)"
            )
        return self.committer.run(work)

    def run_in_turn(self, work: Callable[[Transaction], T]) -> T:
        result = self.run(work)
        if time.monotonic() - self._gave_way > TURN:
            time.sleep(GAP)
            self._gave_way = time.monotonic()
        return result

    def read(self) -> AbstractContextManager[Reader]:
        return self.backend.read()

    def wait_for_posted(self) -> None:
        """Wait until what was posted is committed, or has failed, so that whoever posted it reads it back.
        Return at once where the writer may wait for this very thread."""
        posted, thread = self._posted, threading.get_ident()
        if posted is None or thread in self.transacting or thread in self._staying:
            return
        if self.background.wait_for(posted):
            with self._posting:
                if self._posted is posted:
                    self._posted = None

    @contextmanager
    def staying(self) -> Iterator[None]:
        """In here this thread waits for no writer: one may be waiting for it."""
        me = threading.get_ident()
        if me in self._staying:
            yield
            return
        self._staying.add(me)
        try:
            yield
        finally:
            self._staying.discard(me)

    def redactor(self) -> Incoming | None:
        """The policy is read once: that of every append would cost as much as the append."""
        if self._appends is None:
            from clew.core.engine.redaction import of_appends

            self._appends = (of_appends(self),)
        return self._appends[0]

    def forget_policy(self) -> None:
        """It was set anew."""
        self._appends = None

    def offered(self, kind: type[H]) -> type[H]:
        """All of it."""
        return kind

    def outside(self, what: str, *, waits: bool = True) -> Engine:
        if waits and self.transacting and threading.get_ident() in self.transacting:
            raise InvalidError(f"{what} would wait for itself inside transact(): call it before or after")
        return self

    def prepare(self, work: Callable[[], object]) -> None:
        """At once: no transaction is open."""
        work()

    def post(self, work: Callable[[Transaction], Any]) -> None:
        """Commit one operation some time soon; `flush` waits for it and tells of failures."""
        self.outside("Session.append_nowait()")
        pending = Pending(work, self._note_failures)
        with self._posting:  # in the order of the calls, so that the last one is the last to be committed
            self.background.post([pending])
            self._posted = pending

    def run_behind(self, work: Callable[[Transaction], T]) -> T:
        """Commit one operation after all that was posted before it."""
        if not self.background.is_busy:
            return self.run(work)
        self.outside("this write")
        done = threading.Event()
        pending = Pending(work, lambda _: done.set())
        self.background.post([pending])
        done.wait()
        return pending.outcome()

    def _note_failures(self, group: Any) -> None:
        failures = [pending.error for pending in group if pending.error is not None]
        with self._noting:
            self._failures += failures

    def flush(self) -> None:
        """Wait for all that was posted; raise the first failure since the last flush."""
        self.outside("Store.flush()")
        self.background.drain()
        with self._noting:
            failures, self._failures = self._failures, []
        if failures:
            first = failures[0]
            if isinstance(first, LeaseLostError):
                lost = (failure for failure in failures if isinstance(failure, LeaseLostError))
                first.messages = tuple(message for failure in lost for message in failure.messages)
            if len(failures) > 1:
                first.add_note(f"and {len(failures) - 1} more since the last flush")
            raise first

    def service(self, kind: Callable[[Engine], S]) -> S:
        """The one service of this kind, made with the first call."""
        with self._closing:
            key = cast("type", kind)
            if key not in self._services:
                self._services[key] = kind(self)
            return cast("S", self._services[key])

    def close(self) -> None:
        """Stop the services, finish what was posted and close the backend. Idempotent."""
        self.outside("Store.close()")
        with self._closing:
            for service in self._services.values():
                service.stop()
            self.background.stop()
            self.backend.close()
        self.flush()

    def after_fork(self) -> None:
        """In the child: what the parent has under way is the parent's."""
        self.generation += 1
        self._closing = threading.Lock()
        self._noting = threading.Lock()
        self._failures = []
        self._posting = threading.Lock()
        self._posted = None
        self.host.after_fork()
        for service in self._services.values():
            service.after_fork()
        self.committer.reset()
        self.background.reset()
        self.backend.after_fork(is_child=True)


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


_forking = threading.Lock()
_paused: list[Engine] = []


def _before_fork() -> None:
    """A child inherits the locks of SQLite as they are: they must be free."""
    _forking.acquire()
    _paused.extend(_engines)
    for engine in _paused:
        engine.backend.before_fork()


def _after_fork_in_parent() -> None:
    while _paused:
        _paused.pop().backend.after_fork(is_child=False)
    _forking.release()


def _after_fork_in_child() -> None:
    while _paused:
        _paused.pop().after_fork()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )
