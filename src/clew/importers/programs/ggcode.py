"""ggcode: a log of records told apart by `type`, `~/.ggcode/sessions/<id>.jsonl`.

Messages and checkpoints become the path, in the order of the file. Every other record becomes an event
that knows its place between them, so that an export is the same log again; what a record of usage counts
is counted too. index.json beside the logs is a cache of theirs, and is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from clew.importers.contract import (
    OnBytes,
    OnProblem,
    Problem,
    SourceEntry,
    SourceEvent,
    SourceSession,
    SourceUsage,
)
from clew.importers.reading import values
from clew.importers.reading.files import first_objects
from clew.importers.reading.jsonlines import object_of, read_lines
from clew.importers.reading.values import Counted, digest, link, name_after, session_id
from clew.importers.unpacking import take_holes
from clew.model import Json

NAME: Final = "ggcode"
_TYPES: Final = frozenset({"meta", "message", "checkpoint", "tunnel_event", "cost", "usage", "metric"})
_BACKFILLED: Final = timedelta(milliseconds=1)
_CLEARED: Final[Json] = {
    "role": "system",
    "content": [{"type": "text", "text": "[The history was cleared.]"}],
}
_POINTERS: Final = frozenset({"checkpoint_summary_msg_id", "checkpoint_last_msg_id"})
_EXACT_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,5}[1-9])?Z")
"""A time that a store keeps to the letter: in UTC, no finer than a microsecond, no zeros at its end."""


def recognises(path: Path, beginning: bytes) -> bool:
    """By its first record: one of ggcode's names its session, or holds what its type says."""
    for record in first_objects(beginning, most=3):
        kind = values.kind(record.get("type"))
        if kind in _TYPES and ("session_id" in record or isinstance(record.get(kind), dict)):
            return path.suffix != ".tmp"
    return False


def known_places(home: Path) -> list[Path]:
    return [home / ".ggcode" / "sessions"]


def files(path: Path) -> list[Path]:
    """Ids begin with the time, so names sort by age."""
    return sorted(path.glob("*.jsonl")) if path.is_dir() else [path]


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    ahead = look_ahead(path)
    log = _Log(path, ahead, on_problem)
    meta = ahead.meta
    base = values.text(meta.get("parent_session_id"))
    own = ahead.session_id() or path.stem
    yield SourceSession(
        id=session_id(NAME, own),
        aliases=(own,),
        entries=log.entries(on_bytes),
        head=lambda: log.head,
        title=(values.text(meta.get("title")) or "")[:500] or None,
        workspace=values.text(meta.get("workspace")),
        model=values.text(meta.get("model")),
        vendor=values.text(meta.get("vendor")),
        endpoint=values.text(meta.get("endpoint")),
        created_at=values.when(meta.get("created_at")),
        metadata=ahead.metadata(),
        parent=session_id(NAME, base) if base else None,
        is_copy=True,
        events=lambda: log.events,
        usage=lambda: log.usage,
        updates=lambda: {"metadata": {"message_ids": True}} if log.has_ids else {},
    )


