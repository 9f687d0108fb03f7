"""Sessions of OpenCode: its SQLite database, the JSON files before 1.2, and what `opencode export` writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from clew.importers.contract import (
    OnBytes,
    OnProblem,
    SourceEntry,
    SourceEvent,
    SourceSession,
    SourceUsage,
)
from clew.importers.programs.opencode.messages import (
    StoredMessage,
    asks_for_summary,
    is_compaction,
    said,
    summary_text,
    usage_of,
)
from clew.importers.programs.opencode.sources import InDatabase, Stored, from_document
from clew.importers.reading.beginning import has_keys
from clew.importers.reading.ids import digest, session_id, version
from clew.importers.reading.sqlite import is_sqlite, opened, reporting, rows, tables
from clew.importers.reading.values import mapping, plain_name, text, when, without
from clew.model import Json

NAME: Final = "opencode"

_TABLES: Final = frozenset({"session", "message", "part"})
_TOLD: Final = frozenset({"id", "title", "directory", "time", "parentID", "time_created", "time_updated"})
_FORK: Final = re.compile(r" \(fork #\d+\)$")


def recognises(path: Path, beginning: bytes) -> bool:
    if is_sqlite(beginning):
        return tables(path) >= _TABLES
    if path.is_dir():
        # Neither is to be searched for anything else: beside them lie copies of the user's own files.
        stores = (path, path / "storage")
        return any((store / "session").is_dir() and (store / "message").is_dir() for store in stores)
    is_session = has_keys(beginning, "id", "projectID") or has_keys(beginning, "info", "messages")
    return is_session and b'"ses_' in beginning


def known_places(home: Path) -> list[Path]:
    return [home / ".local" / "share" / "opencode"]


def files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    storage = path if (path / "session").is_dir() else path / "storage"
    # The names of sessions count down: the oldest has the last one.
    return [
        *sorted((storage / "session").glob("*/ses_*.json"), reverse=True),
        *sorted(path.glob("opencode*.db")),
    ]


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    with path.open("rb") as file:
        beginning = file.read(16)
    if not is_sqlite(beginning):
        stored = from_document(path, on_problem, on_bytes)
        if stored is not None:
            yield _session(stored, _Paid(), None)
        return
    with reporting(path, on_problem), opened(path) as db:
        paid = _Paid()
        listed = _parents_first(list(rows(db, "SELECT * FROM session ORDER BY time_created, id")))
        titles = {str(row.get("title")): str(row["id"]) for row in reversed(listed)}
        for row in listed:
            # A fork does not say of what, except by its title.
            base, forks = _FORK.subn("", str(row.get("title")))
            yield _session(InDatabase(db, row, path, on_problem), paid, titles.get(base) if forks else None)
    on_bytes(path.stat().st_size)


def _parents_first(listed: list[dict[str, Json]]) -> list[dict[str, Json]]:
    waiting = {str(row["id"]): row for row in listed}
    ordered: list[dict[str, Json]] = []

    for row in listed:
        line: list[dict[str, Json]] = []
        above: Json = row["id"]
        while isinstance(above, str) and above in waiting:
            line.append(waiting.pop(above))
            above = line[-1].get("parent_id")
        ordered += reversed(line)
    return ordered


class _Paid:
    """Calls that were told of. A fork copies messages under new ids: the same call is not paid twice."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def once(self, stored: StoredMessage) -> SourceUsage | None:
        usage = usage_of(stored)
        if usage is None:
            return None
        data = stored.data
        moment = data.get("time") or stored.id
        call = digest([moment, data.get("modelID"), data.get("tokens"), data.get("cost")])
        if call in self._seen:
            return None
        self._seen.add(call)
        return usage


