"""The lines of the file that a session came from, so that it can be written again, byte for byte.

Most of a line is in the store anyway: the message, its notes, the data of an event. These are cut out. What
is left of the lines of a batch, some hundred bytes each, is one compressed record of the session, written in
the transaction of the batch.

A line comes back only if it is as a check over its bytes says: its entry may have lost its content, or an
annotation that came with it was changed. Lines that are no JSON never get here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.conversation.history import note_name
from clew.core.load.entries import Item, Memory, recall
from clew.core.log.lines import (
    ENTRY,
    EVENT,
    NOTHING,
    LineRecord,
    OfWhat,
    check_of,
    decode_lines,
    encode_lines,
    lines_name,
)
from clew.core.log.rows import COMPACTION, EventRow
from clew.core.redact.hints import may_hold
from clew.core.redact.incoming import Incoming
from clew.model import Json
from clew.model.source import SourceEntry, SourceEvent, SourceLine

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike

EXTENDED: Final = 4 * 1024
"""A record below this size takes the lines of the next batch too: else a session that is followed line by
line would have a record for each."""
_ALONE: Final = 4 * 1024 * 1024
"""Bytes of literals that one record takes, if there is more than one line."""
_SMALL: Final = 48
"""What is smaller is not worth a cut."""
_ANCHOR: Final = 24
_LONG: Final = 320

_encode_json = msgspec.json.Encoder().encode
_decode_json = msgspec.json.Decoder().decode

Cut: TypeAlias = tuple[int, int, int, int]
"""Where it was in the line; of which of its sources, from where on there, and how many bytes."""
Sources: TypeAlias = Sequence[bytes | None]


class StoredLine(msgspec.Struct, frozen=True):
    """A line as it comes back."""

    number: int
    name: str
    """Of its entry, as the source calls it, or the id of its event; may be empty."""
    kind: OfWhat
    raw: bytes | None
    """Without its end; None: it cannot be made again."""


# -- on the way in


class _Line(msgspec.Struct, frozen=True, gc=False):
    number: int
    name: str
    kind: OfWhat
    check: int
    cuts: list[int]
    text: bytes


class LineWriter:
    """Keeps the lines of one load. A line that is there already, and the same, is passed over; one that
    differs shows that the file was rewritten: it and those behind it take the places of the old ones."""

    def __init__(self, engine: EngineLike, sid: int | None, cleaner: Incoming | None = None) -> None:
        """`sid`: of the session, if it is there."""
        self._engine = engine
        self._sid = sid
        self._cleaner = cleaner
        self._waiting: list[_Line] = []
        self._unread: list[tuple[bytes, Sources]] = []
        """Each of these lines as a whole, as long as nothing looked for secrets in it."""
        self._newest = 0
        """The number of the line that was taken last."""
        self._last = -1 if sid is not None else 0
        """The number of the last line that was there before; -1: not asked yet."""
        self._known: dict[int, int] = {}
        """The checks of the lines that were there, by their numbers, once a line is read again."""
        self._replace_from = 0
        self.size = 0
        """Of what waits to be written, in bytes."""

    def take(self, entry: SourceEntry, item: Item | None, events: Sequence[EventRow]) -> None:
        """The lines of an entry, and of the events before it. `item`, `events`: as they are kept. Without
        them they were kept by an earlier load, or cannot be."""
        if entry.events:
            self.take_events(entry.events, events)
        if entry.line is None or not self._is_new(entry.line):
            return
        sources: Sources = ()
        if item is not None:
            sources = (None if item.kind == COMPACTION else item.body, item.note)
        elif entry.kind == "message" and not self._replace_from:
            sources = (_raw_of(entry.message),)  # an older version kept the message, and no line
        self._take(entry.line, entry.uid, ENTRY, sources)

    def take_events(self, events: Iterable[SourceEvent], kept: Sequence[EventRow]) -> None:
        data: dict[str | None, bytes] | None = None
        for event in events:
            if event.line is None or not self._is_new(event.line):
                continue
            if not event.type:
                self._take(event.line, "", NOTHING, ())
                continue
            if data is None:
                data = {row.id: row.data for row in kept}
            self._take(event.line, event.id, EVENT, (data.get(event.id),))

    def _is_new(self, line: SourceLine) -> bool:
        """Whether a line has to be kept."""
        number = line.number
        if number <= self._newest:
            return False  # it was taken with what stands in the same line, or is of another file
        self._newest = number
        if self._last < 0 or (number <= self._last and not self._known):
            self._learn(number)
        if number > self._last or self._replace_from:
            return True
        raw = line.raw or _raw_of(line.record)
        known = self._known.get(number)
        if known == check_of(raw) or (self._cleaner and known == check_of(_clean(self._cleaner, raw))):
            return False
        self._replace_from = number
        return True

    def _learn(self, number: int) -> None:
        assert self._sid is not None
        with self._engine.read() as reader:
            self._last = _End.of(reader, self._sid).last
            if number <= self._last:
                self._known = {
                    each: check
                    for _, value in reader.scan_records(self._sid, "line")
                    for record in (decode_lines(value),)
                    for each, check in zip(record.numbers, record.checks, strict=True)
                }

    def _take(self, line: SourceLine, name: str, kind: OfWhat, sources: Sources) -> None:
        raw = line.raw or _raw_of(line.record)
        text, cuts = cut(raw, sources)
        if self._cleaner is not None:
            self._unread.append((raw, sources))
        self._waiting.append(_Line(line.number, name, kind, check_of(raw), cuts, text))
        self.size += len(text)

    def take_secrets_out(self) -> None:
        """To be called before a transaction begins: the key of the store may have to be made. What is left of
        all lines is looked at at once, as nearly never there is a secret in it. What was cut out has none: it
        is as the store has it."""
        unread, self._unread = self._unread, []
        if self._cleaner is None or not _may_hold_secrets(b"\n".join(line.text for line in self._waiting)):
            return
        for at, (raw, sources) in enumerate(unread):
            line = self._waiting[at]
            if _may_hold_secrets(line.text) and (clean := _clean(self._cleaner, raw)) != raw:
                text, cuts = cut(clean, sources)
                self._waiting[at] = _Line(line.number, line.name, line.kind, check_of(clean), cuts, text)

    def write(self, tx: Transaction, sid: int) -> None:
        """Keep what was taken since `commit` was called last. It may run again after a rollback."""
        if not self._waiting:
            return
        if self._replace_from:
            _truncate(tx, sid, self._replace_from)
        end = _End.of(tx, sid)
        fresh = [line for line in self._waiting if line.number > end.last]
        if fresh:
            _append(tx, sid, end, fresh)

    def commit(self) -> None:
        """The transaction came to its end."""
        if self._waiting and self._replace_from:
            self._last, self._replace_from = self._waiting[-1].number, 0
        self._waiting, self._unread, self.size = [], [], 0


class _End(msgspec.Struct, frozen=True):
    """The last record of a session."""

    name: str = ""
    record: LineRecord | None = None
    size: int = 0
    last: int = 0
    """The number of its last line."""

    @classmethod
    def of(cls, reader: Reader, sid: int) -> _End:
        found = reader.scan_records(sid, "line", reverse=True, limit=1)
        if not found:
            return cls()
        name, value = found[0]
        record = decode_lines(value)
        return cls(name, record, len(value), sum(record.steps))


def _may_hold_secrets(text: bytes) -> bool:
    return b"\\u00" in text or may_hold(text)


def _clean(cleaner: Incoming, raw: bytes) -> bytes:
    """A line without secrets, as the store has it; one that has none as it was."""
    try:
        plain = _encode_json(_decode_json(raw))  # no escape hides anything in it
        clean = cleaner.body(plain)
    except msgspec.MsgspecError:  # a lone surrogate
        return cleaner.line(raw)
    return clean if clean != plain else raw


def _raw_of(record: Json) -> bytes:
    try:
        return _encode_json(record)
    except (UnicodeEncodeError, ValueError, TypeError, OverflowError):
        import json  # a lone surrogate has no UTF-8, but an escape

        return json.dumps(record, separators=(",", ":")).encode()


def cut(raw: bytes, sources: Sources) -> tuple[bytes, list[int]]:
    """What is left of a line without what its sources hold, and where that was."""
    found: list[Cut] = []
    for number, source in enumerate(sources):
        if source is not None and len(source) >= _SMALL:
            one = _whole(raw, source, number)
            if one is None and len(source) >= _LONG:
                one = _part(raw, source, number)
            if one is not None:
                found.append(one)
    if not found:
        return raw, []
    if len(found) == 1:
        at, _, _, size = found[0]
        return raw[:at] + raw[at + size :], list(found[0])
    left: list[bytes] = []
    cuts: list[int] = []
    end = 0
    for one in sorted(found):
        at, size = one[0], one[3]
        if at >= end:
            left.append(raw[end:at])
            cuts += one
            end = at + size
    return b"".join((*left, raw[end:])), cuts


def _whole(raw: bytes, source: bytes, number: int) -> Cut | None:
    """A source that stands in the line as it is, or but for its brackets: it lost other members."""
    at = raw.find(source[:_ANCHOR])
    if at >= 0:
        if raw.startswith(source, at):
            return at, number, 0, len(source)
        if raw.startswith(source[:-1], at):
            return at, number, 0, len(source) - 1
    at = raw.find(source[1 : 1 + _ANCHOR])
    if at >= 0 and raw.startswith(source[1:-1], at):
        return at, number, 1, len(source) - 2
    return None


def _part(raw: bytes, source: bytes, number: int) -> Cut | None:
    """What a source and the line have in common around the middle of the source, if it has another shape than
    the line: a long text, as a rule."""
    middle = len(source) // 2
    at = raw.find(source[middle : middle + _ANCHOR])
    if at < 0:
        return None
    most = min(len(source) - middle, len(raw) - at)
    after = _longest(most, lambda size: raw.startswith(source[middle : middle + size], at))
    before = _longest(min(middle, at), lambda size: raw.endswith(source[middle - size : middle], 0, at))
    if before + after < _SMALL:
        return None
    return at - before, number, middle - before, before + after


def _longest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest size that fits, if all smaller ones do."""
    if fits(most):
        return most
    low, high = 0, most
    while high - low > 1:
        size = (low + high) // 2
        if fits(size):
            low = size
        else:
            high = size
    return low


