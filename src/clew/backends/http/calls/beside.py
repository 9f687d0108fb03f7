"""Calls about records, events and model calls."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

import msgspec
from msgspec import Meta

from clew.backends.contract import Reader, RecordKind, Transaction
from clew.backends.http.calls.base import Limit, Read, Text, Write, within
from clew.backends.http.wire import (
    MOST_ROWS,
    Blob,
    Event,
    blob,
    event_in,
    event_out,
    unblob,
)
from clew.core.log import checks
from clew.core.log.records import Count, Integer
from clew.core.log.rows import (
    EventRow,
    UsageColumn,
    UsageRow,
    UsageSum,
)
from clew.errors import CorruptError

# -- records


class GetRecord(Read[bytes | None]):
    sid: Count
    kind: RecordKind
    name: Text
    answer: ClassVar[Any] = Blob | None

    def of(self, on: Reader) -> Blob | None:
        value = on.get_record(self.sid, self.kind, self.name)
        return None if value is None else blob(value)

    def taken(self, answer: Any) -> bytes | None:
        return None if answer is None else unblob(answer)


class ScanRecords(Read[tuple[list[tuple[str, bytes]], bool]]):
    """The records, and whether there are more: an answer ends with ROOM."""

    sid: Count
    kind: RecordKind
    first: Text
    last: Text | None
    reverse: bool
    limit: Limit
    answer: ClassVar[Any] = tuple[list[tuple[str, Blob]], bool]

    def of(self, on: Reader) -> tuple[list[tuple[str, Blob]], bool]:
        found = on.scan_records(
            self.sid, self.kind, self.first, self.last, reverse=self.reverse, limit=self.limit
        )
        kept = within(found, lambda each: len(each[1]))
        return [(name, blob(value)) for name, value in kept], len(kept) < len(found)

    def taken(self, answer: Any) -> tuple[list[tuple[str, bytes]], bool]:
        records, has_more = answer
        return [(name, unblob(value)) for name, value in records], has_more


class PutRecord(Write):
    sid: Count
    kind: RecordKind
    name: Text
    value: Blob

    def do(self, on: Transaction) -> None:
        on.put_record(self.sid, self.kind, self.name, unblob(self.value))


class DropRecord(Write):
    sid: Count
    kind: RecordKind
    name: Text

    def do(self, on: Transaction) -> int:
        return int(on.drop_record(self.sid, self.kind, self.name))


# -- streams


class EventBounds(Read[tuple[int, int]]):
    sid: Count
    answer: ClassVar[Any] = tuple[Count, Count]

    def of(self, on: Reader) -> tuple[int, int]:
        return on.event_bounds(self.sid)


class FindEvent(Read[EventRow | None]):
    sid: Count
    id: Text
    answer: ClassVar[Any] = Event | None

    def of(self, on: Reader) -> Event | None:
        row = on.find_event(self.sid, self.id)
        return None if row is None else event_out(row)

    def taken(self, answer: Any) -> EventRow | None:
        return None if answer is None else checks.event(event_in(answer))


class ReadEvents(Read[tuple[list[EventRow], bool]]):
    """The events, and whether there are more: an answer ends with ROOM."""

    sid: Count
    after: Integer
    limit: Limit
    stream: Text | None
    answer: ClassVar[Any] = tuple[list[Event], bool]

    def of(self, on: Reader) -> tuple[list[Event], bool]:
        found = on.read_events(self.sid, self.after, self.limit, self.stream)
        kept = within(found, lambda row: len(row.data))
        return [event_out(row) for row in kept], len(kept) < len(found)

    def taken(self, answer: Any) -> tuple[list[EventRow], bool]:
        events, has_more = answer
        return [checks.event(event_in(row)) for row in events], has_more


class LastUsage(Read[UsageRow | None]):
    sid: Count
    answer: ClassVar[Any] = UsageRow | None

    def of(self, on: Reader) -> UsageRow | None:
        return on.last_usage(self.sid)


class LastUsages(Read[dict[int, UsageRow]]):
    sids: Annotated[tuple[Count, ...], Meta(max_length=MOST_ROWS)]
    answer: ClassVar[Any] = list[tuple[Count, UsageRow]]

    def of(self, on: Reader) -> list[tuple[int, UsageRow]]:
        return list(on.last_usages(self.sids).items())

    def taken(self, answer: Any) -> dict[int, UsageRow]:
        return dict(answer)


class FindUsage(Read[UsageRow | None]):
    sid: Count
    id: Text
    answer: ClassVar[Any] = UsageRow | None

    def of(self, on: Reader) -> UsageRow | None:
        return on.find_usage(self.sid, self.id)


class ReadUsage(Read[list[UsageRow]]):
    sid: Count
    after: Integer
    limit: Limit
    answer: ClassVar[Any] = list[UsageRow]

    def of(self, on: Reader) -> list[UsageRow]:
        return on.read_usage(self.sid, self.after, self.limit)


class SumUsage(Read[list[UsageSum]]):
    sid: Count | None
    by: tuple[UsageColumn, ...]
    since: Integer | None
    until: Integer | None
    answer: ClassVar[Any] = list[tuple[tuple[str | None, ...], tuple[str, ...]]]
    """Sums are decimal texts: they may be larger than a number of JSON should be."""

    def of(self, on: Reader) -> list[tuple[tuple[str | None, ...], tuple[str, ...]]]:
        return [
            (one.group, tuple(str(getattr(one, name)) for name in _SUMS))
            for one in on.sum_usage(self.sid, self.by, self.since, self.until)
        ]

    def taken(self, answer: Any) -> list[UsageSum]:
        try:
            return [UsageSum(group, *map(int, sums)) for group, sums in answer]
        except (TypeError, ValueError) as error:
            raise CorruptError(f"the sums of model calls cannot be read: {error}") from error


_SUMS: Final = tuple(name for name in UsageSum.__struct_fields__ if name != "group")


class AddEvents(Write):
    sid: Count
    rows: list[Event]

    def do(self, on: Transaction) -> None:
        on.add_events(self.sid, [event_in(row) for row in self.rows])


class DropEvents(Write):
    sid: Count
    upto: Integer

    def do(self, on: Transaction) -> None:
        on.drop_events(self.sid, self.upto)


class SentUsage(UsageRow, frozen=True, gc=False):
    """A `UsageRow` of any cost: what storage adds up may be anything."""

    cost: Integer | None


class AddUsage(Write):
    sid: Count
    row: SentUsage

    @classmethod
    def by(cls, sid: int, row: UsageRow) -> AddUsage:
        return cls(sid, SentUsage(**msgspec.structs.asdict(row)))

    @property
    def usage(self) -> UsageRow:
        return UsageRow(**msgspec.structs.asdict(self.row))

    def do(self, on: Transaction) -> None:
        on.add_usage(self.sid, self.usage)
