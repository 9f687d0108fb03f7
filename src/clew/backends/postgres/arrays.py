"""Columns of many rows as parameters of one statement.

The driver turns lists into arrays element by element, in Python: for a crowd of appends that takes longer
than the server needs to store them. Here a whole column is packed at once, in the server's own format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

_HEADER: Final = struct.Struct("!5i")
_LENGTH: Final = struct.Struct("!i")
_NULL: Final = _LENGTH.pack(-1)
_INT8: Final = 20
_BYTEA: Final = 17


class Numbers8:
    """A column of 64-bit numbers."""

    __slots__ = ("packed",)

    def __init__(self, values: Sequence[int]) -> None:
        count = len(values)
        sized = [8] * (2 * count)
        sized[1::2] = values
        self.packed = struct.pack("!5i" + "iq" * count, 1, 0, _INT8, count, 1, *sized)


class Texts:
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
    connection.adapters.register_dumper(Numbers8, _Numbers8Dumper)
    connection.adapters.register_dumper(Texts, _TextsDumper)


def columns(rows: Iterable[Sequence[Any]]) -> list[Numbers8 | Texts]:
    """Rows turned into columns. Only texts may be missing."""
    return [
        Numbers8(column) if isinstance(column[0], int) else Texts(column)
        for column in zip(*rows, strict=True)
    ]
