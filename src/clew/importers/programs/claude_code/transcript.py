"""The copies that Claude Code makes of files before it changes them, moment by moment.

    <config>/projects/<folder>/<session>.jsonl       records that name the copies
    <config>/file-history/<session>/<hash>@v<n>      the copies themselves, until it cleans up

A record stands at a message and names copies of files as they were then; one that comes later may add to
it. A file that it does not name was as in the next copy of it: copies are made before changes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from clew.core.conversation.append import TITLE_LENGTH
from clew.core.load.streams import larger
from clew.core.messages.dialects.anthropic import is_human
from clew.core.messages.text import own_words, snippet
from clew.importers.contract import SourceCheckpoint, SourceEntry, SourceEvent, SourceUsage
from clew.importers.reading.jsonlines import Line
from clew.importers.reading.seen import note
from clew.importers.reading.values import items, mapping, money, when
from clew.model import Json

_COPY: Final = re.compile(r"[0-9A-Za-z_-]{1,200}@v[0-9]{1,9}")
_SESSION: Final = re.compile(r"[0-9A-Za-z_-]{1,200}")
_NEAR: Final = 3
"""How many directories above the session the copies may lie."""

EntryAt: TypeAlias = Callable[[Json], str | None]
_Files: TypeAlias = dict[str, str | None]


class _Moment(msgspec.Struct):
    event: str
    at: Json
    told: int
    copies: _Files
    """The name of each file's copy; None: the file was not there. Without what the next one repeats."""


def copies_of(path: Path, session: str) -> Path | None:
    """The directory with the copies of a session, if it is there."""
    if not _SESSION.fullmatch(session):
        return None
    for above in list(path.parents)[:_NEAR]:
        found = above / "file-history" / session
        note(found)
        if found.is_dir():
            return found
    return None


class FileHistory:
    def __init__(self, copies: Path | None, workspace: Json) -> None:
        self._copies = copies
        self._workspace = workspace if isinstance(workspace, str) and workspace.startswith("/") else "/"
        self._moments: dict[str, _Moment] = {}
        self._newest: _Moment | None = None
        self._told_last: dict[str, tuple[str, _Moment]] = {}
        """Each path, and the moment that named a copy of it last."""

    def take(self, record: dict[str, Json], event: str) -> None:
        """A record of one of both kinds."""
        snapshot, backup = record.get("snapshot"), record.get("backup")
        if isinstance(snapshot, dict):
            # A record that adds to a snapshot stands at the message that changed a file: that is not where
            # the snapshot was taken.
            message = snapshot.get("messageId") or record.get("messageId")
            tracked = snapshot.get("trackedFileBackups")
            self._note(message, tracked, event, snapshot.get("timestamp"))
        elif isinstance(backup, dict):
            tracked = {str(record.get("trackingPath")): backup}
            self._note(record.get("snapshotMessageId"), tracked, event, record.get("timestamp"))

    def _note(self, message: Json, tracked: Json, event: str, at: Json) -> None:
        if not (isinstance(message, str) and isinstance(tracked, dict)):
            return
        moment = self._moments.get(message)
        if moment is None:
            moment = self._newest = self._moments[message] = _Moment(event, at, 0, {})
        for path, backup in tracked.items():
            name = backup.get("backupFileName") if isinstance(backup, dict) else ""
            if name is None or (isinstance(name, str) and _COPY.fullmatch(name)):
                self._put(moment, path, name)
        moment.event, moment.told = event, max(moment.told, len(tracked))

    def _put(self, moment: _Moment, path: str, name: str | None) -> None:
        """Most records repeat what the one before said: it is enough to keep it here."""
        if moment is self._newest:
            path, before = self._told_last.get(path, (path, moment))
            if before is not moment and before.copies.get(path, "") == name:
                del before.copies[path]
            self._told_last[path] = path, moment
        moment.copies[path] = name

    def checkpoints(self, entry_at: EntryAt) -> Iterator[SourceCheckpoint]:
        """One for each moment of which a file is known, and one more if there are files outside of the
        workspace; the last first."""
        copies = _Placed(self._copies, self._workspace)
        for message, moment in reversed(self._moments.items()):
            copies.put(moment.copies)
            entry = entry_at(message)
            if entry is not None and (moment.told or copies.inside or copies.outside):
                first = SourceCheckpoint(
                    name=f"file-history:{message}",
                    entry=entry,
                    at=when(moment.at),
                    state={"event": moment.event, "files": moment.told},
                    files=dict(copies.inside),
                )
                yield first
                if copies.outside:
                    name, files = f"{first.name}:outside", dict(copies.outside)
                    yield msgspec.structs.replace(first, name=name, files=files)


