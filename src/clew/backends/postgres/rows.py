"""Rows of PostgreSQL as values and back, and numbers that name their shard."""

from __future__ import annotations

import os
import struct
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format
from xxhash import xxh3_64_intdigest

from clew.backends.rows import body_of, sound_entry
from clew.core.log import checks
from clew.core.log.digest import checksum, pack
from clew.core.log.rows import ERASED, REMOVED, EntryRow, EventRow, HeadRow, SessionRow, UsageRow

if TYPE_CHECKING:
    from clew.core.messages.search_text import TextRow

# ── The numbers of sessions, branches and packs: made here, without asking the database ───────────
#     number = home << 20 | place        home = tick << 8 | lane
#
# All sessions and branches of a tree have the same home, so that a number tells the shard. `tick` counts
# sixteenths of a second since 2025, `lane` is a random number of this process: numbers grow, and two
# processes seldom choose the same. When they do, the primary key refuses the second, which takes another
# lane. The first session of a tree has place 0; for the others each process counts up from a random place.
# A new random place for each would collide within any transaction that makes thousands of them.

PLACE_BITS: Final = 20
LANE_BITS: Final = 8
TREES: Final = 10_000
"""For so many trees the last place is remembered."""
_TICKS: Final = 16
_SINCE: Final = 1_735_689_600


def home_of(number: int) -> int:
    """The distribution key of the session, branch or pack with this number."""
    return number >> PLACE_BITS


