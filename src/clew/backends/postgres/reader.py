"""Reads of sessions, branches, entries and records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from clew.backends.contract import OnDamage, RecordKind
from clew.backends.damaged import damage_of, list_sound, only_named, only_sound, within
from clew.backends.postgres.blobs import Blobs
from clew.backends.postgres.ids import home_of
from clew.backends.postgres.row_cache import Memory
from clew.backends.postgres.rows import (
    EARLIEST,
    Row,
    body_from,
    encode,
    entry_from,
    session_from,
    sound_session,
)
from clew.backends.postgres.search import TextReader
from clew.backends.postgres.sql import (
    ALL_SESSIONS,
    BRANCH_NUMBERS,
    BRANCH_TOTALS,
    COUNT_ENTRIES,
    DUE_SESSIONS,
    ENTRIES,
    FIND_BRANCH,
    FIND_DELETED,
    FIND_NAME,
    GET_BRANCH,
    GET_DETAILS,
    GET_ENTRY,
    GET_RECORD,
    GET_SESSION,
    GET_TIP,
    IDLE_SESSIONS,
    LAST_POSITION,
    LINEAGE,
    MESSAGES,
    MESSAGES_BACKWARDS,
    ODD_NAMES,
    RECORD_KINDS,
    SCAN_BACKWARDS,
    SCAN_RANGE,
    SCAN_RANGE_BACKWARDS,
    SCAN_RECORDS,
    STATUS_TOTALS,
    STRAYS,
    TOTALS,
    TREE_BRANCHES,
    TREE_SESSIONS,
    VOLUME,
    listing,
)
from clew.backends.problems import nameless, stray, unknown_kinds
from clew.core import checked
from clew.core.fields import MAX_POSITION
from clew.core.frame import checksum
from clew.core.messages.codec import decode_json
from clew.core.rows import (
    MESSAGE,
    NOWHERE,
    BranchRow,
    Damaged,
    Details,
    EntryRow,
    Listed,
    SessionQuery,
    SessionRow,
    Tip,
    Totals,
)
from clew.errors import BranchMissingError, CorruptEntryError, CorruptError, CorruptSessionError
from clew.model import Json

AT_ONCE: Final = 5000
"""So many entries are asked for at a time: an answer is in memory as a whole."""
TRIES: Final = 5
LINEAGE_AT_ONCE: Final = 1000
"""So many branches, each the parent of the one before, come with one question. Fewer than are remembered."""


NO_END: Final = 2**63


class Bounds:
    """How many bytes may still be read."""

    __slots__ = ("is_reached", "room")

    def __init__(self, room: int | None) -> None:
        self.room = room
        self.is_reached = False


class PostgresReader(TextReader):
    """`Reader` over whatever answers to `ask`."""

    def __init__(self, memory: Memory, blobs: Blobs | None) -> None:
        self._memory = memory
        self._blobs = blobs
        self._above = 0
        """What the branch that was asked for last continues: whoever asks for that goes up a lineage."""

    def find_session(self, id: str) -> SessionRow | None:
        for _ in range(TRIES):  # between the two looks the id may have come to stand for another session
            names = self.ask(FIND_NAME, encode(id))
            if not names:
                return None
            row = self.get_session(names[0][0])
            if row is not None and row.id == id and row.deleted is None:
                return row
        return None

    def get_session(self, sid: int) -> SessionRow | None:
        rows = self.ask(GET_SESSION, home_of(sid), sid)
        return self._seen(rows[0]) if rows else None

    def _seen(self, row: Row) -> SessionRow:
        session = sound_session(row)
        self._memory.note(session, row[-1])
        return session

    def find_deleted(self, id: str) -> SessionRow | None:
        return next(map(self._seen, self.ask(FIND_DELETED, encode(id))), None)

    def get_details(self, sid: int) -> Details:
        rows = self.ask(GET_DETAILS, home_of(sid), sid)
        if rows:
            return checked.details(self._name_of(sid), rows[0][0])
        if not self.ask(GET_SESSION, home_of(sid), sid):
            return Details()  # it was purged
        raise CorruptSessionError(self._name_of(sid), "its settings are lost")

    def _name_of(self, sid: int) -> str:
        """The id of a session, for those who tell of its damage."""
        rows = self.ask(GET_SESSION, home_of(sid), sid)
        return checked.shown_id(session_from(rows[0])) if rows else f"{checked.STANDS_FOR_ID}{sid})"

    def list_sessions(self, query: SessionQuery) -> list[Listed]:
        def ask(limit: int) -> list[Row]:
            template, given = listing(msgspec.structs.replace(query, limit=limit))
            return self.ask(template, *given)

        return list_sound(ask, session_from, query)

    def damaged_sessions(self) -> list[Damaged]:
        rows = self.ask(ALL_SESSIONS)
        return [bad for row in rows if (bad := damage_of(session_from(row), row[-1])) is not None]

    def due_sessions(self, before: int, limit: int, *, after: tuple[int, int] = (-1, 0)) -> list[SessionRow]:
        return only_sound(lambda most: self.ask(DUE_SESSIONS, before, *after, most), session_from, limit)

    def idle_sessions(self, limit: int, *, after: tuple[int, str] | None = None) -> list[SessionRow]:
        moment, id = after or (EARLIEST, "")
        return only_sound(lambda most: self.ask(IDLE_SESSIONS, moment, encode(id), most), session_from, limit)

    def tree_sessions(self, tree: int) -> list[SessionRow]:
        return [self._seen(row) for row in self.ask(TREE_SESSIONS, home_of(tree), tree)]

    def get_branch(self, branch: int) -> BranchRow:
        known = self._memory.branch(branch)
        if known is None:
            if branch == self._above:
                rows = self.ask(LINEAGE, home_of(branch), branch, LINEAGE_AT_ONCE)
            else:
                rows = self.ask(GET_BRANCH, home_of(branch), branch)
            if not rows:
                raise BranchMissingError(branch)
            known = checked.branch(BranchRow(*rows[0]))
            self._memory.note_branch(known)
            self._note_lineage(known, rows[1:])
        return known

    def _note_lineage(self, row: BranchRow, above: list[Row]) -> None:
        """Remember what a branch continues, as far as it is sound: the rest is told when it is asked for."""
        for values in above:
            try:
                row = checked.branch(BranchRow(*values))
            except CorruptError:
                break
            self._memory.note_branch(row)
        self._above = row.parent

    def find_branch(self, uid: str) -> BranchRow | None:
        return next((checked.branch(BranchRow(*row)) for row in self.ask(FIND_BRANCH, uid)), None)

    def tree_branches(self, tree: int) -> list[BranchRow]:
        return [checked.branch(BranchRow(*row)) for row in self.ask(TREE_BRANCHES, home_of(tree), tree)]

    def branch_numbers(self, sid: int, tree: int) -> list[int]:
        return [branch for (branch,) in self.ask(BRANCH_NUMBERS, sid, tree)]

    def last_position(self, branch: int) -> int:
        ((last,),) = self.ask(LAST_POSITION, home_of(branch), branch)
        return NOWHERE if last is None else int(last)

    def get_tip(self, branch: int, position: int) -> Tip | None:
        if not 0 <= position <= MAX_POSITION:
            return None
        rows = self.ask(GET_TIP, home_of(branch), branch, position)
        return checked.tip(Tip(branch, position, *rows[0])) if rows else None

    def get_entry(self, branch: int, position: int) -> EntryRow | None:
        if not 0 <= position <= MAX_POSITION:
            return None
        rows = self.ask(GET_ENTRY, home_of(branch), branch, position)
        return entry_from(self.get_branch(branch).uid, rows[0]) if rows else None

    def read_entries(
        self,
        branch: int,
        first: int,
        last: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
        room: int | None = None,
        on_damage: OnDamage | None = None,
    ) -> list[EntryRow]:
        if limit is not None and last - first >= limit:
            first, last = (last - limit + 1, last) if reverse else (first, first + limit - 1)
        if last < first:
            return []
        return within(room, self._entries(branch, first, last, reverse=reverse, on_damage=on_damage))

    def _entries(
        self, branch: int, first: int, last: int, *, reverse: bool, on_damage: OnDamage | None
    ) -> Iterator[EntryRow]:
        uid = self.get_branch(branch).uid
        for start, end in _ranges(first, last, reverse=reverse):
            rows = {row[2]: row for row in self.ask(ENTRIES, home_of(branch), branch, start, end)}
            for position in range(end, start - 1, -1) if reverse else range(start, end + 1):
                try:
                    if position not in rows:
                        raise CorruptEntryError(uid, position, "it is missing")
                    entry = entry_from(uid, rows[position])
                except CorruptEntryError as damage:
                    if on_damage is None:
                        raise
                    on_damage(damage)
                else:
                    yield entry

    def read_messages(
        self,
        branch: int,
        first: int,
        last: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
        room: int | None = None,
        on_damage: OnDamage | None = None,
    ) -> list[tuple[int, dict[str, Json]]]:
        found: list[tuple[int, dict[str, Json]]] = []
        bounds = Bounds(room)
        for start, end in _ranges(first, last, reverse=reverse):
            left = None if limit is None else limit - len(found)
            if (left is not None and left <= 0) or bounds.is_reached:
                break
            self._read_range(found, branch, start, end, reverse, left, bounds, on_damage)
        return found

    def _read_range(
        self,
        found: list[tuple[int, dict[str, Json]]],
        branch: int,
        first: int,
        last: int,
        reverse: bool,
        limit: int | None,
        bounds: Bounds,
        on_damage: OnDamage | None,
    ) -> None:
        """A damaged message does not count: then more have to be read, behind the last one seen."""
        wanted = None if limit is None else len(found) + limit
        while first <= last:
            left = None if wanted is None else wanted - len(found)
            statement = MESSAGES_BACKWARDS if reverse else MESSAGES
            rows = self.ask(statement, home_of(branch), branch, first, last, left)
            self._decode(found, branch, rows, bounds, on_damage)
            if wanted is None or len(found) >= wanted or len(rows) < (left or 0) or bounds.is_reached:
                return
            first, last = (first, rows[-1][0] - 1) if reverse else (rows[-1][0] + 1, last)

    def _decode(
        self,
        found: list[tuple[int, dict[str, Json]]],
        branch: int,
        rows: list[Row],
        bounds: Bounds,
        on_damage: OnDamage | None,
    ) -> None:
        left = NO_END if bounds.room is None else bounds.room
        add, check, decode = found.append, checksum, decode_json  # a long loop
        for position, time, flags, codec, recorded, blob in rows:
            message = None
            body = blob
            if not codec and check(blob, position, time, MESSAGE, codec, flags) == recorded:
                with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    message = decode(blob)
            if type(message) is not dict:
                try:
                    uid = self.get_branch(branch).uid
                    body = body_from(uid, position, MESSAGE, time, flags, codec, recorded, blob)
                    message = checked.message(uid, position, body)
                except CorruptEntryError as damage:
                    if on_damage is None:
                        raise
                    on_damage(damage)
                    continue
            add((position, message))
            left -= len(body)
            if left <= 0:
                bounds.is_reached = True
                return
        bounds.room = None if bounds.room is None else left

    def count_entries(self, branch: int, first: int, last: int, kind: int) -> int:
        ((count,),) = self.ask(COUNT_ENTRIES, home_of(branch), branch, first, last, kind)
        return int(count)

    def get_record(self, sid: int, kind: RecordKind, name: str) -> bytes | None:
        rows = self.ask(GET_RECORD, home_of(sid), sid, kind, encode(name))
        return rows[0][0] if rows else None

    def scan_records(
        self,
        sid: int,
        kind: RecordKind,
        first: str = "",
        last: str | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> list[tuple[str, bytes]]:
        behind = () if last is None else (encode(last),)
        sql = SCAN_BACKWARDS if reverse else SCAN_RECORDS
        if last is not None:
            sql = SCAN_RANGE_BACKWARDS if reverse else SCAN_RANGE
        home = home_of(sid)

        def ask(wanted: int) -> Any:
            return self.ask(sql, home, sid, kind, encode(first), None if wanted < 0 else wanted, *behind)

        return only_named(ask, limit)

    def volume(self) -> tuple[int, int]:
        ((count, size),) = self.ask(VOLUME)
        return count, int(size)

    def problems(self, *, full: bool, go_on: Callable[[], None]) -> Iterable[str]:
        """Pages and indices are the server's, which has checksums for them."""
        for what, owner, template in STRAYS if full else ():
            go_on()
            ((count,),) = self.ask(template)
            if count:
                yield stray(count, what, owner)
        if full:
            go_on()
            yield from unknown_kinds(kind for (kind,) in self.ask(RECORD_KINDS))
            go_on()
            yield from nameless(self.ask(ODD_NAMES))

    def totals(self, since: int) -> Totals:
        statuses = self.ask(STATUS_TOTALS, since)
        ((deleted, created),) = self.ask(TOTALS, since)
        ((messages, entries, size),) = self.ask(BRANCH_TOTALS)
        return Totals(
            sessions=sum(count for _, count, _ in statuses),
            deleted=deleted,
            messages=int(messages),
            entries=int(entries),
            size=int(size),
            by_status={status: count for status, count, _ in statuses},
            active={status: active for status, _, active in statuses if active},
            created=created,
        )


def _ranges(first: int, last: int, *, reverse: bool = False) -> Iterator[tuple[int, int]]:
    """Positions first..last in pieces that an answer can hold."""
    first = max(first, 0)
    starts = range(first, last + 1, AT_ONCE)
    for start in reversed(starts) if reverse else starts:
        yield start, min(start + AT_ONCE - 1, last)
