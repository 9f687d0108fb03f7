"""A session as it is told in an export: who says what, in which order, on which branch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from clew.backends.contract import STORE_WIDE
from clew.core.conversation.points import Point
from clew.core.log import jsonl as lines
from clew.core.log.ids import entry_id
from clew.core.log.rows import KIND_NAMES, NOT_HUMAN, REDACTED, REPLACED
from clew.core.messages.dialects import is_human_turn, prompt_of, speaker_of, text_of
from clew.core.messages.dialects.base import is_blank
from clew.core.messages.text import snippet
from clew.core.redact.markers import count_markers
from clew.errors import CorruptError, InvalidError
from clew.exporters import jsonl
from clew.exporters.blocks import Block, blocks_shown
from clew.exporters.redact import Redactor
from clew.model import NO_ANNOTATIONS, Checkpoint, Entry, Head, Json, SessionInfo

if TYPE_CHECKING:
    from clew.session import Session
    from clew.store import Store

# -- the shape of a session's tree, for exports of all branches: segments, and the paths that they make
#
# A segment is a run of entries that no branch leaves in between, so a path has all of a segment or nothing.
# Branches come parents first; therefore the segments of every path stand in the order of the path.

MOST_LISTED: Final = 20_000
"""Segments of all paths together: these may be as many as the square of the branches."""


class BranchShape(msgspec.Struct, frozen=True, kw_only=True):
    uid: str
    parent: str | None
    """None at the root."""
    fork: int
    """The position of the entry that it continues; -1 at the root."""
    last: int


class Segment(msgspec.Struct, frozen=True):
    branch: int
    """Index of the branch."""
    first: int
    last: int


class Path(msgspec.Struct, frozen=True):
    leaf: tuple[int, int]
    """Index of the branch, and position; (-1, -1) when the session is empty."""
    segments: tuple[int, ...]
    is_current: bool


class Outline(msgspec.Struct, frozen=True):
    branches: tuple[BranchShape, ...]
    segments: tuple[Segment, ...]
    paths: tuple[Path, ...]
    """The path to the head first, then one to the end of each other branch."""
    unlisted: int = 0
    """How many other paths there are, when together they would be too long to list; then `paths` has none."""

    def segment_of(self, branch: int, position: int) -> int | None:
        """The number of the segment of an entry; None: it was appended later."""
        at = bisect_right(self.segments, (branch, position), key=lambda s: (s.branch, s.first)) - 1
        found = self.segments[at] if at >= 0 else None
        return at if found and found.branch == branch and position <= found.last else None

    @property
    def current(self) -> Path:
        return self.paths[0]


def outline(branches: Sequence[BranchShape], head: tuple[str, int]) -> Outline:
    index = {branch.uid: at for at, branch in enumerate(branches)}
    standing = (index.get(head[0], -1), head[1])
    segments = _segments(branches, index, standing)
    by_branch: dict[int, list[int]] = {}
    for number, segment in enumerate(segments):
        by_branch.setdefault(segment.branch, []).append(number)

    def path(leaf: tuple[int, int]) -> Path:
        found: list[int] = []
        at, position = leaf
        while at >= 0:
            own = [number for number in by_branch.get(at, []) if segments[number].last <= position]
            found += reversed(own)
            branch = branches[at]
            at, position = index.get(branch.parent or "", -1), min(position, branch.fork)
        return Path(leaf, tuple(reversed(found)), leaf == standing)

    leaves = [leaf for leaf in _leaves(branches, index) if leaf != standing]
    paths = [path(standing)]
    listed = 0
    for leaf in leaves:
        paths.append(path(leaf))
        listed += len(paths[-1].segments)
        if listed > MOST_LISTED:
            return Outline(tuple(branches), tuple(segments), (paths[0],), len(leaves))
    return Outline(tuple(branches), tuple(segments), tuple(paths))


def _segments(
    branches: Sequence[BranchShape], index: Mapping[str, int], standing: tuple[int, int]
) -> list[Segment]:
    cuts: list[set[int]] = [{branch.last} for branch in branches]
    for branch in branches:
        if branch.parent is not None:
            cuts[index[branch.parent]].add(branch.fork)
    if standing[0] >= 0:
        cuts[standing[0]].add(standing[1])
    found = []
    for at, branch in enumerate(branches):
        first = branch.fork + 1
        for last in sorted(cut for cut in cuts[at] if branch.fork < cut <= branch.last):
            found.append(Segment(at, first, last))
            first = last + 1
    return found


def _leaves(branches: Sequence[BranchShape], index: Mapping[str, int]) -> list[tuple[int, int]]:
    continued = {(index[b.parent], b.fork) for b in branches if b.parent is not None}
    tips = [(at, branch.last) for at, branch in enumerate(branches) if branch.last > branch.fork]
    return [tip for tip in tips if tip not in continued]


# -- what is said

Speaker: TypeAlias = Literal["user", "assistant", "tool", "system", "other", "mark"]

NOTES: Final = ("label", "note", "summary")
"""Names of annotations that are shown, in this order."""

SPEAKERS: Final[Mapping[Speaker, str]] = {
    "user": "User",
    "assistant": "Assistant",
    "tool": "Tool",
    "system": "System",
    "other": "Other",
    "mark": "Mark",
}
"""What to call them."""

WORDS: Final = 60
"""Letters by which a branch is told from others."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """An entry, ready to be shown."""

    id: str
    segment: int
    position: int
    time: datetime
    speaker: Speaker
    blocks: tuple[Block, ...]
    notes: tuple[tuple[str, str], ...]
    """What people and agents wrote beside the entry, by name: label, note, summary."""
    checkpoints: tuple[str, ...]
    prompt: str = ""
    """What a person says in it, without what an agent put around it; empty: no person speaks."""
    mark: str = ""
    """Of a mark: its kind, as `compaction`."""
    injected: bool = False
    """A program put it there in the role of the user."""

    @property
    def name(self) -> str:
        """What to call the speaker."""
        is_added = self.injected and self.speaker == "other"
        return "Added by the agent" if is_added else SPEAKERS[self.speaker]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries of the path are told, as `Session.entries` takes it."""

    last: int | None = None
    before: Point | None = None
    after: Point | None = None

    @property
    def is_all(self) -> bool:
        return (self.last, self.before, self.after) == (None, None, None)