class Ids:
    """Gives out numbers. Used by one thread at a time."""

    def __init__(self) -> None:
        self._tick = 0
        self._made = 0
        self._places: dict[int, int] = {}
        self._chances: Iterator[int] = iter(())
        self.change_lane()

    def change_lane(self) -> None:
        """After a collision, and in a forked child."""
        self._lane = self._random(LANE_BITS)
        self._places.clear()

    def _random(self, bits: int) -> int:
        for chance in self._chances:
            return chance & ((1 << bits) - 1)
        # Many at once: a call to the system for every append is time, and lets another thread in.
        self._chances = iter(array("I", os.urandom(4096)))
        return self._random(bits)

    def root(self) -> int:
        """For a new tree, or for a pack."""
        self._tick = max(self._tick + 1, int((time.time() - _SINCE) * _TICKS))
        return (self._tick << LANE_BITS | self._lane) << PLACE_BITS

    def within(self, tree: int) -> int:
        """For one more session or branch of a tree."""
        home = home_of(tree)
        place = self._places.get(home)
        if place is None:
            if len(self._places) >= TREES:
                self._places.clear()
            place = self._random(PLACE_BITS)
        place = place + 1 & (1 << PLACE_BITS) - 1 or 1
        self._places[home] = place
        return home << PLACE_BITS | place

    def made(self) -> int:
        """A number that grows: the order of what this process stores."""
        self._made = max(self._made + 1, time.time_ns() // 1000)
        return self._made

    def version(self, after: int) -> int:
        """A version of a row that no other process chooses, and that is above the one before it.

        Not a plain counter: after a failover that lost commits, the count would come again with other
        content.
        """
        return max(after + 1, (time.time_ns() // 1000) << 8 | self._random(8))


# ── Rows of the tables, to and from values ────────────────────────────────────────────────────────

Row: TypeAlias = tuple[Any, ...]

EARLIEST: Final = -(2**63)
LATEST: Final = 2**63 - 1

encode_details = msgspec.json.Encoder().encode


def encode(text: str) -> bytes:
    return text.encode()


def maybe(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def text_from(value: bytes | None) -> Any:
    """A text. Bytes that are not UTF-8 are returned as they are; the check of the row's kind refuses them."""
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
    """The row as it is stored, unchecked."""
    return SessionRow(
        row[0], text_from(row[1]), row[2], row[3], row[4], row[5],
        HeadRow(row[6], row[7], row[8], row[9], row[10], row[11], row[12], row[13], row[14]),
        row[15], text_from(row[16]), row[17], text_from(row[18]), text_from(row[19]),
        row[20], row[21], row[22], row[23], row[24], row[25], row[26], row[27],
    )  # fmt: skip


def sound_session(row: Row) -> SessionRow:
    """The same, checks. Raises CorruptSessionError."""
    return checks.session(session_from(row))


def session_values(row: SessionRow) -> Row:
    """The columns of SESSION without the sid."""
    head = row.head
    return (
        row.id.encode(), row.tree, row.created, row.updated, row.deleted,
        head.branch, head.position, head.digest, head.messages, head.turns, head.size,
        head.view_start, head.summary, head.last_user_turn,
        row.grows, maybe(row.title), row.has_title, row.preview.encode(), maybe(row.workspace),
        row.moves, row.undo, row.redo, row.forks,
        row.status, row.epoch, row.fence, row.due,
    )  # fmt: skip


def head_values(row: SessionRow) -> Row:
    """The columns of a session's row that an append changes."""
    head = row.head
    return (
        head.branch, head.position, head.digest, head.messages, head.turns, head.size,
        head.view_start, head.summary, head.last_user_turn,
        row.updated, maybe(row.title), row.preview.encode(),
    )  # fmt: skip


def entry_values(branch: int, row: EntryRow) -> Row:
    codec, blob = pack(row.body)
    return (
        home_of(branch), branch, row.position, row.kind, row.time, row.flags, codec,
        checksum(blob, row.position, row.time, row.kind, codec, row.flags), row.digest,
        row.messages, row.turns, row.size, row.view_start, row.summary, row.last_user_turn, row.epoch, blob,
    )  # fmt: skip


def erased_values(position: int, time: int, flags: int) -> Row:
    """Codec, checksum and body of an entry that is erased."""
    codec, blob = pack(ERASED)
    return codec, checksum(blob, position, time, REMOVED, codec, flags), blob


def entry_from(uid: str, row: Row) -> EntryRow:
    body = body_of(uid, row[2], row[3], row[4], row[5], row[6], row[7], row[16])
    entry = EntryRow(
        row[2], row[3], row[4], row[5], row[8], row[9], row[10], row[11], row[12], row[13], row[14], body,
        row[15],
    )  # fmt: skip
    return sound_entry(uid, entry)


def event_from(row: Row) -> EventRow:
    number, time, stream, type, id, data = row
    return checks.event(EventRow(number, time, text_from(stream), text_from(type), text_from(id), data))


def event_values(row: EventRow) -> Row:
    return (row.number, row.time, encode(row.stream), encode(row.type), maybe(row.id), row.data)


def usage_from(row: Row) -> UsageRow:
    texts = (text_from(value) for value in row[2:7])
    values = (*row[:2], *texts, *row[7:15], text_from(row[15]), *row[16:])
    return checks.call(UsageRow(*values))


def usage_values(row: UsageRow) -> Row:
    return (
        row.number, row.time, maybe(row.id), maybe(row.model), maybe(row.vendor), maybe(row.endpoint),
        maybe(row.source), row.branch, row.position, row.input, row.output, row.cache_read, row.cache_write,
        row.reasoning, row.cost, maybe(row.priced_by), row.all_input, row.all_output, row.all_cache_read,
        row.all_cache_write, row.all_reasoning, row.all_cost, row.all_unpriced, row.all_estimated,
    )  # fmt: skip


# -- the words of texts

SLICE_WORDS: Final = 5000
SLICE_BYTES: Final = 400_000
"""Of a tsvector, which holds a mebibyte."""


def ascii_word(word: str) -> str:
    """The word in ASCII, for databases of any encoding. A prefix of a word stays a prefix."""
    if word.isascii():
        return word
    return "".join(letter if letter.isascii() else f"_{ord(letter):06x}" for letter in word)


def slices_of(row: TextRow) -> list[list[str]]:
    """The words of a text, each once, in slices that a tsvector can hold."""
    from clew.core.messages.words import flat

    words = [f"s{ascii_word(word)}" for word in dict.fromkeys(flat(row.said).split(" ")) if word]
    words += [f"t{ascii_word(word)}" for word in dict.fromkeys(flat(row.tool).split(" ")) if word]
    slices: list[list[str]] = [[]]
    size = 0
    for word in words:
        if len(slices[-1]) >= SLICE_WORDS or size + len(word) > SLICE_BYTES:
            slices.append([])
            size = 0
        slices[-1].append(word)
        size += len(word)
    return slices


# -- columns of many rows, as parameters of one statement
#
# The driver turns lists into arrays element by element, in Python: for a batch of appends that takes longer
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
    """A column of bytes or NULLs."""

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
    """Rows turned into columns. Only columns of bytes may hold NULLs."""
    return [
        IntColumn(column) if isinstance(column[0], int) else BytesColumn(column)
        for column in zip(*rows, strict=True)
    ]
