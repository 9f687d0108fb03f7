"""What sessions can be listed by, and the cursors that page through them."""

from __future__ import annotations

import base64
import binascii
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from clew.core.log import checks
from clew.core.log.digest import checksum, unpack
from clew.core.log.ids import check_filter_key, is_filter_key
from clew.core.log.records import AGENT, PARENT, agent_of, decoder
from clew.core.log.rows import (
    MESSAGE,
    Details,
    EntryRow,
    EventRow,
    Listed,
    SessionColumn,
    SessionName,
    SessionQuery,
    UsageRow,
)
from clew.core.messages.codec import encode_json
from clew.errors import CorruptEntryError, CorruptError, InvalidQueryError
from clew.model import Json

if TYPE_CHECKING:
    from clew.backends.contract import LogRows, OnDamage, SessionRows

TAG = ""
"""The facet name of tags: no metadata key that can be filtered on is empty."""
MODEL = ":model"
"""And that of the model: none begins with a colon."""

_Cursor = tuple[int, str]
_decode_cursor = msgspec.json.Decoder(_Cursor).decode
_decode_text = msgspec.json.Decoder(str).decode


_decode_metadata: Callable[[bytes], dict[str, Json]] = decoder(dict[str, Any], "the metadata of a session")


def facets_of(details: Details) -> list[tuple[str, str]]:
    """Tags, the model, the top-level metadata scalars as JSON text, and the agent that they tell of."""
    found = [(TAG, tag) for tag in details.tags]
    if details.model is not None:
        found.append((MODEL, details.model))
    metadata = _decode_metadata(details.metadata)
    agent = agent_of(metadata)
    told = metadata if agent is None else {**metadata, AGENT: agent}
    for name, value in told.items():
        if is_filter_key(name) and _is_scalar(value):
            found.append((name, encode_json(value).decode()))
    return found


def wanted(where: Mapping[str, Json]) -> tuple[tuple[str, str], ...]:
    """The same form for a filter."""
    pairs = []
    for name, value in where.items():
        if not _is_scalar(value):
            raise InvalidQueryError(
                f"metadata {name!r} can be compared with text, numbers, true, false or null only"
            )
        pairs.append((check_filter_key(name), encode_json(value, what=name).decode()))
    return tuple(pairs)


def _is_scalar(value: Json) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def make_cursor(updated: int, id: str) -> str:
    """A place between two sessions of a listing, as opaque text."""
    return base64.urlsafe_b64encode(msgspec.json.encode((updated, id))).decode().rstrip("=")


def read_cursor(cursor: str) -> tuple[int, str]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        moment, id = _decode_cursor(base64.b64decode(padded, altchars=b"-_", validate=True))
        if not -(2**63) <= moment < 2**63:
            raise ValueError(moment)
        return moment, id
    except (binascii.Error, msgspec.MsgspecError, ValueError, TypeError, AttributeError) as exc:
        raise InvalidQueryError(f"{cursor!r} is no cursor of this store") from exc


def scan_names(reader: SessionRows, first: str, limit: int, *, own: bool) -> list[SessionName]:
    """What `scan_ids` answers, by `list_sessions`."""
    rows = [
        one.row
        for deleted in (False, True)
        for one in reader.list_sessions(SessionQuery(limit=2**31, deleted=deleted, damaged=True))
    ]
    return names_from(
        [SessionName(row.id, row.sid, row.deleted is not None) for row in rows], first, limit, own=own
    )


def names_from(names: Iterable[SessionName], first: str, limit: int, *, own: bool) -> list[SessionName]:
    """Those of these that `scan_ids` answers."""

    def key(name: SessionName) -> bytes:
        return (name.own if own else name.id).encode()

    start = first.encode()
    found = (name for name in names if key(name) >= start and (not own or ":" in name.id))
    return nsmallest(limit, found, key=lambda name: (key(name), name.sid))


# ── What the defaults of the contract count and find by lists ─────────────────────────────────────

FACETS: Final[Mapping[SessionColumn, str]] = {"tag": TAG, "agent": AGENT, "model": MODEL}
"""Columns that are facets, with their names."""


def count_sessions_by(reader: SessionRows, column: SessionColumn, *, deleted: bool) -> dict[str, int]:
    """What `count_by` answers, by `list_sessions`."""
    listed = reader.list_sessions(SessionQuery(limit=2**31, deleted=deleted))
    return dict(Counter(value for one in listed for value in values_of(one, column)))


def values_of(one: Listed, column: SessionColumn) -> list[str]:
    """What a session has in a column."""
    if column == "workspace":
        return [] if one.row.workspace is None else [one.row.workspace]
    if column == "status":
        return [str(one.row.status)]
    return [_shown(column, value) for name, value in facets_of(one.details) if name == FACETS[column]]


