"""Reads, on one connection."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import apsw
import msgspec

from clew.backends.contract import OnDamage, Reader, RecordKind
from clew.backends.damage import damage_of, list_sound, only_named, only_sound
from clew.backends.rows import body_of, limited, messages_of, missing, within
from clew.backends.sqlite.rows import (
    POSITION_MASK,
    Row,
    entry_from,
    key,
    loosely,
    session_from,
    sound_session,
)
from clew.backends.sqlite.search import TextReader
from clew.backends.sqlite.sql import (
    ALL_LOOSELY,
    BRANCH_NUMBERS,
    BRANCH_TOTALS,
    COUNT_ENTRIES,
    DUE_SESSIONS,
    ENTRIES,
    ENTRIES_BACKWARDS,
    FIND_BRANCH,
    FIND_DELETED,
    FIND_SESSION,
    GET_BRANCH,
    GET_DETAILS,
    GET_ENTRY,
    GET_LOOSELY,
    GET_RECORD,
    GET_SESSION,
    GET_TIP,
    LAST_KEY,
    MESSAGES,
    MESSAGES_BACKWARDS,
    SCAN_BACKWARDS,
    SCAN_RANGE,
    SCAN_RANGE_BACKWARDS,
    SCAN_RECORDS,
    SESSION,
    TOTALS,
    TREE_BRANCHES,
    TREE_SESSIONS,
    listing,
)
from clew.core.log import checks
from clew.core.log.digest import checksum
from clew.core.log.rows import (
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
from clew.core.messages.codec import decode_json
from clew.errors import BranchMissingError, CorruptEntryError, CorruptError, CorruptSessionError
from clew.model import Json

BRANCHES_KEPT: Final = 10_000
_MISLED: Final = "the index of the store leads from {0} {1!r} to {0} {2!r}: save what can be read with repair"
NO_END: Final = 2**63
DAMAGE: Final = (apsw.CorruptError, CorruptEntryError, UnicodeDecodeError)


class SqliteReader(TextReader, Reader):
    """`Reader` over a connection. The cache of branches is shared by all: where a branch starts
    never changes; a rollback empties the cache, because it may have held a branch that never was."""

    def __init__(self, connection: apsw.Connection, branches: dict[int, BranchRow]) -> None:
        super().__init__(connection)
        self._branches = branches

    def find_session(self, id: str, *, deleted: bool = False) -> SessionRow | None:
        return _session_of(id, self._session_rows(FIND_DELETED if deleted else FIND_SESSION, (id,)))

    def get_session(self, sid: int) -> SessionRow | None:
        rows = self._session_rows(GET_SESSION, (sid,))
        return sound_session(rows[0]) if rows else None

    def _session_rows(self, sql: str, bindings: Sequence[Any]) -> list[Row]:
        """Rows that begin with the columns of SESSION. A text of one that is no UTF-8 costs no other."""
        try:
            rows: list[Row] = self._execute(sql, bindings).fetchall()
        except UnicodeDecodeError:
            found = self._execute(sql.replace(SESSION, "sid", 1), bindings).fetchall()
            rows = [(*loosely(self._one(GET_LOOSELY, sid) or ()), *others) for sid, *others in found]
        return rows

    def get_details(self, sid: int) -> Details:
        row = self._one(GET_DETAILS, sid)
        if row is not None:
            return checks.details(self._name_of(sid), row[0])
        if self._one(GET_LOOSELY, sid) is None:
            return Details()  # it was purged
        raise CorruptSessionError(self._name_of(sid), "its settings are lost")

    def list_sessions(self, query: SessionQuery) -> list[Listed]:
        def ask(limit: int) -> list[Row]:
            return self._session_rows(*listing(msgspec.structs.replace(query, limit=limit)))

        return list_sound(ask, session_from, query)

    def damaged_sessions(self) -> list[Damaged]:
        rows = self._execute(ALL_LOOSELY)
        return [bad for row in rows if (bad := damage_of(session_from(loosely(row)), row[-1])) is not None]

    def due_sessions(self, before: int, limit: int, *, after: tuple[int, int] = (-1, 0)) -> list[SessionRow]:
        return only_sound(
            lambda most: self._session_rows(DUE_SESSIONS, (before, *after, most)), session_from, limit
        )

    def tree_sessions(self, tree: int) -> list[SessionRow]:
        return [sound_session(row) for row in self._session_rows(TREE_SESSIONS, (tree,))]

    def get_branch(self, branch: int) -> BranchRow:
        known = self._branches.get(branch)
        if known is None:
            row = self._one(GET_BRANCH, branch)
            if row is None:
                raise BranchMissingError(branch)
            if len(self._branches) >= BRANCHES_KEPT:
                self._branches.clear()
            known = self._branches[branch] = checks.branch(BranchRow(*row))
        return known

    def find_branch(self, uid: str) -> BranchRow | None:
        row = self._one(FIND_BRANCH, uid)
        if row is None:
            return None
        branch = checks.branch(BranchRow(*row))
        if branch.uid != uid:
            raise CorruptError(_MISLED.format("branch", uid, branch.uid))
        return branch

    def tree_branches(self, tree: int) -> list[BranchRow]:
        try:
            return [checks.branch(BranchRow(*row)) for row in self._execute(TREE_BRANCHES, (tree,))]
        except UnicodeDecodeError as error:
            raise CorruptError(f"a branch holds text that is no UTF-8: {error.object[:40]!r}") from error

    def branch_numbers(self, sid: int, tree: int) -> list[int]:
        return [branch for (branch,) in self._execute(BRANCH_NUMBERS, (sid, tree))]

    def last_position(self, branch: int) -> int:
        row = self._one(LAST_KEY, key(branch, 0), key(branch, POSITION_MASK))
        return NOWHERE if row is None or row[0] is None else int(row[0]) & POSITION_MASK

    def get_tip(self, branch: int, position: int) -> Tip | None:
        if not 0 <= position <= POSITION_MASK:
            return None
        row = self._one(GET_TIP, key(branch, position))
        return checks.tip(Tip(branch, position, *row)) if row else None

    def get_entry(self, branch: int, position: int) -> EntryRow | None:
        if not 0 <= position <= POSITION_MASK:
            return None
        for row in self._entry_rows(GET_ENTRY, (key(branch, position),)):
            return entry_from(self.get_branch(branch).uid, row)
        return None

    def _entry_rows(self, sql: str, bindings: Row) -> Any:
        """Rows of entries, whose last column is the body: for those who keep bodies elsewhere."""
        return self._execute(sql, bindings)

    def _missing(self, branch: int, position: int) -> CorruptEntryError:
        return missing(self.get_branch(branch).uid, position)

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
        first, last = limited(first, last, limit, reverse=reverse)
        rows = self._entry_rows(
            ENTRIES_BACKWARDS if reverse else ENTRIES, (key(branch, first), key(branch, last))
        )
        try:
            uid = self.get_branch(branch).uid
            found = []
            left = NO_END if room is None else room
            for row in rows:  # a long loop
                entry = entry_from(uid, row)
                found.append(entry)
                left -= len(entry.body)
                if left <= 0:
                    break
            whole = _is_whole(found, first, last, room)
        except DAMAGE:
            whole = False
        finally:
            rows.close()
        if not whole:
            positions = range(last, first - 1, -1) if reverse else range(first, last + 1)
            found = within(room, self._salvage(branch, positions, on_damage))
        return found

    def _salvage(
        self, branch: int, positions: Iterable[int], on_damage: OnDamage | None
    ) -> Iterator[EntryRow]:
        """One by one, so that a damaged entry or page costs what it holds."""
        uid = self.get_branch(branch).uid
        for position in positions:
            damage: CorruptEntryError
            try:
                row = self.get_entry(branch, position)
                if row is not None:
                    yield row
                    continue
                damage = self._missing(branch, position)
            except CorruptEntryError as exc:
                damage = exc
            except (apsw.CorruptError, UnicodeDecodeError) as exc:
                damage = CorruptEntryError(uid, position, f"its page can not be read ({exc})")
            if on_damage is None:
                raise damage
            on_damage(damage)

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
        left = NO_END if room is None else room
        rows = self._entry_rows(
            MESSAGES_BACKWARDS if reverse else MESSAGES,
            (key(branch, first), key(branch, last), -1 if limit is None else limit),
        )
        try:
            for at, time, flags, codec, recorded, blob in rows:
                position = at & POSITION_MASK
                body = blob
                if codec or checksum(blob, position, time, MESSAGE, codec, flags) != recorded:
                    body = body_of(
                        self.get_branch(branch).uid, position, MESSAGE, time, flags, codec, recorded, blob
                    )
                message = decode_json(body)
                if type(message) is not dict:
                    raise TypeError(body)
                found.append((position, message))
                left -= len(body)
                if left <= 0:
                    break
        except (*DAMAGE, TypeError, struct.error, msgspec.MsgspecError, RecursionError):
            return messages_of(
                self, branch, first, last, reverse=reverse, limit=limit, room=room, on_damage=on_damage
            )
        finally:
            rows.close()
        return found

    def count_entries(self, branch: int, first: int, last: int, kind: int) -> int:
        row = self._one(COUNT_ENTRIES, key(branch, max(first, 0)), key(branch, last), kind)
        return int(row[0]) if row else 0

    def get_record(self, sid: int, kind: RecordKind, name: str) -> bytes | None:
        row = self._one(GET_RECORD, sid, kind, name)
        return row[0] if row else None

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
        behind: Row = () if last is None else (last,)
        sql = SCAN_BACKWARDS if reverse else SCAN_RECORDS
        if last is not None:
            sql = SCAN_RANGE_BACKWARDS if reverse else SCAN_RANGE
        try:
            return list(self._execute(sql, (sid, kind, first, -1 if limit is None else limit, *behind)))
        except UnicodeDecodeError:
            sql = sql.replace("name", "CAST(name AS BLOB)", 1)
            return only_named(
                lambda wanted: self._execute(sql, (sid, kind, first, wanted, *behind)).fetchall(), limit
            )

    def damage(self, *, full: bool, go_on: Callable[[], None]) -> Iterable[str]:
        from clew.backends.sqlite.integrity import check, strays

        return [*check(self.connection, go_on), *strays(self.connection, go_on)] if full else []

    def totals(self, since: int, *, log: bool = True) -> Totals:
        rows: list[Row] = self._execute(TOTALS, (since,)).fetchall()
        kept = [row for row in rows if row[1]]
        messages, entries, size = (self._one(BRANCH_TOTALS) if log else None) or (0, 0, 0)
        return Totals(
            sessions=sum(row[2] for row in kept),
            deleted=sum(row[2] for row in rows if not row[1]),
            kept_size=int(sum(row[5] for row in kept)),
            messages=int(messages),
            entries=int(entries),
            size=int(size),
            by_status={row[0]: row[2] for row in kept},
            active={row[0]: row[3] for row in kept if row[3]},
            created=sum(row[4] for row in rows),
        )


def _is_whole(found: list[EntryRow], first: int, last: int, room: int | None) -> bool:
    """Whether no entry is missing among those that were read."""
    if len(found) == last - first + 1:
        return True
    is_full = room is not None and sum(len(row.body) for row in found) >= room
    return is_full and abs(found[-1].position - found[0].position) + 1 == len(found)


def _session_of(id: str, rows: list[Row]) -> SessionRow | None:
    """The row that an index led to. A damaged index may lead to another session."""
    if not rows:
        return None
    session = sound_session(rows[0])
    if session.id != id:
        raise CorruptError(_MISLED.format("session", id, session.id))
    return session
