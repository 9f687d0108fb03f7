"""The outline of a path: the prompts of people, compactions and checkpoints, each in one line.

Every entry knows where the last prompt and the last compaction before it are. So the way from one to the next
takes one read, however many entries lie between. What was found is remembered: entries never change, so a
path that has grown, or shares its beginning with one that was asked for, costs what is new on it.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from clew.backends.contract import STORE_WIDE, Reader
from clew.core.conversation.checkpoints import list_checkpoints, on_path
from clew.core.conversation.history import removed_name
from clew.core.conversation.points import head_of, path_of, tip_before
from clew.core.engine.engine import Engine
from clew.core.log import checks
from clew.core.log.ids import entry_id
from clew.core.log.labels import mark_of
from clew.core.log.rows import COMPACTION, MESSAGE, TRUNCATION, EntryRow, HeadRow, SessionRow
from clew.core.log.tree import Segment, clip, locate
from clew.core.messages.dialects import is_human_turn, prompt_of
from clew.core.messages.text import snippet, visible_line
from clew.errors import CorruptEntryError, CorruptError
from clew.model import Json, Outline, OutlineItem, OutlineKind, utc

LONGEST: Final = 120
"""Letters of a line."""
LOOKED_AT: Final = 4 * LONGEST
PER_LINE: Final = 10.0
PER_ENTRY: Final = 2.0
PER_BYTE: Final = 0.001
"""About how many microseconds it takes to find one line by its place, to read one entry of many, and to
unpack one byte of them. With many prompts in few entries it is faster to read all."""
PAGE: Final = 1000
PAGE_BYTES: Final = 4 * 1024 * 1024
"""Entries that are held at once, and how large they may be together."""
MOST_PATHS: Final = 8
"""Paths of one tree that are remembered,"""
MOST_KEPT: Final = 200_000
"""and lines of all trees together."""


class _Line(msgspec.Struct, frozen=True, gc=False):
    """A line, and the digest of its entry: it stands for the whole path up to there."""

    item: OutlineItem
    digest: bytes


class _Known(msgspec.Struct, frozen=True):
    """The lines of a path that was asked for."""

    parts: list[tuple[str, int, int]]
    """The branches of the path by their names, with the first and the last position on each."""
    lines: list[_Line]
    last: int
    digest: bytes
    """Of the entry at which it ends."""


class Outlines:
    """Makes outlines of one store, and remembers some paths of each tree. Safe from any thread."""

    def __init__(self, engine: Engine | None = None) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[int, tuple[_Known, ...]] = OrderedDict()

    def stop(self) -> None:
        """There is nothing to stop."""

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def read(self, reader: Reader, row: SessionRow) -> Outline:
        """The outline of the path to where a session stands."""
        items = [line.item for line in self._lines(reader, row)]
        marks = [_labelled(one, items) for one in _checkpoints(reader, row)]
        if marks:
            items = sorted([*items, *marks], key=lambda one: one.position)  # stable: behind their entries
        head = head_of(reader, row.head)
        return Outline(items=tuple(items), entries=row.head.position + 1, head=head)

    def _lines(self, reader: Reader, row: SessionRow) -> list[_Line]:
        head, segments = row.head, path_of(reader, row.head)
        if reader.get_record(STORE_WIDE, "retention", removed_name(row.tree)) is not None:
            # Messages were taken away, and their hashes were kept: what is remembered may say too much.
            with self._lock:
                self._known.pop(row.tree, None)
            return _read(reader, head, segments, 0)
        parts = [(reader.get_branch(part.branch).uid, part.first, part.last) for part in segments]
        with self._lock:
            known = self._known.get(row.tree, ())
        best = max(known, key=lambda one: _last_shared(one, parts), default=None)
        old, first = ([], 0) if best is None else _shared(reader, best, parts, segments)
        lines = old + _read(reader, head, segments, first)
        if best is not None and first and _last_shared(best, parts) == head.position:
            self._keep(row.tree, best, instead=best)  # it has all of this path
        else:
            has_grown = best is not None and first == best.last + 1
            new = _Known(parts, lines, head.position, head.digest)
            self._keep(row.tree, new, instead=best if has_grown else None)
        return lines

    def _keep(self, tree: int, known: _Known, instead: _Known | None) -> None:
        """Remember a path. `instead`: it begins with all of this one, which is not needed any more."""
        with self._lock:
            others = [one for one in self._known.pop(tree, ()) if one is not instead]
            self._known[tree] = (known, *others[: MOST_PATHS - 1])
            while len(self._known) > 1 and self._size() > MOST_KEPT:
                self._known.popitem(last=False)
            if self._size() > MOST_KEPT:
                self._known[tree] = (known,)

    def _size(self) -> int:
        return sum(len(one.lines) for paths in self._known.values() for one in paths)


def _last_shared(known: _Known, parts: Sequence[tuple[str, int, int]]) -> int:
    """The last position that two paths have in common, by the names of their branches; -1: none."""
    last = -1
    for (uid, first, end), (own, own_first, own_end) in zip(known.parts, parts, strict=False):
        if (uid, first) != (own, own_first):
            break
        last = min(end, own_end)
        if end != own_end:
            break
    return last


def _shared(
    reader: Reader, known: _Known, parts: Sequence[tuple[str, int, int]], segments: Sequence[Segment]
) -> tuple[list[_Line], int]:
    """The lines of a path that are known already, and the position from which on it has to be read."""
    last = _last_shared(known, parts)
    lines = known.lines[: bisect_right(known.lines, last, key=lambda line: line.item.position)]
    if last == known.last:
        digest = known.digest
    elif lines:
        last, digest = lines[-1].item.position, lines[-1].digest
    else:
        return [], 0
    # The names of branches say it already. The hash says it whatever happened to the store.
    if last < 0 or tip_before(reader, segments, last + 1).digest != digest:
        return [], 0
    return lines, last + 1


# -- reading


def _read(reader: Reader, head: HeadRow, segments: Sequence[Segment], first: int) -> list[_Line]:
    """The lines of a path from a position on."""
    before = tip_before(reader, segments, first)
    entries, size = head.position - before.position, head.size - before.size
    if (head.turns - before.turns) * PER_LINE <= entries * PER_ENTRY + size * PER_BYTE:
        try:
            return _walk(reader, head, segments, first)
        except CorruptError:
            pass  # an entry is missing, and with it the way to those before
    return [line for line in _scan(reader, segments, first, head.position) if line is not None]


def _walk(reader: Reader, head: HeadRow, segments: Sequence[Segment], first: int) -> list[_Line]:
    """From each prompt or mark to the one before it. An entry is read with the one before, which knows where
    to go on."""
    lines: list[_Line] = []
    tip = head
    while (place := max(tip.last_user_turn, tip.view_start)) >= first:
        if place > tip.position:
            raise CorruptError(f"entry {tip.position} names a prompt that comes later")
        branch = locate(segments, place)
        start = place - 1 if locate(segments, place - 1) == branch else place
        rows = {row.position: row for row in reader.read_entries(branch, start, place, on_damage=_pass_over)}
        earlier = rows.get(place - 1)
        tip = tip_before(reader, segments, place) if earlier is None else earlier.tip(branch)
        line = _line(reader.get_branch(branch).uid, rows[place]) if place in rows else None
        if line is not None:
            lines.append(line)
    lines.reverse()
    return lines


def _scan(reader: Reader, segments: Sequence[Segment], first: int, last: int) -> Iterator[_Line | None]:
    """All entries, in their order."""
    for part in clip(segments, first, last):
        uid = reader.get_branch(part.branch).uid
        at, end = part.first, min(part.last, reader.last_position(part.branch))
        while at <= end:
            top = min(end, at + PAGE - 1)
            rows = reader.read_entries(part.branch, at, top, room=PAGE_BYTES, on_damage=_pass_over)
            is_full = sum(len(row.body) for row in rows) >= PAGE_BYTES
            at = (rows[-1].position if is_full else top) + 1
            for row in rows:
                if row.kind != MESSAGE or row.last_user_turn == row.position:
                    yield _line(uid, row)


def _pass_over(damage: CorruptEntryError) -> None:
    """An entry that cannot be read costs its line."""


def _line(uid: str, entry: EntryRow) -> _Line | None:
    """None: the entry has no line."""
    try:
        content = checks.message(uid, entry.position, entry.body)
    except CorruptEntryError:
        return None
    kind: OutlineKind
    if entry.kind == MESSAGE and is_human_turn(content, entry.flags):
        kind, text = "prompt", prompt_of(content)
    elif entry.kind == COMPACTION:
        kind, text = "compaction", _first_words(content)
    elif entry.kind == TRUNCATION:
        kind, text = "truncation", ""
    else:
        return None
    item = OutlineItem(
        id=entry_id(uid, entry.position),
        position=entry.position,
        kind=kind,
        at=utc(entry.time),
        text=_short(text),
    )
    return _Line(item, entry.digest)


def _short(text: str) -> str:
    """On one line, and nothing in it acts."""
    text = text[:LOOKED_AT]
    return snippet(text if text.isprintable() else visible_line(text), LONGEST)


def _first_words(content: dict[str, Json]) -> str:
    """What stands for the history before a compaction."""
    messages = content.get("messages")
    said = (prompt_of(one) for one in messages if isinstance(one, dict)) if isinstance(messages, list) else ()
    return next(filter(None, said), "")


def _labelled(mark: OutlineItem, items: Sequence[OutlineItem]) -> OutlineItem:
    """A checkpoint with the last prompt up to it, if its name says nothing. `items`: in the order of the
    path."""
    if mark_of(mark.text) is None:
        return mark
    before = items[: bisect_right(items, mark.position, key=lambda one: one.position)]
    prompt = next((one.text for one in reversed(before) if one.kind == "prompt" and one.text), None)
    return mark if prompt is None else msgspec.structs.replace(mark, label=prompt)


def _checkpoints(reader: Reader, row: SessionRow) -> list[OutlineItem]:
    found = list_checkpoints(reader, row)
    if not found:
        return []
    lies_there = on_path(reader, row.head)
    return [
        OutlineItem(
            id=entry_id(one.head.branch, one.position) if one.position >= 0 else "start",
            position=one.position,
            kind="checkpoint",
            at=one.created_at,
            text=_short(one.name),
            snapshot=one.snapshot,
        )
        for one in found
        if lies_there(one.head)
    ]