class _Placed:
    """Copies by where their files belong: below the workspace, or elsewhere, from the root on."""

    def __init__(self, directory: Path | None, workspace: str) -> None:
        self._directory = directory
        self._workspace = workspace
        self.inside: _Files = {}
        self.outside: _Files = {}

    def put(self, copies: _Files) -> None:
        if self._directory is None:
            return
        for path, name in copies.items():
            whole = posixpath.normpath(posixpath.join(self._workspace, path)).lstrip("/")
            own = self._workspace.strip("/")
            is_inside = not own or whole.startswith(f"{own}/")
            files = self.inside if is_inside else self.outside
            place = whole.removeprefix(f"{own}/") if is_inside else whole
            files[place] = None if name is None else str(self._directory / name)


# ── Lines of a transcript as entries ──────────────────────────────────────────────────────────────
# The records of one Claude Code session, read in a stream into entries and what stands beside them.

_OWN: Final = frozenset({"parentUuid", "uuid", "type", "message", "timestamp"})
"""Fields that have a place of their own."""
_NOBODY: Final = "<synthetic>"
"""The model of messages that the program itself wrote."""
_BESIDE: Final = ("file-history-snapshot", "file-history-delta", "summary", "queue-operation")


class Side(msgspec.Struct):
    """A subagent whose records stand in its session's file: where they are."""

    root: str
    began: Json
    places: list[tuple[int, int]]