class _Walk:
    def __init__(self, stored: Stored, paid: _Paid) -> None:
        self._stored = stored
        self._paid = paid
        self._revert = mapping(stored.info.get("revert"))
        self._is_agent = text(stored.info.get("parentID")) is not None
        """Started by another session, whose model wrote the prompts."""
        self._first: dict[str, str] = {}  # the first entry of each message
        self._tails: dict[str, str] = {}  # what a request for a summary wants to keep
        self._beside: list[SourceEvent] = []
        self.head: str | None = None
        self.model, self.vendor = _model_in(stored.info)

    def entries(self) -> Iterator[SourceEntry]:
        parent: str | None = None
        reverted = False
        for stored in self._stored.messages():
            if stored.id == self._revert.get("messageID"):
                reverted = True
                yield from self._before_revert(stored, parent)
            self._remember(stored)
            if asks_for_summary(stored):
                self._beside.append(_request(stored))
                continue
            for entry in self._entries_of(stored, parent):
                self._first.setdefault(stored.id, entry.uid)
                yield entry
                parent = entry.uid
            if not reverted:
                self.head = parent

    def events(self) -> list[SourceEvent]:
        """Those behind the last entry."""
        return self._beside

    def _remember(self, stored: StoredMessage) -> None:
        model, vendor = _model_in(stored.data)
        if model is not None:
            self.model, self.vendor = model, vendor or self.vendor
        for _, part in stored.parts:
            if kept := text(part.get("tail_start_id")):
                self._tails[stored.id] = kept

    def _before_revert(self, stored: StoredMessage, parent: str | None) -> Iterator[SourceEntry]:
        """What a revert into the middle of a message left of it."""
        names = [name for name, _ in stored.parts]
        part = self._revert.get("partID")
        if part in names[1:]:
            rest = stored._replace(parts=stored.parts[: names.index(part)])
            for entry in self._entries_of(rest, parent):
                yield entry
                self.head = entry.uid

    def _entries_of(self, stored: StoredMessage, parent: str | None) -> Iterator[SourceEntry]:
        uid = version(parent, stored.id, digest([stored.data, stored.parts]))
        at = when(mapping(stored.data.get("time")).get("created"))
        usage = self._paid.once(stored)
        events, self._beside = tuple(self._beside), []
        if is_compaction(stored):
            notes: dict[str, Json] = {"source": {**stored.data, "id": stored.id}}
            message = self._compacted(stored)
            yield SourceEntry(
                uid=uid,
                parent=parent,
                message=message,
                kind="compaction",
                at=at,
                usage=usage,
                notes=notes,
                events=events,
            )
            return
        for each in said(stored):
            entry = SourceEntry(
                uid=uid + each.suffix,
                parent=parent,
                message=each.message,
                at=at,
                usage=usage,
                human=False if self._is_agent and stored.data.get("role") != "assistant" else each.human,
                events=events,
                notes={"source": each.kept} if each.kept else {},
            )
            yield entry
            parent, usage, events = entry.uid, None, ()

    def _compacted(self, summary: StoredMessage) -> dict[str, Json]:
        """The summary, and the first message before it that was kept as it is."""
        told: dict[str, Json] = {"text": summary_text(summary)}
        kept = self._tails.get(str(summary.data.get("parentID")))
        return {**told, "from": self._first[kept]} if kept in self._first else told


def _model_in(data: dict[str, Json]) -> tuple[str | None, str | None]:
    """Model and vendor. Answers name them side by side, prompts and sessions in an object."""
    told = mapping(data.get("model")) or data
    model = plain_name(told.get("modelID")) or (plain_name(told.get("id")) if told is not data else None)
    return model, plain_name(told.get("providerID"))


def _request(stored: StoredMessage) -> SourceEvent:
    told: Json = {**stored.data, "parts": [{"id": name, **part} for name, part in stored.parts]}
    at = when(mapping(stored.data.get("time")).get("created"))
    return SourceEvent(id=stored.id, type="compaction", data=told, at=at)


def _session(stored: Stored, paid: _Paid, origin: str | None) -> SourceSession:
    info = stored.info
    walk = _Walk(stored, paid)
    above = text(info.get("parentID")) or origin
    return SourceSession(
        id=session_id(NAME, info["id"]),
        aliases=(info["id"],),
        entries=walk.entries(),
        head=lambda: walk.head,
        title=plain_name(info.get("title")),
        workspace=plain_name(info.get("directory")),
        created_at=when(mapping(info.get("time")).get("created")),
        metadata=without(info, _TOLD),
        parent=session_id(NAME, above) if above else None,
        events=walk.events,
        updates=lambda: {"model": walk.model, "vendor": walk.vendor},
    )
