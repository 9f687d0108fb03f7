"""Events: small records beside the conversation, numbered in the order in which they came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.log.ids import check_id, shown
from clew.core.log.keys import given_id
from clew.core.log.records import decoder, json_in
from clew.core.log.rows import EventRow, SessionRow
from clew.core.messages.codec import encode_json
from clew.core.runs.access import Access, require_write_beside
from clew.errors import InvalidError, InvalidQueryError, KeyReusedError
from clew.model import Event, EventCounts, Json, utc

_FIELDS: Final = ("type", "data", "stream", "id")


class EventDraft(msgspec.Struct, frozen=True, gc=False):
    """An event that was found good, and has no number yet."""

    type: str
    stream: str
    id: str | None
    data: bytes


class _Cap(msgspec.Struct, frozen=True):
    """The one retention rule that is applied as events are added."""

    max_events: int | None = None
    keep_tags: tuple[str, ...] = ()


_decode_cap = decoder(_Cap, "the record of the retention rules")


def draft_of(type: str, data: Json, stream: str, id: str | None, prefix: str = "") -> EventDraft:
    """Check an event; `prefix` says where it stands, for errors."""
    check_id(type, f"{prefix}type")
    if stream != "":
        check_id(stream, f"{prefix}stream")
    if id is not None:
        check_id(id, f"{prefix}id")
    return EventDraft(type, stream, id, encode_json(data, what=f"{prefix}data"))


def drafts_of(events: Iterable[Mapping[str, Json]]) -> list[EventDraft]:
    """Check the events of a batch."""
    if isinstance(events, (str, bytes, Mapping)) or not isinstance(events, Iterable):
        raise InvalidError(f"add_events takes a list of mappings, not {type(events).__name__}")
    return [_draft_at(index, event) for index, event in enumerate(events)]


def _draft_at(index: int, event: Any) -> EventDraft:
    if not isinstance(event, Mapping):
        raise InvalidError(f"events[{index}] must be a mapping, not {type(event).__name__}")
    for key in event:
        if key not in _FIELDS:
            raise InvalidError(f"events[{index}] has the unknown key {key!r}; known are {', '.join(_FIELDS)}")
    if "type" not in event:
        raise InvalidError(f"events[{index}] has no 'type'")
    return draft_of(
        event["type"], event.get("data"), event.get("stream", ""), event.get("id"), f"events[{index}]."
    )


def add(tx: Transaction, access: Access, drafts: Sequence[EventDraft], now: int) -> list[Event]:
    """Write the events, all of them or none. One whose id is known already is not written again."""
    row = require_write_beside(tx, access)
    oldest, newest = tx.event_bounds(row.sid)
    found, fresh = _numbered(tx, row, drafts, newest, now)
    if fresh:
        tx.add_events(row.sid, fresh)
        cap = max_events(tx, row.sid)
        if cap is not None and fresh[-1].number - cap >= oldest:
            tx.drop_events(row.sid, fresh[-1].number - cap)
    return [event_of(event) for event in found]


def _numbered(
    tx: Transaction, row: SessionRow, drafts: Sequence[EventDraft], newest: int, now: int
) -> tuple[list[EventRow], list[EventRow]]:
    """The event of each draft, and those of them that are new."""
    found: list[EventRow] = []
    fresh: list[EventRow] = []
    by_id: dict[str, EventRow] = {}
    for draft in drafts:
        known = None
        if draft.id is not None:
            known = by_id.get(draft.id) or tx.find_event(row.sid, draft.id)
        if known is None:
            newest += 1
            known = EventRow(newest, now, draft.stream, draft.type, draft.id, draft.data)
            fresh.append(known)
        elif (known.type, known.stream, known.data) != (draft.type, draft.stream, draft.data):
            raise KeyReusedError(row.id, known.id or "", "event id")
        if known.id is not None:
            by_id[known.id] = known
        found.append(known)
    return found, fresh


def max_events(reader: Reader, sid: int) -> int | None:
    """How many events of a session stay; None: all."""
    value = reader.get_record(STORE_WIDE, "retention", "rules")
    rules = None if value is None else _decode_cap(value)
    if rules is None or rules.max_events is None:
        return None
    if rules.keep_tags and not set(rules.keep_tags).isdisjoint(reader.get_details(sid).tags):
        return None
    # The newest one always stays: it holds the count of all that there ever were.
    return max(rules.max_events, 1)


def read(reader: Reader, sid: int, after: int, stream: str | None, limit: int) -> list[Event]:
    return [event_of(row) for row in reader.read_events(sid, after, limit, stream)]


def check_stream(stream: str | None) -> None:
    """The name of a stream, "" for the events of none, or None for all."""
    if stream:
        check_id(stream, "stream")
    elif stream is not None and stream != "":
        raise InvalidQueryError(f"stream must be text, not {shown(stream)}")


def counts(reader: Reader, sid: int) -> EventCounts:
    oldest, newest = reader.event_bounds(sid)
    return EventCounts(added=newest, kept=newest - oldest + 1, dropped=oldest - 1)


def event_of(row: EventRow) -> Event:
    return Event(
        cursor=row.number,
        type=row.type,
        data=json_in(row.data, f"event {row.number}"),
        stream=row.stream,
        id=given_id(row.id),
        at=utc(row.time),
    )