class Transcript:
    def __init__(
        self,
        lines: Generator[Line, None, None],
        baseline: dict[str, Json],
        *,
        is_agent: bool,
        files: FileHistory | None = None,
        summaries: Callable[[], Mapping[str, str]] = dict,
        calls_of_base: Collection[str] = (),
    ) -> None:
        """`summaries`: titles that other files tell, by the records that they end with. `calls_of_base`: what
        a fork copied of its base, which counts them itself."""
        self._lines = lines
        self._baseline = baseline
        self._is_agent = is_agent
        self._tree = Tree()
        self._head: str | None = None
        self._titles: dict[str, str] = {}
        self._summaries: dict[str, str] = {}
        """Titles by the records that they end with, of this session or of another one."""
        self._summaries_beside = summaries
        self._calls_of_base = calls_of_base
        self._first_words = ""
        self._tags: dict[str, None] = {}
        self._model: str | None = None
        self._waiting: list[SourceEvent] = []
        self._files = files or FileHistory(None, None)
        self._preserved: dict[str, Json] = {}
        self._tokens: Json = None
        self._request: Json = None
        self._told: SourceUsage | None = None
        self._advice: dict[str, SourceUsage] = {}
        self._counted: dict[str, Json] = {}
        """The tokens of the call before, as its record has them."""
        self._side_of: dict[str, str] = {}
        self.sides: dict[str, Side] = {}

    # -- asked when the entries were read

    def head(self) -> str | None:
        return self._head

    def events(self) -> Iterator[SourceEvent]:
        yield from self._waiting

    def checkpoints(self) -> Iterator[SourceCheckpoint]:
        yield from self._files.checkpoints(self._tree.entry_at)

    def updates(self) -> dict[str, Json]:
        found: dict[str, Json] = {"model": self._model, "tags": list(self._tags)}
        given = (self._titles.get(kind) for kind in ("custom-title", "ai-title", "last-prompt"))
        title = next(filter(None, given), None) or self._summary()
        if title or self._is_agent:
            found["title"] = title or snippet(self._first_words, TITLE_LENGTH)
        return found

    def _summary(self) -> str | None:
        """The last one that ends with a record of this session. Most stand before that record, many in
        the file of a later session: they are looked at when all records are known."""
        told = [*self._summaries_beside().items(), *self._summaries.items()]
        return next((text for leaf, text in reversed(told) if self._tree.entry_at(leaf) is not None), None)

    # -- records

    def entries(self) -> Iterator[SourceEntry]:
        with closing(self._lines) as lines:
            for line in lines:
                record = line.record
                uuid = record.get("uuid")
                if type(uuid) is not str or record.get("type") in _BESIDE:
                    self._take_side_record(line)
                elif record.get("isSidechain") and not self._is_agent:
                    self._note_sidechain(line)
                else:
                    entry = self._take(line, uuid)
                    if entry is not None:
                        if self._waiting:
                            self._waiting = []
                        yield entry

    def _take(self, line: Line, uuid: str) -> SourceEntry | None:
        if uuid in self._tree.places:
            self._event(line, f"line-{line.number}")
            return None
        record = line.record
        message = record.get("message")
        if type(message) is dict and record.get("type") in ("user", "assistant"):
            notes = self._notes(record)
            if not notes:
                return self._message(record, uuid, message, notes)
            if notes.get("isCompactSummary"):
                return self._compaction(line, notes)
            if not notes.get("isMeta"):
                return self._message(record, uuid, message, notes)
        self._link(line)
        return None

    def _message(
        self, record: dict[str, Json], uuid: str, message: dict[str, Json], notes: dict[str, Json]
    ) -> SourceEntry:
        above = record.get("parentUuid")
        parent, is_known = self._tree.behind(above)
        self._tree.add(uuid, parent, message)
        at = when(record.get("timestamp"))
        human: bool | None = None
        usage = None
        if record["type"] == "assistant":
            usage = self._usage(record, message, at)
            model = message.get("model")
            if model is not None and model != _NOBODY:
                self._model = str(model)
        else:
            self._first_words = self._first_words or own_words(_words_of(message)).strip()
            if self._is_agent or not is_human(notes, message):
                human = False
        if not notes.get("teamName"):
            self._head = uuid
        request, self._request = self._request, notes.get("requestId")
        if notes:
            if self._request == request is not None:
                del notes["requestId"]  # each record of an answer repeats it
            if notes.get("sourceToolAssistantUUID") == above:
                notes.pop("sourceToolAssistantUUID", None)
        if not is_known:
            notes["parent_missing"] = above
        return SourceEntry(
            uid=uuid,
            parent=parent,
            message=message,
            at=at,
            usage=usage,
            notes=notes,
            human=human,
            decoded=True,
            events=tuple(self._waiting),
        )

    def _compaction(self, line: Line, notes: dict[str, Json]) -> SourceEntry:
        """The summary that stands for everything before it, and the messages that were kept beside it."""
        record, uuid = line.record, line.record["uuid"]
        parent, _ = self._tree.behind(record.get("parentUuid"))
        if parent is None:
            parent = self._tree.last
        mark: dict[str, Json] = {"messages": [record["message"]], "tokens": self._tokens}
        kept = self._tree.entry_at(self._preserved.get("headUuid"))
        if kept is not None:
            mark["from"] = kept
        self._tree.add(uuid, parent, {})
        tail = self._preserved.get("tailUuid")
        if isinstance(tail, str) and tail in self._tree.places:
            self._tree.link(tail, uuid)  # what goes on from the last one kept goes on from here
        self._preserved, self._tokens = {}, None
        self._head = uuid
        return SourceEntry(
            uid=uuid,
            parent=parent,
            message=mark,
            kind="compaction",
            at=when(record.get("timestamp")),
            notes=notes,
            decoded=True,
            events=tuple(self._waiting),
        )

    def _link(self, line: Line) -> None:
        """A record on the chain that is no message."""
        record = line.record
        entry, _ = self._tree.behind(record.get("parentUuid"))
        if record.get("subtype") == "compact_boundary":
            before = self._tree.behind(record.get("logicalParentUuid"))[0]
            entry = entry or before or self._tree.last
            about = record.get("compactMetadata")
            if isinstance(about, dict):
                self._tokens = about.get("preTokens")
                segment = about.get("preservedSegment")
                self._preserved = segment if isinstance(segment, dict) else _ends(about)
        self._tree.link(record["uuid"], entry)
        self._event(line, record["uuid"])

    def _notes(self, record: dict[str, Json]) -> dict[str, Json]:
        """What stands beside the message, except for what the session says of all its lines."""
        usual = self._baseline
        notes = {
            key: value
            for key, value in record.items()
            if key not in _OWN and (key not in usual or usual[key] != value)
        }
        if "isSidechain" in notes and (self._is_agent or not notes["isSidechain"]):
            del notes["isSidechain"]
        return {key: notes[key] for key in sorted(notes)} if len(notes) > 1 else notes

    def usage(self) -> Iterator[SourceUsage]:
        """Calls that made no message of their own: those of an advisor, another model that was asked."""
        yield from self._advice.values()

    def _usage(
        self, record: dict[str, Json], message: dict[str, Json], at: datetime | None
    ) -> SourceUsage | None:
        found, id = message.get("usage"), message.get("id") or record["uuid"]
        if type(found) is not dict or type(id) is not str or message.get("model") == _NOBODY:
            return None
        if id in self._calls_of_base:
            return None
        told = self._told
        if told is not None and told.id == id and self._counted == found:
            return told  # each record of an answer repeats it
        self._counted = found
        self._told = _call(id, message.get("model"), found, at, money(record.get("costUSD")))
        if "iterations" in found:
            self._take_advice(id, found["iterations"], at)
        return self._told

    def _take_advice(self, id: str, iterations: Json, at: datetime | None) -> None:
        asked = (one for one in map(mapping, items(iterations)) if one.get("type") == "advisor_message")
        for number, part in enumerate(asked):
            name = f"{id}:advisor:{number}"
            call = _call(name, part.get("model"), part, at, None, source="advisor")
            self._advice[name] = larger(self._advice.get(name), call)

    # -- records beside the chain

    def _take_side_record(self, line: Line) -> None:
        record = line.record
        kind = record.get("type")
        id = f"line-{line.number}"
        if kind in ("custom-title", "ai-title", "last-prompt"):
            field = {"custom-title": "customTitle", "ai-title": "aiTitle", "last-prompt": "lastPrompt"}[kind]
            self._titles[kind] = _text(record.get(field))
        elif kind == "summary":
            self._summaries |= summary_in(record)
        elif kind == "tag" and _text(record.get("tag")):
            self._tags[_text(record["tag"])] = None
        elif kind in ("file-history-snapshot", "file-history-delta"):
            self._files.take(record, id)
        self._event(line, id)

    def _note_sidechain(self, line: Line) -> None:
        record = line.record
        uuid, agent, parent = record["uuid"], record.get("agentId"), record.get("parentUuid")
        name = f"agent-{agent}" if isinstance(agent, str) else self._side_of.get(str(parent))
        if name is None:
            name = f"sidechain-{uuid}"
        self._side_of[uuid] = name
        side = self.sides.setdefault(name, Side(uuid, record.get("timestamp"), []))
        side.places.append((line.number, line.offset))

    def _event(self, line: Line, id: str) -> None:
        record = line.record
        kind = _text(record.get("type")) or "record"
        subtype = _text(record.get("subtype"))
        self._waiting.append(
            SourceEvent(
                id=id[:400],
                type=(f"{kind}.{subtype}" if subtype else kind)[:100],
                data=record,
                stream="claude-code",
                at=when(record.get("timestamp")),
            )
        )


