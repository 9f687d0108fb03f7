"""Reading what lies on a path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final

import msgspec

from clew.backends.contract import STORE_WIDE, OnDamage, Reader
from clew.core.conversation.points import Point, path_of, position_on_path, resolve, tip_at, tip_before
from clew.core.engine.engine import EngineLike
from clew.core.log.ids import MAX_POSITION, check_count, check_id, entry_id
from clew.core.log.records import decoder, number_in
from clew.core.log.rows import KIND_NAMES, NOT_HUMAN, REDACTED, REMOVED, REPLACED, EntryRow, SessionRow
from clew.core.log.tree import Segment, clip, clipped, locate
from clew.core.redact.markers import count_markers
from clew.core.runs.access import live
from clew.errors import CorruptEntryError, CorruptError, InvalidQueryError, SessionDeletedError
from clew.model import NO_ANNOTATIONS, Entry, Json

PAGE: Final = 64
"""Entries that an iteration holds in memory at once,"""
PAGE_BYTES: Final = 4 * 1024 * 1024
"""and how large they may be together, unless a single one is larger."""


def entry_of(uid: str, row: EntryRow, notes: dict[int, dict[str, Json]] | None = None) -> Entry:
    return Entry(
        entry_id(uid, row.position),
        row.position,
        KIND_NAMES[row.kind],
        row.body,
        row.time,
        row.digest,
        bool(row.flags & REPLACED),
        (notes.get(row.position, NO_ANNOTATIONS) if notes else NO_ANNOTATIONS),
        row.epoch,
        bool(row.flags & NOT_HUMAN),
        count_markers(row.body) if row.flags & REDACTED else 0,
    )


def note_name(uid: str, position: int) -> str:
    """The name under which the annotations of an entry are kept: sorts by position."""
    return f"{uid}.{position:010d}"


decode_note: Callable[[bytes], dict[str, Json]] = decoder(dict[str, Any], "an annotation")


def notes_beside(reader: Reader, sid: int, uid: str, rows: Sequence[EntryRow]) -> dict[int, dict[str, Json]]:
    """What stands beside these entries of a branch in a session, by position: what it noted itself, else what
    came with the entry. `sid` STORE_WIDE: only what came with them."""
    low, high = sorted((rows[0].position, rows[-1].position))
    found: dict[str, bytes] = {}
    for owner in dict.fromkeys((STORE_WIDE, sid)):
        found |= reader.scan_records(owner, "annotation", note_name(uid, low), note_name(uid, high))
    return {
        number_in(name.rpartition(".")[2], f"the annotation {name!r}"): decode_note(value)
        for name, value in found.items()
    }


def read_path(
    reader: Reader,
    sid: int,
    segments: Sequence[Segment],
    first: int,
    last: int,
    *,
    reverse: bool = False,
    limit: int | None = None,
    room: int | None = None,
    on_damage: OnDamage | None = None,
) -> list[Entry]:
    """The entries of a path between two positions as a session has them, with what it noted beside them; at
    most `limit` of them, and no more than fit into about `room` bytes."""
    found: list[Entry] = []
    parts = clip(segments, first, last)
    for part in reversed(parts) if reverse else parts:
        left = None if limit is None else limit - len(found)
        if left is not None and left <= 0:
            break
        rows = reader.read_entries(
            part.branch, part.first, part.last, reverse=reverse, limit=left, room=room, on_damage=on_damage
        )
        uid = reader.get_branch(part.branch).uid
        notes = notes_beside(reader, sid, uid, rows) if rows else None
        found += [entry_of(uid, row, notes) for row in rows]
        if room is not None and len(parts) > 1:
            room -= sum(len(row.body) for row in rows)
            if room <= 0:
                break
    return found


def read_messages(
    reader: Reader,
    segments: Sequence[Segment],
    first: int,
    last: int,
    *,
    reverse: bool = False,
    limit: int | None = None,
    room: int | None = None,
    on_damage: OnDamage | None = None,
) -> list[tuple[int, dict[str, Json]]]:
    """Positions and messages of a path between two positions; with `room` of one branch only."""
    found: list[tuple[int, dict[str, Json]]] = []
    for part in clipped(segments, first, last, reverse=reverse):
        left = None if limit is None else limit - len(found)
        if left is not None and left <= 0:
            break
        found += reader.read_messages(
            part.branch, part.first, part.last, reverse=reverse, limit=left, room=room, on_damage=on_damage
        )
        if room is not None and found:
            break
    return found


def standing_at(reader: Reader, row: SessionRow, at: Point | None) -> SessionRow:
    """The session as if it stood at a point of its tree."""
    if at is None:
        return row
    return msgspec.structs.replace(row, head=tip_at(reader, *resolve(reader, row, at)))


def span(
    reader: Reader, row: SessionRow, before: Point | None, after: Point | None
) -> tuple[list[Segment], int, int]:
    """The path, and the first and last position between two points, both left out."""
    first = 0 if after is None else position_on_path(reader, row, after) + 1
    last = row.head.position if before is None else position_on_path(reader, row, before) - 1
    return path_of(reader, row.head), first, last


def check_last(last: int | None) -> int | None:
    if last is None:
        return None
    return min(check_count(last, "last", error=InvalidQueryError), MAX_POSITION)


def messages(
    reader: Reader,
    row: SessionRow,
    last: int | None,
    before: Point | None,
    after: Point | None,
    *,
    newest_first: bool,
    at: Point | None = None,
) -> list[dict[str, Json]]:
    row = standing_at(reader, row, at)
    segments, low, high = span(reader, row, before, after)
    last = check_last(last)
    backwards = last is not None
    found = read_messages(reader, segments, low, high, reverse=backwards, limit=last)
    if last is None or len(found) < last:
        _check_complete(reader, row, segments, low, high, len(found))
    elif found:
        _check_complete(reader, row, segments, found[-1][0], high, len(found))
    if backwards != newest_first:
        found.reverse()
    return [message for _, message in found]


def _check_complete(
    reader: Reader, row: SessionRow, segments: Sequence[Segment], first: int, last: int, found: int
) -> None:
    """A history must not come back shorter because rows are missing: name the first that is."""
    if first > last:
        return
    end = row.head if last == row.head.position else tip_at(reader, locate(segments, last), last)
    missing = end.messages - tip_before(reader, segments, first).messages - found
    if missing and missing != removed_between(reader, segments, first, last):
        read_path(reader, row.sid, segments, first, last)  # raises CorruptEntryError
        raise CorruptError(
            f"session {row.id!r} counts {end.messages} messages up to {last}, but holds {found}"
        )


def removed_name(tree: int) -> str:
    """The name of the record that says that messages were removed from a tree by a retention rule."""
    return f"removed:{tree}"


def removed_between(reader: Reader, segments: Sequence[Segment], first: int, last: int) -> int:
    """How many messages of a path a retention rule took away, between two positions."""
    return sum(
        reader.count_entries(part.branch, part.first, part.last, REMOVED)
        for part in clip(segments, first, last)
    )


def pages(
    read: Callable[[], AbstractContextManager[Reader]],
    sid: int,
    id: str,
    *,
    last: int | None = None,
    before: Point | None = None,
    after: Point | None = None,
    newest_first: bool = False,
    label: str | None = None,
    damaged: str = "raise",
    on_damage: Callable[[CorruptEntryError], object] | None = None,
    at: Point | None = None,
) -> Iterator[list[Entry]]:
    """Entries in lists. No storage is held between two of them, however long the caller takes."""
    with read() as reader:
        row = standing_at(reader, live(reader, sid, id), at)
        segments, first, high = span(reader, row, before, after)
        last = check_last(last)
        if last is not None:
            first = max(first, high - last + 1)
        places = None
        if label is not None:
            places = _labelled_on(reader, row, segments, check_id(label, "label"))
        spans = [(first, high)]
        if damaged == "skip":
            spans = _held(reader, segments, first, high, on_damage)
    skip = partial(_skip, sid, id, on_damage) if damaged == "skip" else None
    for low, top in reversed(spans) if newest_first else spans:
        yield from _pages_between(read, sid, id, segments, low, top, places, newest_first, skip)


def _held(
    reader: Reader,
    segments: Sequence[Segment],
    first: int,
    last: int,
    tell: Callable[[CorruptEntryError], object] | None,
) -> list[tuple[int, int]]:
    """The parts of a path that have entries: a damaged head may be far behind the last of them. `tell` hears
    of each gap once."""
    found = []
    for part in clip(segments, first, last):
        end = min(part.last, reader.last_position(part.branch))
        found.append((part.first, end))
        if tell is not None and end < part.last:
            uid, gap = reader.get_branch(part.branch).uid, max(part.first, end + 1)
            tell(CorruptEntryError(uid, gap, f"it is missing, and so is what follows, up to {part.last}"))
    return found


def _pages_between(
    read: Callable[[], AbstractContextManager[Reader]],
    sid: int,
    id: str,
    segments: Sequence[Segment],
    first: int,
    last: int,
    places: Sequence[int] | None,
    newest_first: bool,
    skip: Callable[[Reader, CorruptEntryError], None] | None,
) -> Iterator[list[Entry]]:
    while first <= last:
        low = max(first, last - PAGE + 1) if newest_first else first
        top = last if newest_first else min(last, first + PAGE - 1)
        with read() as reader, unless_purged(reader, sid, id):
            on_damage = None if skip is None else partial(skip, reader)
            if places is None:
                found = read_path(
                    reader,
                    sid,
                    segments,
                    low,
                    top,
                    reverse=newest_first,
                    room=PAGE_BYTES,
                    on_damage=on_damage,
                )
            else:
                wanted = sorted((p for p in places if low <= p <= top), reverse=newest_first)
                found = [
                    e for p in wanted for e in read_path(reader, sid, segments, p, p, on_damage=on_damage)
                ]
        is_full = len(found) <= top - low and places is None and _size(found) >= PAGE_BYTES
        if newest_first:
            last = (found[-1].position if is_full else low) - 1
        else:
            first = (found[-1].position if is_full else top) + 1
        if found:
            yield found
            del found


def _size(found: Sequence[Entry]) -> int:
    return sum(len(entry.raw) for entry in found)


def branch_pages(
    read: Callable[[], AbstractContextManager[Reader]],
    uid: str,
    first: int,
    last: int,
    sid: int = STORE_WIDE,
) -> Iterator[list[Entry]]:
    """The entries of one branch between two positions, in lists, whether a path leads to them or not. Damaged
    ones are left out, and so is what was purged meanwhile. `sid`: the session whose notes are beside them;
    STORE_WIDE: only what came with the entries."""
    while first <= last:
        top = min(last, first + PAGE - 1)
        with read() as reader:
            branch = reader.find_branch(uid)
            if branch is None:
                return
            segment = Segment(branch.branch, first, top)
            found = read_path(reader, sid, [segment], first, top, room=PAGE_BYTES, on_damage=lambda _: None)
        is_full = _size(found) >= PAGE_BYTES
        first = (found[-1].position if is_full else top) + 1
        yield found


def _skip(
    sid: int,
    id: str,
    tell: Callable[[CorruptEntryError], object] | None,
    reader: Reader,
    damage: CorruptEntryError,
) -> None:
    """Leave out a damaged entry; but what was purged must not look like a shorter history."""
    if reader.get_session(sid) is None:
        raise SessionDeletedError(id) from damage
    if tell is not None:
        tell(damage)


@contextmanager
def unless_purged(reader: Reader, sid: int, id: str) -> Iterator[None]:
    """A session that was purged while it was read is deleted, not damaged."""
    try:
        yield
    except (CorruptError, KeyError):
        if reader.get_session(sid) is None:
            raise SessionDeletedError(id) from None
        raise


@contextmanager
def look(engine: EngineLike, sid: int, id: str) -> Iterator[tuple[Reader, SessionRow]]:
    """Read a session as it is now."""
    with engine.read() as reader:
        row = live(reader, sid, id)
        with unless_purged(reader, sid, id):
            yield reader, row


def _labelled_on(reader: Reader, row: SessionRow, segments: Sequence[Segment], label: str) -> list[int]:
    from clew.core.conversation.annotations import labelled  # the two need each other

    return [
        position for branch, position in labelled(reader, row, label) if locate(segments, position) == branch
    ]
