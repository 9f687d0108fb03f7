"""Whether what was read back can be what was written: one check for each kind of row.

A store may have been damaged, or changed on purpose by another program; SQLite holds any type in any column.
So nothing is believed before it was looked at here. Each kind has a fast look, one expression that takes
what is surely sound, and an exact one for the rest, by the types of its fields (see clew.core.log.records),
which says what is wrong. The fast look joins numbers by `|`: that fails for all but integers, and the
result is negative, or too large, if one of them is.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from clew.core.log.ids import is_id
from clew.core.log.records import DIGEST_SIZE, FIRST_TIME, LAST_TIME, MAX_TITLE, MOST, STATUS_COUNT
from clew.core.log.rows import (
    KIND_NAMES,
    BranchRow,
    Details,
    EntryRow,
    EventRow,
    HeadRow,
    ObjectPlace,
    PackInfo,
    SessionRow,
    UsageRow,
)
from clew.core.messages.codec import decode_json
from clew.errors import CorruptEntryError, CorruptError, CorruptSessionError
from clew.model import Json

S = TypeVar("S", bound=msgspec.Struct)

_PLAIN_ID: Final = 128
"""So many characters are never more bytes than an id may have."""
_POSITIONS: Final = 2**32
_KINDS: Final = len(KIND_NAMES)
_TEXTS: Final = frozenset({str, type(None)})
_decode_details = msgspec.json.Decoder(Details).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


class BadRowError(ValueError):
    """A row that Clew cannot have written: the message says which field is wrong, and why."""


# -- sessions


def session(row: SessionRow) -> SessionRow:
    """The row, if it can be one; else CorruptSessionError."""
    head, id, title = row.head, row.id, row.title
    try:
        if (
            0 <= row.sid | row.tree | head.branch | head.messages | head.turns | head.size | row.moves
            | row.undo | row.redo | row.forks | row.epoch | row.fence | row.status | row.due <= MOST
            and row.status < STATUS_COUNT
            and 0 <= head.position + 1 | head.view_start + 1 | head.summary + 1 | head.last_user_turn + 1
            <= _POSITIONS
            and FIRST_TIME <= row.created <= LAST_TIME
            and FIRST_TIME <= row.updated <= LAST_TIME
            and type(row.created | row.updated) is int
            and (row.deleted is None or FIRST_TIME <= row.deleted | 0 <= LAST_TIME)
            and type(id) is str and 0 < len(id) <= _PLAIN_ID and "\0" not in id
            and type(head.digest) is bytes and len(head.digest) == DIGEST_SIZE
            and type(row.grows) is bool and type(row.has_title) is bool
            and (title is None or (type(title) is str and len(title) <= MAX_TITLE))
            and type(row.preview) is str and type(row.workspace) in _TEXTS
        ):  # fmt: skip
            return row
    except TypeError:
        pass
    flaw = session_flaw(row)
    if flaw:
        raise CorruptSessionError(shown_id(row), flaw)
    return row


def session_flaw(row: SessionRow) -> str:
    """What of it cannot be; empty: nothing."""
    values = {name: getattr(row, name) for name in SessionRow.__struct_fields__}
    values["head"] = {name: getattr(row.head, name) for name in HeadRow.__struct_fields__}
    flaw = _flaw(values, SessionRow) or _digest_flaw(row.head.digest)
    if not flaw and not is_id(row.id):
        return "its id is not valid"
    if not flaw and row.title is not None and len(row.title) > MAX_TITLE:
        return f"its title has {len(row.title)} characters"
    return flaw


STANDS_FOR_ID: Final = "(damaged session "


def shown_id(row: SessionRow) -> str:
    """Its id, or a placeholder if the id is not valid."""
    return row.id if type(row.id) is str and is_id(row.id) else f"{STANDS_FOR_ID}{row.sid})"


def details(session: str, value: object) -> Details:
    """The settings of a session from their JSON text; else CorruptSessionError."""
    if value is None:
        raise CorruptSessionError(session, "its settings are lost")
    try:
        found = _decode_details(value)  # type: ignore[arg-type]
    except (msgspec.MsgspecError, TypeError, UnicodeDecodeError) as error:
        raise CorruptSessionError(session, f"its settings cannot be read: {error}") from error
    for name in found.tags + found.aliases:
        if not (0 < len(name) <= _PLAIN_ID and "\0" not in name) and not is_id(name):
            raise CorruptSessionError(session, "one of its tags or aliases is not valid")
    return found


def metadata(session: str, details: Details) -> dict[str, Json]:
    """The metadata of a session; else CorruptSessionError."""
    try:
        return _decode_object(details.metadata)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptSessionError(session, f"its metadata is not valid: {error}") from error


# -- branches and entries


def branch(row: BranchRow) -> BranchRow:
    """The row, if it can be one; else CorruptError."""
    flaw = _flaw(row) or ("" if is_id(row.uid) and row.branch else "its name is not valid")
    if flaw:
        raise CorruptError(f"branch {row.branch} is damaged: {flaw}")
    return row


def is_entry(row: EntryRow) -> bool:
    """Whether it can be one, its body aside."""
    try:
        return (
            0 <= row.messages | row.turns | row.size | row.epoch | row.flags | row.kind <= MOST
            and row.kind < _KINDS
            and 0 <= row.view_start + 1 | row.summary + 1 | row.last_user_turn + 1 | row.position
            <= _POSITIONS
            and FIRST_TIME <= row.time <= LAST_TIME
            and type(row.time) is int
            and type(row.digest) is bytes and len(row.digest) == DIGEST_SIZE
        ) or not entry_flaw(row)  # fmt: skip
    except TypeError:
        return False


def entry_flaw(row: EntryRow) -> str:
    """What of it cannot be; empty: nothing."""
    values = {name: getattr(row, name) for name in EntryRow.__struct_fields__ if name != "body"}
    flaw = _flaw({**values, "body": b""}, EntryRow) or _digest_flaw(row.digest)
    if not flaw and row.kind >= _KINDS:
        return f"its kind is {row.kind}, which is not known here: a newer version may have written it"
    return flaw


def message(uid: str, position: int, body: bytes) -> dict[str, Json]:
    """The message in the body of an entry; CorruptEntryError: the body holds no message."""
    try:
        found = decode_json(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptEntryError(uid, position, f"its body is not valid JSON: {error}") from error
    if type(found) is not dict:
        raise CorruptEntryError(uid, position, "its body is no message")
    return found


def tip(place: HeadRow) -> HeadRow:
    """The counters of an entry, if they can be such; else CorruptError."""
    try:
        if (
            0 <= place.branch | place.messages | place.turns | place.size <= MOST
            and 0 <= place.position + 1 | place.view_start + 1 | place.summary + 1 | place.last_user_turn + 1
            <= _POSITIONS
            and type(place.digest) is bytes and len(place.digest) == DIGEST_SIZE
        ):  # fmt: skip
            return place
    except TypeError:
        pass
    flaw = _flaw(place) or _digest_flaw(place.digest)
    if flaw:
        raise CorruptError(f"entry {place.position} of branch {place.branch} is damaged: {flaw}")
    return place


# -- events and calls


def event(row: EventRow) -> EventRow:
    """The row, if it can be one; else CorruptError."""
    try:
        if (
            row.number | 0 > 0
            and FIRST_TIME <= row.time | 0 <= LAST_TIME
            and type(row.stream) is str and type(row.type) is str and type(row.id) in _TEXTS
            and type(row.data) is bytes
        ):  # fmt: skip
            return row
    except TypeError:
        pass
    flaw = _flaw(row) or ("" if type(row.data) is bytes else "its data is of a wrong type")
    if flaw:
        raise CorruptError(f"event {row.number} is damaged: {flaw}")
    return row


def call(row: UsageRow) -> UsageRow:
    """The row, if it can be one; else CorruptError."""
    flaw = _flaw(row)
    if flaw:
        raise CorruptError(f"model call {row.number} is damaged: {flaw}")
    return row


# -- objects


def place(name: object, found: ObjectPlace) -> ObjectPlace:
    """The place of an object, if it can be one; else CorruptError."""
    try:
        if 0 <= found.pack | found.offset | found.size <= MOST and type(name) is bytes:
            return found
    except TypeError:
        pass
    shown = name.hex() if isinstance(name, bytes) else repr(name)[:40]
    raise CorruptError(f"the place of object {shown} is damaged: {_flaw(found) or 'its name is not valid'}")


def pack(found: PackInfo) -> PackInfo:
    """What is known of a pack, if it can be so; else CorruptError."""
    flaw = _flaw(found)
    if flaw:
        raise CorruptError(f"pack {found.pack} is damaged: {flaw}")
    return found


# -- the exact look


def _flaw(row: msgspec.Struct | dict[str, Any], kind: type[msgspec.Struct] | None = None) -> str:
    """What of the values of a row is not of the types of its fields; empty: nothing."""
    if kind is None:
        assert isinstance(row, msgspec.Struct)
        kind, row = type(row), msgspec.structs.asdict(row)
    try:
        msgspec.convert(row, kind, builtin_types=(bytes,))
    except (msgspec.ValidationError, UnicodeError) as error:
        wrong, _, field = str(error).partition(" - at `$.")
        return f"its {field.rstrip('`')} cannot be: {wrong}" if field else wrong
    except (TypeError, ValueError, OverflowError) as error:
        return f"a field of it is of no type that it can have ({error})"
    return ""


def _digest_flaw(digest: object) -> str:
    """Text would be taken for the name of bytes."""
    return "" if type(digest) is bytes else "its digest is of a wrong type"


# msgspec reads the fields of a class when it first converts to it. Two threads that come first at the same
# moment may crash the process (msgspec 0.22), so it is done here, where the lock of the import holds.
for _kind in (BranchRow, EntryRow, EventRow, ObjectPlace, PackInfo, SessionRow, HeadRow, UsageRow):
    _flaw({}, _kind)
