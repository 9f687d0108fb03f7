"""What of a session can be written as its agent wrote it: the whole file, or the records of a path.

A session that came from an agent, and was not changed here, is written line by line as it was. Of one that
was forked, rewound or gone on with, the records at the beginning of the path are taken; what follows them is
made anew from turns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import NAMESPACE_OID, UUID, uuid5

import msgspec

from clew.core.load.entries import Memory, recall
from clew.core.load.lines import StoredLine, has_lines, stored_lines
from clew.core.log.ids import entry_id
from clew.core.log.lines import ENTRY
from clew.errors import CorruptError, InvalidError
from clew.exporters.programs.turns import History, ToolCall, Turn, turns_of, without_setup
from clew.model import Entry, Json, SessionInfo

if TYPE_CHECKING:
    from clew.backends.contract import Reader
    from clew.core.conversation.points import Point
    from clew.core.redact.redactor import Redactor
    from clew.store import Store

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Json]).decode


class Replay:
    """A session on its way into the format of an agent."""

    def __init__(self, store: Store, id: str, agent: str, *, at: Point | None, is_copy: bool = False) -> None:
        """`is_copy`: it gets a new id, so that no line stays as it was."""
        session = store.get(id)
        self.info: SessionInfo = session.info
        self._store = store
        self._sid = session._access.sid
        self.is_own = is_of(self.info, agent)
        """The agent itself wrote it, or it is a fork of such a one."""
        self._records: dict[str, dict[str, Json]] = {}
        """By the ids of the entries."""
        self.others: list[dict[str, Json]] = []
        """Records of the agent that are no entries, in the order of the file."""
        self.is_changed = at is not None or not self.is_own or not self._is_whole()
        self.entries: list[Entry] = []
        if self.is_changed or is_copy:
            self.entries = list(session.entries(at=at))
            self._read()
        self.history: History = turns_of(self.entries)
        self._has_prompt = any(turn.speaker == "user" and not turn.injected for turn in self.history.turns)
        self.kept = self._beginning()
        """So many entries at the beginning of the path are written as they were."""

    def _is_whole(self) -> bool:
        """Whether it stands where its agent left it, and all lines of the file can be made again."""
        with self._store._engine.read() as reader:
            memory = recall(reader, self._sid)
            if memory is None or memory.state.head != self.info.head or not has_lines(reader, self._sid):
                return False
            return all(line.raw is not None for line in stored_lines(reader, self._sid, memory))

    def _read(self) -> None:
        """The records of the agent. A fork goes on from entries of another session, whose lines these are."""
        if not self.is_own:
            return
        with self._store._engine.read() as reader:
            row = reader.get_session(self._sid)
            for other in () if row is None else reader.tree_sessions(row.tree):
                if has_lines(reader, other.sid):
                    memory = recall(reader, other.sid)
                    self._take(reader, stored_lines(reader, other.sid, memory), memory)

    def _take(self, reader: Reader, lines: Iterator[StoredLine], memory: Memory | None) -> None:
        uids: dict[int, str] = {}
        for line in lines:
            if line.raw is None:
                continue
            try:
                record = _decode(line.raw)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue  # a lone surrogate: it is made anew, with what the store has instead
            place = memory.place(line.name) if memory is not None and line.kind == ENTRY else None
            if place is None:
                self.others.append(record)
                continue
            branch, position = place
            if branch not in uids:
                uids[branch] = reader.get_branch(branch).uid
            self._records[entry_id(uids[branch], position)] = record

    def whole(self) -> Iterator[bytes]:
        """The lines of the file that it came from, one by one."""
        assert not self.is_changed
        with self._store._engine.read() as reader:
            for line in stored_lines(reader, self._sid):
                if line.raw is not None:
                    yield line.raw + b"\n"

    def _beginning(self) -> int:
        """Up to where there are records. An answer of the model is not torn in two."""
        count = 0
        while count < len(self.entries) and self.entries[count].id in self._records:
            count += 1
        if count == len(self.entries):
            return count
        end = self.entries[count].position
        for turn in self.history.turns:
            if turn.position < end <= max((entry.position for entry in turn.entries), default=-1):
                end = turn.position
        return sum(entry.position < end for entry in self.entries)

    def records(self) -> Iterator[tuple[Entry, dict[str, Json]]]:
        """The entries that are written as they were, and their records."""
        for entry in self.entries[: self.kept]:
            yield entry, self._records[entry.id]

    @property
    def _end(self) -> int:
        """The first position that is made anew."""
        if self.kept == len(self.entries):
            return self.entries[-1].position + 1 if self.entries else 0
        return self.entries[self.kept].position

    def open_calls(self) -> list[ToolCall]:
        """Calls among these records whose results are not."""
        end = self._end
        return [
            call
            for turn in self.history.turns
            if turn.position < end
            for call in turn.calls
            if call.answer.entry is None or call.answer.entry.position >= end
        ]

    def is_prompt(self, what: Entry | Turn) -> bool:
        """Whether it counts as said by a person. Of a subagent, what its parent told it."""
        return not what.injected or not self._has_prompt

    def rest(self) -> list[Turn]:
        """What is to be made anew. What belongs to another agent alone stays there."""
        found = self._after()
        return found if self.is_own else without_setup(found)

    def _after(self) -> list[Turn]:
        return [turn for turn in self.history.turns if turn.position >= self._end]

    def notes(self) -> list[str]:
        """What is not as it was, for a person."""
        found = self.history.notes()
        system = sum(turn.speaker == "system" for turn in self._after())
        if system:
            what = "instruction of its system was" if system == 1 else "instructions of its system were"
            found.append(f"{system} {what} left out: the agent has its own")
        thoughts = sum(len(turn.thoughts) for turn in self.rest())
        if thoughts and not self.is_own:
            found.append("reasoning was left out where no other model can take it back")
        return found


def line_of(record: Mapping[str, Json]) -> bytes:
    """A record in a line, as JavaScript and Rust write it."""
    return _encode(record) + b"\n"


def cleaned(pieces: Iterator[bytes], redactor: Redactor | None) -> Iterator[bytes]:
    """Lines without secrets."""
    for number, piece in enumerate(pieces, start=1):
        yield piece if redactor is None else _clean(piece, redactor, f"line {number}")


def _clean(line: bytes, redactor: Redactor, place: str) -> bytes:
    try:
        return redactor.raw(line.rstrip(b"\n"), place) + b"\n"
    except CorruptError:  # a lone surrogate has no UTF-8, but an escape
        clean = redactor.value(json.loads(line), place)
        return json.dumps(clean, separators=(",", ":")).encode() + b"\n"


def iso(time: datetime) -> str:
    """A time as JavaScript writes it."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}Z"


def own_uuid(*parts: str) -> str:
    """The same id for the same thing, whenever it is written."""
    return str(uuid5(NAMESPACE_OID, "/".join(parts)))


def checked_uuid(id: str) -> str:
    """An id that an agent takes for one of its own sessions. InvalidError: it is none."""
    try:
        return str(UUID(id))
    except ValueError as error:
        raise InvalidError(f"{id!r} is no UUID, which the ids of this agent's sessions are") from error


def is_of(info: SessionInfo, agent: str) -> bool:
    return agent in (info.agent, info.id.partition(":")[0])


def own_id(info: SessionInfo, agent: str) -> str:
    """The agent's id of a session for a file: its own, or one for what the agent does not know."""
    own = info.id.removeprefix(f"{agent}:")
    if own != info.id:
        try:
            return str(UUID(own))
        except ValueError:
            pass
    return own_uuid(info.id)
