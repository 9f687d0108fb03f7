"""How lines of a file are kept beside a session: a record holds some of them, a column for each thing.

A line is its literals, and pieces of what the store has anyway between them.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final, Literal, TypeAlias

import msgspec
from backports import zstd
from xxhash import xxh3_64_intdigest

from clew.errors import CorruptError

LARGEST: Final = 160 * 1024 * 1024
"""Of what a record unpacks to: a line has at most 128 MiB."""
_LEVEL: Final = 3

_pack = msgspec.msgpack.Encoder().encode

OfWhat: TypeAlias = Literal[0, 1, 2]
"""A line of nothing else, of an entry, or of an event."""
NOTHING: Final = 0
ENTRY: Final = 1
EVENT: Final = 2


class LineRecord(msgspec.Struct, array_like=True):
    """Some lines, a column for each thing that is known of them."""

    steps: list[int] = []
    """The number of the first line, and how much each of the others is behind the one before it."""
    names: list[str] = []
    """Of the entry, or the event."""
    kinds: list[OfWhat] = []
    checks: list[int] = []
    cuts: list[list[int]] = []
    """Four numbers for each cut."""
    sizes: list[int] = []
    """Of its literals, in bytes."""
    text: bytes = b""
    """All literals, one behind the other."""

    @property
    def numbers(self) -> list[int]:
        return list(accumulate(self.steps))


def encode_lines(record: LineRecord) -> bytes:
    return zstd.compress(_pack(record), _LEVEL)


def decode_lines(value: bytes) -> LineRecord:
    """CorruptError: it is none. What comes from a foreign store is checked, and of a bounded size."""
    try:
        plain = zstd.ZstdDecompressor().decompress(value, LARGEST)
        found = msgspec.msgpack.decode(plain, type=LineRecord)
    except (zstd.ZstdError, msgspec.MsgspecError, EOFError) as error:
        raise CorruptError(f"a record of lines cannot be read: {error}") from error
    columns = (found.names, found.kinds, found.checks, found.cuts, found.sizes)
    if any(len(column) != len(found.steps) for column in columns) or not found.steps:
        raise CorruptError("a record of lines has columns that do not fit together")
    if sum(found.sizes) != len(found.text) or min(found.sizes) < 0:
        raise CorruptError("a record of lines has another size than its lines")
    if min(found.steps) < 1 or any(len(cut) % 4 for cut in found.cuts):
        raise CorruptError("a record of lines has a line that no file has")
    return found


def lines_name(number: int) -> str:
    """Of the record that begins with this line: names are in the order of numbers."""
    return f"{number:012d}"


def check_of(raw: bytes) -> int:
    return xxh3_64_intdigest(raw) & 0xFFFFFFFF
