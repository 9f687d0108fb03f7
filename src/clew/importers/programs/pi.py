"""Sessions of pi: an append-only tree in a file, in its versions 1 to 3."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from clew.importers.contract import (
    OnBytes,
    OnProblem,
    Problem,
    SourceCheckpoint,
    SourceEntry,
    SourceEvent,
    SourceSession,
    SourceUsage,
)
from clew.importers.reading.files import files_below, first_objects
from clew.importers.reading.jsonlines import Line, read_lines
from clew.importers.reading.seen import note_presence
from clew.importers.reading.values import (
    count,
    digest,
    items,
    kind,
    mapping,
    money,
    plain_name,
    session_id,
    text,
    version,
    when,
    without,
)
from clew.model import Json

NAME: Final = "pi"

_TOLD: Final = frozenset({"type", "id", "timestamp", "cwd"})


def recognises(path: Path, beginning: bytes) -> bool:
    first = first_objects(beginning, most=1)
    return bool(first) and first[0].get("type") == "session" and "cwd" in first[0] and "id" in first[0]


def known_places(home: Path) -> list[Path]:
    return [home / ".pi" / "agent" / "sessions"]


def files(path: Path) -> list[Path]:
    # Their names begin with the time.
    return sorted(files_below(path, ".jsonl"), key=lambda file: file.name) if path.is_dir() else [path]


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    header = _header(path)
    if header is None:
        on_problem(Problem(path=str(path), line=1, reason="no header: no line of type session"))
        return
    tree = PiTree(path, header, on_problem)
    source = text(header.get("parentSession"))
    own = text(header.get("id")) or _id_in_name(path)
    yield SourceSession(
        id=session_id(NAME, own),
        aliases=(own,),
        entries=tree.entries(read_lines(path, on_problem, on_bytes)),
        head=lambda: tree.head,
        workspace=plain_name(header.get("cwd")),
        created_at=when(header.get("timestamp")),
        metadata=without(header, _TOLD),
        parent=session_id(NAME, _id_in_name(Path(source))) if source else None,
        is_copy=True,
        checkpoints=tree.checkpoints,
        events=tree.events,
        updates=lambda: without({"title": tree.title, "model": tree.model, "vendor": tree.vendor}, ()),
    )


def _header(path: Path) -> dict[str, Json] | None:
    for line in read_lines(path, lambda _: None, lambda _: None):
        if line.record.get("type") == "session":
            return line.record
    return None


def _id_in_name(path: Path) -> str:
    """Files are called <time>_<id>.jsonl."""
    return path.stem.rpartition("_")[2]


# -- messages, in a shape that a model provider knows: Anthropic's blocks are nearest to pi's own


_INJECTED: Final = frozenset({"bashExecution", "custom", "hookMessage", "branchSummary", "compactionSummary"})


def converted(message: dict[str, Json]) -> tuple[dict[str, Json], dict[str, Json]]:
    """The message, and what of it has no place there."""
    match message.get("role"):
        case "assistant":
            content = message.get("content")
            blocks = [_block(block) for block in content] if isinstance(content, list) else content
            return {"role": "assistant", "content": blocks}, without(message, ("content",))
        case "toolResult":
            return _result(message), without(message, ("content", "isError"))
        case "bashExecution":
            shown = f"$ {message.get('command', '')}\n{message.get('output', '')}"
            return {"role": "user", "content": shown}, without(message, ("output",))
        case "custom" | "hookMessage":
            return {"role": "user", "content": message.get("content")}, without(message, ("content",))
        case "branchSummary" | "compactionSummary":
            return {"role": "user", "content": message.get("summary")}, without(message, ("summary",))
        case _:
            return message, {}


def is_injected(message: dict[str, Json]) -> bool:
    """Sent to the model under the name of the human, who did not say it."""
    return kind(message.get("role")) in _INJECTED


def usage_of(message: dict[str, Json], uid: str) -> SourceUsage | None:
    if message.get("role") != "assistant":
        return None
    told = mapping(message.get("usage"))
    read, write = count(told.get("cacheRead")), count(told.get("cacheWrite"))
    fresh, spoken = count(told.get("input")), count(told.get("output"))
    if not (read or write or fresh or spoken):
        return None
    return SourceUsage(
        id=uid,
        model=plain_name(message.get("model")),
        vendor=plain_name(message.get("provider")),
        input_tokens=fresh + read + write,
        output_tokens=spoken,
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=count(told.get("reasoning")),
        cost=money(mapping(told.get("cost")).get("total")),
        at=when(message.get("timestamp")),
    )


def _block(block: Json) -> Json:
    if not isinstance(block, dict) or block.get("type") != "toolCall":
        return block
    call = {"id": block.get("id"), "name": block.get("name"), "input": block.get("arguments")}
    return {"type": "tool_use", **call, **without(block, ("type", "id", "name", "arguments"))}


def _result(message: dict[str, Json]) -> dict[str, Json]:
    content = message.get("content")
    result = {
        "type": "tool_result",
        "tool_use_id": message.get("toolCallId"),
        "content": items(content) or content,
    }
    failed = {"is_error": True} if message.get("isError") else {}
    return {"role": "user", "content": [{**result, **failed}]}


# -- the tree in a file: entries by their ids, and what is kept beside the conversation


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
    note_presence(source)
    note_presence(path.parent / Path(source).name)
    is_there = Path(source).is_file() or (path.parent / Path(source).name).is_file()
    return when(header.get("timestamp")) if is_there else None
