"""What goes over the wire between a remote store and its server: envelopes, bytes as text, compression.

Both sides import this module, so neither can mean something else than the other. Neither side believes the
other: types are strict, sizes are limited, and what is compressed may not become larger than what may be sent
without compression.
"""

from __future__ import annotations

import sys
import zlib
from types import ModuleType
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from blake3 import blake3
from msgspec import Meta

from clew.core.log.records import Count, Digest, Integer, Position, Time
from clew.core.log.rows import EntryRow, EventRow

PROTOCOL: Final = 1
"""Grows when an older client would misunderstand; a server refuses what it does not speak."""

MOST_CALLS: Final = 20_000
"""In one request."""
MOST_SENT: Final = 256 * 1024 * 1024
"""Bytes of one request or answer, uncompressed: three times the largest message, as text in JSON."""
MOST_ASKED: Final = 4 * 1024 * 1024
"""Bytes of a request that brings nothing."""
ROOM: Final = 4 * 1024 * 1024
"""Bytes of bodies after which an answer ends; the client asks for the rest."""
MOST_ROWS: Final = 2000
"""Rows after which an answer ends; the client asks for the rest."""
COMPRESSED_FROM: Final = 16 * 1024
"""Bytes from which compressing costs less than sending."""
LEVEL: Final = 1
LONGEST_PAUSE: Final = 10.0
"""Seconds that one request waits for news: less than proxies and load balancers wait for an answer, and
about as long as a client that is closed may wait for its last one."""

TIME_HEADER: Final = "Clew-Time"
"""Of every answer: the server's clock, in microseconds."""

# -- bytes

Blob: TypeAlias = str | tuple[bytes]
"""Bytes: as text if they are UTF-8, as nearly all are, else as [base64]. JSON in base64 does not compress."""


def blob(value: bytes) -> Blob:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return (value,)


def unblob(value: Blob) -> bytes:
    return value.encode() if isinstance(value, str) else value[0]


# -- rows that hold such bytes


class Entry(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """An `EntryRow`."""

    position: Position
    kind: Count
    time: Time
    flags: Count
    digest: Digest
    messages: Count
    turns: Count
    size: Count
    view_start: Position
    summary: Position
    last_user_turn: Position
    body: Blob
    epoch: Count


def entry_out(row: EntryRow) -> Entry:
    return Entry(
        row.position,
        row.kind,
        row.time,
        row.flags,
        row.digest,
        row.messages,
        row.turns,
        row.size,
        row.view_start,
        row.summary,
        row.last_user_turn,
        blob(row.body),
        row.epoch,
    )


def entry_in(row: Entry) -> EntryRow:
    return EntryRow(
        row.position,
        row.kind,
        row.time,
        row.flags,
        row.digest,
        row.messages,
        row.turns,
        row.size,
        row.view_start,
        row.summary,
        row.last_user_turn,
        unblob(row.body),
        row.epoch,
    )


class Event(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """An `EventRow`."""

    number: Count
    time: Time
    stream: str
    type: str
    id: str | None
    data: Blob


def event_out(row: EventRow) -> Event:
    return Event(row.number, row.time, row.stream, row.type, row.id, blob(row.data))


def event_in(row: Event) -> EventRow:
    return EventRow(row.number, row.time, row.stream, row.type, row.id, unblob(row.data))


class DamageTold(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """A `CorruptEntryError`."""

    source: str
    position: Position
    reason: str
    is_unreadable: bool


# -- envelopes

CallId: TypeAlias = Annotated[str, Meta(min_length=16, max_length=64, pattern="^[0-9a-f]+$")]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error that a call of the contract raised."""

    code: str
    detail: str
    fields: dict[str, Any] = {}


class Answers(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of calls in their order, up to the first that failed."""

    answers: list[msgspec.Raw]
    problem: Problem | None = None
    transaction: str | None = None
    """The transaction that stays open on the server."""


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """What a client learns when it opens a store."""

    protocol: int
    instance: str
    """Another one after the server was started anew: it then knows nothing of what was under way."""
    durability: Literal["full", "process", "memory"]
    read_only: bool
    reason: str = ""
    """Why it can be read only."""
    encodings: list[str] = []
    """In which requests may be compressed."""


class OutcomeQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of a commit whose answer was lost?"""

    instance: Annotated[str, Meta(max_length=64)]
    """The one that the commit was sent to."""
    commit: CallId


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    outcome: Literal["done", "undone", "unknown"]
    """undone: it was not done, and will not be if it should still arrive."""


class Pause(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    seconds: Annotated[float, Meta(ge=0, le=LONGEST_PAUSE)]
    seen: Integer | None = None
    """The count up to which the client has looked; None: it does not know."""


class Paused(msgspec.Struct, frozen=True, kw_only=True):
    count: int
    """Another one: something may have been written."""


class Upkeep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    what: Literal["scrub", "bytes_on_disk", "damage"]
    full: bool = False
    seconds: Annotated[float, Meta(ge=0, le=3600)] = 60.0
    """For damage: how long to look."""


encode = msgspec.json.Encoder().encode


def digest_of(answer: bytes | msgspec.Raw) -> str:
    """What an answer is compared by."""
    return blake3(bytes(answer)).hexdigest(16)


# -- compression


class TooLargeError(ValueError):
    """It would become larger than what may be sent."""


def zstd() -> ModuleType:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


ENCODINGS: Final = ("zstd", "gzip")


def compress(encoding: str, body: bytes) -> bytes:
    if encoding == "zstd":
        return zstd().compress(body, LEVEL)  # type: ignore[no-any-return]
    packer = zlib.compressobj(LEVEL, wbits=31)
    return packer.compress(body) + packer.flush()


def decompress(encoding: str, body: bytes, most: int = MOST_SENT) -> bytes:
    """The body. ValueError: it is not in this encoding; TooLargeError: it becomes larger than `most`."""
    if encoding in ("", "identity"):
        return body
    if encoding == "zstd":
        library = zstd()
        unpacker = library.ZstdDecompressor()
        try:
            found: bytes = unpacker.decompress(body, most + 1)
        except library.ZstdError as error:
            raise ValueError(f"it is no zstd: {error}") from error
        is_whole, rest = unpacker.eof, unpacker.unused_data
    elif encoding == "gzip":
        reader = zlib.decompressobj(wbits=31)
        try:
            found = reader.decompress(body, most + 1)
        except zlib.error as error:
            raise ValueError(f"it is no gzip: {error}") from error
        is_whole, rest = reader.eof, reader.unused_data
    else:
        raise ValueError(f"{encoding!r} is not known; there is {', '.join(ENCODINGS)}")
    if len(found) > most:
        raise TooLargeError(f"it is larger than {most} bytes")
    if not is_whole or rest:
        raise ValueError(f"the {encoding} does not end where it should")
    return found


def packed(body: bytes, accepted: str) -> tuple[str, bytes]:
    """(encoding, body) for one who accepts these encodings: compressed if that is worth it."""
    if len(body) >= COMPRESSED_FROM:
        known = {name.partition(";")[0].strip().lower() for name in accepted.split(",")}
        for encoding in ENCODINGS:
            if encoding in known:
                return encoding, compress(encoding, body)
    return "", body
