"""What a history and a log are made of, and the rules that `checker.check` holds them to.

Each rule gets what the clients noted and what the log holds, and says in words what is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["append", "read"]
Outcome: TypeAlias = Literal["ok", "fail", "unknown"]
NEVER: Final = 2**63 - 1


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
    epoch: int = 0
    """Of the lease under which the client appended; 0: without one."""


class Record(msgspec.Struct, frozen=True):
    """One entry as the log holds it."""

    value: str
    position: int
    id: str
    parent: str | None
    """The id of the entry that it continues; None at the root."""
    epoch: int = 0
    calls: Sequence[str] = ()
    """The tool calls in the message, and below the calls that its tool results answer."""
    results: Sequence[str] = ()


def acknowledged_once(appends: Sequence[Operation], log: Sequence[Record]) -> Iterator[str]:
    times = Counter(record.value for record in log)
    for operation in appends:
        if operation.outcome == "ok":
            for value in operation.values:
                if times[value] != 1:
                    yield f"{value!r}, acknowledged to {operation.client}, is there {times[value]} times"


def refused_never(appends: Sequence[Operation], log: Sequence[Record]) -> Iterator[str]:
    times = Counter(record.value for record in log)
    for operation in appends:
        allowed = {"ok": NEVER, "fail": 0, "unknown": 1}[operation.outcome]
        for value in operation.values:
            if times[value] > allowed:
                said = "was refused" if not allowed else "has no known outcome"
                yield f"{value!r} of {operation.client} {said} and is there {times[value]} times"


def nothing_foreign(appends: Sequence[Operation], log: Sequence[Record]) -> Iterator[str]:
    written = {value for operation in appends for value in operation.values}
    for record in log:
        if record.value not in written:
            yield f"{record.value!r} at {record.position} was written by nobody"


def positions(log: Sequence[Record]) -> Iterator[str]:
    for expected, record in enumerate(log):
        if record.position != expected:
            yield f"{record.value!r} has position {record.position}, not {expected}"
            return  # all that follow are off by as much


def parents(log: Sequence[Record]) -> Iterator[str]:
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


def real_time(appends: Sequence[Operation], log: Sequence[Record]) -> Iterator[str]:
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


def reads(appends: Sequence[Operation], reads: Sequence[Operation], log: Sequence[Record]) -> Iterator[str]:
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


def batches_whole(appends: Sequence[Operation], log: Sequence[Record]) -> Iterator[str]:
    places: dict[str, int] = {}
    for place, record in enumerate(log):
        places.setdefault(record.value, place)
    for operation in appends:
        found = [places.get(value, -1) for value in operation.values]
        there = [place for place in found if place >= 0]
        if there and found != list(range(there[0], there[0] + len(found))):
            yield f"the batch {operation.values} of {operation.client} lies at {found}"


def epochs(appends: Sequence[Operation], log: Sequence[Record]) -> Iterator[str]:
    origin = {value: operation for operation in appends for value in operation.values}
    owners: dict[int, str] = {}
    highest = 0
    for record in log:
        operation = origin.get(record.value)
        if operation is not None and operation.epoch != record.epoch:
            yield (
                f"{record.value!r} of {operation.client} was written under epoch {operation.epoch},"
                f" and has {record.epoch}"
            )
        if not record.epoch:
            continue  # written without a lease, or beside one
        if record.epoch < highest:
            yield f"{record.value!r} at {record.position} has epoch {record.epoch}, behind {highest}"
        highest = max(highest, record.epoch)
        if operation is not None:
            owner = owners.setdefault(record.epoch, operation.client)
            if owner != operation.client:
                yield f"{record.value!r} of {operation.client} has epoch {record.epoch}, which is {owner}'s"


def results_follow(log: Sequence[Record]) -> Iterator[str]:
    waiting: Counter[str] = Counter()
    for record in log:
        waiting.update(record.calls)
        for call in record.results:
            if not waiting[call]:
                yield f"{record.value!r} at {record.position} answers {call}, which does not wait for it"
            else:
                waiting[call] -= 1
