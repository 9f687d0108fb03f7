"""What a file of Gemini CLI says when all its updates are applied, and what each of them took away.

A message is written again and again while it comes about: its words, then its calls with their results, round
after round. It is an entry when another message follows it, or its words are there and paid for: the calls
that come later are a message of their own behind them, which waits as well. Whatever else is written over
stays on a branch, as if it were rewound.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from clew.importers.contract import NotFollowedError
from clew.importers.programs.gemini_cli.messages import has_calls, has_results, has_words, is_open
from clew.importers.reading.jsonlines import Line
from clew.importers.reading.values import (
    LogNames,
    NamesState,
    digest,
    digest_of_line,
    items,
    mapping,
    text,
    version,
)
from clew.model import Json


class Ref(msgspec.Struct, frozen=True, array_like=True):
    """Where a message stands: its bytes are read again when they are wanted."""

    id: str
    offset: int
    within: int | None
    """In the list of messages of its line; None: the line is the message."""
    digest: str
    words: str = ""
    """The digest of the words of an answer that has calls too: they are a message of their own,"""
    words_at: tuple[int, int | None] = (0, None)
    """and stand there: offset and `within`."""
    has_results: bool = False
    is_open: bool = False
    time: str = ""
    """As the message tells it."""
    is_said: bool = False
    """Its words are told though it is open: they are paid for."""

    def names(self, parent: str | None) -> tuple[str | None, str, str]:
        """The uids of its words, if they are apart, of itself, and of its last entry."""
        words = version(parent, self.id, self.words) if self.words else None
        own = version(words or parent, self.id, self.digest)
        return words, own, f"{own}/results" if self.has_results else own


class State(msgspec.Struct, frozen=True, array_like=True):
    """What a file has told up to a place."""

    about: dict[str, Json]
    before: str | None
    """The uid of the entry before the messages below,"""
    is_cut: bool
    """and whether there are some."""
    newest_cut: str
    """The latest time of these: a message of that time or before it may be one of them."""
    refs: list[Ref]
    """The last messages of the path."""
    is_held: bool
    """The last of them is no entry yet."""
    model: str | None
    at: datetime | None
    """When the last entry was made."""
    names: NamesState = NamesState()
    """Of records that are not understood."""


class GeminiFold:
    """Applies one line after the other. Small: of a message it keeps a name and a place."""

    def __init__(self, state: State | None = None) -> None:
        self._state = state
        self.about: dict[str, Json] = {} if state is None else dict(state.about)
        self.abandoned: list[list[Ref]] = []
        """What was there before each rewind, and before each update that left something out."""
        self.unknown: list[tuple[Line, str]] = []
        """Lines that say nothing that is known here, and their names."""
        self.names = LogNames(None if state is None else state.names)
        self._current: dict[str, Ref] = {} if state is None else {ref.id: ref for ref in state.refs}

    @property
    def current(self) -> list[Ref]:
        return list(self._current.values())

    @property
    def before(self) -> str | None:
        """The uid of the entry before all paths."""
        return None if self._state is None else self._state.before

    def apply(self, line: Line) -> None:
        record = line.record
        if isinstance(record.get("$rewindTo"), str):
            self._rewind(text(record["$rewindTo"]))
        elif isinstance(record.get("$set"), dict):
            self._describe(record["$set"], line.offset)
        elif "type" in record and text(record.get("id")):
            self._put(_ref(record, record["id"], line.offset, None))
        elif "sessionId" in record:
            self._describe(record, line.offset)
        else:
            behind = next(reversed(self._current), "")
            name = self.names.beside(digest_of_line(line.raw, record), record.get("timestamp"), behind=behind)
            self.unknown.append((line, name))

    def _describe(self, fields: dict[str, Json], offset: int) -> None:
        if self._state is not None:
            if isinstance(fields.get("messages"), list):
                raise NotFollowedError("a list replaces all messages")
            if "sessionId" in fields and fields["sessionId"] != self.about.get("sessionId"):
                raise NotFollowedError("the session has another id")
        began = self.about.get("startTime")  # a session that is resumed tells another time
        self.about |= {name: value for name, value in fields.items() if name != "messages"}
        if began is not None:
            self.about["startTime"] = began
        if isinstance(fields.get("messages"), list):
            self._replace(_refs(fields["messages"], offset))

    def _put(self, new: Ref) -> None:
        old = self._current.get(new.id)
        if old is None:
            self._check_new(new)
        elif old.digest == new.digest:
            return  # it stands where it stood first
        elif not self._grows(old, new):
            self.abandoned.append(self.current)
        self._current[new.id] = _with_words_of(old, new)

    def _check_new(self, new: Ref) -> None:
        if self._state is not None and self._state.is_cut and new.time <= self._state.newest_cut:
            raise NotFollowedError(f"the message {new.id!r} may be an old one")

    def _grows(self, old: Ref, new: Ref) -> bool:
        """Whether the new version takes nothing back that is an entry."""
        if old.id != next(reversed(self._current)):
            return False
        return old.digest == new.words or (old.is_open and not (old.is_said and old.words != new.words))

    def _rewind(self, target: str | None) -> None:
        """The target goes too. An unknown one clears everything: so does Gemini."""
        if target not in self._current and self._state is not None and self._state.is_cut:
            raise NotFollowedError(f"a rewind to {target!r}")
        ids = list(self._current)
        at = ids.index(target) if target in self._current else 0
        if ids[at:]:
            self.abandoned.append(self.current)
        for gone in ids[at:]:
            del self._current[gone]

    def _replace(self, refs: dict[str, Ref]) -> None:
        # While an answer arrives, its message grows; whatever else is different was taken away.
        before = self.current
        after = list(refs.values())
        settled = [(ref.id, ref.digest) for ref in before[:-1]]
        same = settled == [(ref.id, ref.digest) for ref in after[: len(settled)]]
        last_stays = not before or (
            len(after) >= len(before) and self._stays(before[-1], after[len(settled)])
        )
        if not (same and last_stays):
            self.abandoned.append(before)
        self._current = {id: _with_words_of(self._current.get(id), ref) for id, ref in refs.items()}

    def _stays(self, old: Ref, new: Ref) -> bool:
        return old.id == new.id and (old.digest == new.digest or self._grows(old, new))


def _with_words_of(old: Ref | None, new: Ref) -> Ref:
    """The words of an answer stand where they stood first."""
    if old is None or not new.words:
        return new
    if old.digest == new.words:
        return msgspec.structs.replace(new, words_at=(old.offset, old.within))
    return msgspec.structs.replace(new, words_at=old.words_at) if old.words == new.words else new


def _refs(messages: Json, offset: int) -> dict[str, Ref]:
    refs: dict[str, Ref] = {}
    for index, message in enumerate(items(messages)):
        if isinstance(message, dict):
            name = text(message.get("id")) or f"#{index}"
            refs[name] = _ref(message, name, offset, index)
    return refs


def _ref(record: dict[str, Json], name: str, offset: int, within: int | None) -> Ref:
    is_answer = record.get("type") == "gemini"
    calls = is_answer and has_calls(record)
    plain = record if not is_answer or calls else without_calls(record)
    return Ref(
        id=name,
        offset=offset,
        within=within,
        digest=digest(plain),
        words=digest(without_calls(record)) if calls and has_words(record) else "",
        words_at=(offset, within),
        has_results=is_answer and has_results(record),
        is_open=is_open(record),
        time=text(record.get("timestamp")) or "",
        is_said=calls and has_words(record) and bool(mapping(record.get("tokens"))),
    )


def without_calls(record: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in record.items() if name != "toolCalls"}
