"""The life of a session: its status, who works on it, where to go on after a crash."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from clew.backends.contract import Transaction
from clew.core.conversation.points import head_of
from clew.core.log.ids import check_id
from clew.core.messages.codec import encode_json
from clew.errors import ClewError, InvalidError, LeaseHeldError
from clew.handle import Handle
from clew.model import Head, Json, LeaseInfo, Resumption, StatusChange

if TYPE_CHECKING:
    from clew.core.runs.lease import Bid
    from clew.run import Run

SHORTEST_LEASE: Final = 0.1
LONGEST_LEASE: Final = 86_400.0
FIRST_PAUSE: Final = 0.01
LONGEST_PAUSE: Final = 0.25

H = TypeVar("H", bound="Lifecycle")


class Lifecycle(Handle):
    """The part of `Session` that starts and ends work."""

    # -- runs without a lease

    def start(self, request: Json = None, *, task: str | None = None) -> None:
        """Set the status to running, without a lease; what the last run left is cleared.

        Also if it is running already: then a new run begins. Of a closed session: InvalidTransitionError.
        """
        from clew.core.runs import status

        _check_task(task)
        self._write(status.start, encode_json(request, what="request"), task, self._scope.now())

    def complete(self, response: Json = None) -> None:
        """End the run well. If none was started, one that began just now.

        The last word counts: after `fail` or another `complete` this outcome takes the place of that one;
        only, when it has completed already, no response leaves the one that is there.
        """
        from clew.core.runs import status

        access, now, by = self._access, self._scope.now(), self._worker
        encoded = encode_json(response, what="response")
        self._finish(lambda tx: status.complete(tx, access, encoded, now, by))

    def fail(self, error: str | BaseException) -> None:
        """End the run with an error: its text is kept. As `complete`, whatever the status was."""
        from clew.core.runs import status

        access, now, by, text = self._access, self._scope.now(), self._worker, error_text(error)
        self._finish(lambda tx: status.fail(tx, access, text, now, by))

    def _finish(self, work: Callable[[Transaction], None]) -> None:
        self._scope.run(work)

    def close(self) -> None:
        """Set the status to closed: no run starts until `reopen()`. Everything is kept.

        A run that is under way ends. What becomes of it later can still be told by `complete` or `fail`;
        the session stays closed.
        """
        from clew.core.runs import status

        access, now, by = self._access, self._scope.now(), self._worker
        self._finish(lambda tx: status.close(tx, access, now, by))

    def reopen(self) -> None:
        """Make a closed or expired session pending again. One that is open stays as it is."""
        from clew.core.runs import status

        self._write(status.reopen, self._scope.now())

    def status_changes(self) -> list[StatusChange]:
        """Every change of status, oldest first, with who made it and when."""
        from clew.core.runs import status

        with self._look() as (reader, row):
            return status.changes(reader, row)

    @property
    def _worker(self) -> str:
        """Who is said to have done it."""
        return self._scope.here.name

    # -- runs under a lease

    @property
    def lease(self) -> LeaseInfo | None:
        """Who works on the session now; None: nobody, or somebody who is gone."""
        from clew.core.runs import lease

        with self._look() as (reader, row):
            return lease.lease_info(reader, row, self._scope.here)

    def run(
        self,
        request: Json = None,
        *,
        task: str | None = None,
        lease: float = 30.0,
        owner: str | None = None,
        wait: float | None = None,
        steal: bool = False,
    ) -> Run:
        """Take the lease of the session and start a run: `with s.run(request="fix it") as run:`.

        While the run lasts, only writes through it are accepted. Leaving the block completes it, an
        exception fails it. A thread renews the lease; when this process dies, another worker gets
        the lease at once on the same machine, else when it has run out.

        Args:
            request: Any JSON value; kept with the run.
            task: What kind of work it is.
            lease: For how many seconds the lease holds without being renewed.
            owner: Who works; default: host and process.
            wait: How many seconds to wait for a lease that somebody else holds (math.inf: for ever);
                default: LeaseHeldError at once.
            steal: Take the lease whoever holds it; its holder gets LeaseLostError on its next write.
        """
        bid = self._bid(request, task, lease, owner, steal)
        pauses = Pauses(wait)
        while True:
            try:
                return self._take(bid)
            except LeaseHeldError:
                pause = pauses.next()
                if pause is None:
                    raise
                time.sleep(pause)

    def _bid(self, request: Json, task: str | None, lease: float, owner: str | None, steal: bool) -> Bid:
        from clew.core.runs import lease as lease_

        _check_task(task)
        if owner is not None:
            check_id(owner, "owner")
        fence = int.from_bytes(os.urandom(8), "big") >> 2 or 1
        encoded = encode_json(request, what="request")
        return lease_.Bid(
            owner or self._scope.here.name, int(_seconds(lease) * 1e6), fence, encoded, task, bool(steal)
        )

    def _take(self, bid: Bid) -> Run:
        from clew.core.runs import lease
        from clew.run import Run  # a run is a session too

        engine = self._scope.outside("Session.run()")
        if not bid.steal:
            with engine.read() as reader:
                lease.refuse_early(reader, self._access)
        return Run(engine, self._access, self._write(lease.take, bid), bid.task)

    def resume(
        self, *, system_prompt: Json = None, tools_hash: str | None = None, model: str | None = None
    ) -> Resumption:
        """The newest checkpoint that a run set, with the messages up to it.

        CheckpointNotFoundError if there is none. What is given is compared with what the checkpoint
        was set with: see `changed`. To go on there, take the lease and rewind:

            with s.run(task="sync") as run:
                point = run.resume()
                run.rewind(point.head)
        """
        from clew.core.conversation import resume

        with self._look() as (reader, row):
            return resume.resume(reader, row, system_prompt, tools_hash, model)

    @contextmanager
    def turn(self: H) -> Iterator[H]:
        """Appends inside the block are durable and visible as they come; an exception rewinds to where
        it began, so that no half turn stays on the path. `undo()` brings the aborted turn back."""
        with self._look() as (reader, row):
            began = head_of(reader, row.head)
        try:
            yield self
        except BaseException as failure:
            self._abort(began, failure)
            raise

    def _abort(self, began: Head, failure: BaseException) -> None:
        from clew.core.conversation import moves

        try:
            self._write(moves.abort, began, self._scope.now())
        except ClewError as exc:
            failure.add_note(f"the turn that failed stays on the path: {exc}")


class Pauses:
    """How long to wait between two attempts; None when the time is up."""

    def __init__(self, wait: float | None) -> None:
        if wait is not None and not (_is_number(wait) and wait >= 0):
            raise InvalidError(f"wait is a number of seconds from 0 on, not {wait!r}")
        self._deadline = -math.inf if wait is None else time.monotonic() + wait
        self._pause = FIRST_PAUSE

    def next(self) -> float | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            return None
        pause, self._pause = self._pause, min(self._pause * 1.5, LONGEST_PAUSE)
        return min(pause, left)


def _seconds(lease: float) -> float:
    if not (_is_number(lease) and SHORTEST_LEASE <= lease <= LONGEST_LEASE):
        raise InvalidError(f"a lease lasts {SHORTEST_LEASE:g} to {LONGEST_LEASE:g} seconds, not {lease!r}")
    return float(lease)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _check_task(task: str | None) -> None:
    if task is not None:
        check_id(task, "task")


def error_text(error: str | BaseException) -> str:
    """What is kept of an error; lone surrogates in it are replaced."""
    if isinstance(error, BaseException):
        error = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if not isinstance(error, str):
        raise InvalidError(f"an error is a text or an exception, not {type(error).__name__}")
    return error.encode("utf-8", "replace").decode()