ALL: Final = Part()


class Transcript:
    """One session, read twice at most: for its shape, and for its entries."""

    def __init__(
        self, store: Store, id: str, *, whole: bool, redactor: Redactor | None, part: Part = ALL
    ) -> None:
        if whole and not part.is_all:
            raise InvalidError("last, before and after choose from one path, and all branches were asked for")
        self._store = store
        self._part = part
        self.session: Session = store.get(id)
        self.is_whole = whole
        self.redactor = redactor
        self._annotations: dict[str, Mapping[str, Json]] = {}
        self._spoken: dict[str, list[tuple[int, str]]] = {}
        info = self.session.info
        self.outline: Outline = self._shape(info) if whole else _path_only(self.session, info)
        self.info = info if redactor is None else _redacted(info, redactor)
        self.checkpoints: list[Checkpoint] = self._read_checkpoints()
        self._checkpoints: dict[str, list[str]] = {}
        for checkpoint in self.checkpoints:
            place = entry_id(checkpoint.head.branch, checkpoint.position)
            self._checkpoints.setdefault(place, []).append(checkpoint.name)

    def _read_checkpoints(self) -> list[Checkpoint]:
        found = self.session.checkpoints()
        if self.redactor is None:
            return found
        clean = self.redactor
        return [
            msgspec.structs.replace(
                one,
                name=clean.text(one.name, "checkpoint: name"),
                state=clean.value(one.state, f"checkpoint {one.position}"),
            )
            for one in found
        ]

    def entries(self) -> Iterator[tuple[int, Entry]]:
        """Each entry once, with the number of its segment; parents before what continues them."""
        found = self._all_entries() if self.is_whole else self._on_path()
        for segment, entry in found:
            yield segment, entry if self.redactor is None else self.redactor.entry(entry)

    def turns(self) -> Iterator[Turn]:
        tools: dict[str, str] = {}
        for segment, entry in self.entries():
            yield turn_of(entry, tools, segment=segment, checkpoints=self._checkpoints.get(entry.id, ()))

    def opening(self, path: Path) -> str:
        """What the user says first where this path is on its own."""
        if not path.segments:
            return ""
        own = self.outline.segments[path.segments[-1]]
        spoken = self._spoken.get(self.outline.branches[own.branch].uid, [])
        words = [text for position, text in spoken if own.first <= position <= own.last]
        return words[0] if words else ""

    def _on_path(self) -> Iterator[tuple[int, Entry]]:
        segments = self.outline.segments
        at = 0
        part = self._part
        for entry in self.session.entries(
            last=part.last, before=part.before, after=part.after, damaged="skip"
        ):
            while at < len(segments) and segments[at].last < entry.position:
                at += 1
            if at < len(segments):  # what was appended since the first look is not told
                yield at, entry

    def _shape(self, info: SessionInfo) -> Outline:
        """Look at all branches, and keep of each what is needed to speak of it."""
        rows: dict[int, BranchShape] = {}
        uids: dict[int, str] = {0: ""}
        came: dict[str, dict[str, Json]] = {}
        for line in self._lines():
            if isinstance(line, lines.BranchLine):
                row = line.row
                uids[row.branch] = row.uid
                parent = uids[row.parent] or None
                rows[row.branch] = BranchShape(uid=row.uid, parent=parent, fork=row.fork, last=row.fork)
            elif isinstance(line, lines.EntryLine):
                rows[line.branch] = msgspec.structs.replace(rows[line.branch], last=line.position)
                if words := self._words(uids[line.branch], line):
                    self._spoken.setdefault(uids[line.branch], []).append((line.position, words))
            elif isinstance(line, lines.RecordLine) and line.type == "annotation":
                uid, _, position = line.name.rpartition(".")
                id = entry_id(uid, int(position))
                if line.sid != STORE_WIDE:  # what the session noted stands for what came with the entry
                    self._annotations[id] = _notes(line)
                else:
                    came[id] = _notes(line)
        self._annotations = came | self._annotations
        return outline(list(rows.values()), (info.head.branch, info.head.position))

    def _words(self, uid: str, line: lines.EntryLine) -> str:
        """The beginning of what the user says."""
        if KIND_NAMES[line.type] != "message":
            return ""
        message = self._entry(uid, line).message
        if not is_human_turn(message, line.flags):
            return ""
        text = prompt_of(message)
        if self.redactor is not None:  # first: what is cut might not look like a secret any more
            text = self.redactor.uncounted().text(text, "")
        return snippet(text, WORDS)

    def _all_entries(self) -> Iterator[tuple[int, Entry]]:
        uids: dict[int, str] = {}
        places = {branch.uid: at for at, branch in enumerate(self.outline.branches)}
        for line in self._lines():
            if isinstance(line, lines.BranchLine):
                uids[line.row.branch] = line.row.uid
            elif isinstance(line, lines.EntryLine):
                uid = uids[line.branch]
                # What was appended since the first look is not part of the shape.
                segment = self.outline.segment_of(places.get(uid, -1), line.position)
                if segment is not None:
                    yield segment, self._entry(uid, line)

    def _entry(self, uid: str, line: lines.EntryLine) -> Entry:
        id = entry_id(uid, line.position)
        body = lines.extract(line.base64, line.body)
        return Entry(
            id,
            line.position,
            KIND_NAMES[line.type],
            body,
            line.time,
            line.digest,
            bool(line.flags & REPLACED),
            self._annotations.get(id, NO_ANNOTATIONS),
            line.epoch,
            bool(line.flags & NOT_HUMAN),
            count_markers(body) if line.flags & REDACTED else 0,
        )

    def _lines(self) -> Iterator[lines.AnyLine | None]:
        for piece in jsonl.pieces(self._store, self.session.id):
            yield lines.decode(lines.open_line(piece.rstrip(b"\n"))[1])