def _append(tx: Transaction, sid: int, end: _End, lines: Sequence[_Line]) -> None:
    """Behind those that are there: into the last record while that is small, else into new ones."""
    record, name, last = LineRecord(), lines_name(lines[0].number), 0
    if end.record is not None and end.size < EXTENDED:
        record, name, last = end.record, end.name, end.last
    texts, size = [record.text], len(record.text)
    for line in lines:
        if record.steps and size + len(line.text) > _ALONE:
            _put(tx, sid, name, record, texts)
            record, name, last, texts, size = LineRecord(), lines_name(line.number), 0, [], 0
        record.steps.append(line.number - last)
        record.names.append(line.name)
        record.kinds.append(line.kind)
        record.checks.append(line.check)
        record.cuts.append(line.cuts)
        record.sizes.append(len(line.text))
        texts.append(line.text)
        size += len(line.text)
        last = line.number
    _put(tx, sid, name, record, texts)


def _put(tx: Transaction, sid: int, name: str, record: LineRecord, texts: Sequence[bytes]) -> None:
    record.text = b"".join(texts)
    tx.put_record(sid, "line", name, encode_lines(record))


def _truncate(tx: Transaction, sid: int, first: int) -> None:
    """Drop this line and all behind it."""
    for name, value in tx.scan_records(sid, "line", reverse=True):
        tx.drop_record(sid, "line", name)
        if int(name) >= first:
            continue
        record = decode_lines(value)
        count = sum(number < first for number in record.numbers)
        kept = LineRecord(
            record.steps[:count],
            record.names[:count],
            record.kinds[:count],
            record.checks[:count],
            record.cuts[:count],
            record.sizes[:count],
            record.text[: sum(record.sizes[:count])],
        )
        tx.put_record(sid, "line", name, encode_lines(kept))
        return


