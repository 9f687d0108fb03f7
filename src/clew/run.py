"""A run: one stretch of work on a session by one worker, under a lease."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType

from clew.backends.contract import Transaction
from clew.core.conversation import resume
from clew.core.engine.engine import Engine
from clew.core.log.ids import MAX_POSITION, check_id
from clew.core.log.lease import Lease
from clew.core.messages.codec import encode_json
from clew.core.runs.access import NO_FENCE, Access
from clew.errors import ClewError, InvalidError, LeaseLostError
from clew.heartbeat import BEATS, Heartbeat
from clew.model import Checkpoint, Json
from clew.session import Session


class Run(Session):
    """A session while this worker holds its lease. Every write through it carries the epoch of the
    lease, which is compared inside the write's own transaction: LeaseLostError if it is not in force
    any more, whatever this worker knows about it.

    Use it as a context manager: leaving the block completes the run, an exception fails it.
    """

    _scope: Engine

    def __init__(self, engine: Engine, access: Access, lease: Lease, task: str | None) -> None:
        self._generation = engine.generation
        self._held = Access(access.sid, access.id, access.here, lease.epoch, lease.fence)
        self._forked = Access(access.sid, access.id, access.here, lease.epoch, NO_FENCE)
        super().__init__(engine, self._held)
        self.owner = lease.owner
        self.epoch = lease.epoch
        self.task = task
        self._beat = lease.ttl / 1e6 / BEATS
        self._lost = False
        self._ended = False
        self._heartbeat = engine.service(Heartbeat)
        self._heartbeat.watch(self)

    def __repr__(self) -> str:
        return f"<Run {self.epoch} of {self.id!r} by {self.owner} in {self._scope.location}>"

    @property
    def _access(self) -> Access:
        # The lease stays with the process that forked: what its child brings is no lease at all.
        return self._held if self._generation == self._scope.generation else self._forked

    @_access.setter
    def _access(self, access: Access) -> None:
        """Given once, by the constructor."""

    @property
    def _worker(self) -> str:
        return self.owner

    @property
    def lost(self) -> bool:
        """Whether the heartbeat has found the lease taken. Only the next write is sure to know."""
        return self._lost

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended or self._generation != self._scope.generation:
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
        with self._ending():
            super().complete(response)

    def fail(self, error: str | BaseException) -> None:
        """End the run with an error, and give the lease back."""
        with self._ending():
            super().fail(error)

    def close(self) -> None:
        """End the run without an outcome, give the lease back, and close the session."""
        with self._ending():
            super().close()

    def _finish(self, work: Callable[[Transaction], None]) -> None:
        self._scope.run_behind(work)  # what `append_nowait` took belongs to this run

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """No heartbeat from here on, unless the end can not be written and has to be tried again."""
        self._ended = True
        self._heartbeat.forget(self)
        try:
            yield
        except LeaseLostError:
            self._lost = True
            raise
        except BaseException:
            self._ended = False
            self._heartbeat.watch(self)
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
        if iteration is not None and (type(iteration) is not int or not 0 <= iteration <= MAX_POSITION):
            raise InvalidError(f"iteration is a number from 0 to {MAX_POSITION}, not {iteration!r}")
        for what, text in (("checkpoint name", name), ("tools_hash", tools_hash), ("model", model)):
            if text is not None:
                check_id(text, what)
        standing = resume.Standing(iteration, model, resume.prompt_hash(system_prompt), tools_hash)
        encoded = encode_json(state, what="state")
        setting = partial(
            resume.set_progress,
            name=name,
            state=encoded,
            standing=standing,
            now=self._scope.now(),
            force=force,
        )
        if files is None:
            return self._write(setting)
        return self._set_with_files(setting, files, include, exclude)