def counted(column: SessionColumn, rows: Iterable[tuple[Any, int]]) -> dict[str, int]:
    """What `count_by` answers, from rows of a value, which comes as bytes, and how many have it. Values that
    cannot be, as a damaged row has them, are left out."""
    found: dict[str, int] = {}
    for value, many in rows:
        try:
            found[_shown(column, str(value, "utf-8"))] = many
        except (UnicodeDecodeError, TypeError, msgspec.DecodeError):
            continue
    return found


def _shown(column: SessionColumn, value: str) -> str:
    """A facet as it is shown: metadata are kept as JSON."""
    return _decode_text(value) if column == "agent" else value


def subagents_named(reader: SessionRows, parents: Sequence[str]) -> list[tuple[str, SessionName]]:
    """What `find_subagents` answers, by `list_sessions`."""
    found: list[tuple[str, SessionName]] = []
    for parent in dict.fromkeys(parents):
        where = wanted({PARENT: parent})
        for deleted in (False, True):
            listed = reader.list_sessions(SessionQuery(limit=2**31, where=where, deleted=deleted))
            found += [(parent, SessionName(one.row.id, one.row.sid, deleted)) for one in listed]
    return found


# ── What the readers of all backends share: the bounds of a read, and whole bodies and packs ──────

PAGE: Final = 200
"""Rows of a question that a default of the contract asks."""
MISSING: Final = "it is missing"
N = TypeVar("N", EventRow, UsageRow)


# -- bounds


def limited(first: int, last: int, limit: int | None, *, reverse: bool) -> tuple[int, int]:
    """The positions of a range that a read with a limit comes to."""
    if limit is None or last - first < limit:
        return first, last
    return (last - limit + 1, last) if reverse else (first, first + limit - 1)


def within(room: int | None, rows: Iterable[EntryRow]) -> list[EntryRow]:
    """Entries up to the one with which their bodies come to so many bytes."""
    if room is None:
        return list(rows)
    found: list[EntryRow] = []
    add = found.append
    for row in rows:
        add(row)
        room -= len(row.body)
        if room <= 0:
            break
    return found


def numbered(read: Callable[[int], Sequence[N]]) -> Iterator[N]:
    """All events or calls, page by page. `read` takes the number behind which a page begins."""
    after = 0
    while rows := read(after):
        yield from rows
        after = rows[-1].number


# -- entries


def missing(uid: str, position: int) -> CorruptEntryError:
    return CorruptEntryError(uid, position, MISSING)


def body_of(
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


def sound_entry(uid: str, entry: EntryRow) -> EntryRow:
    """CorruptEntryError: it cannot be one."""
    if not checks.is_entry(entry):
        raise CorruptEntryError(uid, entry.position, checks.entry_flaw(entry))
    return entry


def messages_of(
    reader: LogRows,
    branch: int,
    first: int,
    last: int,
    *,
    reverse: bool,
    limit: int | None,
    room: int | None,
    on_damage: OnDamage | None,
) -> list[tuple[int, dict[str, Json]]]:
    """What `read_messages` answers, by `read_entries`: no further than the limit."""

    def report(damage: CorruptEntryError) -> None:
        if on_damage is None:
            raise damage
        on_damage(damage)

    def pass_over_missing(damage: CorruptEntryError) -> None:
        if not damage.reason.startswith(MISSING):
            report(damage)

    found: list[tuple[int, dict[str, Json]]] = []
    uid = reader.get_branch(branch).uid
    first, last = max(first, 0), min(last, reader.last_position(branch))
    while first <= last and (limit is None or len(found) < limit) and (room is None or room > 0):
        begin, end = limited(first, last, PAGE if limit is None else limit - len(found), reverse=reverse)
        first, last = (first, begin - 1) if reverse else (end + 1, last)
        for row in reader.read_entries(
            branch, begin, end, reverse=reverse, room=room, on_damage=pass_over_missing
        ):
            if row.kind != MESSAGE:
                continue
            try:
                found.append((row.position, checks.message(uid, row.position, row.body)))
            except CorruptEntryError as damage:
                report(damage)
            if room is not None:
                room -= len(row.body)
                if room <= 0:
                    break
    return found


# -- packs


def pack_checksum(size: int, codec: int, blob: bytes) -> int:
    """Not over the number, which is not known before the pack is stored: objects have their own names."""
    return checksum(blob, 0, size, 0, codec, 0)


def pack_content(pack: int, size: int, codec: int, blob: bytes, recorded: int | None = None) -> bytes:
    """The raw content of a pack, or CorruptError. Without a checksum, that of zstd has to do."""
    try:
        if recorded is not None and pack_checksum(size, codec, blob) != recorded:
            raise ValueError("its checksum does not match")
        content = unpack(codec, blob)
        if len(content) != size:
            raise ValueError(f"it has {len(content)} bytes, not {size}")
    except (TypeError, ValueError, struct.error) as exc:  # a damaged row may hold values of any type
        raise CorruptError(f"pack {pack} is damaged: {exc}") from exc
    return content