class _Log:
    """One log while it is read."""

    def __init__(self, path: Path, ahead: Ahead, on_problem: OnProblem) -> None:
        self.head: str | None = None
        self.events: list[SourceEvent] = []
        """Since the last entry."""
        self.usage: list[SourceUsage] = []
        self.has_ids = True
        """All messages have ids: the log is of a version that tells messages apart by them."""
        self._length = 0
        self._event_names, self._call_names = Counted(), Counted()
        self._path = path
        self._ahead = ahead
        self._on_problem = on_problem
        self._time: datetime | None = None
        self._ids: dict[str, str] = {}
        self._named: dict[str, Json] = {}
        self._since: dict[str, list[Json]] = {}

    def entries(self, on_bytes: OnBytes) -> Iterator[SourceEntry]:
        for line in read_lines(self._path, self._on_problem, on_bytes):
            entry = self._entry(line.record, line.number)
            if entry:
                yield msgspec.structs.replace(entry, events=tuple(self.events))
                self.events.clear()
                self.head = entry.uid
                self._length += 1

    def _entry(self, record: dict[str, Json], number: int) -> SourceEntry | None:
        match record.get("type"):
            case "message" if isinstance(record.get("message"), dict):
                return self._message(record)
            case "message":
                self._tell(number, "a message record without a message")
            case "checkpoint":
                is_copy = "checkpoint_messages" in record or _POINTERS.isdisjoint(record)
                messages = _copied(record) if is_copy else self._pointed_at(record)
                if messages is not None:
                    return self._checkpoint(record, messages)
                self._tell(number, "a checkpoint of messages that the log does not have")
            case "usage":
                self.usage += _calls(record, self._call_names)
        self._keep_beside(record)
        return None

    def _keep_beside(self, record: dict[str, Json]) -> None:
        """`position` is that of the entry before which the record stands."""
        kind = values.text(record.get("type"))
        event = SourceEvent(
            id=self._event_names.name(record),
            type=kind or "unknown",
            data={"position": self._length, "record": record},
            stream=NAME,
            at=_time_of(record),
        )
        self.events.append(event)

    def _message(self, record: dict[str, Json]) -> SourceEntry | None:
        message = values.mapping(record["message"])
        # Ids came with a later version, which wrote them into older logs: they must not rename anything.
        said = digest({name: value for name, value in message.items() if name != "id"})
        id = values.text(message.get("id"))
        self.has_ids = self.has_ids and id is not None
        if id and self._is_repeated(id, said):
            return None
        self._remember(id, message)
        at = values.when(record.get("timestamp"))
        notes = self._notes(record, at)
        self._time = at
        uid = name_after(self.head, said)
        return SourceEntry(uid=uid, parent=self.head, message=message, at=at, notes=notes)

    def _is_repeated(self, id: str, said: str) -> bool:
        """The same id with the same words. The same words without an id were said twice."""
        if self._ids.get(id) == said:
            return True
        self._ids[id] = said
        return False

    def _remember(self, id: str | None, message: dict[str, Json]) -> None:
        """What a checkpoint further on will speak of, and all since."""
        for kept in self._since.values():
            kept.append(message)
        if id and id in self._ahead.named:
            self._named[id] = message
            self._since[id] = []

    def _notes(self, record: dict[str, Json], at: datetime | None) -> dict[str, Json]:
        """What cannot be told from the message, its time, and the first record of the log."""
        notes: dict[str, Json] = {}
        if at and self._time and at - self._time == _BACKFILLED:
            notes["synthetic_time"] = True
        told = record.get("timestamp")
        usual = (
            {**(self._ahead.envelope or {}), "timestamp": told} if told is not None else self._ahead.envelope
        )
        is_exact = told is None or (at is not None and _EXACT_TIME.fullmatch(str(told)))
        envelope = envelope_of(record)
        if not is_exact or envelope != usual or list(envelope) != list(self._ahead.envelope or ()):
            notes["record"] = envelope
        return notes

    def _checkpoint(self, record: dict[str, Json], messages: list[Json]) -> SourceEntry:
        left: Json = None if messages else []
        kept = {name: left if name == "checkpoint_messages" else value for name, value in record.items()}
        said = {name: value for name, value in record.items() if name.startswith("checkpoint")}
        tokens = values.count(record.get("checkpoint_tokens"))
        return SourceEntry(
            uid=link(self.head, said),
            parent=self.head,
            kind="compaction",
            message={"messages": messages or [_CLEARED], "tokens": tokens},
            at=values.when(record.get("timestamp")),
            notes={"record": kept},
        )

    def _pointed_at(self, record: dict[str, Json]) -> list[Json] | None:
        """The summary, and all behind the last message that it stands for: also what came meanwhile."""
        summary, last = record.get("checkpoint_summary_msg_id"), record.get("checkpoint_last_msg_id")
        since = self._since.get(str(last), self._since.get(str(summary)))
        told = self._named.get(str(summary))
        for id in {str(summary), str(last)}:
            self._forget(id)
        if since is None or told is None:
            return None
        return [told, *(message for message in since if message != told)]

    def _forget(self, id: str) -> None:
        """No checkpoint further on speaks of it."""
        self._ahead.named[id] = self._ahead.named.get(id, 0) - 1
        if self._ahead.named[id] <= 0:
            self._since.pop(id, None)
            self._named.pop(id, None)

    def _tell(self, number: int, reason: str) -> None:
        self._on_problem(Problem(path=str(self._path), line=number, reason=reason))


