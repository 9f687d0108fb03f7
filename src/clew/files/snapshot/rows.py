"""What the file system says of the entries of a directory, packed by columns.

Of each entry seven numbers of 64 bits, little endian: group and mode, inode, size, and the seconds and
nanoseconds of ctime and mtime. First all the first ones, then all the second ones, and so on: so they can
be cut out of what the system writes without a look at each (see clew.files.snapshot.statx), and two
listings of a directory are compared as a whole.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from typing import Final, TypeAlias

Row: TypeAlias = tuple[int, int, int, int, int, int, int]

ROW_SIZE: Final = 7 * 8
UNKNOWN: Final[Row] = (0, 0, 0, 0, 0, 0, 0)
"""Of what can not be looked at."""
_SECOND: Final = 1_000_000_000


def row_of(stat: os.stat_result) -> Row:
    inode = stat.st_ino - (1 << 64) if stat.st_ino >> 63 else stat.st_ino
    ctime, mtime = divmod(stat.st_ctime_ns, _SECOND), divmod(stat.st_mtime_ns, _SECOND)
    return stat.st_gid | stat.st_mode << 32, inode, stat.st_size, *ctime, *mtime


def mode_of(row: Row) -> int:
    return row[0] >> 32


def size_of(row: Row) -> int:
    return row[2]


def times_of(row: Row) -> tuple[int, int]:
    """mtime_ns, ctime_ns"""
    return row[5] * _SECOND + row[6], row[3] * _SECOND + row[4]


def with_size(row: Row, size: int) -> Row:
    return *row[:2], size, *row[3:]


def packed(rows: Sequence[Row]) -> bytes:
    return b"".join(struct.pack(f"<{len(rows)}q", *column) for column in zip(*rows, strict=True))


def unpacked(columns: bytes) -> list[Row]:
    count = len(columns) // ROW_SIZE
    flat = struct.unpack(f"<{7 * count}q", columns)
    return list(zip(*(flat[at * count : (at + 1) * count] for at in range(7)), strict=True))
