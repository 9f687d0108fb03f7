"""What stored fields may hold, and the checked decoding of small records beside sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Final, NamedTuple, TypeAlias, TypeVar

import msgspec
from blake3 import blake3
from msgspec import Meta

from clew.errors import CorruptError
from clew.model import Json

# ── What fields may hold ──────────────────────────────────────────────────────────────────────────
# What the fields of stored rows and records may hold. msgspec refuses anything else when it decodes them.

MOST: Final = 2**63 - 1
"""The largest number that every backend can store."""
MAX_POSITION: Final = 2**32 - 1
FIRST_TIME: Final = -62_135_596_800_000_000
"""The beginning of the year 1 in UTC, in microseconds."""
LAST_TIME: Final = 253_402_300_799_999_999
"""and the end of the year 9999: what a `datetime` can show."""
STATUS_COUNT: Final = 7
MAX_TITLE: Final = 500
"""Characters."""
DIGEST_SIZE: Final = 32

Time: TypeAlias = Annotated[int, Meta(ge=FIRST_TIME, le=LAST_TIME)]
"""Microseconds since 1970 UTC."""
Count: TypeAlias = Annotated[int, Meta(ge=0, le=MOST)]
"""Of things, or the number of one."""
Integer: TypeAlias = Annotated[int, Meta(ge=-MOST - 1, le=MOST)]
Position: TypeAlias = Annotated[int, Meta(ge=-1, le=MAX_POSITION)]
"""Of an entry; -1: of none."""
StatusNumber: TypeAlias = Annotated[int, Meta(ge=0, lt=STATUS_COUNT)]
Digest: TypeAlias = Annotated[bytes, Meta(min_length=DIGEST_SIZE, max_length=DIGEST_SIZE)]


def is_time(moment: int) -> bool:
    """Whether it can be shown as a `datetime`."""
    return FIRST_TIME <= moment <= LAST_TIME


# ── Small records beside sessions: their bytes are checked when they are read ────────────────────

T = TypeVar("T")

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, TypeError, RecursionError)
_decode_json = msgspec.json.Decoder().decode


def decoder(kind: type[T], what: str, *, packed: bool = False) -> Callable[[bytes], T]:
    """A function from the bytes of a record to its value, by the types of its fields. CorruptError: they are
    none. `what` names such a record; `packed`: it is msgpack, else JSON."""
    decode: Callable[[bytes], T]
    decode = msgspec.msgpack.Decoder(kind).decode if packed else msgspec.json.Decoder(kind).decode

    def checked(value: bytes) -> T:
        try:
            return decode(value)
        except _UNREADABLE as error:
            raise CorruptError(f"{what} is damaged: {error}") from error

    return checked


def json_in(value: bytes | msgspec.Raw, what: str) -> Json:
    """The JSON value that a record holds as text. CorruptError: the bytes are something else."""
    try:
        return _decode_json(value)
    except _UNREADABLE as error:
        raise CorruptError(f"{what} is damaged: {error}") from error


def number_in(text: str | bytes, what: str, base: int = 10) -> int:
    """The number that a name, or a record, is. CorruptError: the bytes are something else."""
    try:
        number = int(text, base) if len(text) <= 20 else -1
    except ValueError:
        number = -1
    if not 0 <= number <= MOST:
        raise CorruptError(f"{what} is damaged: {text[:40]!r} is no number")
    return number


# ── Where an imported session came from: the format and path of the file ──────────────────────────

ORIGIN: Final = "imported_from"
"""The metadata that say of a session that it came from elsewhere, and from where."""


OWN_FORMAT: Final = "jsonl"
"""The format of files that another store of Clew wrote."""
PARENT: Final = "parent"
"""The metadata that name the session that this one is a subagent of."""
COPIED_FROM: Final = "copied_from"
"""The metadata that name the session of another program that this one is a fork of."""
PURGED: Final = "purged:"
"""What the names of store-wide marks begin with: of sessions that came from files, and are not to come back
unasked."""
COPY: Final = "copy:"
"""And of those that name the session of which a copy was written for an agent."""
AGENT: Final = "agent"
"""The metadata that name the program, or the framework, that writes the session."""
SOURCE_AGENT: Final = "source_agent"
"""The metadata that keep what the program that a session was imported from calls its agent."""
MADE_BY: Final = "made_by"
"""The metadata that name the bound token, by its id, with which a session was made over HTTP. Only the server
writes them for such a token: whoever asks for the latest session does not get one that another has made."""
STARRED: Final = "starred"
"""The tag of the sessions that a user starred: a fork does not inherit it."""
FRAMEWORK: Final = "framework"
"""The metadata that the adapters set."""


LOAD_STATE: Final = "clew load state"
"""The record of kind `key` that says how the last load of another program's session left it."""


class _OwnTitle(msgspec.Struct, frozen=True):
    title: str | None = None


class _LoadStateUse(msgspec.Struct, frozen=True, array_like=True):
    uid: str
    first: int
    count: int
    digest: str
    state: _OwnTitle


_decode_own_title = decoder(list[_LoadStateUse], "the record of an import")


def own_title(value: bytes) -> str | None:
    """The title that the source of a session gave to it, from its record of a load."""
    uses = _decode_own_title(value)
    return uses[0].state.title if uses else None


def purged_name(id: str) -> str:
    """The mark of a purged session. The id cannot be read from it."""
    return PURGED + blake3(id.encode()).hexdigest(16)


class Origin(NamedTuple):
    format: str
    path: str


def origin_of(metadata: Mapping[str, Json]) -> Origin | None:
    """None: it was not imported."""
    found = metadata.get(ORIGIN)
    if not found:
        return None
    told = found if isinstance(found, dict) else {}
    format, path = told.get("format"), told.get("path")
    return Origin(format if isinstance(format, str) else "", path if isinstance(path, str) else "")


def agent_of(metadata: Mapping[str, Json]) -> str | None:
    """The program or framework that writes a session; None: nothing tells. What a program calls its agent may
    be something else (OpenCode has a build agent): an imported session is of the program it came from."""
    origin = origin_of(metadata)
    if origin and origin.format and origin.format != OWN_FORMAT:
        return origin.format
    for said in (metadata.get(AGENT), metadata.get(FRAMEWORK)):
        if isinstance(said, str) and said:
            return said
    return None


def is_anothers(metadata: Mapping[str, Json], caller: str | None) -> bool:
    """Whether a session was made by a bound token that is not this caller; None: the caller is no token."""
    return bool(metadata.get(MADE_BY, caller) != caller)


def parent_of(metadata: Mapping[str, Json]) -> str | None:
    """The id of the session that this one is a subagent of; None: of none."""
    said = metadata.get(PARENT)
    return said if isinstance(said, str) and said else None
