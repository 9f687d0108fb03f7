"""Rows of the tables, from and to values."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from clew.backends.rows import body_of, sound_entry
from clew.core.log import checks
from clew.core.log.digest import checksum, pack
from clew.core.log.rows import ERASED, REMOVED, Details, EntryRow, HeadRow, SessionRow

Row: TypeAlias = tuple[Any, ...]

POSITION_BITS: Final = 32
POSITION_MASK: Final = (1 << POSITION_BITS) - 1
MOST_BRANCHES: Final = 2**31
LAST_KEY: Final = 2**63 - 1
TEXTS: Final = (1, 16, 18, 19)
"""Columns of SESSION that are texts."""

_encode = msgspec.json.Encoder().encode
_FLAGS: Final[dict[Any, Any]] = {0: False, 1: True}


def key(branch: int, position: int) -> int:
    """Of numbers that no row can have: the last that there is."""
    return branch << POSITION_BITS | position if branch < MOST_BRANCHES else LAST_KEY


def session_from(row: Row) -> SessionRow:
    """Whatever the columns hold."""
    grows: Any = _FLAGS.get(row[15], row[15])
    has_title: Any = _FLAGS.get(row[17], row[17])
    return SessionRow(
        row[0], row[1], row[2], row[3], row[4], row[5],
        HeadRow(row[6], row[7], row[8], row[9], row[10], row[11], row[12], row[13], row[14]),
        grows, row[16], has_title, row[18], row[19],
        row[20], row[21], row[22], row[23], row[24], row[25], row[26], row[27],
    )  # fmt: skip


def sound_session(row: Row) -> SessionRow:
    """CorruptSessionError: it cannot be one."""
    return checks.session(session_from(row))


def loosely(row: Row) -> Row:
    """The columns of LOOSE_SESSION: texts as texts, unless they are no UTF-8."""
    return tuple(_text(value) if at in TEXTS else value for at, value in enumerate(row))


def _text(value: Any) -> Any:
    try:
        return value.decode() if type(value) is bytes else value
    except UnicodeDecodeError:
        return value


def session_values(row: SessionRow) -> Row:
    """The columns of SESSION without the sid."""
    head = row.head
    return (
        row.id, row.tree, row.created, row.updated, row.deleted,
        head.branch, head.position, head.digest, head.messages, head.turns, head.size,
        head.view_start, head.summary, head.last_user_turn,
        int(row.grows), row.title, int(row.has_title), row.preview, row.workspace,
        row.moves, row.undo, row.redo, row.forks,
        row.status, row.epoch, row.fence, row.due,
    )  # fmt: skip


def entry_values(branch: int, row: EntryRow) -> Row:
    codec, blob = pack(row.body)
    return (
        branch << POSITION_BITS | row.position, row.kind, row.time, row.flags, codec,
        checksum(blob, row.position, row.time, row.kind, codec, row.flags), row.digest,
        row.messages, row.turns, row.size, row.view_start, row.summary, row.last_user_turn, row.epoch, blob,
    )  # fmt: skip


def erased_values(position: int, time: int, flags: int) -> Row:
    """Codec, checksum and body of an entry that is erased."""
    codec, blob = pack(ERASED)
    return codec, checksum(blob, position, time, REMOVED, codec, flags), blob


def entry_from(uid: str, row: Row) -> EntryRow:
    position = row[0] & POSITION_MASK
    body = body_of(uid, position, row[1], row[2], row[3], row[4], row[5], row[14])
    entry = EntryRow(
        position, row[1], row[2], row[3], row[6], row[7], row[8], row[9], row[10], row[11], row[12], body,
        row[13],
    )  # fmt: skip
    return sound_entry(uid, entry)


def details_values(details: Details) -> bytes:
    return _encode(details)
