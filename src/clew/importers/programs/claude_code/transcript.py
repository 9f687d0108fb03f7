"""The records of one Claude Code session, read in a stream into entries and what stands beside them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from typing import Final

import msgspec

from clew.core.conversation.append import TITLE_LENGTH
from clew.core.load.streams import larger
from clew.core.log.records import MAX_TITLE
from clew.core.messages.dialects.anthropic import is_human, queued_in
from clew.core.messages.text import own_words, snippet
from clew.importers.contract import NotFollowedError, SourceCheckpoint, SourceEntry, SourceEvent, SourceUsage
from clew.importers.programs.claude_code.file_history import FileHistory, HistoryState
from clew.importers.programs.claude_code.queue import Queue, QueueState
from clew.importers.programs.claude_code.tree import Tree, TreeState
from clew.importers.reading import turns
from clew.importers.reading.jsonlines import Line
from clew.importers.reading.values import items, mapping, money, when, without
from clew.model import Json

_OWN: Final = frozenset({"parentUuid", "uuid", "type", "message", "timestamp"})
"""Fields that have a place of their own."""
_NOBODY: Final = "<synthetic>"
"""The model of messages that the program itself wrote."""
_BESIDE: Final = ("file-history-snapshot", "file-history-delta", "summary", "queue-operation")
_SPOKEN: Final = ("user", "assistant", "attachment")
"""Records that may hold a message."""
_TITLES: Final = {"custom-title": "customTitle", "ai-title": "aiTitle", "last-prompt": "lastPrompt"}
"""Records that give the session a title, the strongest first, and the field that has it."""


class Side(msgspec.Struct):
    """A subagent whose records stand in its session's file: where they are."""

    root: str
    began: Json
    places: list[tuple[int, int]]


