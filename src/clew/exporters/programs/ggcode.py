"""A session as a log of ggcode. Of one that came from ggcode: the same records in the same order."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
        beside = self._beside()
        waiting = next(beside, None)
        if not any(event.type == "meta" for event in self._beside()):
            yield self._new_meta()
        for entry in self._session.entries():
            while waiting and _position(waiting) <= entry.position:
                yield self._told(waiting)
                waiting = next(beside, None)
            yield from self._record(entry)
        while waiting:
            yield self._told(waiting)
            waiting = next(beside, None)
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


def _position(event: Event) -> int:
    position: int = event.data["position"]
    return position
