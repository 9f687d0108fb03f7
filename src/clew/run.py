"""A run: one stretch of work on a session by one worker, under a lease that a thread renews."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Final

from clew.backends.contract import Transaction
from clew.core.conversation import checkpoints
from clew.core.engine.commit import Pending
from clew.core.engine.engine import Engine
from clew.core.log.ids import MAX_POSITION, check_count, check_id
from clew.core.log.lease import Lease, secret_of
from clew.core.runs import status
from clew.core.runs.access import NO_FENCE, Access
from clew.core.runs.lease import renew, renew_held
from clew.errors import ClewError, LeaseLostError
from clew.model import Checkpoint, Json, LeaseInfo
from clew.session import Session

BEATS: Final = 3
"""A lease is renewed so many times while it lasts: two may fail before it is lost."""


class Run(Session):
    """A session while this worker holds its lease. Every write through it carries the epoch of the
    lease, which is compared inside the write's own transaction: LeaseLostError if it is not in force
    any more, whatever this worker knows about it.

    Use it as a context manager: leaving the block completes the run, an exception fails it.
    """

    _scope: Engine

    def __init__(
        self, engine: Engine, access: Access, lease: Lease, task: str | None, *, detached: bool = False
    ) -> None:
        super().__init__(engine, Access(access.sid, access.id, access.host, lease.epoch, lease.fence))
        self._generation = engine.generation
        self._forked = Access(access.sid, access.id, access.host, lease.epoch, NO_FENCE)
        self.owner = lease.owner
        self.epoch = lease.epoch
        self.task = task
        self._lease = HeldLease(self._held, lease.ttl / 1e6)
        self._heartbeat = None if detached else engine.service(Heartbeat)
        if self._heartbeat is not None:
            self._heartbeat.watch(self._lease)

    def __repr__(self) -> str:
        return f"<Run {self.epoch} of {self.id!r} by {self.owner} in {self._scope.location}>"

    @property
    def _access(self) -> Access:
        # The lease stays with the process that forked: its child brings a fence that no lease has.
        return self._held if self._generation == self._scope.generation else self._forked

    @property
    def _worker(self) -> str:
        return self.owner

    @property
    def lost(self) -> bool:
        """Whether the heartbeat has found the lease taken. Only the next write is sure to know."""
        return self._lease.is_lost

    @property
    def secret(self) -> str:
        """The lease as a text: `s.attach(secret)` goes on with this run, in this process or another. Only its
        worker should know it."""
        return secret_of(self.epoch, self._access.fence)

    def renew(self) -> LeaseInfo:
        """Let the lease hold for another while, from now on. LeaseLostError: it is not in force any more.

        Only a run that is detached needs it: for others a thread does it.
        """
        return self._write(renew_held)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease.is_ended or self._generation != self._scope.generation:
            return
        if exc is None:
            self.complete()
            return
        try:
            self.fail(exc)
        except ClewError as failure:
            if not isinstance(failure, LeaseLostError) or not isinstance(exc, LeaseLostError):
                exc.add_note(f"the run could not be marked as failed: {failure}")

    def complete(self, response: Json = None) -> None:
        """End the run well, and give the lease back."""
        self._end(status.complete, self._encoded(response, "response"), self._scope.now(), self.owner)

    def fail(self, error: str | BaseException) -> None:
        """End the run with an error, and give the lease back."""
        self._end(status.fail, self._error_text(error), self._scope.now(), self.owner)

    def close(self) -> None:
        """End the run without an outcome, give the lease back, and close the session."""
        self._end(status.close, self._scope.now(), self.owner)

    def _end(self, work: Callable[..., None], *args: Any) -> None:
        """The last write of the run, after all that `append_nowait` took."""
        access = self._access
        with self._without_heartbeat():
            self._scope.run_behind(lambda tx: work(tx, access, *args))

    @contextmanager
    def _without_heartbeat(self) -> Iterator[None]:
        """No heartbeat from here on, unless the end cannot be written and has to be tried again."""
        lease = self._lease
        lease.is_ended = True
        if self._heartbeat is not None:
            self._heartbeat.forget(lease)
        try:
            yield
        except LeaseLostError:
            lease.is_lost = True
            raise
        except BaseException:
            lease.is_ended = False
            if self._heartbeat is not None:
                self._heartbeat.watch(lease)
            raise

    def checkpoint(
        self,
        name: str | None = None,
        *,
        state: Json = None,
        iteration: int | None = None,
        system_prompt: Json = None,
        tools_hash: str | None = None,
        model: str | None = None,
        force: bool = False,
        files: str | os.PathLike[str] | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> Checkpoint:
        """Name the head as the point to resume from: position, iteration, token totals, task and
        `state`, never a copy of the messages.

        Args:
            name: Default: `run-<epoch>-<number>`.
            state: Any JSON value that the worker needs to go on.
            iteration: How often the worker's loop has gone round.
            system_prompt: Only its hash is kept, so that `resume` can tell whether it changed.
            tools_hash: Names the tools that the worker has, likewise.
            model: Default: that of the session.
            force: Also while tool calls wait for their results, which else is OpenCallsError: a
                provider would not accept the history.
            files: A directory whose content is kept with it; with `include` and `exclude` as for
                `store.snapshot`.
        """
        if iteration is not None:
            check_count(iteration, "iteration", most=MAX_POSITION)
        for what, text in (("checkpoint name", name), ("tools_hash", tools_hash), ("model", model)):
            if text is not None:
                check_id(text, what)
        setting = partial(
            checkpoints.set_progress,
            name=name,
            state=self._encoded(state, "state"),
            standing=checkpoints.Standing(
                iteration, model, checkpoints.prompt_hash(system_prompt), tools_hash
            ),
            now=self._scope.now(),
            force=force,
        )
        return self._set_checkpoint(setting, files, include, exclude)


class HeldLease:
    """A lease in the hands of this worker."""

    def __init__(self, access: Access, seconds: float) -> None:
        self.access = access
        self.beat = seconds / BEATS
        """Seconds from one renewal to the next."""
        self.is_lost = False
        self.is_ended = False


class Heartbeat:
    """One thread that renews the leases of all runs of a store. It depends on no event loop and waits for no
    caller. It knows the leases weakly: the lease of a run that the program dropped is not renewed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = weakref.ref(engine)
        self.clock: Callable[[], float] = time.monotonic
        self.after_fork()

    def after_fork(self) -> None:
        """In the child: the leases are the parent's."""
        self._changed = threading.Condition()
        self._due: dict[int, tuple[weakref.ref[HeldLease], float]] = {}
        """When to renew each lease, by its identity."""
        self._thread: threading.Thread | None = None
        self._stopping = False

    def watch(self, lease: HeldLease) -> None:
        with self._changed:
            self._schedule(lease, lease.beat)
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._beat, name="clew-heartbeat", daemon=True)
                try:
                    self._thread.start()
                except BaseException:
                    if not self._thread.is_alive():
                        self._thread = None  # the next one tries again
                    raise
            self._changed.notify_all()

    def forget(self, lease: HeldLease) -> None:
        with self._changed:
            self._due.pop(id(lease), None)

    def _schedule(self, lease: HeldLease, wait: float) -> None:
        self._due[id(lease)] = weakref.ref(lease), self.clock() + wait

    def stop(self) -> None:
        """Idempotent. Leases that are not ended run out."""
        with self._changed:
            self._stopping = True
            self._due.clear()
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _beat(self) -> None:
        while True:
            with self._changed:
                if self._stopping:
                    return
                now = self.clock()
                due = [(key, known) for key, (known, moment) in self._due.items() if moment <= now]
                if not due:
                    next_beat = min((moment for _, moment in self._due.values()), default=None)
                    self._changed.wait(None if next_beat is None else next_beat - now)
                    continue
                for key, _ in due:
                    del self._due[key]
            self._renew([lease for lease in (known() for _, known in due) if lease is not None])

    def _renew(self, leases: Sequence[HeldLease]) -> None:
        """All that are due in one transaction."""
        engine = self._engine()
        if engine is None or not leases:
            return
        pending = [Pending(_renewing(lease.access)) for lease in leases]
        engine.committer.run_all(pending)
        with self._changed:
            for lease, outcome in zip(leases, pending, strict=True):
                if outcome.error is None and not outcome.result:
                    lease.is_lost = True
                elif not self._stopping and not lease.is_ended:
                    # After a failure sooner: the lease runs out meanwhile.
                    self._schedule(lease, lease.beat if outcome.error is None else lease.beat / BEATS)


def _renewing(access: Access) -> Callable[[Transaction], bool]:
    return lambda tx: renew(tx, access)
