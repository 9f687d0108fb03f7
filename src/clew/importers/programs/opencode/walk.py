"""A session of OpenCode as entries in their places, with its calls and what stands beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from clew.importers.contract import SourceEntry, SourceEvent, SourceSession, SourceUsage
from clew.importers.programs.opencode.database import Known
from clew.importers.programs.opencode.messages import (
    StoredMessage,
    asks_for_summary,
    is_compaction,
    said,
    summary_text,
    usage_of,
)
from clew.importers.programs.opencode.stored import Stored
from clew.importers.reading import turns
from clew.importers.reading.values import (
    digest,
    mapping,
    plain_name,
    session_id,
    text,
    version,
    when,
    without,
)
from clew.model import Json

_PROGRAM: Final = "opencode"
_RENAMED: Final = {"agent": "mode"}
"""What it calls an agent is a way of working, such as "build"; the agent is OpenCode."""
_TOLD: Final = frozenset({"id", "title", "directory", "time_created", "time_updated"})


class Paid:
    """Calls that were told of. A fork copies messages under new ids: the same call is not paid twice."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def once(self, stored: StoredMessage) -> SourceUsage | None:
        usage = usage_of(stored)
        if usage is None or self.is_told(stored):
            return None
        self.tell(stored)
        return usage

    def is_told(self, stored: StoredMessage) -> bool:
        return self._name(stored) in self._seen

    def tell(self, stored: StoredMessage) -> None:
        self._seen.add(self._name(stored))

    def _name(self, stored: StoredMessage) -> str:
        data = stored.data
        moment = data.get("time") or stored.id
        return digest([moment, data.get("modelID"), data.get("tokens"), data.get("cost")])


class Walk:
    """The messages of a session as entries. `known`: what stands before them was read."""

    def __init__(self, stored: Stored, paid: Paid, known: Known | None = None) -> None:
        self._stored = stored
        self._paid = paid
        self._revert = mapping(stored.info.get("revert"))
        self._is_agent = text(stored.info.get("parentID")) is not None
        """Started by another session, whose model wrote the prompts."""
        self._first: dict[str, str] = {}  # the first entry of each message
        self._tails: dict[str, str] = {}  # what a request for a summary wants to keep
        self._beside: list[SourceEvent] = []
        self.end = self.head = None if known is None else known.end
        self.told: tuple[str | None, str | None] = (None, None)
        """Model and vendor, as messages tell them."""
        self.turn: turns.Told = None
        self.model, self.vendor = _model_in(stored.info)
        if known is not None and known.model is not None:
            self.model, self.vendor = self.told = known.model, known.vendor or self.vendor

    def entries(self) -> Iterator[SourceEntry]:
        parent = self.end
        reverted = False
        for stored in self._stored.messages():
            if stored.id == self._revert.get("messageID"):
                reverted = True
                yield from self._before_revert(stored, parent)
            self._remember(stored)
            self.turn = turns.opencode(stored.data, [part for _, part in stored.parts])
            if asks_for_summary(stored):
                self._beside.append(_request(stored))
                continue
            for entry in self._entries_of(stored, parent):
                self._first.setdefault(stored.id, entry.uid)
                yield entry
                self.end = parent = entry.uid
            if not reverted:
                self.head = parent

    def events(self) -> list[SourceEvent]:
        """Those behind the last entry."""
        return self._beside

    def _remember(self, stored: StoredMessage) -> None:
        model, vendor = _model_in(stored.data)
        if model is not None:
            self.model, self.vendor = self.told = model, vendor or self.vendor
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
        uid = version(parent, stored.id, digest(_lasting(stored)))
        at = when(mapping(stored.data.get("time")).get("created"))
        usage = self._paid.once(stored)
        events, self._beside = tuple(self._beside), []
        if is_compaction(stored):
            notes: dict[str, Json] = {"source": {**stored.data, "id": stored.id, "parts": _but_words(stored)}}
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


def _lasting(stored: StoredMessage) -> Json:
    """A message without what the program notes on it long after it was made: what changed on the disk since a
    prompt, and that the output of a tool is not shown to the model any more."""
    data, parts = stored.data, stored.parts
    if data.get("role") == "user" and isinstance(data.get("summary"), dict):
        data = without(data, ("summary",))
    return [data, [(name, _shown(part)) for name, part in parts]]


def _shown(part: dict[str, Json]) -> dict[str, Json]:
    state = mapping(part.get("state"))
    times = mapping(state.get("time"))
    if "compacted" not in times:
        return part
    return {**part, "state": {**state, "time": without(times, ("compacted",))}}


def _but_words(summary: StoredMessage) -> list[Json]:
    """The parts of a summary, without its words: these are the compaction. Where several parts have words, no
    other place says which has which."""
    is_one = sum(part.get("type") == "text" for _, part in summary.parts) == 1
    return [
        {"id": name, **without(part, ("text",) if is_one and part.get("type") == "text" else ())}
        for name, part in summary.parts
    ]


def _model_in(data: dict[str, Json]) -> tuple[str | None, str | None]:
    """Model and vendor. Answers name them side by side, prompts and sessions in an object."""
    told = mapping(data.get("model")) or data
    model = plain_name(told.get("modelID")) or (plain_name(told.get("id")) if told is not data else None)
    return model, plain_name(told.get("providerID"))


def _request(stored: StoredMessage) -> SourceEvent:
    told: Json = {**stored.data, "parts": [{"id": name, **part} for name, part in stored.parts]}
    at = when(mapping(stored.data.get("time")).get("created"))
    return SourceEvent(id=stored.id, type="compaction", data=told, at=at)


def session_of(walk: Walk, info: dict[str, Json], origin: str | None) -> SourceSession:
    spawner = text(info.get("parentID"))
    above = spawner or origin
    return SourceSession(
        id=session_id(_PROGRAM, info["id"]),
        aliases=(info["id"],),
        entries=walk.entries(),
        head=lambda: walk.head,
        turn=lambda: walk.turn,
        title=plain_name(info.get("title")),
        workspace=plain_name(info.get("directory")),
        created_at=when(mapping(info.get("time")).get("created")),
        metadata={_RENAMED.get(name, name): value for name, value in without(info, _TOLD).items()},
        parent=session_id(_PROGRAM, above) if above else None,
        is_copy=spawner is None,
        events=walk.events,
        updates=lambda: {"model": walk.model, "vendor": walk.vendor},
    )
