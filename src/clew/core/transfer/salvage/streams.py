"""Events and calls of a damaged store. Their numbers have no gaps, so a lost one leaves an empty place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from clew.core.check.records import UNREADABLE
from clew.core.check.streams import after
from clew.core.log.rows import NOWHERE, EventRow, UsageRow
from clew.core.transfer.image import SessionImage
from clew.core.transfer.source import PAGE, Read
from clew.core.transfer.untrusted.rows import LARGEST, check_call, check_event
from clew.model.transfer import LostRecord

LOST_EVENT: Final = "clew.lost"
"""The type of an event that stands for one that is lost."""

Lost = Callable[[LostRecord], object]


def events_of(read: Read, session: SessionImage, lost: Lost) -> Iterator[list[EventRow]]:
    sid, (first, last) = session.row.sid, session.events
    time = session.row.created
    for low in range(first, last + 1, PAGE):
        rows = []
        found = _read_events(read, sid, low, min(low + PAGE - 1, last))
        for number in range(low, min(low + PAGE, last + 1)):
            row = found.get(number)
            if row is None:
                reason = f"event {number} can not be read: an event of type {LOST_EVENT!r} is in its place"
                lost(LostRecord(kind="events", session=session.row.id, name=str(number), reason=reason))
                row = EventRow(number, time, "", LOST_EVENT, None, b"null")
            time = row.time
            rows.append(row)
        yield rows


def _read_events(read: Read, sid: int, first: int, last: int) -> dict[int, EventRow]:
    try:
        with read() as reader:
            found = reader.read_events(sid, first - 1, last - first + 1)
        return {row.number: _sound_event(row) for row in found if first <= row.number <= last}
    except UNREADABLE:
        if first == last:
            return {}
    middle = (first + last) // 2
    return _read_events(read, sid, first, middle) | _read_events(read, sid, middle + 1, last)


def _sound_event(row: EventRow) -> EventRow:
    sound = msgspec.convert(msgspec.structs.asdict(row), EventRow)
    check_event(sound)
    return sound


def calls_of(read: Read, session: SessionImage, lost: Lost) -> Iterator[list[UsageRow]]:
    sid, last = session.row.sid, session.calls
    sums: dict[str, int] = {}
    time = session.row.created
    is_told = False

    def note(number: int, reason: str) -> None:
        lost(LostRecord(kind="usage", session=session.row.id, name=str(number), reason=reason))

    for low in range(1, last + 1, PAGE):
        rows = []
        found = _read_usage(read, sid, low, min(low + PAGE - 1, last))
        for number in range(low, min(low + PAGE, last + 1)):
            row = found.get(number)
            if row is None or not _is_countable(after(sums, row)):
                note(number, f"call {number} can not be read: one without tokens and cost is in its place")
                row = _empty_call(number, time)
                is_told = True  # the sums behind it are others
            sums, time = after(sums, row), row.time
            summed = msgspec.structs.replace(row, **{f"all_{name}": value for name, value in sums.items()})
            if summed != row and not is_told:
                note(number, f"the sums of call {number} were wrong: from there on they are made anew")
                is_told = True
            rows.append(summed)
        yield rows


def _is_countable(sums: dict[str, int]) -> bool:
    return max(sums.values()) <= LARGEST


def _read_usage(read: Read, sid: int, first: int, last: int) -> dict[int, UsageRow]:
    try:
        with read() as reader:
            found = reader.read_usage(sid, first - 1, last - first + 1)
        rows = (_sound_call(row) for row in found)
        return {row.number: row for row in rows if first <= row.number <= last}
    except UNREADABLE:
        if first == last:
            return {}
    middle = (first + last) // 2
    return _read_usage(read, sid, first, middle) | _read_usage(read, sid, middle + 1, last)


def _sound_call(row: UsageRow) -> UsageRow:
    sound = msgspec.convert(msgspec.structs.asdict(row), UsageRow)
    check_call(sound)
    return sound


def _empty_call(number: int, time: int) -> UsageRow:
    """A call of which nothing is known: it costs nothing."""
    return UsageRow(
        number, time, None, None, None, None, None, 0, NOWHERE,
        0, 0, 0, 0, 0, 0, None, 0, 0, 0, 0, 0, 0, 0, 0,
    )  # fmt: skip
