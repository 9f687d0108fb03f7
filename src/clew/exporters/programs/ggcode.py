"""A session as a log of ggcode. Of one that came from ggcode: the same records in the same order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import NAMESPACE_OID, uuid5

from clew.exporters.programs.shapes import ZERO_TIME, as_ggcode, go_json, go_time
from clew.exporters.redact import Redactor, redactor_of
from clew.model import Entry, Event, Json

if TYPE_CHECKING:
    from clew.session import Session
    from clew.store import Store

_STREAM: Final = "ggcode"
_MESSAGES: Final = "checkpoint_messages"
_LONGEST_TITLE: Final = 500
_LONGEST_ID: Final = 128
_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9_-]")


def pieces(store: Store, id: str, *, redact: bool | Redactor = False) -> Iterator[bytes]:
    redactor = redactor_of(redact)
    for number, record in enumerate(_Records(store.get(id)).all(), start=1):
        clean = redactor.value(record, f"line {number}") if redactor else record
        yield go_json(clean, html=False) + b"\n"


class _Records:
    """The path and what lies beside it, brought into one order."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._info = session.info
        self._meta: dict[str, Json] = {}

    def all(self) -> Iterator[dict[str, Json]]:
        has_meta, told = False, set[str]()
        for event in self._beside():
            if record := _record_of(event):
                has_meta = has_meta or event.type == "meta"
                told.add(_tunnel_id(record))
        if not has_meta:
            yield self._new_meta()
        beside = _Queue(event for event in self._beside() if _record_of(event))
        added = _Queue(
            event for event in self._beside() if not _record_of(event) and _own_id(event) not in told
        )
        for entry in self._session.entries():
            yield from map(self._told, beside.take(partial(_is_placed_before, entry)))
            yield from map(self._tunnel_event, added.take(partial(_came_before, entry)))
            yield from self._record(entry)
        yield from map(self._told, beside.take(lambda _: True))
        yield from map(self._tunnel_event, added.take(lambda _: True))
        if self._meta and (changes := self._changes()):
            # Each record of this type replaces those before it, so it says all that they said.
            yield {**self._meta, **changes, "updated_at": go_time(self._info.updated_at)}

    def _beside(self) -> Iterator[Event]:
        cursor: Event | None = None
        while page := self._session.events(after=cursor, stream=_STREAM):
            yield from page
            cursor = page[-1]

    def _told(self, event: Event) -> dict[str, Json]:
        record: dict[str, Json] = event.data["record"]
        if event.type == "meta":
            self._meta = _joined(self._meta, record)
        return record

    def _tunnel_event(self, event: Event) -> dict[str, Json]:
        """One that was added here."""
        said = {"event_id": _own_id(event), "stream_id": "", "type": event.type, "data": event.data}
        times = {"created_at": ZERO_TIME, "updated_at": ZERO_TIME}
        record = {"type": "tunnel_event", "session_id": self._id(), **times, "tunnel_event": said}
        return {**record, "timestamp": go_time(event.at)}

    def _record(self, entry: Entry) -> Iterator[dict[str, Json]]:
        if entry.kind == "message":
            yield self._message(entry)
        elif entry.kind in ("compaction", "truncation"):
            yield self._checkpoint(entry)

    def _message(self, entry: Entry) -> dict[str, Json]:
        around = entry.annotations.get("record")
        if not isinstance(around, dict):
            around = self._usual()
            if "timestamp" in around:
                around = {**around, "timestamp": go_time(entry.time)}
        return {name: self._said(entry) if name == "message" else value for name, value in around.items()}

    def _said(self, entry: Entry) -> dict[str, Json]:
        """With an id, unless it may be from a log without any: ggcode drops what was said before in the same
        words and has none."""
        said = as_ggcode(entry.message)
        metadata = self._info.metadata
        if "id" in said or ("envelope" in metadata and not metadata.get("message_ids")):
            return said
        return {"id": f"msg_{uuid5(NAMESPACE_OID, entry.id)}", **said}

    def _usual(self) -> dict[str, Json]:
        usual = self._info.metadata.get("envelope")
        if isinstance(usual, dict) and "message" in usual:
            return usual
        times = {"created_at": ZERO_TIME, "updated_at": ZERO_TIME}
        return {"type": "message", "session_id": self._id(), **times, "message": None, "timestamp": None}

    def _checkpoint(self, entry: Entry) -> dict[str, Json]:
        mark = entry.message
        known = entry.annotations.get("record")
        if isinstance(known, dict):
            return {
                name: mark["messages"] if name == _MESSAGES and value is None else value
                for name, value in known.items()
            }
        start = mark["start"]
        kept = self._session.messages(after=start - 1 if start else None, before=entry)
        said = [as_ggcode(message) for message in (*mark.get("messages", ()), *kept)]
        record: dict[str, Json] = {"type": "checkpoint", "session_id": self._id(), _MESSAGES: said}
        return {**record, "checkpoint_tokens": mark.get("tokens") or 0, "timestamp": go_time(entry.time)}

    def _new_meta(self) -> dict[str, Json]:
        info = self._info
        told = {
            "title": info.title or "New session",
            "workspace": info.workspace_given,
            "vendor": info.vendor,
            "endpoint": info.endpoint or info.metadata.get("endpoint"),
            "model": info.model,
        }
        times = {"created_at": go_time(info.created_at), "updated_at": go_time(info.updated_at)}
        return {
            "type": "meta",
            "session_id": self._id(),
            **{name: value for name, value in told.items() if value},
            **times,
        }

    def _changes(self) -> dict[str, Json]:
        """What was set here since: the title, or what the session works with."""
        info = self._info
        now = {
            "title": None if info.title_is_auto else info.title,
            "workspace": info.workspace_given,
            "vendor": info.vendor,
            "endpoint": info.endpoint,
            "model": info.model,
        }
        return {name: value for name, value in now.items() if value and value != self._known(name)}

    def _known(self, name: str) -> Json:
        """What the records say, as an import keeps it."""
        told = self._meta.get(name)
        if not isinstance(told, str):
            return told
        told = told.encode(errors="replace").decode().replace("\0", "")
        return told[:_LONGEST_TITLE].strip() if name == "title" else told

    def _id(self) -> str:
        envelope = self._info.metadata.get("envelope")
        places = (self._info.metadata, envelope if isinstance(envelope, dict) else {})
        known = next((id for place in places if isinstance(id := place.get("session_id"), str) and id), None)
        return known or _as_id(self._info.id.removeprefix(f"{_STREAM}:"))