def summary_in(record: dict[str, Json]) -> dict[str, str]:
    """The title that a summary gives, by the record that the summarised conversation ends with."""
    leaf, summary = record.get("leafUuid"), record.get("summary")
    return {leaf: summary} if isinstance(leaf, str) and isinstance(summary, str) and summary else {}


def _ends(about: dict[str, Json]) -> dict[str, Json]:
    """The first and the last of the messages that a compaction kept, where it lists them all."""
    listed = about.get("preservedMessages")
    if isinstance(listed, dict):
        listed = listed.get("uuids")
    if isinstance(listed, list) and listed:
        return {"headUuid": listed[0], "tailUuid": listed[-1]}
    return {}


def _call(
    id: str,
    model: Json,
    told: dict[str, Json],
    at: datetime | None,
    cost: str | None,
    source: str | None = None,
) -> SourceUsage:
    parts = mapping(told.get("cache_creation"))
    long, short = (_count(parts, f"ephemeral_{span}_input_tokens") for span in ("1h", "5m"))
    read = _count(told, "cache_read_input_tokens")
    write = max(_count(told, "cache_creation_input_tokens"), long + short)
    return SourceUsage(
        id=id,
        model=model if isinstance(model, str) else None,
        vendor="anthropic",
        source=source,
        # Anthropic leaves out of its input what came from a cache, or went there.
        input_tokens=_count(told, "input_tokens") + read + write,
        output_tokens=_count(told, "output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=write,
        cache_write_1h_tokens=long,
        mode="fast" if told.get("speed") == "fast" else None,
        cost=cost,
        at=at,
    )


def _count(found: dict[str, Json], name: str) -> int:
    value = found.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _words_of(message: dict[str, Json]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = (block.get("text") for block in content if isinstance(block, dict))
        return " ".join(text for text in texts if isinstance(text, str))
    return ""


class Tree:
    """Where each record of a file goes, whatever its `parentUuid` says.

    - Progress, hooks and meta lines are links: a record that names one as its parent goes behind the message
      before it.
    - A model's answer is several records with one `message.id`, and the results of its calls hang off the
      record that made the call, while the chain goes on from the last one. A walk from parent to parent would
      lose results. So an answer and its results are one run, in the order of the file, and what follows any
      of them follows the last.
    - A parent that is not in the file, or comes later (a cycle), is taken to be the record before.
    """

    def __init__(self) -> None:
        self.places: dict[str, str | None] = {}
        """The entry that a record is, or that a link leads to."""
        self._runs: dict[str, str] = {}
        """The answer that an entry belongs to."""
        self._ends: dict[str, str] = {}
        """The last entry of an answer."""
        self._calls: dict[str, str] = {}
        """The answer in which a tool was called."""
        self.last: str | None = None
        """The last entry in the order of the file."""

    def entry_at(self, uuid: Json) -> str | None:
        """The entry that a record is, or leads to."""
        return self.places.get(uuid) if isinstance(uuid, str) else None

    def behind(self, parent: Json) -> tuple[str | None, bool]:
        """The entry behind which a child of this record goes; False: the record is not known."""
        if type(parent) is not str:
            return None, True
        if parent not in self.places:
            return self.last, self.last is None
        entry = self.places[parent]
        run = None if entry is None else self._runs.get(entry)
        return (entry if run is None else self._ends[run]), True

    def add(self, uuid: str, parent: str | None, message: dict[str, Json]) -> None:
        """An entry, in its place."""
        self.places[uuid] = self.last = uuid
        content = message.get("content")
        blocks = content if type(content) is list else []
        if message.get("role") == "assistant":
            run = self._answer(message.get("id"), blocks, parent)
        else:
            run = self._answered(blocks, parent) if blocks else None
        if run is not None:
            self._runs[uuid] = run
            self._ends[run] = uuid

    def link(self, uuid: str, entry: str | None) -> None:
        """A record that is no entry: what follows it follows that one."""
        self.places[uuid] = entry

    def _answer(self, id: Json, blocks: list[Json], parent: str | None) -> str | None:
        """The run of a record of an answer."""
        if type(id) is not str:
            return None
        for block in blocks:
            if type(block) is dict and type(call := block.get("id")) is str:
                self._calls[call] = id
        # The same answer again on another branch is another run.
        return id if id not in self._ends or self._runs.get(parent or "") == id else None

    def _answered(self, blocks: list[Json], parent: str | None) -> str | None:
        """The run of a record with results: that of the answer in which the tools were called."""
        for block in blocks:
            if type(block) is dict and block.get("type") == "tool_result":
                run = self._calls.get(str(block.get("tool_use_id")))
                if run is not None and self._runs.get(parent or "") == run:
                    return run
        return None
