"""Sessions of pi: an append-only tree in a file, in its versions 1 to 3."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from clew.importers.contract import (
    NotFollowedError,
    OnBytes,
    OnProblem,
    Place,
    Problem,
    SourceCheckpoint,
    SourceEntry,
    SourceEvent,
    SourceSession,
    SourceUsage,
)
from clew.importers.reading import turns
from clew.importers.reading.files import files_below, first_objects
from clew.importers.reading.jsonlines import Line, Reached, read_lines
from clew.importers.reading.recent import Recent, RecentState
from clew.importers.reading.seen import note_presence
from clew.importers.reading.values import (
    LogNames,
    NamesState,
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
    for found in _follow(path, None, on_problem, on_bytes, whole=False):
        if isinstance(found, SourceSession):
            yield found


def follow(
    path: Path, place: Place | None, on_problem: OnProblem, on_bytes: OnBytes
) -> Iterator[SourceSession | Place]:
    return _follow(path, place, on_problem, on_bytes, whole=True)


def _follow(
    path: Path, place: Place | None, on_problem: OnProblem, on_bytes: OnBytes, *, whole: bool
) -> Iterator[SourceSession | Place]:
    """`whole`: only lines that have an end, and the place behind them."""
    state = None if place is None else _state_in(place)
    header = state.header if state is not None else _header(path, whole=whole)
    if header is None:
        if not whole or any(True for _ in read_lines(path, lambda _: None, lambda _: None, whole=True)):
            on_problem(Problem(path=str(path), line=1, reason="no header: no line of type session"))
        return  # a first line that has no end yet may become one
    reached = Reached()
    lines = read_lines(path, on_problem, on_bytes, after=place, whole=whole, reached=reached)
    if place is not None:
        first = next(lines, None)
        if first is None:
            yield Place(reached.offset, reached.lines, place.state)
            return
        lines = _with_first(first, lines)
    tree = PiTree(path, header, on_problem, state)
    source = text(header.get("parentSession"))
    own = text(header.get("id")) or _id_in_name(path)
    yield SourceSession(
        id=session_id(NAME, own),
        aliases=(own,),
        entries=tree.entries(lines),
        head=lambda: tree.head,
        turn=lambda: tree.turn,
        workspace=plain_name(header.get("cwd")),
        created_at=when(header.get("timestamp")),
        metadata=without(header, _TOLD),
        parent=session_id(NAME, _id_in_name(Path(source))) if source else None,
        is_copy=True,
        checkpoints=tree.checkpoints,
        events=tree.events,
        updates=lambda: without({"title": tree.title, "model": tree.model, "vendor": tree.vendor}, ()),
    )
    if whole and tree.is_read:
        left = _encoded(tree)
        new = None if left is None else reached.place(left)
        if new is not None:
            yield new


def _with_first(first: Line, rest: Generator[Line, None, None]) -> Generator[Line, None, None]:
    yield first
    yield from rest


def _header(path: Path, *, whole: bool) -> dict[str, Json] | None:
    for line in read_lines(path, lambda _: None, lambda _: None, whole=whole):
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
            if not blocks and (failure := _failure(message)) is not None:
                return failure, without(message, ("content",))
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


def _failure(message: dict[str, Json]) -> dict[str, Json] | None:
    """Instead of an answer without a word, why there is none. pi does not show it to the model."""
    reason = message.get("stopReason")
    if reason not in ("aborted", "error"):
        return None
    told = text(message.get("errorMessage")) or "an unknown error"
    said = "The answer was aborted." if reason == "aborted" else f"No answer: {told}"
    return {"role": "system", "content": said, "notice": True}


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


RECENT: Final = 128
"""The places of so many lines, the last ones, are kept when a file is left to be gone on with later."""
_MOST_STATE: Final = 128 * 1024
"""A file of which more would have to be kept is not followed."""


class _Node(msgspec.Struct, frozen=True, array_like=True, gc=False):
    number: int
    """Counts the lines: what stands above has a lower one."""
    above: str | None
    """The id of its parent."""
    uid: str | None
    """Of the entry that it is, or of the nearest above it; None: there is none."""
    is_message: bool


class _State(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of a file to go on with it later."""

    header: dict[str, Json]
    copied_before: datetime | None
    count: int
    """Of all records so far."""
    recent: RecentState
    """The ids of the last ones,"""
    nodes: list[_Node]
    """and where they are."""
    uids: list[str]
    """Entries that none of them is, but came just before."""
    labels: dict[str, str | None]
    named: dict[str, str | None]
    """The entries that they name, as far as these are known."""
    last: str | None
    at: datetime | None
    title: str | None
    model: str | None
    vendor: str | None
    names: NamesState = NamesState()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_State).decode


