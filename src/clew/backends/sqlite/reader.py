"""Reads, on one connection, in the sections of the contract."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import apsw
import msgspec

from clew.backends.contract import OnDamage, Reader, RecordKind
from clew.backends.damage import damage_of, list_sound, names_in, only_named, only_sound, sound_sums
from clew.backends.rows import (
    FACETS,
    TAG,
    body_of,
    counted,
    limited,
    messages_of,
    missing,
    pack_content,
    within,
)
from clew.backends.sqlite import sql
from clew.backends.sqlite.rows import (
    MOST_BRANCHES,
    POSITION_BITS,
    POSITION_MASK,
    Row,
    entry_from,
    key,
    loosely,
    session_from,
    sound_session,
)
from clew.core.log import checks
from clew.core.log.digest import checksum
from clew.core.log.records import PARENT
from clew.core.log.rows import (
    MESSAGE,
    NOWHERE,
    PENDING,
    RUNNING,
    BranchRow,
    Damaged,
    Details,
    EntryRow,
    EventRow,
    HeadRow,
    Listed,
    ObjectPlace,
    PackInfo,
    SessionColumn,
    SessionName,
    SessionQuery,
    SessionRow,
    Totals,
    UsageColumn,
    UsageRow,
    UsageSum,
)
from clew.core.messages.codec import decode_json, encode_json
from clew.core.messages.search_text import TextPlace, TextQuery
from clew.errors import BranchMissingError, CorruptEntryError, CorruptError, CorruptSessionError
from clew.model import Json

T = TypeVar("T")

BRANCHES_KEPT: Final = 10_000
FEW: Final = 20
"""Below this many names of objects, one statement for each is faster."""
EARLIEST: Final = -(2**63)
LATEST: Final = 2**63 - 1
NO_END: Final = 2**63
DAMAGE: Final = (apsw.CorruptError, CorruptEntryError, UnicodeDecodeError)
_MISLED: Final = "the index of the store leads from {0} {1!r} to {0} {2!r}: save what can be read with repair"
_searched: WeakKeyDictionary[apsw.Connection, int] = WeakKeyDictionary()
"""Connections that have found everything searched, with the version of the file that they saw then."""
_Counts: TypeAlias = dict[tuple[SessionColumn, bool], dict[str, int]]
_counts: WeakKeyDictionary[apsw.Connection, tuple[int, _Counts]] = WeakKeyDictionary()
"""And what they have counted."""


class SqliteReader(Reader):
    """`Reader` over a connection. The cache of branches is shared by all: where a branch starts
    never changes; a rollback empties the cache, because it may have held a branch that never was."""

    def __init__(self, connection: apsw.Connection, branches: dict[int, BranchRow]) -> None:
        self.connection = connection
        self._execute = connection.execute
        self._branches = branches

    def _one(self, statement: str, *bindings: Any) -> Row | None:
        try:
            row: Row | None = self._execute(statement, bindings).fetchone()
        except UnicodeDecodeError as error:
            raise CorruptError(f"a row holds text that is no UTF-8: {error.object[:40]!r}") from error
        return row

    # -- sessions

    def find_session(self, id: str, *, deleted: bool = False) -> SessionRow | None:
        return _session_of(id, self._session_rows(sql.FIND_DELETED if deleted else sql.FIND_SESSION, (id,)))

    def get_session(self, sid: int) -> SessionRow | None:
        rows = self._session_rows(sql.GET_SESSION, (sid,))
        return sound_session(rows[0]) if rows else None

    def _session_rows(self, statement: str, bindings: Sequence[Any]) -> list[Row]:
        """Rows that begin with the columns of SESSION. A text of one that is no UTF-8 costs no other."""
        try:
            rows: list[Row] = self._execute(statement, bindings).fetchall()
        except UnicodeDecodeError:
            found = self._execute(statement.replace(sql.SESSION, "sid", 1), bindings).fetchall()
            rows = [(*loosely(self._one(sql.GET_LOOSELY, sid) or ()), *others) for sid, *others in found]
        return rows

    def get_details(self, sid: int) -> Details:
        row = self._one(sql.GET_DETAILS, sid)
        if row is not None:
            return checks.details(self._name_of(sid), row[0])
        if self._one(sql.GET_LOOSELY, sid) is None:
            return Details()  # it was purged
        raise CorruptSessionError(self._name_of(sid), "its settings are lost")

    def list_sessions(self, query: SessionQuery) -> list[Listed]:
        facets = [*((TAG, tag) for tag in query.tags), *query.where]
        frequent = [facet for facet in facets if (self._one(sql.IS_FREQUENT, *facet) or (0,))[0]]

        def ask(limit: int) -> list[Row]:
            return self._session_rows(*sql.listing(msgspec.structs.replace(query, limit=limit), frequent))

        return list_sound(ask, session_from, query)

    def scan_ids(self, first: str, limit: int, *, own: bool = False) -> list[SessionName]:
        if own:
            return names_in(self._execute(sql.OWN_IDS, (first, limit)))
        found = [name for part in sql.IDS for name in names_in(self._execute(part, (first, limit)))]
        found.sort(key=lambda name: (name.id.encode(), name.sid))
        return found[:limit]

    def damaged_sessions(self) -> list[Damaged]:
        rows = self._execute(sql.ALL_LOOSELY)
        return [bad for row in rows if (bad := damage_of(session_from(loosely(row)), row[-1])) is not None]

    def due_sessions(self, before: int, limit: int, *, after: tuple[int, int] = (-1, 0)) -> list[SessionRow]:
        return only_sound(
            lambda most: self._session_rows(sql.DUE_SESSIONS, (before, *after, most)), session_from, limit
        )

    def tree_sessions(self, tree: int) -> list[SessionRow]:
        return [sound_session(row) for row in self._session_rows(sql.TREE_SESSIONS, (tree,))]

    def _name_of(self, sid: int) -> str:
        """The id of a session, for a report of its damage."""
        row = self._one(sql.SESSION_ID, sid)
        return row[0].decode(errors="replace") if row and row[0] else f"(damaged session {sid})"

    def count_sessions(self, *, subagents: bool = True) -> int | None:
        counts = (
            self._one(part) for part in (sql.COUNT_SESSIONS, *(() if subagents else (sql.COUNT_SUBAGENTS,)))
        )
        every, *below = (int(row[0]) if row else 0 for row in counts)
        return every - sum(below)

    def count_by(self, column: SessionColumn, *, deleted: bool = False) -> dict[str, int]:
        """A look at an index; none if no process has written since this connection looked last."""
        if not self.connection.readonly("main"):
            return self._count_by(column, deleted=deleted)  # a connection is not told of what it writes
        version = int(self._execute(sql.DATA_VERSION).get)
        seen, counts = _counts.get(self.connection, (-1, {}))
        if seen != version:
            counts = {}
            _counts[self.connection] = version, counts
        if (column, deleted) not in counts:
            counts[column, deleted] = self._count_by(column, deleted=deleted)
        return dict(counts[column, deleted])

    def _count_by(self, column: SessionColumn, *, deleted: bool) -> dict[str, int]:
        if column == "workspace":
            return counted(column, self._execute(sql.COUNT_WORKSPACES[deleted]))
        if column == "status":
            return self._count_statuses(deleted=deleted)
        name = FACETS[column]
        trash = counted(column, self._execute(sql.COUNT_TRASHED_FACETS, (name,)))
        if deleted:
            return trash
        every = counted(column, self._execute(sql.COUNT_FACETS, (name,)))
        return {value: left for value, many in every.items() if (left := many - trash.get(value, 0)) > 0}

    def workspaces(self, *, deleted: bool = False) -> list[str]:
        if deleted:
            return super().workspaces(deleted=True)
        return list(counted("workspace", self._execute(sql.WORKSPACES)))

    def _count_statuses(self, *, deleted: bool) -> dict[str, int]:
        if deleted:
            return {str(status): many for status, many in self._execute(sql.COUNT_TRASHED)}
        finished = {str(status): many for status, many in self._execute(sql.COUNT_FINISHED)}
        running = int((self._one(sql.COUNT_RUNNING) or (0,))[0])
        every = self.count_sessions() or 0
        pending = every - running - sum(finished.values())  # nearly all, and in no index of their own
        rest = {str(PENDING): pending, str(RUNNING): running}
        return {**{status: many for status, many in rest.items() if many > 0}, **finished}

    def find_subagents(self, parents: Sequence[str]) -> list[tuple[str, SessionName]]:
        asked = list(dict.fromkeys(parents))
        values = encode_json([encode_json(parent).decode() for parent in asked]).decode()
        rows: list[Row] = self._execute(sql.FIND_SUBAGENTS, (values, PARENT)).fetchall()
        return [(asked[row[0]], name) for row in rows for name in names_in([row[1:]])]

    def totals(self, since: int, *, log: bool = True) -> Totals:
        rows: list[Row] = self._execute(sql.TOTALS, (since,)).fetchall()
        kept = [row for row in rows if row[1]]
        messages, entries, size = (self._one(sql.BRANCH_TOTALS) if log else None) or (0, 0, 0)
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

    # -- log

    def get_branch(self, branch: int) -> BranchRow:
        known = self._branches.get(branch)
        if known is None:
            row = self._one(sql.GET_BRANCH, branch)
            if row is None:
                raise BranchMissingError(branch)
            if len(self._branches) >= BRANCHES_KEPT:
                self._branches.clear()
            known = self._branches[branch] = checks.branch(BranchRow(*row))
        return known

    def find_branch(self, uid: str) -> BranchRow | None:
        row = self._one(sql.FIND_BRANCH, uid)
        if row is None:
            return None
        branch = checks.branch(BranchRow(*row))
        if branch.uid != uid:
            raise CorruptError(_MISLED.format("branch", uid, branch.uid))
        return branch

    def tree_branches(self, tree: int) -> list[BranchRow]:
        try:
            return [checks.branch(BranchRow(*row)) for row in self._execute(sql.TREE_BRANCHES, (tree,))]
        except UnicodeDecodeError as error:
            raise CorruptError(f"a branch holds text that is no UTF-8: {error.object[:40]!r}") from error

    def branch_numbers(self, sid: int, tree: int) -> list[int]:
        return [branch for (branch,) in self._execute(sql.BRANCH_NUMBERS, (sid, tree))]

    def last_position(self, branch: int) -> int:
        row = self._one(sql.LAST_KEY, key(branch, 0), key(branch, POSITION_MASK))
        return NOWHERE if row is None or row[0] is None else int(row[0]) & POSITION_MASK

    def get_tip(self, branch: int, position: int) -> HeadRow | None:
        if not 0 <= position <= POSITION_MASK:
            return None
        row = self._one(sql.GET_TIP, key(branch, position))
        return checks.tip(HeadRow(branch, position, *row)) if row else None

    def get_entry(self, branch: int, position: int) -> EntryRow | None:
        if not 0 <= position <= POSITION_MASK:
            return None
        for row in self._entry_rows(sql.GET_ENTRY, (key(branch, position),)):
            return entry_from(self.get_branch(branch).uid, row)
        return None

    def _entry_rows(self, statement: str, bindings: Row) -> Any:
        """Rows of entries, whose last column is the body. JSONL keeps bodies elsewhere."""
        return self._execute(statement, bindings)

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
            sql.ENTRIES_BACKWARDS if reverse else sql.ENTRIES, (key(branch, first), key(branch, last))
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
                damage = CorruptEntryError(uid, position, f"its page cannot be read ({exc})")
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
            sql.MESSAGES_BACKWARDS if reverse else sql.MESSAGES,
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
        row = self._one(sql.COUNT_ENTRIES, key(branch, max(first, 0)), key(branch, last), kind)
        return int(row[0]) if row else 0

    # -- records

    def get_record(self, sid: int, kind: RecordKind, name: str) -> bytes | None:
        row = self._one(sql.GET_RECORD, sid, kind, name)
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
        statement = sql.SCAN_BACKWARDS if reverse else sql.SCAN_RECORDS
        if last is not None:
            statement = sql.SCAN_RANGE_BACKWARDS if reverse else sql.SCAN_RANGE
        try:
            return list(self._execute(statement, (sid, kind, first, -1 if limit is None else limit, *behind)))
        except UnicodeDecodeError:
            statement = statement.replace("name", "CAST(name AS BLOB)", 1)
            return only_named(
                lambda wanted: self._execute(statement, (sid, kind, first, wanted, *behind)).fetchall(), limit
            )

    # -- streams

    def event_bounds(self, sid: int) -> tuple[int, int]:
        first, last = self._one(sql.EVENT_BOUNDS, key(sid, 0), key(sid, POSITION_MASK)) or (None, None)
        return (1, 0) if first is None else (first & POSITION_MASK, last & POSITION_MASK)

    def find_event(self, sid: int, id: str) -> EventRow | None:
        row = self._one(sql.FIND_EVENT, sid, id)
        return self._sound(sid, _event, [row])[0] if row else None

    def read_events(self, sid: int, after: int, limit: int, stream: str | None = None) -> list[EventRow]:
        if stream:
            rows = self._execute(sql.READ_STREAM, (sid, stream, _behind(sid, after) - 1, limit))
        else:
            statement = sql.READ_EVENTS if stream is None else sql.READ_UNNAMED
            rows = self._execute(statement, (_behind(sid, after), key(sid, POSITION_MASK), limit))
        return self._sound(sid, _event, rows)

    def last_usage(self, sid: int) -> UsageRow | None:
        row = self._one(sql.LAST_USAGE, key(sid, 0), key(sid, POSITION_MASK))
        return self._sound(sid, _usage, [row])[0] if row else None

    def find_usage(self, sid: int, id: str) -> UsageRow | None:
        row = self._one(sql.FIND_USAGE, sid, id)
        return self._sound(sid, _usage, [row])[0] if row else None

    def read_usage(self, sid: int, after: int, limit: int) -> list[UsageRow]:
        rows = self._execute(sql.READ_USAGE, (_behind(sid, after), key(sid, POSITION_MASK), limit))
        return self._sound(sid, _usage, rows)

    def _sound(self, sid: int, convert: Callable[[Row], T], rows: Iterable[Row]) -> list[T]:
        """The rows as values; CorruptSessionError: one of them cannot be."""
        try:
            return [convert(row) for row in rows]
        except (CorruptError, UnicodeDecodeError) as error:
            raise CorruptSessionError(self._name_of(sid), str(error)) from error

    def sum_usage(
        self,
        sid: int | None,
        by: Sequence[UsageColumn] = (),
        since: int | None = None,
        until: int | None = None,
    ) -> list[UsageSum]:
        columns = tuple(by)
        keys = (EARLIEST, LATEST) if sid is None else (key(sid, 0), key(sid, POSITION_MASK))
        times = (EARLIEST if since is None else since, LATEST if until is None else until)
        try:
            rows = self._execute(sql.sum_usage(columns), (*keys, *times)).fetchall()
            if all(type(value) is int and value >= 0 for row in rows for value in row[len(columns) :]):
                return [_sum(row, len(columns)) for row in rows]
        except (apsw.SQLError, UnicodeDecodeError):  # an overflow, or text that is none
            pass
        return sound_sums(self._execute(sql.add_up_usage(columns), (*keys, *times)), len(columns))

    # -- objects

    def find_objects(self, names: Sequence[bytes]) -> dict[bytes, ObjectPlace]:
        if len(names) < FEW:
            rows = self.connection.executemany(sql.FIND_OBJECT, [(name,) for name in names])
            return {row[3]: _place(row) for row in rows}
        found = {}
        for first in range(0, len(names), sql.AT_ONCE):
            some = names[first : first + sql.AT_ONCE]
            filled = [*some, *[some[0]] * (sql.AT_ONCE - len(some))]
            found.update({row[3]: _place(row) for row in self._execute(sql.FIND_OBJECTS, filled)})
        return found

    def scan_objects(self, after: bytes, limit: int) -> list[tuple[bytes, ObjectPlace]]:
        return [(row[3], _place(row)) for row in self._execute(sql.SCAN_OBJECTS, (after[:8], after, limit))]

    def get_pack(self, pack: int) -> bytes:
        row = self._one(sql.GET_PACK, pack)
        if row is None:
            raise KeyError(pack)
        size, codec, recorded, blob = row
        return pack_content(pack, size, codec, blob, recorded)

    def list_packs(self, after: int, limit: int) -> list[PackInfo]:
        return [checks.pack(PackInfo(*row)) for row in self._execute(sql.LIST_PACKS, (after, limit))]

    # -- texts

    def unsearched_trees(self) -> list[int]:
        """A look at every session; none if no process has written since this connection looked last."""
        version = self._execute(sql.DATA_VERSION).get
        if _searched.get(self.connection) == version:
            return []
        trees = [tree for (tree,) in self._execute(sql.UNSEARCHED)]
        # A connection is not told of what it writes itself.
        if not trees and self.connection.readonly("main"):
            _searched[self.connection] = version
        return trees

    def searched_upto(self, branch: int) -> int:
        row = self._one(sql.SEARCHED_UPTO, branch)
        return NOWHERE if row is None else int(row[0])

    def find_texts(self, query: TextQuery) -> list[TextPlace]:
        statement, bindings = sql.finding(query, self._place_of(query.before))
        return [
            TextPlace(time, at >> POSITION_BITS, at & POSITION_MASK)
            for time, at in self._execute(statement, bindings)
        ]

    def _place_of(self, before: TextPlace | None) -> int | None:
        """Of an entry that is gone: the end of the slot that it was in."""
        if before is None:
            return None
        is_ours = before.branch < MOST_BRANCHES
        row = self._one(sql.PLACE_OF, key(before.branch, before.position)) if is_ours else None
        return (sql.slot_of(before.time) + 1) << sql.SLOT_BITS if row is None else int(row[0])

    # -- damage of the file itself

    def damage(self, *, full: bool, go_on: Callable[[], None]) -> Iterable[str]:
        from clew.backends.sqlite.schema import check, strays

        return [*check(self.connection, go_on), *strays(self.connection, go_on)] if full else []


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


def _behind(sid: int, after: int) -> int:
    """The key after that of a number, which may be one that no row can have."""
    return min(key(sid, min(max(after, 0), POSITION_MASK)) + 1, LATEST)


def _event(row: Row) -> EventRow:
    return checks.event(EventRow(row[0] & POSITION_MASK, *row[1:]))


def _usage(row: Row) -> UsageRow:
    return checks.call(UsageRow(row[0] & POSITION_MASK, *row[1:]))


def _sum(row: Row, columns: int) -> UsageSum:
    calls, input, output, cache_read, cache_write, reasoning, *money = row[columns:]
    millions, rest, unpriced, estimated = money
    cost = millions * 1_000_000 + rest
    group = tuple(row[:columns])
    return UsageSum(
        group, calls, input, output, cache_read, cache_write, reasoning, cost, unpriced, estimated
    )  # fmt: skip


def _place(row: Row) -> ObjectPlace:
    return checks.place(row[3], ObjectPlace(row[0] >> POSITION_BITS, row[1], row[2]))
