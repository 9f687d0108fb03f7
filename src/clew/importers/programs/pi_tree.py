"""The tree in a file of pi: entries by their ids, and what is kept beside the conversation."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from clew.importers.contract import (
    OnProblem,
    Problem,
    SourceCheckpoint,
    SourceEntry,
    SourceEvent,
)
from clew.importers.programs.pi_messages import converted, is_injected, usage_of
from clew.importers.reading.ids import digest, version
from clew.importers.reading.jsonlines import Line
from clew.importers.reading.values import count, kind, mapping, plain_name, text, when, without
from clew.model import Json

_SAID: Final = frozenset({"message", "branch_summary", "custom_message", "compaction"})
_PLACE: Final = frozenset({"type", "id", "parentId", "timestamp"})
_OF_COMPACTION: Final = frozenset({"type", "parentId", "timestamp", "summary"})
_OF_MESSAGE: Final = frozenset({"message", "content", "summary", "parentId"})
"""What a line tells that has a place elsewhere."""


class _Node(NamedTuple):
    number: int
    """Counts the lines: what stands above has a lower one."""
    above: str | None
    """The id of its parent."""
    uid: str | None
    """Of the entry that it is, or of the nearest above it; None: there is none."""
    is_message: bool


class PiTree:
    """Reads line after line, and keeps of each no more than its names."""

    def __init__(self, path: Path, header: dict[str, Json], on_problem: OnProblem) -> None:
        self._path = path
        self._on_problem = on_problem
        self._is_flat = "version" not in header or header["version"] == 1
        self._copied_before = _birth_of_fork(path, header)
        self._nodes: dict[str, _Node] = {}
        self._order: list[str | None] = [None]  # by the number of the line's record; the header is 0
        self._last: str | None = None
        self._uids: set[str] = set()
        self._labels: dict[str, str | None] = {}
        self._beside: list[SourceEvent] = []
        self.title: str | None = None
        self.model: str | None = None
        self.vendor: str | None = None

    @property
    def head(self) -> str | None:
        return self._nodes[self._last].uid if self._last else None

    def checkpoints(self) -> Iterator[SourceCheckpoint]:
        names: set[str] = set()
        for target, label in self._labels.items():
            if label is None or target not in self._nodes:
                continue
            name = label if label not in names else f"{label} ({target})"
            names.add(name)
            yield SourceCheckpoint(name=name, entry=self._nodes[target].uid)

    def events(self) -> list[SourceEvent]:
        """Those behind the last entry."""
        return self._beside

    def entries(self, lines: Iterator[Line]) -> Iterator[SourceEntry]:
        for line in lines:
            record = line.record
            if record.get("type") == "session":
                continue
            key = f"#{len(self._order)}" if self._is_flat else text(record.get("id"))
            above = self._above(line, key)
            self._order.append(key)
            entry = None
            if key and kind(record.get("type")) in _SAID:
                entry = self._entry(record, above)
            else:
                self._keep(line)
            if key is None:
                continue
            inherited = self._nodes[above].uid if above else None
            is_message = entry is not None and entry.kind == "message"
            self._nodes[key] = _Node(len(self._order), above, entry.uid if entry else inherited, is_message)
            self._last = key
            if entry and entry.uid not in self._uids:
                self._uids.add(entry.uid)
                self._beside = []
                yield entry

    def _above(self, line: Line, key: str | None) -> str | None:
        if self._is_flat:
            return self._last
        parent = text(line.record.get("parentId"))
        reason = f"the entry before it, {parent!r}, is not in the file"
        if parent is not None and parent == key:
            reason = "it names itself as the entry before it"
        elif parent is None or parent in self._nodes:
            return parent
        # Its line was lost. Behind the entry before it, the conversation stays whole.
        self._on_problem(Problem(path=str(self._path), line=line.number, reason=reason))
        return self._last

    def _entry(self, record: dict[str, Json], above: str | None) -> SourceEntry:
        parent = self._nodes[above].uid if above else None
        at = when(record.get("timestamp"))
        events = tuple(self._beside)
        if record["type"] == "compaction":
            # Ids are new in version 2, which rewrites the files of version 1 in place: names must not change.
            told = [record.get(name) for name in ("timestamp", "summary", "tokensBefore")]
            kept = without(record, _OF_COMPACTION)
            return SourceEntry(
                uid=version(parent, "compaction", digest(told)),
                parent=parent,
                message=self._compacted(record, above),
                kind="compaction",
                at=at,
                notes={"source": kept},
                decoded=True,
                events=events,
            )
        stored = _stored(record)
        uid = version(parent, str(record["type"]), digest([record.get("timestamp"), stored]))
        message, rest = converted(stored)
        self._use(stored.get("model"), stored.get("provider"))
        kept = {**without(record, _OF_MESSAGE), **rest}
        return SourceEntry(
            uid=uid,
            parent=parent,
            message=message,
            at=at or when(stored.get("timestamp")),
            human=False if is_injected(stored) else None,
            usage=None if self._is_copy(at) else usage_of(stored, uid),
            notes={"source": kept},
            decoded=True,
            events=events,
        )

    def _use(self, model: Json, vendor: Json) -> None:
        """The model with which the session goes on."""
        if plain_name(model):
            self.model, self.vendor = plain_name(model), plain_name(vendor) or self.vendor

    def _is_copy(self, at: datetime | None) -> bool:
        return self._copied_before is not None and at is not None and at < self._copied_before

    def _compacted(self, record: dict[str, Json], above: str | None) -> dict[str, Json]:
        """The summary, and the first entry before it that was kept as it is."""
        told: dict[str, Json] = {"text": text(record.get("summary")) or ""}
        if tokens := count(record.get("tokensBefore")):
            told["tokens"] = tokens
        first: Json = record.get("firstKeptEntryId")
        number = record.get("firstKeptEntryIndex")
        if first is None and isinstance(number, int) and 0 < number < len(self._order):
            first = self._order[number]
        kept: str | None = None
        at, below = (above if isinstance(first, str) else None), len(self._order) + 1
        while at is not None:
            node = self._nodes[at]
            if node.number >= below:  # an id that came twice: lines could lead round and round
                break
            below = node.number
            kept = node.uid if node.is_message else kept
            if at == first:
                return {**told, "from": kept} if kept else told
            at = node.above
        return told

    def _keep(self, line: Line) -> None:
        record = line.record
        match record.get("type"):
            case "session_info":
                self.title = plain_name(record.get("name")) or self.title
            case "label":
                self._labels[str(record.get("targetId"))] = text(record.get("label"))
            case other:
                if other == "model_change":
                    self._use(record.get("modelId"), record.get("provider"))
                event = SourceEvent(
                    id=f"line-{line.number}",
                    type=kind(other) or "record",
                    data=without(record, _PLACE),
                    at=when(record.get("timestamp")),
                )
                self._beside.append(event)


def _stored(record: dict[str, Json]) -> dict[str, Json]:
    """The message in a line. Version 3 calls custom what was a hookMessage."""
    if record.get("type") != "message":
        return {"role": "custom", "content": record.get("content", record.get("summary"))}
    message = mapping(record.get("message"))
    return {**message, "role": "custom"} if message.get("role") == "hookMessage" else message


def _birth_of_fork(path: Path, header: dict[str, Json]) -> datetime | None:
    """A fork begins with a copy of what was before it. What its source tells of is not paid again."""
    source = text(header.get("parentSession"))
    if source is None:
        return None
    is_there = Path(source).is_file() or (path.parent / Path(source).name).is_file()
    return when(header.get("timestamp")) if is_there else None