def _state_in(place: Place) -> _State:
    try:
        return _decode(place.state)
    except msgspec.DecodeError as error:
        raise NotFollowedError(f"what was kept of the file cannot be read: {error}") from error


def _encoded(tree: PiTree) -> bytes | None:
    """What is needed to go on; None: it is too large, or holds what cannot be kept, as a lone surrogate."""
    try:
        left = tree.state()
        found = b"" if left is None else _encode(left)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    return found if 0 < len(found) <= _MOST_STATE else None


class PiTree:
    """Reads line after line, and keeps of each no more than its names. One that goes on from a state raises
    NotFollowedError where it would have to know a line that is too far back."""

    def __init__(
        self, path: Path, header: dict[str, Json], on_problem: OnProblem, state: _State | None
    ) -> None:
        self._path = path
        self._header = header
        self._on_problem = on_problem
        self._is_flat = "version" not in header or header["version"] == 1
        self._is_followed = state is not None
        self._beside: list[SourceEvent] = []
        self.is_read = False
        """To the end of the lines."""
        self.turn: turns.Told = None
        self._order: list[str | None] = [None]  # by the number of the line's record; the header is 0
        if state is None:
            began, copied = when(header.get("timestamp")), _birth_of_fork(path, header)
            state = _State(header, copied, 1, RecentState(), [], [], {}, {}, None, began, None, None, None)
        self._names = LogNames(state.names)
        self._copied_before = state.copied_before
        self._count = state.count
        self._recent = Recent(RECENT, state.recent)
        self._nodes = dict(zip(self._recent.names(), state.nodes, strict=True))
        said = dict.fromkeys([*state.uids, *(node.uid for node in state.nodes if node.uid is not None)])
        self._uids = set(said)
        self._said = deque(said, maxlen=2 * RECENT)
        """The last entries, also those whose id another line has now."""
        self._labels = dict(state.labels)
        self._named = state.named
        self._last = state.last
        self._at = state.at
        """The last time that a record had. One that has none is as old as the one before."""
        self.title = state.title
        self.model = state.model
        self.vendor = state.vendor

    @property
    def head(self) -> str | None:
        """Where the last line stands; a line that goes behind none stands before the first entry."""
        return self._nodes[self._last].uid or "" if self._last else None

    def state(self) -> _State | None:
        """What is needed to go on behind the last line; None: that is not possible."""
        recent = self._recent.state()
        if recent is None:
            return None
        nodes = [self._nodes[name] for name in self._recent.names()]
        known = {node.uid for node in nodes}
        return _State(
            header=self._header,
            copied_before=self._copied_before,
            count=self._count,
            recent=recent,
            nodes=nodes,
            uids=[uid for uid in self._said if uid not in known],
            labels=self._labels,
            named=dict(self._targets()),
            last=self._last,
            at=self._at,
            title=self.title,
            model=self.model,
            vendor=self.vendor,
            names=self._names.state(),
        )

    def _targets(self) -> Iterator[tuple[str, str | None]]:
        """Lines that have a label, and the entries that they are."""
        for target in self._labels:
            if target in self._nodes:
                yield target, self._nodes[target].uid
            elif target in self._named:
                yield target, self._named[target]

    def checkpoints(self) -> Iterator[SourceCheckpoint]:
        names: set[str] = set()
        for target, entry in self._targets():
            label = self._labels[target]
            if label is None:
                continue
            name = label if label not in names else f"{label} ({target})"
            names.add(name)
            yield SourceCheckpoint(name=name, entry=entry)

    def events(self) -> list[SourceEvent]:
        """Those behind the last entry."""
        return self._beside

    def entries(self, lines: Generator[Line, None, None]) -> Iterator[SourceEntry]:
        with closing(lines):
            for line in lines:
                turn = turns.pi(line.record)
                self.turn = self.turn if turn is None else turn
                entry = None if line.record.get("type") == "session" else self._take(line)
                if entry is not None:
                    self._beside = []
                    yield entry
                elif not self._beside or self._beside[-1].line is not line:
                    # No entry, and no event: it is only kept that the line is there.
                    self._beside.append(SourceEvent(id=f"line-{line.number}", type="", line=line))
        self.is_read = True

    def _take(self, line: Line) -> SourceEntry | None:
        """A line in its place; None: it is no new entry."""
        record = line.record
        own = when(record.get("timestamp"))
        self._at = own or self._at
        key = f"#{self._count}" if self._is_flat else text(record.get("id"))
        above = self._above(line, key)
        self._count += 1
        if not self._is_followed:
            self._order.append(key)
        entry = None
        if key and kind(record.get("type")) in _SAID:
            entry = self._entry(line, above, own)
        else:
            self._keep(line)
        if key is None:
            return None
        inherited = self._nodes[above].uid if above else None
        is_message = entry is not None and entry.kind == "message"
        self._nodes[key] = _Node(self._count, above, entry.uid if entry else inherited, is_message)
        self._recent.add(key, own)
        self._last = key
        if entry is None or entry.uid in self._uids:
            return None
        if self._recent.may_have_been(own):
            raise NotFollowedError(f"the line {line.number} may be one of those before")
        self._uids.add(entry.uid)
        self._names.follow(entry.uid)
        self._said.append(entry.uid)
        return entry

    def _above(self, line: Line, key: str | None) -> str | None:
        if self._is_flat:
            return self._last
        parent = text(line.record.get("parentId"))
        reason = f"the entry before it, {parent!r}, is not in the file"
        if parent is not None and parent == key:
            reason = "it names itself as the entry before it"
        elif parent is None or parent in self._nodes:
            return parent
        else:
            self._require(parent)
        # Its line was lost. Behind the entry before it, the conversation stays whole.
        self._on_problem(Problem(path=str(self._path), line=line.number, reason=reason))
        return self._last

    def _require(self, key: str) -> None:
        """NotFollowedError: a line with this id may be in the file, and is not known here."""
        if self._recent.forgotten is not None and key not in self._nodes:
            raise NotFollowedError(f"the line {key!r} is named, which is too far back")

    def _entry(self, line: Line, above: str | None, own: datetime | None) -> SourceEntry:
        """`own`: the time that the line has itself."""
        record = line.record
        parent = self._nodes[above].uid if above else None
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
                at=self._at,
                notes={"source": kept},
                decoded=True,
                events=events,
                line=line,
            )
        stored = _stored(record)
        self._at = own or when(stored.get("timestamp")) or self._at
        uid = version(parent, str(record["type"]), digest([record.get("timestamp"), stored]))
        message, rest = converted(stored)
        self._use(stored.get("model"), stored.get("provider"))
        kept = {**without(record, _OF_MESSAGE), **rest}
        return SourceEntry(
            uid=uid,
            parent=parent,
            message=message,
            at=self._at,
            human=False if is_injected(stored) else None,
            usage=None if self._is_copy(own) else usage_of(stored, uid),
            notes={"source": kept},
            decoded=True,
            events=events,
            line=line,
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
        if first is None and isinstance(number, int) and 0 < number < self._count:
            if self._is_followed and not self._is_flat:
                raise NotFollowedError(f"the line {number} is named, which is too far back")
            first = f"#{number}" if self._is_flat else self._order[number]
        kept: str | None = None
        at, below = (above if isinstance(first, str) else None), self._count + 1
        while at is not None:
            self._require(at)
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
                target = str(record.get("targetId"))
                if target not in self._named:
                    self._require(target)
                self._labels[target] = text(record.get("label"))
            case other:
                if other == "model_change":
                    self._use(record.get("modelId"), record.get("provider"))
                # Version 2 gives ids to the lines of version 1: names must not change.
                data, at = without(record, _PLACE), record.get("timestamp")
                event = SourceEvent(
                    id=self._names.beside(digest([other, data, at]), at),
                    formerly=f"line-{line.number}",
                    type=kind(other) or "record",
                    data=data,
                    at=self._at,
                    line=line,
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
    if source is None or not Path(source).name or "\0" in source:
        return None
    places = {path.parent / Path(source).name}
    if Path(source).parent.parent == path.absolute().parent.parent:
        places.add(Path(source))  # of another project of the same agent: no file has a say on other places
    for place in places:
        note_presence(place)
    return when(header.get("timestamp")) if any(place.is_file() for place in places) else None
