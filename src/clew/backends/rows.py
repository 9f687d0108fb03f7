"""What the readers of all backends share: the bounds of a read, and whole bodies and packs."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from clew.core.log import checks
from clew.core.log.digest import checksum, unpack
from clew.core.log.rows import MESSAGE, EntryRow, EventRow, UsageRow
from clew.errors import CorruptEntryError, CorruptError
from clew.model import Json

if TYPE_CHECKING:
    from clew.backends.contract import LogRows, OnDamage

PAGE: Final = 200
"""Rows of a question that a default of the contract asks."""
MISSING: Final = "it is missing"
N = TypeVar("N", EventRow, UsageRow)


# -- bounds


def limited(first: int, last: int, limit: int | None, *, reverse: bool) -> tuple[int, int]:
    """The positions of a range that a read with a limit comes to."""
    if limit is None or last - first < limit:
        return first, last
    return (last - limit + 1, last) if reverse else (first, first + limit - 1)


def within(room: int | None, rows: Iterable[EntryRow]) -> list[EntryRow]:
    """Entries up to the one with which their bodies come to so many bytes."""
    if room is None:
        return list(rows)
    found: list[EntryRow] = []
    add = found.append
    for row in rows:
        add(row)
        room -= len(row.body)
        if room <= 0:
            break
    return found


def numbered(read: Callable[[int], Sequence[N]]) -> Iterator[N]:
    """All events or calls, page by page. `read` takes the number behind which a page begins."""
    after = 0
    while rows := read(after):
        yield from rows
        after = rows[-1].number


# -- entries


def missing(uid: str, position: int) -> CorruptEntryError:
    return CorruptEntryError(uid, position, MISSING)


def body_of(
    uid: str, position: int, kind: int, time: int, flags: int, codec: int, recorded: int, blob: bytes
) -> bytes:
    """The body of an entry, or CorruptEntryError."""
    try:
        intact = checksum(blob, position, time, kind, codec, flags) == recorded
    except (TypeError, struct.error) as exc:  # a damaged row may hold values of any type
        raise CorruptEntryError(uid, position, f"its columns are of wrong types ({exc})") from exc
    if not intact:
        raise CorruptEntryError(uid, position, "its checksum does not match")
    try:
        return unpack(codec, blob) if codec else blob
    except ValueError as exc:
        raise CorruptEntryError(uid, position, str(exc)) from exc


def sound_entry(uid: str, entry: EntryRow) -> EntryRow:
    """CorruptEntryError: it cannot be one."""
    if not checks.is_entry(entry):
        raise CorruptEntryError(uid, entry.position, checks.entry_flaw(entry))
    return entry


def messages_of(
    reader: LogRows,
    branch: int,
    first: int,
    last: int,
    *,
    reverse: bool,
    limit: int | None,
    room: int | None,
    on_damage: OnDamage | None,
) -> list[tuple[int, dict[str, Json]]]:
    """What `read_messages` answers, by `read_entries`: no further than the limit."""

    def report(damage: CorruptEntryError) -> None:
        if on_damage is None:
            raise damage
        on_damage(damage)

    def pass_over_missing(damage: CorruptEntryError) -> None:
        if not damage.reason.startswith(MISSING):
            report(damage)

    found: list[tuple[int, dict[str, Json]]] = []
    uid = reader.get_branch(branch).uid
    first, last = max(first, 0), min(last, reader.last_position(branch))
    while first <= last and (limit is None or len(found) < limit) and (room is None or room > 0):
        begin, end = limited(first, last, PAGE if limit is None else limit - len(found), reverse=reverse)
        first, last = (first, begin - 1) if reverse else (end + 1, last)
        for row in reader.read_entries(
            branch, begin, end, reverse=reverse, room=room, on_damage=pass_over_missing
        ):
            if row.kind != MESSAGE:
                continue
            try:
                found.append((row.position, checks.message(uid, row.position, row.body)))
            except CorruptEntryError as damage:
                report(damage)
            if room is not None:
                room -= len(row.body)
                if room <= 0:
                    break
    return found


# -- packs


def pack_checksum(size: int, codec: int, blob: bytes) -> int:
    """Not over the number, which is not known before the pack is stored: objects have their own names."""
    return checksum(blob, 0, size, 0, codec, 0)


def pack_content(pack: int, size: int, codec: int, blob: bytes, recorded: int | None = None) -> bytes:
    """The raw content of a pack, or CorruptError. Without a checksum, that of zstd has to do."""
    try:
        if recorded is not None and pack_checksum(size, codec, blob) != recorded:
            raise ValueError("its checksum does not match")
        content = unpack(codec, blob)
        if len(content) != size:
            raise ValueError(f"it has {len(content)} bytes, not {size}")
    except (TypeError, ValueError, struct.error) as exc:  # a damaged row may hold values of any type
        raise CorruptError(f"pack {pack} is damaged: {exc}") from exc
    return content
