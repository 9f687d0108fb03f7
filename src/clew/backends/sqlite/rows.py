"""Rows of the tables, from and to values."""

from __future__ import annotations

import struct
from typing import Any, Final, TypeAlias

import msgspec

from clew.core.frame import checksum, pack, unpack
from clew.core.rows import ERASED, REMOVED, Details, EntryRow, SessionRow, Tip
from clew.errors import CorruptEntryError

Row: TypeAlias = tuple[Any, ...]

POSITION_BITS: Final = 32
POSITION_MASK: Final = (1 << POSITION_BITS) - 1

_encode = msgspec.json.Encoder().encode
_decode_details = msgspec.json.Decoder(Details).decode


def key(branch: int, position: int) -> int:
    return branch << POSITION_BITS | position


def session_from(row: Row) -> SessionRow:
    return SessionRow(
        row[0], row[1], row[2], row[3], row[4], row[5],
        Tip(row[6], row[7], row[8], row[9], row[10], row[11], row[12], row[13], row[14]),
        bool(row[15]), _shown(row[16]), bool(row[17]), _shown(row[18]) or "", _shown(row[19]),
        row[20], row[21], row[22], row[23], row[24], row[25], row[26], row[27],
    )  # fmt: skip


def _shown(value: Any) -> str | None:
    """A text that is only shown: a flipped bit in it must not hide the session, or all others in a list."""
    return value if type(value) is str else None


def session_values(row: SessionRow) -> Row:
    """The columns of SESSION without the sid."""
    head = row.head
    return (
        row.id, row.tree, row.created, row.updated, row.deleted,
        head.branch, head.position, head.digest, head.messages, head.turns, head.size,
        head.cut, head.summary, head.asked, int(row.grows), row.title, int(row.titled), row.preview,
        row.workspace, row.moves, row.undo, row.redo, row.forks,
        row.status, row.epoch, row.fence, row.due,
    )  # fmt: skip


def entry_values(branch: int, row: EntryRow) -> Row:
    codec, blob = pack(row.body)
    return (
        branch << POSITION_BITS | row.position, row.kind, row.time, row.flags, codec,
        checksum(blob, row.position, row.time, row.kind, codec, row.flags), row.digest,
        row.messages, row.turns, row.size, row.cut, row.summary, row.asked, row.epoch, blob,
    )  # fmt: skip


def erased_values(position: int, time: int, flags: int) -> Row:
    """Codec, checksum and body of an entry that is erased."""
    codec, blob = pack(ERASED)
    return codec, checksum(blob, position, time, REMOVED, codec, flags), blob


def body_from(
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


def entry_from(uid: str, row: Row) -> EntryRow:
    position = row[0] & POSITION_MASK
    body = body_from(uid, position, row[1], row[2], row[3], row[4], row[5], row[14])
    return EntryRow(
        position, row[1], row[2], row[3], row[6], row[7], row[8], row[9], row[10], row[11], row[12], body,
        row[13],
    )  # fmt: skip


def details_values(details: Details) -> bytes:
    return _encode(details)


def details_from(value: bytes) -> Details:
    return _decode_details(value)