def _copied(record: dict[str, Json]) -> list[Json]:
    """Go leaves out a list that is empty: then the history was cleared."""
    return [item for item in values.items(record.get("checkpoint_messages")) if isinstance(item, dict)]


def _time_of(record: dict[str, Json]) -> datetime | None:
    for place in (record, record.get("usage_entry"), record.get("metric_event"), record.get("tunnel_event")):
        if at := values.when(values.mapping(place).get("timestamp")):
            return at
    return values.when(record.get("updated_at"))


def _calls(record: dict[str, Json], names: Counted) -> list[SourceUsage]:
    call = values.mapping(record.get("usage_entry"))
    used = values.mapping(call.get("usage"))
    read, write = values.count(used.get("cache_read_tokens")), values.count(used.get("cache_write_tokens"))
    found = SourceUsage(
        id=names.name(call),
        model=values.text(call.get("model")),
        vendor=values.text(call.get("vendor")),
        endpoint=values.text(call.get("endpoint")),
        source=values.text(call.get("source")),
        # Its input is what no cache had.
        input_tokens=values.count(used.get("input_tokens")) + read + write,
        output_tokens=values.count(used.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=write,
        at=values.when(call.get("timestamp")),
    )
    return [found] if used else []


# -- a quick first look at a log: what must be known of a session before its messages


_ZERO_TIME: Final = "0001-01-01T00:00:00Z"
_KEPT_ELSEWHERE: Final = frozenset({"type", "title", "workspace", "vendor", "model"})


class Ahead(msgspec.Struct, kw_only=True):
    meta: dict[str, Json] = {}
    """All meta records as one: later ones win, but not with nothing."""
    envelope: dict[str, Json] | None = None
    """What is around the first message; most have the same."""
    named: dict[str, int] = {}
    """The ids of messages that checkpoints speak of, and how many of them."""

    def session_id(self) -> str | None:
        """As the meta records say; in a log without one, as its first message does."""
        told = (places.get("session_id") for places in (self.meta, self.envelope or {}))
        return next((id for id in told if isinstance(id, str) and id), None)

    def metadata(self) -> dict[str, Json]:
        kept = {name: value for name, value in self.meta.items() if name not in _KEPT_ELSEWHERE}
        return {**kept, "envelope": self.envelope} if self.envelope else kept


def look_ahead(path: Path) -> Ahead:
    messages = (record for record in _lines_with(path, b'"message"') if record.get("type") == "message")
    first = next(messages, None)
    ahead = Ahead(envelope=envelope_of(first) if first else None)
    for record in _lines_with(path, b'"meta"', b'"checkpoint"'):
        if record.get("type") == "meta":
            ahead.meta |= {
                name: value for name, value in record.items() if name not in ahead.meta or _says(value)
            }
        elif record.get("type") == "checkpoint":
            names = (record.get("checkpoint_summary_msg_id"), record.get("checkpoint_last_msg_id"))
            for name in {name for name in names if isinstance(name, str)}:
                ahead.named[name] = ahead.named.get(name, 0) + 1
    return ahead


def envelope_of(record: dict[str, Json]) -> dict[str, Json]:
    """A record with an empty place where its message was."""
    return {name: None if name == "message" else value for name, value in record.items()}


def _says(value: Json) -> bool:
    """Whether it is more than nothing; a switch that is off says something."""
    return value is False or (bool(value) and value != _ZERO_TIME)


def _lines_with(path: Path, *words: bytes) -> Iterator[dict[str, Json]]:
    """The records whose line holds one of these words; they may also stand in a text."""
    with path.open("rb") as file:
        take_holes(file.fileno(), path)
        for number, line in enumerate(file, start=1):
            if any(word in line for word in words):
                record = object_of(line, number, path, _silent)
                if record is not None:
                    yield record


def _silent(_: object) -> None:
    """For another look at a file: what there was to tell is told when it is read as a whole."""
