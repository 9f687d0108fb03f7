"""A checker for concurrent histories: was every promise kept, whatever ran at the same time?

Clients write down what they ask for and what they are told; every payload is unique. Afterwards the
log itself is read, and `check` compares the two:

    J1  what was acknowledged is in the log exactly once
    J2  what was refused is not in it; what has no known outcome is in it at most once
    J3  nothing is in it that nobody wrote
    J4  positions are 0, 1, 2, … without a gap
    J5  every entry continues one that exists and lies before it; no circles
    J6  what was acknowledged before something else was asked for lies before it
    J7  a read is a prefix of the log, holds all that was acknowledged before it began, and no
        client ever sees less than it saw before
    J8  the epochs of what was written under leases never decrease along the log; each epoch has one
        owner, and every entry the epoch of the lease that its client held
    J9  every tool result follows a call that waits for it
    P2  a batch is there as a whole, in its order, with nothing in between; or not at all

    history = History()
    with history.append("worker-1", "session-a", ["m1", "m2"]):
        session.append(…)                       # an exception: failed, or unknown, see `outcome_of`
    violations = check(history.operations, {"session-a": log_of(session)})

The times are those of the system's monotonic clock, which all processes of a machine share: histories
of several processes can be joined.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from clew.core.log.digest import ROOT, entry_digest
from clew.core.log.rows import KIND_NAMES, NOT_HUMAN, REPLACED
from clew.core.messages.dialects import Call, calls_of, results_of
from clew.errors import ClewError, OutcomeUnknownError
from clew.model import Entry
from clew.session import Session
from clew.store import Store
from tests.faults.history import rules
from tests.faults.history.rules import NEVER, Kind, Operation, Outcome, Record

__all__ = [
    "NEVER",
    "History",
    "Kind",
    "Operation",
    "Outcome",
    "Record",
    "Violation",
    "check",
    "check_digest",
    "log_of",
    "outcome_of",
]

DETACHED: Final = "(an entry that is not in the log)"


class Violation(msgspec.Struct, frozen=True):
    """A broken promise: which rule, and what exactly."""

    rule: str
    session: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule} in {self.session!r}: {self.what}"


def outcome_of(error: BaseException) -> Outcome:
    """What a client knows after this error. Only Clew's own errors promise that nothing was written."""
    if isinstance(error, ClewError) and not isinstance(error, OutcomeUnknownError):
        return "fail"
    return "unknown"


class History:
    """Where the clients of one process write down what they do. Safe from any thread."""

    def __init__(self, *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.operations: list[Operation] = []
        self._clock = clock

    def invoke(
        self,
        client: str,
        session: str,
        values: Sequence[str] = (),
        kind: Kind = "append",
        *,
        epoch: int = 0,
    ) -> Operation:
        """Note that a call is about to be made."""
        operation = Operation(client, kind, session, list(values), self._clock(), epoch=epoch)
        self.operations.append(operation)
        return operation

    def end(self, operation: Operation, outcome: Outcome) -> None:
        """Note what came of it."""
        operation.ended = self._clock()
        operation.outcome = outcome

    @contextmanager
    def append(
        self, client: str, session: str, values: Sequence[str], *, epoch: int = 0
    ) -> Iterator[Operation]:
        """Note an append around the call that makes it. Errors pass through."""
        operation = self.invoke(client, session, values, epoch=epoch)
        try:
            yield operation
        except BaseException as error:
            self.end(operation, outcome_of(error))
            raise
        self.end(operation, "ok")

    def read(self, client: str, session: str, call: Callable[[], Iterable[str]]) -> list[str]:
        """Make a read and note what it returned."""
        operation = self.invoke(client, session, kind="read")
        operation.values = list(call())
        self.end(operation, "ok")
        return operation.values


def log_of(
    session: Session, value: Callable[[Any], str] = lambda message: str(message["content"])
) -> list[Record]:
    """The log of a session as it can be read now. `value` finds the payload in a message.

    The hash chain says which entry each one continues: an entry whose hash does not fit the one
    before it continues something that is not there.
    """
    records: list[Record] = []
    parent: str | None = None
    digest = ROOT
    for entry in session.entries():
        fits = entry.digest == check_digest(entry, digest)
        message = entry.message
        calls, results = _names(calls_of(message)), _names(results_of(message))
        before = parent if fits else DETACHED
        records.append(Record(value(message), entry.position, entry.id, before, entry.epoch, calls, results))
        parent, digest = entry.id, entry.digest
    return records


def _names(calls: Sequence[Call]) -> list[str]:
    """What a call and its result have in common."""
    return [f"{call.kind} {call.id or call.name}" for call in calls]


def check_digest(entry: Entry, parent: bytes) -> bytes:
    """The hash that an entry should have behind this one."""
    flags = (REPLACED if entry.replaced else 0) | (NOT_HUMAN if entry.injected else 0)
    return entry_digest(parent, entry.position, KIND_NAMES.index(entry.kind), entry.stamp, flags, entry.raw)


def check(operations: Iterable[Operation], logs: Mapping[str, Sequence[Record]]) -> list[Violation]:
    """Every broken promise in a history, given the logs of all its sessions; [] when all were kept."""
    by_session: dict[str, list[Operation]] = {name: [] for name in logs}
    for operation in operations:
        by_session.setdefault(operation.session, []).append(operation)
    violations: list[Violation] = []
    for session, mine in by_session.items():
        log = logs.get(session, ())
        appends = [operation for operation in mine if operation.kind == "append"]
        reads = [operation for operation in mine if operation.kind == "read" and operation.outcome == "ok"]
        for rule, found in (
            ("J1", rules.acknowledged_once(appends, log)),
            ("J2", rules.refused_never(appends, log)),
            ("J3", rules.nothing_foreign(appends, log)),
            ("J4", rules.positions(log)),
            ("J5", rules.parents(log)),
            ("J6", rules.real_time(appends, log)),
            ("J7", rules.reads(appends, reads, log)),
            ("J8", rules.epochs(appends, log)),
            ("J9", rules.results_follow(log)),
            ("P2", rules.batches_whole(appends, log)),
        ):
            violations += [Violation(rule, session, what) for what in found]
    return violations


def check_whole(store: Store) -> list[Violation]:
    """J10 and J11, of a store as it is: hashes and references hold, counters equal a rebuild from the log."""
    from clew.testing.chain import check_store

    violations = [Violation("J10", "", problem) for problem in store.verify(full=True).problems]
    try:
        check_store(store)
    except AssertionError as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        violations.append(Violation("J11", "", f"{error} ({where.name}: {where.line})"))
    except ClewError as error:
        violations.append(Violation("J10", "", f"not all can be read: {error}"))
    return violations