def turn_of(
    entry: Entry, tools: dict[str, str], *, segment: int = 0, checkpoints: Sequence[str] = ()
) -> Turn:
    """An entry as it is told. `tools` has the names of tools by the calls that were told before; those of
    this entry are added."""
    message = entry.message if entry.kind != "removed" else {}
    blocks = blocks_shown(entry) if entry.kind == "message" else [_mark(entry.kind, message)]
    is_prompt = entry.kind == "message" and is_human_turn(message, NOT_HUMAN if entry.injected else 0)
    return Turn(
        id=entry.id,
        segment=segment,
        position=entry.position,
        time=entry.time,
        speaker=speaker_of(message, injected=entry.injected) if entry.kind == "message" else "mark",
        blocks=tuple(_with_patch(_with_tool(block, tools), entry) for block in blocks),
        notes=notes_of(entry.annotations),
        checkpoints=tuple(checkpoints),
        prompt=prompt_of(message) if is_prompt else "",
        mark="" if entry.kind == "message" else entry.kind,
        injected=entry.injected,
    )


def notes_of(annotations: Mapping[str, Json]) -> tuple[tuple[str, str], ...]:
    """The annotations that are words for people. Others are facts that programs keep beside an entry."""
    found = ((name, annotations.get(name)) for name in NOTES)
    return tuple((name, text) for name, text in found if isinstance(text, str) and not is_blank(text))


