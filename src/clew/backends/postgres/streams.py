"""Reads of events, usage and the objects of snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from clew.backends.postgres.blobs import Blobs, ObjectGoneError
from clew.backends.postgres.ids import home_of
from clew.backends.postgres.rows import EARLIEST, LATEST, Row, encode, maybe, text_from
from clew.backends.postgres.statements_streams import (
    EVENT_BOUNDS,
    FIND_EVENT,
    FIND_OBJECTS,
    FIND_USAGE,
    GET_PACK,
    LAST_USAGE,
    LIST_PACKS,
    READ_EVENTS,
    READ_STREAM,
    READ_UNNAMED,
    READ_USAGE,
    SCAN_OBJECTS,
    SUM_ALL,
    SUM_OF_SESSION,
)
from clew.core import checked
from clew.core.frame import checksum, unpack
from clew.core.rows import EventRow, ObjectPlace, PackInfo, UsageRow, UsageSum
from clew.errors import BackendUnavailableError, CorruptError
from clew.model import UsageKey

AT_ONCE: Final = 1000
"""So many names are looked up with one question."""


class StreamReader:
    _blobs: Blobs | None

    def ask(self, template: str, *given: Any) -> list[Row]:
        """The rows that answer a statement."""
        raise NotImplementedError

    def event_bounds(self, sid: int) -> tuple[int, int]:
        ((first, last),) = self.ask(EVENT_BOUNDS, home_of(sid), sid)
        return (1, 0) if first is None else (first, last)

    def find_event(self, sid: int, id: str) -> EventRow | None:
        return next(map(event_from, self.ask(FIND_EVENT, home_of(sid), sid, encode(id))), None)

    def read_events(self, sid: int, after: int, limit: int, stream: str | None = None) -> list[EventRow]:
        given = (home_of(sid), sid, min(after, LATEST), limit)
        if stream:
            rows = self.ask(READ_STREAM, *given, encode(stream))
        else:
            rows = self.ask(READ_EVENTS if stream is None else READ_UNNAMED, *given)
        return [event_from(row) for row in rows]

    def last_usage(self, sid: int) -> UsageRow | None:
        return next(map(usage_from, self.ask(LAST_USAGE, home_of(sid), sid)), None)

    def find_usage(self, sid: int, id: str) -> UsageRow | None:
        return next(map(usage_from, self.ask(FIND_USAGE, home_of(sid), sid, encode(id))), None)

    def read_usage(self, sid: int, after: int, limit: int) -> list[UsageRow]:
        rows = self.ask(READ_USAGE, home_of(sid), sid, min(after, LATEST), limit)
        return [usage_from(row) for row in rows]

    def sum_usage(
        self, sid: int | None, by: UsageKey | None, since: int | None = None, until: int | None = None
    ) -> list[UsageSum]:
        times = (EARLIEST if since is None else since, LATEST if until is None else until)
        if sid is None:
            rows = self.ask(SUM_ALL[by], *times)
        else:
            rows = self.ask(SUM_OF_SESSION[by], *times, home_of(sid), sid)
        return [
            UsageSum(None if group is None else group.decode(errors="replace"), *map(int, sums))
            for group, *sums in rows
        ]

    def find_objects(self, names: Sequence[bytes]) -> dict[bytes, ObjectPlace]:
        found = {}
        for first in range(0, len(names), AT_ONCE):
            rows = self.ask(FIND_OBJECTS, list(names[first : first + AT_ONCE]))
            found.update({row[0]: checked.place(row[0], ObjectPlace(*row[1:])) for row in rows})
        return found

    def scan_objects(self, after: bytes, limit: int) -> list[tuple[bytes, ObjectPlace]]:
        rows = self.ask(SCAN_OBJECTS, after, limit)
        return [(row[0], checked.place(row[0], ObjectPlace(*row[1:]))) for row in rows]

    def get_pack(self, pack: int) -> bytes:
        size, codec, recorded, blob = self._stored_pack(pack)
        try:
            if pack_checksum(size, codec, blob) != recorded:
                raise ValueError("its checksum does not match")
            content = unpack(codec, blob)
        except ValueError as exc:
            raise CorruptError(f"pack {pack} is damaged: {exc}") from exc
        if len(content) != size:
            raise CorruptError(f"pack {pack} is damaged: it has {len(content)} bytes, not {size}")
        return content

    def _stored_pack(self, pack: int) -> tuple[int, int, int, bytes]:
        """Size, codec, checksum and bytes, wherever they lie."""
        rows = self.ask(GET_PACK, pack)
        if not rows:
            raise KeyError(pack)
        ((size, codec, recorded, blob, outside),) = rows
        if outside is None:
            return size, codec, recorded, blob
        if self._blobs is None:
            raise BackendUnavailableError(
                f"pack {pack} lies in an object store: open this one with ?blobs= and its address"
            )
        try:
            return size, codec, recorded, self._blobs.get(outside)
        except ObjectGoneError as exc:
            if not self.ask(GET_PACK, pack):
                raise KeyError(pack) from None  # it was dropped just now
            place = f"{self._blobs.address}/{exc}"
            raise CorruptError(f"pack {pack} is damaged: its object {place} is missing") from exc

    def list_packs(self, after: int, limit: int) -> list[PackInfo]:
        return [checked.pack(PackInfo(*row)) for row in self.ask(LIST_PACKS, after, limit)]


def pack_checksum(size: int, codec: int, blob: bytes) -> int:
    """Not over the number: objects have their own names."""
    return checksum(blob, 0, size, 0, codec, 0)


def event_from(row: Row) -> EventRow:
    number, time, stream, type, id, data = row
    return checked.event(EventRow(number, time, text_from(stream), text_from(type), text_from(id), data))


def event_values(row: EventRow) -> Row:
    return (row.number, row.time, encode(row.stream), encode(row.type), maybe(row.id), row.data)


def usage_from(row: Row) -> UsageRow:
    texts = (text_from(value) for value in row[2:7])
    values = (*row[:2], *texts, *row[7:15], text_from(row[15]), *row[16:])
    return checked.call(UsageRow(*values))


def usage_values(row: UsageRow) -> Row:
    return (
        row.number, row.time, maybe(row.id), maybe(row.model), maybe(row.vendor), maybe(row.endpoint),
        maybe(row.source), row.branch, row.position, row.input, row.output, row.cache_read, row.cache_write,
        row.reasoning, row.cost, maybe(row.priced_by), row.all_input, row.all_output, row.all_cache_read,
        row.all_cache_write, row.all_reasoning, row.all_cost, row.all_unpriced, row.all_estimated,
    )  # fmt: skip
