"""Rows of the tables, from and to values."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format
from xxhash import xxh3_64_intdigest

from clew.backends.postgres.ids import home_of
from clew.core.log import checks
from clew.core.log.digest import checksum, pack, unpack
from clew.core.log.rows import ERASED, REMOVED, EntryRow, SessionRow, Tip
from clew.errors import CorruptEntryError

Row: TypeAlias = tuple[Any, ...]

EARLIEST: Final = -(2**63)
LATEST: Final = 2**63 - 1

encode_details = msgspec.json.Encoder().encode


def encode(text: str) -> bytes:
    return text.encode()


def maybe(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def text_from(value: bytes | None) -> Any:
    """A text; what is no UTF-8 stays what it is, for the check of its kind to find."""
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return value


def facet_hash(name: str, value: str) -> int:
    return xxh3_64_intdigest(f"{name}\0{value}".encode()) >> 1


def lock_key(*parts: str) -> int:
    """The number of an advisory lock, which has 64 bits and a sign."""
    return xxh3_64_intdigest("\0".join(parts).encode()) - (1 << 63)


def session_from(row: Row) -> SessionRow:
    """Whatever the columns hold."""
    return SessionRow(
        row[0], text_from(row[1]), row[2], row[3], row[4], row[5],
        Tip(row[6], row[7], row[8], row[9], row[10], row[11], row[12], row[13], row[14]),
        row[15], text_from(row[16]), row[17], text_from(row[18]), text_from(row[19]),
        row[20], row[21], row[22], row[23], row[24], row[25], row[26], row[27],
    )  # fmt: skip


def sound_session(row: Row) -> SessionRow:
    """CorruptSessionError: it can not be one."""
    return checks.session(session_from(row))


def session_values(row: SessionRow) -> Row:
    """The columns of SESSION without the sid."""
    head = row.head
    return (
        row.id.encode(), row.tree, row.created, row.updated, row.deleted,
        head.branch, head.position, head.digest, head.messages, head.turns, head.size,
        head.cut, head.summary, head.asked, row.grows, maybe(row.title), row.titled, row.preview.encode(),
        maybe(row.workspace), row.moves, row.undo, row.redo, row.forks,
        row.status, row.epoch, row.fence, row.due,
    )  # fmt: skip


def head_values(row: SessionRow) -> Row:
    """What an append changes in the row of a session."""
    head = row.head
    return (
        head.branch, head.position, head.digest, head.messages, head.turns, head.size,
        head.cut, head.summary, head.asked, row.updated, maybe(row.title), row.preview.encode(),
    )  # fmt: skip


def entry_values(branch: int, row: EntryRow) -> Row:
    codec, blob = pack(row.body)
    return (
        home_of(branch), branch, row.position, row.kind, row.time, row.flags, codec,
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
    if checksum(blob, position, time, kind, codec, flags) != recorded:
        raise CorruptEntryError(uid, position, "its checksum does not match")
    try:
        return unpack(codec, blob) if codec else blob
    except ValueError as exc:
        raise CorruptEntryError(uid, position, str(exc)) from exc


def entry_from(uid: str, row: Row) -> EntryRow:
    body = body_from(uid, row[2], row[3], row[4], row[5], row[6], row[7], row[16])
    entry = EntryRow(
        row[2], row[3], row[4], row[5], row[8], row[9], row[10], row[11], row[12], row[13], row[14], body,
        row[15],
    )  # fmt: skip
    if not checks.is_entry(entry):
        raise CorruptEntryError(uid, entry.position, checks.entry_flaw(entry))
    return entry


# ── Columns of many rows as parameters of one statement ───────────────────────────────────────────
# The driver turns lists into arrays element by element, in Python: for a crowd of appends that takes longer
# than the server needs to store them. Here a whole column is packed at once, in the server's own format.

_HEADER: Final = struct.Struct("!5i")
_LENGTH: Final = struct.Struct("!i")
_NULL: Final = _LENGTH.pack(-1)
_INT8: Final = 20
_BYTEA: Final = 17


class IntColumn:
    """A column of 64-bit numbers."""

    __slots__ = ("packed",)

    def __init__(self, values: Sequence[int]) -> None:
        count = len(values)
        sized = [8] * (2 * count)
        sized[1::2] = values
        self.packed = struct.pack("!5i" + "iq" * count, 1, 0, _INT8, count, 1, *sized)


class BytesColumn:
    """A column of bytes, or of nothing."""

    __slots__ = ("packed",)

    def __init__(self, values: Sequence[bytes | None]) -> None:
        pieces = [_HEADER.pack(1, int(None in values), _BYTEA, len(values), 1)]
        for value in values:
            pieces += (_NULL,) if value is None else (_LENGTH.pack(len(value)), value)
        self.packed = b"".join(pieces)


class _Packed(Dumper):
    format = Format.BINARY

    def dump(self, obj: Any) -> bytes:
        packed: bytes = obj.packed
        return packed


class _Numbers8Dumper(_Packed):
    oid = 1016


class _TextsDumper(_Packed):
    oid = 1001


def register(connection: psycopg.Connection[Any]) -> None:
    connection.adapters.register_dumper(IntColumn, _Numbers8Dumper)
    connection.adapters.register_dumper(BytesColumn, _TextsDumper)


def columns(rows: Iterable[Sequence[Any]]) -> list[IntColumn | BytesColumn]:
    """Rows turned into columns. Only texts may be missing."""
    return [
        IntColumn(column) if isinstance(column[0], int) else BytesColumn(column)
        for column in zip(*rows, strict=True)
    ]