def _notes(line: lines.RecordLine) -> dict[str, Json]:
    try:
        return msgspec.json.decode(lines.extract(line.base64, line.value), type=dict[str, Json])
    except msgspec.MsgspecError as error:
        raise CorruptError(f"the annotation of entry {line.name!r} cannot be read: {error}") from error


def _path_only(session: Session, info: SessionInfo) -> Outline:
    """The branches that the path crosses, each as far as the path goes."""
    known = {branch.id: branch for branch in session.tree().branches}
    shapes: list[BranchShape] = []
    place: Head | None = info.head
    while place is not None and place.branch in known:
        branch = known[place.branch]
        fork = -1 if branch.parent is None else branch.parent.position
        parent = None if branch.parent is None else branch.parent.branch
        shapes.append(BranchShape(uid=branch.id, parent=parent, fork=fork, last=place.position))
        place = branch.parent
    shapes.reverse()
    return outline(shapes, (info.head.branch, info.head.position))


def _redacted(info: SessionInfo, redactor: Redactor) -> SessionInfo:
    def clean(text: str | None, field: str) -> str | None:
        return None if text is None else redactor.text(text, f"session: {field}")

    return msgspec.structs.replace(
        info,
        id=clean(info.id, "id"),
        title=clean(info.title, "title"),
        preview=redactor.uncounted().text(info.preview, ""),
        workspace=clean(info.workspace, "workspace"),
        workspace_given=None,
        tags=tuple(redactor.text(tag, "session: tags") for tag in info.tags),
        endpoint=clean(info.endpoint, "endpoint"),
        agent=clean(info.agent, "agent"),
        parent=clean(info.parent, "parent"),
        metadata=redactor.value(info.metadata, "session: metadata"),
        aliases=tuple(redactor.text(alias, "session: aliases") for alias in info.aliases),
    )


def _with_tool(block: Block, tools: dict[str, str]) -> Block:
    """A result that says only which call it answers, with the name of the tool."""
    if block.kind == "call" and block.call and block.name:
        tools[block.call] = block.name
    if block.kind == "result" and block.name is None and block.call in tools:
        return msgspec.structs.replace(block, name=tools[block.call])
    return block


def _with_patch(block: Block, entry: Entry) -> Block:
    """A result of Claude Code's edit tools, with the hunks that the program keeps beside it: they say where
    in the file the change is."""
    if block.kind != "result":
        return block
    told = entry.annotations.get("toolUseResult")
    hunks = told.get("structuredPatch") if isinstance(told, dict) else None
    return msgspec.structs.replace(block, value=hunks) if isinstance(hunks, list) and hunks else block


def _mark(kind: str, content: dict[str, Json]) -> Block:
    match kind:
        case "compaction":
            messages = content.get("messages")
            said = "\n\n".join(filter(None, map(_text, messages if isinstance(messages, list) else ())))
            return Block(kind="text", name="Compacted: the model goes on with this summary", text=said)
        case "summary":
            return Block(kind="text", name="Summary", text=str(content.get("text") or ""))
        case "truncation":
            start = content.get("start")
            return Block(kind="text", name=f"Truncated: the model sees what comes from position {start} on")
        case "removed":
            return Block(kind="text", name="Removed by a retention rule")
        case _:
            return Block(kind="text", name=f"Mark: {kind}")


def _text(message: Json) -> str:
    return text_of(message) if isinstance(message, dict) else ""