# -- on the way back


def stored_lines(reader: Reader, sid: int, memory: Memory | None = None) -> Iterator[StoredLine]:
    """The lines of a session in the order of its file. `memory`: where its entries are, if that is known."""
    memory = memory or recall(reader, sid) or Memory()
    sources = _SourceReader(reader, sid, memory)
    for _, value in reader.scan_records(sid, "line"):
        record = decode_lines(value)
        start = 0
        columns = (record.numbers, record.names, record.kinds, record.checks, record.cuts, record.sizes)
        rows: Iterable[tuple[Any, ...]] = zip(*columns, strict=True)
        for number, name, kind, check, cuts, size in rows:
            text = record.text[start : start + size]
            start += size
            raw = _joined(text, cuts, sources.of(name, kind)) if cuts else text
            is_same = raw is not None and check_of(raw) == check
            yield StoredLine(number, name, kind, raw if is_same else None)


def has_lines(reader: Reader, sid: int) -> bool:
    return bool(reader.scan_records(sid, "line", limit=1))


def _joined(text: bytes, cuts: Sequence[int], sources: Callable[[int], bytes | None]) -> bytes | None:
    parts: list[bytes] = []
    at = end = 0
    for place, number, first, size in zip(*(iter(cuts),) * 4, strict=True):
        source = sources(number)
        if source is None or place < end or min(first, size) < 0:
            return None
        parts += text[at : at + place - end], source[first : first + size]
        at, end = at + place - end, place + size
    return b"".join((*parts, text[at:]))


class _SourceReader:
    """What was cut out of lines, read from the store; entries that lie together are read together."""

    _AHEAD: Final = 64
    _ROOM: Final = 1024 * 1024

    def __init__(self, reader: Reader, sid: int, memory: Memory) -> None:
        self._reader = reader
        self._sid = sid
        self._memory = memory
        self._bodies: dict[tuple[int, int], bytes] = {}
        self._uids: dict[int, str] = {}

    def of(self, name: str, kind: OfWhat) -> Callable[[int], bytes | None]:
        if kind == EVENT:
            return lambda number: self._event(name)
        if kind == ENTRY and (place := self._memory.place(name)) is not None:
            return lambda number: self._note(*place) if number else self._body(*place)
        return lambda number: None

    def _event(self, id: str) -> bytes | None:
        found = self._reader.find_event(self._sid, id)
        return None if found is None else found.data

    def _body(self, branch: int, position: int) -> bytes | None:
        found = self._bodies.get((branch, position))
        if found is None:
            rows = self._reader.read_entries(
                branch,
                position,
                min(position + self._AHEAD, self._reader.last_position(branch)),
                room=self._ROOM,
                on_damage=lambda _: None,
            )
            self._bodies = {(branch, row.position): row.body for row in rows}
            found = self._bodies.get((branch, position))
        return found

    def _note(self, branch: int, position: int) -> bytes | None:
        if branch not in self._uids:
            self._uids[branch] = self._reader.get_branch(branch).uid
        return self._reader.get_record(STORE_WIDE, "annotation", note_name(self._uids[branch], position))
