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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias

import msgspec

from clew.core.hashing import ROOT, entry_digest
from clew.core.rows import KIND_NAMES, REPLACED
from clew.errors import ClewError, OutcomeUnknownError
from clew.model import Entry
from clew.session import Session

Kind: TypeAlias = Literal["append", "read"]
Outcome: TypeAlias = Literal["ok", "fail", "unknown"]
NEVER: Final = 2**63 - 1
DETACHED: Final = "(an entry that is not in the log)"


class Operation(msgspec.Struct):
    """One call of one client: an append of `values`, or a read that returned `values`."""

    client: str
    kind: Kind
    session: str
    values: list[str]
    invoked: int
    ended: int = NEVER
    outcome: Outcome = "unknown"
    """An operation that never ended stays unknown: its client died, or was interrupted."""


class Record(msgspec.Struct, frozen=True):
    """One entry as the log holds it."""

    value: str
    position: int
    id: str
    parent: str | None
    """The id of the entry that it continues; None at the root."""


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
        kind: Literal["append", "read"] = "append",
    ) -> Operation:
        """Note that a call is about to be made."""
        operation = Operation(client, kind, session, list(values), self._clock())
        self.operations.append(operation)
        return operation

    def end(self, operation: Operation, outcome: Outcome) -> None:
        """Note what came of it."""
        operation.ended = self._clock()
        operation.outcome = outcome

    @contextmanager
    def append(self, client: str, session: str, values: Sequence[str]) -> Iterator[Operation]:
        """Note an append around the call that makes it. Errors pass through."""
        operation = self.invoke(client, session, values)
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
        records.append(Record(value(entry.message), entry.position, entry.id, parent if fits else DETACHED))
        parent, digest = entry.id, entry.digest
    return records


def check_digest(entry: Entry, parent: bytes) -> bytes:
    """The hash that an entry should have behind this one."""
    flags = REPLACED if entry.replaced else 0
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
            ("J1", _acknowledged_once(appends, log)),
            ("J2", _refused_never(appends, log)),
            ("J3", _nothing_foreign(appends, log)),
            ("J4", _positions(log)),
            ("J5", _parents(log)),
            ("J6", _real_time(appends, log)),
            ("J7", _reads(appends, reads, log)),
            ("P2", _batches_whole(appends, log)),
        ):
            violations += [Violation(rule, session, what) for what in found]
    return violations


def _acknowledged_once(appends: Sequence[Operation], log: Sequence[Record]) -> Iterator[str]:
    times = Counter(record.value for record in log)
    for operation in appends:
        if operation.outcome == "ok":
            for value in operation.values:
                if times[value] != 1:
                    yield f"{value!r}, acknowledged to {operation.client}, is there {times[value]} times"


def _refused_never(appends: Sequence[Operation], log: Sequence[Record]) -> Iterator[str]:
    times = Counter(record.value for record in log)
    for operation in appends:
        allowed = {"ok": NEVER, "fail": 0, "unknown": 1}[operation.outcome]
        for value in operation.values:
            if times[value] > allowed:
                said = "was refused" if not allowed else "has no known outcome"
                yield f"{value!r} of {operation.client} {said} and is there {times[value]} times"


def _nothing_foreign(appends: Sequence[Operation], log: Sequence[Record]) -> Iterator[str]:
    written = {value for operation in appends for value in operation.values}
    for record in log:
        if record.value not in written:
            yield f"{record.value!r} at {record.position} was written by nobody"


def _positions(log: Sequence[Record]) -> Iterator[str]:
    for expected, record in enumerate(log):
        if record.position != expected:
            yield f"{record.value!r} has position {record.position}, not {expected}"
            return  # all that follow are off by as much


def _parents(log: Sequence[Record]) -> Iterator[str]:
    places: dict[str, int] = {}
    for place, record in enumerate(log):
        if record.id in places:
            yield f"the id {record.id} stands at {places[record.id]} and at {place}"
        places[record.id] = place
    for place, record in enumerate(log):
        if record.parent is None:
            if place:
                yield f"{record.value!r} at {place} continues nothing"
        elif record.parent not in places:
            yield f"{record.value!r} at {place} continues {record.parent}"
        elif places[record.parent] >= place:
            yield f"{record.value!r} at {place} continues a later entry, at {places[record.parent]}"


def _real_time(appends: Sequence[Operation], log: Sequence[Record]) -> Iterator[str]:
    origin = {value: operation for operation in appends for value in operation.values}
    earliest: Operation | None = None  # of those behind in the log, the one that was acknowledged first
    for record in reversed(log):
        operation = origin.get(record.value)
        if operation is None:
            continue
        if earliest is not None and earliest.ended < operation.invoked:
            yield (
                f"{record.value!r} at {record.position} lies before {earliest.values[0]!r},"
                " which had been acknowledged before it was asked for"
            )
        if operation.outcome == "ok" and (earliest is None or operation.ended < earliest.ended):
            earliest = operation


def _reads(appends: Sequence[Operation], reads: Sequence[Operation], log: Sequence[Record]) -> Iterator[str]:
    values = [record.value for record in log]
    places = {value: place for place, value in enumerate(values)}
    seen: dict[str, int] = {}
    acknowledged = sorted(
        (operation.ended, max(places.get(value, -1) for value in operation.values))
        for operation in appends
        if operation.outcome == "ok" and operation.values
    )
    due, done = 0, 0
    for read in sorted(reads, key=lambda read: read.invoked):
        count = len(read.values)
        if read.values != values[:count]:
            wrong = next(
                (n for n, (a, b) in enumerate(zip(read.values, values, strict=False)) if a != b), len(values)
            )
            yield f"{read.client} read something else than the log at {wrong}"
        while done < len(acknowledged) and acknowledged[done][0] < read.invoked:
            due = max(due, acknowledged[done][1] + 1)
            done += 1
        if count < due:
            yield f"{read.client} read {count} entries when {due} had been acknowledged"
    for read in sorted(reads, key=lambda read: (read.client, read.invoked)):
        if len(read.values) < seen.get(read.client, 0):
            yield f"{read.client} read {len(read.values)} entries after {seen[read.client]}"
        seen[read.client] = len(read.values)


def _batches_whole(appends: Sequence[Operation], log: Sequence[Record]) -> Iterator[str]:
    places: dict[str, int] = {}
    for place, record in enumerate(log):
        places.setdefault(record.value, place)
    for operation in appends:
        found = [places.get(value, -1) for value in operation.values]
        there = [place for place in found if place >= 0]
        if there and found != list(range(there[0], there[0] + len(found))):
            yield f"the batch {operation.values} of {operation.client} lies at {found}"
