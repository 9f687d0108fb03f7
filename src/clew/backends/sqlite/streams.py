"""Events and usage, on one connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import apsw
import msgspec

from clew.backends.damage import sound_sums
from clew.backends.sqlite.rows import POSITION_BITS, POSITION_MASK, Row, key
from clew.backends.sqlite.sql import (
    ADD_EVENT,
    ADD_UP_USAGE,
    ADD_USAGE,
    DROP_EVENTS,
    EVENT_BOUNDS,
    FIND_EVENT,
    FIND_USAGE,
    LAST_USAGE,
    READ_EVENTS,
    READ_STREAM,
    READ_UNNAMED,
    READ_USAGE,
    SUM_USAGE,
)
from clew.core.log import checks
from clew.core.log.rows import EventRow, UsageRow, UsageSum
from clew.errors import CorruptError, CorruptSessionError
from clew.model import UsageKey

T = TypeVar("T")

EARLIEST: Final = -(2**63)
LATEST: Final = 2**63 - 1


class StreamReader:
    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._execute = connection.execute

    def _one(self, sql: str, *bindings: Any) -> Row | None:
        try:
            row: Row | None = self._execute(sql, bindings).fetchone()
        except UnicodeDecodeError as error:
            raise CorruptError(f"a row holds text that is no UTF-8: {error.object[:40]!r}") from error
        return row

    def _name_of(self, sid: int) -> str:
        """The id of a session, for those who tell of its damage."""
        row = self._one("SELECT CAST(id AS BLOB) FROM sessions WHERE sid = ?", sid)
        return row[0].decode(errors="replace") if row and row[0] else f"(damaged session {sid})"

    def event_bounds(self, sid: int) -> tuple[int, int]:
        first, last = self._one(EVENT_BOUNDS, key(sid, 0), key(sid, POSITION_MASK)) or (None, None)
        return (1, 0) if first is None else (first & POSITION_MASK, last & POSITION_MASK)

    def find_event(self, sid: int, id: str) -> EventRow | None:
        row = self._one(FIND_EVENT, sid, id)
        return self._sound(sid, _event, [row])[0] if row else None

    def read_events(self, sid: int, after: int, limit: int, stream: str | None = None) -> list[EventRow]:
        if stream:
            rows = self._execute(READ_STREAM, (sid, stream, _behind(sid, after) - 1, limit))
        else:
            statement = READ_EVENTS if stream is None else READ_UNNAMED
            rows = self._execute(statement, (_behind(sid, after), key(sid, POSITION_MASK), limit))
        return self._sound(sid, _event, rows)

    def last_usage(self, sid: int) -> UsageRow | None:
        row = self._one(LAST_USAGE, key(sid, 0), key(sid, POSITION_MASK))
        return self._sound(sid, _usage, [row])[0] if row else None

    def find_usage(self, sid: int, id: str) -> UsageRow | None:
        row = self._one(FIND_USAGE, sid, id)
        return self._sound(sid, _usage, [row])[0] if row else None

    def read_usage(self, sid: int, after: int, limit: int) -> list[UsageRow]:
        rows = self._execute(READ_USAGE, (_behind(sid, after), key(sid, POSITION_MASK), limit))
        return self._sound(sid, _usage, rows)

    def _sound(self, sid: int, convert: Callable[[Row], T], rows: Iterable[Row]) -> list[T]:
        """The rows as values; CorruptSessionError: one of them can not be."""
        try:
            return [convert(row) for row in rows]
        except (CorruptError, UnicodeDecodeError) as error:
            raise CorruptSessionError(self._name_of(sid), str(error)) from error

    def sum_usage(
        self, sid: int | None, by: UsageKey | None, since: int | None = None, until: int | None = None
    ) -> list[UsageSum]:
        keys = (EARLIEST, LATEST) if sid is None else (key(sid, 0), key(sid, POSITION_MASK))
        times = (EARLIEST if since is None else since, LATEST if until is None else until)
        try:
            rows = self._execute(SUM_USAGE[by], (*keys, *times)).fetchall()
            if all(type(value) is int and value >= 0 for row in rows for value in row[1:]):
                return [_sum(row) for row in rows]
        except (apsw.SQLError, UnicodeDecodeError):  # an overflow, or text that is none
            pass
        return sound_sums(self._execute(ADD_UP_USAGE[by], (*keys, *times)))


class StreamWriter(StreamReader):
    writes = 0
    is_certain = True
    era = 0

    def add_events(self, sid: int, rows: Sequence[EventRow]) -> None:
        if rows:
            self.writes += 1
            self.connection.executemany(ADD_EVENT, [_keyed(sid, row) for row in rows])

    def drop_events(self, sid: int, upto: int) -> None:
        self._execute(DROP_EVENTS, (key(sid, 0), key(sid, upto)))
        self.writes += self.connection.changes() > 0

    def add_usage(self, sid: int, row: UsageRow) -> None:
        self.writes += 1
        self._execute(ADD_USAGE, _keyed(sid, row))


def _behind(sid: int, after: int) -> int:
    """The key after that of a number, which may be one that no row can have."""
    return min(key(sid, min(max(after, 0), POSITION_MASK)) + 1, LATEST)


def _keyed(sid: int, row: EventRow | UsageRow) -> Row:
    """Its columns, with the key in place of the number."""
    return (sid << POSITION_BITS | row.number, *msgspec.structs.astuple(row)[1:])


def _event(row: Row) -> EventRow:
    return checks.event(EventRow(row[0] & POSITION_MASK, *row[1:]))


def _usage(row: Row) -> UsageRow:
    return checks.call(UsageRow(row[0] & POSITION_MASK, *row[1:]))


def _sum(row: Row) -> UsageSum:
    group, calls, input, output, cache_read, cache_write, reasoning, millions, rest, unpriced, estimated = row
    cost = millions * 1_000_000 + rest
    return UsageSum(
        group, calls, input, output, cache_read, cache_write, reasoning, cost, unpriced, estimated
    )  # fmt: skip