def _joined(meta: dict[str, Json], later: dict[str, Json]) -> dict[str, Json]:
    """As ggcode reads them: later records win, but not with nothing."""
    return {**meta, **{name: value for name, value in later.items() if name not in meta or _says(value)}}


def _says(value: Json) -> bool:
    return value is False or (bool(value) and value != ZERO_TIME)


def _as_id(id: str) -> str:
    """An id that ggcode takes: it refuses all that could not be the name of a file."""
    return _NOT_IN_IDS.sub("_", id).lstrip("-")[:_LONGEST_ID]


def _record_of(event: Event) -> dict[str, Json] | None:
    """The record that an import kept; None: the event was added here."""
    data = event.data if isinstance(event.data, dict) else {}
    record, position = data.get("record"), data.get("position")
    return record if isinstance(record, dict) and isinstance(position, int) else None


def _is_placed_before(entry: Entry, event: Event) -> bool:
    position: int = event.data["position"]
    return position <= entry.position


def _came_before(entry: Entry, event: Event) -> bool:
    return event.at < entry.time


class _Queue:
    """Events in their order, taken as long as they fit."""

    def __init__(self, events: Iterator[Event]) -> None:
        self._events = events
        self._next = next(events, None)

    def take(self, fits: Callable[[Event], bool]) -> Iterator[Event]:
        while self._next is not None and fits(self._next):
            yield self._next
            self._next = next(self._events, None)


def _own_id(event: Event) -> str:
    return event.id or f"clew-{event.cursor}"


def _tunnel_id(record: dict[str, Json]) -> str:
    told = record.get("tunnel_event")
    return str(told.get("event_id")) if isinstance(told, dict) else ""