class TranscriptState(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of a transcript, to go on with its file later."""

    tree: TreeState
    history: HistoryState
    head: str | None
    at: datetime | None
    model: str | None
    tags: list[str]
    titles: dict[str, str]
    summaries: dict[str, str]
    """Those that may still be of this session: no record that they end with is there yet."""
    summary: tuple[str, str] | None
    """The last one of this session, with the record that it ends with; those above came after it."""
    summary_beside: str | None
    """The one that another file tells; "": none; None: it was not asked for."""
    first_words: str
    preserved: dict[str, str]
    tokens: int | None
    request: str | None
    queue: QueueState = QueueState()


class Transcript:
    def __init__(
        self,
        lines: Generator[Line, None, None],
        baseline: dict[str, Json],
        *,
        is_agent: bool,
        began: datetime | None = None,
        keeps_lines: bool = True,
        files: FileHistory | None = None,
        summaries: Callable[[], Mapping[str, str]] = dict,
        calls_of_base: Callable[[], Collection[str]] = tuple,
        state: TranscriptState | None = None,
    ) -> None:
        """`summaries`: titles that other files tell, by the records that they end with. `calls_of_base`: what
        a fork copied of its base, which counts them itself. `state`: of what stands before the lines."""
        self._lines = lines
        self._baseline = baseline
        self._is_agent = is_agent
        self._keeps_lines = keeps_lines
        self._is_followed = state is not None
        self._files = files or FileHistory(lambda: None, None)
        self._summaries_beside = summaries
        self._calls_of_base = calls_of_base
        self._waiting: list[SourceEvent] = []
        self._advice: dict[str, SourceUsage] = {}
        self._told: SourceUsage | None = None
        self._counted: dict[str, Json] = {}
        """The tokens of the call before, as its record has them."""
        self._side_of: dict[str, str] = {}
        self.sides: dict[str, Side] = {}
        self.is_read = False
        """To the end of the lines."""
        self._turn: turns.Told = None
        """As the last of these lines tells that says something of it."""
        state = state or TranscriptState(
            TreeState(), HistoryState(), None, began, None, [], {}, {}, None, None, "", {}, None, None
        )
        self._tree = Tree(state.tree)
        self._head = state.head
        self._at = state.at
        """The last time that a record had. One that has none is as old as the one before."""
        self._model = state.model
        self._tags = dict.fromkeys(state.tags)
        self._titles = dict(state.titles)
        self._summaries = dict(state.summaries)
        """Titles by the records that they end with, of this session or of another one."""
        self._summary_before = state.summary
        self._beside = state.summary_beside
        self._first_words = state.first_words
        self._preserved: Mapping[str, str] = state.preserved
        self._tokens: Json = state.tokens
        self._request: Json = state.request
        self._queue = Queue(state.queue)

    # -- asked when the entries were read

    def head(self) -> str | None:
        return self._head

    def turn(self) -> turns.Told:
        return self._turn

    def events(self) -> Iterator[SourceEvent]:
        yield from self._waiting

    def checkpoints(self) -> Iterator[SourceCheckpoint]:
        yield from self._files.checkpoints(self._tree.entry_at)

    def updates(self) -> dict[str, Json]:
        found: dict[str, Json] = {"model": self._model, "tags": list(self._tags)}
        title = next(filter(None, map(self._titles.get, _TITLES)), None) or self._summary()
        if title or self._is_agent:
            found["title"] = title or self._first_words
        return found

    def _summary(self) -> str | None:
        """The last one that ends with a record of this session. Most stand before that record, many in
        the file of a later session: they are looked at when all records are known."""
        own = self._last_summary(self._summaries) or self._summary_before
        if own is not None:
            return own[1]
        if self._beside is None:
            # A file that is followed was looked for once: what another one tells later has it read again.
            found = self._last_summary(self._summaries_beside())
            self._beside = "" if found is None else found[1]
        return self._beside

    def _last_summary(self, told: Mapping[str, str]) -> tuple[str, str] | None:
        known = (leaf for leaf in reversed([*told]) if self._tree.has_entry(leaf))
        leaf = next(known, None)
        return None if leaf is None else (leaf, told[leaf])

    def state(self) -> TranscriptState | None:
        """What is needed to go on behind the last line; None: that is not possible."""
        tree = self._tree.state()
        if tree is None or self.sides:
            return None
        last = self._last_summary(self._summaries)
        names = list(self._summaries)
        pending = names if last is None else names[names.index(last[0]) + 1 :]
        return TranscriptState(
            tree=tree,
            history=self._files.state(self._tree),
            head=self._head,
            at=self._at,
            model=self._model,
            tags=list(self._tags),
            titles=self._titles,
            summaries={name: self._summaries[name] for name in pending},
            summary=last or self._summary_before,
            summary_beside=self._beside,
            first_words=self._first_words,
            preserved=dict(self._preserved),
            tokens=self._tokens,
            request=self._request,
            queue=self._queue.state(),
        )

    # -- records

    def entries(self) -> Iterator[SourceEntry]:
        with closing(self._lines) as lines:
            for line in lines:
                record = line.record
                uuid = record.get("uuid")
                own = when(record.get("timestamp"))
                self._at = own or self._at
                if type(uuid) is not str or record.get("type") in _BESIDE:
                    self._take_side_record(line)
                elif record.get("isSidechain") and not self._is_agent:
                    self._note_sidechain(line)
                else:
                    turn = turns.claude_code(record)
                    self._turn = self._turn if turn is None else turn
                    entry = self._take(line, uuid, own)
                    if entry is not None:
                        if self._waiting:
                            self._waiting = []
                        yield entry
        self.is_read = True

    def _take(self, line: Line, uuid: str, own: datetime | None) -> SourceEntry | None:
        """`own`: the time that the record has itself."""
        if self._tree.knows(uuid, own):
            self._event(line, f"line-{line.number}")
            return None
        record = line.record
        kind = record.get("type")
        message = queued_in(record) if kind == "attachment" else record.get("message")
        if type(message) is dict and message and kind in _SPOKEN:
            notes = self._notes(record)
            if not notes:
                return self._message(line, uuid, message, notes, own)
            if notes.get("isCompactSummary"):
                return self._compaction(line, notes, own)
            if not notes.get("isMeta") or _is_sent(record, message):
                return self._message(line, uuid, message, notes, own)
        self._link(line, own)
        return None

    def _message(
        self, line: Line, uuid: str, message: dict[str, Json], notes: dict[str, Json], own: datetime | None
    ) -> SourceEntry | None:
        record = line.record
        above = record.get("parentUuid")
        parent, is_known = self._tree.behind(above)
        is_said = record["type"] != "assistant" and is_human(notes, message)
        if is_said and (repeated := self._repeated(record, uuid, parent, message)) is not None:
            self._tree.link(uuid, repeated, own)
            self._event(line, uuid)
            return None
        if not is_said:
            self._queue.passed()
        is_aside = bool(notes) and ("attachment" in notes or bool(notes.get("isMeta")))
        self._tree.add(uuid, parent, message, own, is_aside=is_aside)
        human: bool | None = None
        usage = None
        if record["type"] == "assistant":
            usage = self._usage(record, message, self._at)
            model = message.get("model")
            if model is not None and model != _NOBODY:
                self._model = str(model)
        else:
            if not self._first_words and not notes.get("isMeta"):
                self._first_words = snippet(own_words(_words_of(message)).strip(), TITLE_LENGTH)
            if self._is_agent or not is_said:
                human = False
        if not notes.get("teamName") and (not notes.get("isMeta") or parent == self._head):
            self._head = uuid
        request, self._request = self._request, notes.get("requestId")
        if notes:
            if self._request == request is not None:
                del notes["requestId"]  # each record of an answer repeats it
            if notes.get("sourceToolAssistantUUID") == above:
                notes.pop("sourceToolAssistantUUID", None)
            if "attachment" in notes:  # the message has the prompt
                notes["attachment"] = without(notes["attachment"], ("prompt",))
        if not is_known:
            notes["parent_missing"] = above
        return SourceEntry(
            uid=uuid,
            parent=parent,
            message=message,
            at=self._at,
            usage=usage,
            notes=notes,
            human=human,
            decoded=True,
            events=tuple(self._waiting),
            line=line if self._keeps_lines else None,
        )

    def _repeated(
        self, record: dict[str, Json], uuid: str, parent: str | None, message: dict[str, Json]
    ) -> str | None:
        """The entry of a prompt that the file holds twice; None: it is there once."""
        if record["type"] != "attachment":
            return self._queue.asked(uuid, parent, message)
        submitted = record["attachment"].get("source_uuid")
        is_known = isinstance(submitted, str) and submitted in self._tree.places
        known = self._tree.entry_at(submitted) if is_known else None
        return known or self._queue.queued(uuid, parent, message, submitted)

    def _compaction(self, line: Line, notes: dict[str, Json], own: datetime | None) -> SourceEntry:
        """The summary that stands for everything before it, and the messages that were kept beside it."""
        record, uuid = line.record, line.record["uuid"]
        parent, _ = self._tree.behind(record.get("parentUuid"))
        if parent is None:
            parent = self._tree.last
        mark: dict[str, Json] = {"messages": [record["message"]], "tokens": self._tokens}
        head, tail = self._preserved.get("headUuid"), self._preserved.get("tailUuid")
        self._tree.require(head)
        self._tree.require(tail)
        kept = self._tree.entry_at(head)
        if kept is not None:
            mark["from"] = kept
        self._tree.add(uuid, parent, {}, own)
        if tail is not None and tail in self._tree.places:
            self._tree.move(tail, uuid)  # what goes on from the last one kept goes on from here
        self._preserved, self._tokens = {}, None
        self._head = uuid
        return SourceEntry(
            uid=uuid,
            parent=parent,
            message=mark,
            kind="compaction",
            at=self._at,
            notes=notes,
            decoded=True,
            events=tuple(self._waiting),
            line=line if self._keeps_lines else None,
        )

    def _link(self, line: Line, own: datetime | None) -> None:
        """A record on the chain that is no message."""
        record = line.record
        entry, _ = self._tree.behind(record.get("parentUuid"))
        if record.get("subtype") == "compact_boundary":
            before = self._tree.behind(record.get("logicalParentUuid"))[0]
            entry = entry or before or self._tree.last
            about = record.get("compactMetadata")
            if isinstance(about, dict):
                self._tokens = about.get("preTokens")
                self._preserved = _ends(about)
        self._tree.link(record["uuid"], entry, own)
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
        if "forkedFrom" in record and id in self._calls_of_base():
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
        if isinstance(kind, str) and kind in _TITLES:
            self._titles[kind] = _text(record.get(_TITLES[kind])).strip()[:MAX_TITLE]
        elif kind == "summary":
            self._take_summary(record)
        elif kind == "tag" and _text(record.get("tag")):
            self._tags[_text(record["tag"])] = None
        elif kind in ("file-history-snapshot", "file-history-delta"):
            self._files.take(record, id)
        elif kind == "queue-operation":
            self._queue.take(record)
        self._event(line, id)

    def _take_summary(self, record: dict[str, Json]) -> None:
        for leaf, text in summary_in(record).items():
            if self._summary_before is not None and self._summary_before[0] == leaf:
                self._summary_before = leaf, text
                self._summaries.clear()
            else:
                if self._summaries.pop(leaf, None) is None:
                    self._tree.require(leaf)
                self._summaries[leaf] = text

    def _note_sidechain(self, line: Line) -> None:
        if self._is_followed:
            raise NotFollowedError("the records of a subagent stand between those of its session")
        record = line.record
        uuid, agent, parent = record["uuid"], record.get("agentId"), record.get("parentUuid")
        name = f"agent-{agent}" if isinstance(agent, str) else self._side_of.get(str(parent))
        if name is None:
            name = f"sidechain-{uuid}"
        self._side_of[uuid] = name
        side = self.sides.setdefault(name, Side(uuid, record.get("timestamp"), []))
        side.places.append((line.number, line.offset))
        # Its session tells of it; here it is only kept that the line is there.
        self._waiting.append(SourceEvent(id=f"line-{line.number}", type="", line=line))

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
                at=self._at,
                line=line if self._keeps_lines else None,
            )
        )


def _is_sent(record: dict[str, Json], message: dict[str, Json]) -> bool:
    """Whether the model gets what the program wrote in the user's name, and a person did not see."""
    is_said = record.get("type") != "assistant" and not record.get("isVisibleInTranscriptOnly")
    return is_said and bool(_words_of(message).strip() or items(message.get("content")))


def summary_in(record: dict[str, Json]) -> dict[str, str]:
    """The title that a summary gives, by the record that the summarised conversation ends with."""
    leaf, summary = record.get("leafUuid"), record.get("summary")
    return {leaf: summary} if isinstance(leaf, str) and isinstance(summary, str) and summary else {}


def _ends(about: dict[str, Json]) -> dict[str, str]:
    """The first and the last of the messages that a compaction kept, or those of all that it lists."""
    segment, listed = about.get("preservedSegment"), about.get("preservedMessages")
    if isinstance(listed, dict):
        listed = listed.get("uuids")
    if isinstance(segment, dict):
        found = {"headUuid": segment.get("headUuid"), "tailUuid": segment.get("tailUuid")}
    elif isinstance(listed, list) and listed:
        found = {"headUuid": listed[0], "tailUuid": listed[-1]}
    else:
        return {}
    return {name: uuid for name, uuid in found.items() if isinstance(uuid, str)}


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
