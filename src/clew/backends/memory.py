"""The reference backend: tables in memory, and transactions with undo. Read it beside the contract."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from heapq import nsmallest
from types import TracebackType
from typing import TypeAlias, TypeVar

import msgspec

from clew.backends.contract import Backend, Capabilities, OnDamage, Reader, RecordKind, Transaction
from clew.backends.rows import TAG, facets_of, limited, missing, names_from, pack_content, within
from clew.core.log.records import PARENT
from clew.core.log.rows import (
    EMPTY,
    ERASED,
    MESSAGE,
    NOT_DUE,
    REMOVED,
    BranchRow,
    Details,
    EntryRow,
    EventRow,
    HeadRow,
    Listed,
    ObjectPlace,
    PackInfo,
    SessionName,
    SessionQuery,
    SessionRow,
    Totals,
    UsageColumn,
    UsageRow,
    UsageSum,
)
from clew.core.messages.codec import decode_json, encode_json
from clew.errors import BranchMissingError, StoreClosedError
from clew.model import Json

# ── Reads of a store in memory, in the sections of the contract ───────────────────────────────────

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Tables(msgspec.Struct):
    """Everything that a store in memory consists of."""

    numbers: dict[str, int] = {}
    """The last one that was given to a session, a branch or a pack."""
    sessions: dict[int, SessionRow] = {}
    ids: dict[str, int] = {}
    """Of sessions that are not in the trash."""
    details: dict[int, Details] = {}
    branches: dict[int, BranchRow] = {}
    uids: dict[str, int] = {}
    """Of branches."""
    entries: dict[int, list[EntryRow]] = {}
    """By branch, in order."""
    records: dict[tuple[int, RecordKind, str], bytes] = {}
    events: dict[int, list[EventRow]] = {}
    event_ids: dict[tuple[int, str], EventRow] = {}
    usage: dict[int, list[UsageRow]] = {}
    usage_ids: dict[tuple[int, str], UsageRow] = {}
    packs: dict[int, tuple[int, bytes, int]] = {}
    """Codec, content as it is kept, size of the raw content."""
    objects: dict[bytes, ObjectPlace] = {}


class MemoryReader(Reader):
    def __init__(self, tables: Tables) -> None:
        self._of = tables

    # -- sessions

    def find_session(self, id: str, *, deleted: bool = False) -> SessionRow | None:
        if not deleted:
            return self._of.sessions.get(self._of.ids.get(id, 0))
        found = [row for row in self._of.sessions.values() if row.id == id and row.deleted is not None]
        return max(found, key=lambda row: (row.deleted, row.sid), default=None)

    def get_session(self, sid: int) -> SessionRow | None:
        return self._of.sessions.get(sid)

    def get_details(self, sid: int) -> Details:
        return self._of.details.get(sid, Details())

    def list_sessions(self, query: SessionQuery) -> list[Listed]:
        facets = {*((TAG, tag) for tag in query.tags), *query.where}
        found = [
            row
            for row in self._of.sessions.values()
            if (row.deleted is not None) == query.deleted
            and (query.workspace is None or row.workspace == query.workspace)
            and (row.head.messages or not query.nonempty)
            and query.status in (None, row.status)
            and (query.since is None or _moment(row) >= query.since)
            and (query.until is None or _moment(row) < query.until)
            and (not facets or facets <= set(facets_of(self.get_details(row.sid))))
        ]
        found.sort(key=lambda row: row.id, reverse=query.oldest)
        found.sort(key=_moment, reverse=not query.oldest)
        if query.after is not None:
            moment, id = query.after
            if query.oldest:
                found = [row for row in found if (_moment(row), id) > (moment, row.id)]
            else:
                found = [row for row in found if (moment, row.id) > (_moment(row), id)]
        return [self._listed(row) for row in found[: query.limit]]

    def scan_ids(self, first: str, limit: int, *, own: bool = False) -> list[SessionName]:
        rows = self._of.sessions.values()
        names = (SessionName(row.id, row.sid, row.deleted is not None) for row in rows)
        return names_from(names, first, limit, own=own)

    def find_subagents(self, parents: Sequence[str]) -> list[tuple[str, SessionName]]:
        asked = {encode_json(parent).decode(): parent for parent in parents}
        found = []
        for row in self._of.sessions.values():
            for name, value in facets_of(self.get_details(row.sid)):
                if name == PARENT and value in asked:
                    found.append((asked[value], SessionName(row.id, row.sid, row.deleted is not None)))
        return found

    def _listed(self, row: SessionRow) -> Listed:
        return Listed(row, self.get_details(row.sid), self.get_record(row.sid, "run", ""))

    def due_sessions(self, before: int, limit: int, *, after: tuple[int, int] = (-1, 0)) -> list[SessionRow]:
        found = [
            row
            for row in self._of.sessions.values()
            if row.due <= before and row.due < NOT_DUE and (row.due, row.sid) > after
        ]
        return sorted(found, key=lambda row: (row.due, row.sid))[:limit]

    def tree_sessions(self, tree: int) -> list[SessionRow]:
        return sorted(
            (row for row in self._of.sessions.values() if row.tree == tree), key=lambda row: row.sid
        )

    def totals(self, since: int, *, log: bool = True) -> Totals:
        rows = list(self._of.sessions.values())
        kept = [row for row in rows if row.deleted is None]
        added = [self._added(branch) for branch in self._of.branches.values()] if log else []
        return Totals(
            sessions=len(kept),
            deleted=len(rows) - len(kept),
            kept_size=sum(row.head.size for row in kept),
            messages=sum(messages for messages, _ in added),
            entries=sum(map(len, self._of.entries.values())) if log else 0,
            size=sum(size for _, size in added),
            by_status=dict(Counter(row.status for row in kept)),
            active=dict(Counter(row.status for row in kept if row.updated >= since)),
            created=sum(row.created >= since for row in rows),
        )

    def _added(self, branch: BranchRow) -> tuple[int, int]:
        """Messages and bytes on a branch, by the counters: those whose bodies were erased count too."""
        last = self.get_tip(branch.branch, self.last_position(branch.branch))
        if last is None:
            return 0, 0
        base = self.get_tip(branch.parent, branch.fork) or EMPTY
        return last.messages - base.messages, last.size - base.size

    # -- log

    def get_branch(self, branch: int) -> BranchRow:
        row = self._of.branches.get(branch)
        if row is None:
            raise BranchMissingError(branch)
        return row

    def find_branch(self, uid: str) -> BranchRow | None:
        return self._of.branches.get(self._of.uids.get(uid, 0))

    def tree_branches(self, tree: int) -> list[BranchRow]:
        return sorted(
            (row for row in self._of.branches.values() if row.tree == tree), key=lambda row: row.branch
        )

    def last_position(self, branch: int) -> int:
        rows = self._of.entries.get(branch)
        return rows[-1].position if rows else -1

    def _between(self, branch: int, first: int, last: int) -> list[EntryRow]:
        rows = self._of.entries.get(branch, [])
        start = self._of.branches[branch].fork + 1
        return rows[max(0, first - start) : max(0, last - start + 1)]

    def get_tip(self, branch: int, position: int) -> HeadRow | None:
        if branch not in self._of.branches:
            return None
        rows = self._between(branch, position, position)
        return rows[0].tip(branch) if rows else None

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
        found = self._between(branch, first, last)
        gone: set[int] = set()
        if len(found) <= last - first:
            gone = set(range(first, last + 1)).difference(row.position for row in found)
        for position in sorted(gone):
            damage = missing(self.get_branch(branch).uid, position)
            if on_damage is None:
                raise damage
            on_damage(damage)
        return within(room, found[::-1] if reverse else found)

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
        rows = self._between(branch, first, last)
        messages = (row for row in (reversed(rows) if reverse else rows) if row.kind == MESSAGE)
        found = within(room, itertools.islice(messages, limit))
        return [(row.position, decode_json(row.body)) for row in found]

    # -- records

    def get_record(self, sid: int, kind: RecordKind, name: str) -> bytes | None:
        return self._of.records.get((sid, kind, name))

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
        found = [
            (name, value)
            for (owner, of_kind, name), value in self._of.records.items()
            if owner == sid and of_kind == kind and name >= first and (last is None or name <= last)
        ]
        return sorted(found, reverse=reverse)[:limit]

    # -- streams

    def event_bounds(self, sid: int) -> tuple[int, int]:
        rows = self._of.events.get(sid)
        return (rows[0].number, rows[-1].number) if rows else (1, 0)

    def find_event(self, sid: int, id: str) -> EventRow | None:
        return self._of.event_ids.get((sid, id))

    def read_events(self, sid: int, after: int, limit: int, stream: str | None = None) -> list[EventRow]:
        rows = self._of.events.get(sid, [])
        start = max(0, after + 1 - rows[0].number) if rows else 0
        behind = (rows[index] for index in range(start, len(rows)))
        return list(
            itertools.islice((row for row in behind if stream is None or row.stream == stream), limit)
        )

    def last_usage(self, sid: int) -> UsageRow | None:
        rows = self._of.usage.get(sid)
        return rows[-1] if rows else None

    def find_usage(self, sid: int, id: str) -> UsageRow | None:
        return self._of.usage_ids.get((sid, id))

    def read_usage(self, sid: int, after: int, limit: int) -> list[UsageRow]:
        rows = self._of.usage.get(sid, [])
        start = max(0, after + 1 - rows[0].number) if rows else 0
        return rows[start : start + limit]

    def sum_usage(
        self,
        sid: int | None,
        by: Sequence[UsageColumn] = (),
        since: int | None = None,
        until: int | None = None,
    ) -> list[UsageSum]:
        groups: dict[tuple[str | None, ...], list[UsageRow]] = {}
        for owner, rows in self._of.usage.items():
            if sid in (None, owner):
                for row in rows:
                    if (since is None or row.time >= since) and (until is None or row.time < until):
                        group = tuple(self._group(owner, row, column) for column in by)
                        groups.setdefault(group, []).append(row)
        order = sorted(groups, key=lambda group: [(one is not None, (one or "").encode()) for one in group])
        return [_sum(group, groups[group]) for group in order]

    def _group(self, sid: int, row: UsageRow, column: UsageColumn) -> str | None:
        session, branch = self._of.sessions.get(sid), self._of.branches.get(row.branch)
        groups: dict[UsageColumn, Callable[[], str | None]] = {
            "model": lambda: row.model,
            "vendor": lambda: row.vendor,
            "endpoint": lambda: row.endpoint,
            "source": lambda: row.source,
            "day": lambda: (EPOCH + timedelta(microseconds=row.time)).date().isoformat(),
            "quarter": lambda: str(row.time // 900_000_000),
            "workspace": lambda: session.workspace if session else None,
            "session": lambda: session.id if session else None,
            "branch": lambda: branch.uid if branch else None,
        }
        return groups[column]()

    # -- objects

    def find_objects(self, names: Sequence[bytes]) -> dict[bytes, ObjectPlace]:
        objects = self._of.objects
        return {name: objects[name] for name in names if name in objects}

    def scan_objects(self, after: bytes, limit: int) -> list[tuple[bytes, ObjectPlace]]:
        names = nsmallest(limit, (name for name in self._of.objects if name > after))
        return [(name, self._of.objects[name]) for name in names]

    def get_pack(self, pack: int) -> bytes:
        codec, blob, size = self._of.packs[pack]
        return pack_content(pack, size, codec, blob)

    def list_packs(self, after: int, limit: int) -> list[PackInfo]:
        numbers = nsmallest(limit, (pack for pack in self._of.packs if pack > after))
        objects = Counter(place.pack for place in self._of.objects.values())
        packs = ((number, *self._of.packs[number]) for number in numbers)
        return [PackInfo(number, size, len(blob), objects[number]) for number, _, blob, size in packs]


def _moment(row: SessionRow) -> int:
    """By which it is listed."""
    return row.updated if row.deleted is None else row.deleted


def _sum(group: tuple[str | None, ...], rows: list[UsageRow]) -> UsageSum:
    return UsageSum(
        group,
        len(rows),
        sum(row.input for row in rows),
        sum(row.output for row in rows),
        sum(row.cache_read for row in rows),
        sum(row.cache_write for row in rows),
        sum(row.reasoning for row in rows),
        sum(row.cost or 0 for row in rows),
        sum(row.cost is None for row in rows),
        sum(row.priced_by is not None for row in rows),
    )


# ── A store in memory: the reference for every other backend, and what tests and tutorials use ────

Undo: TypeAlias = Callable[[], object]
K = TypeVar("K")
V = TypeVar("V")


class MemoryBackend(Backend):
    """Keeps everything until it is closed. Any number of threads; one process."""

    capabilities = Capabilities(durability="memory", shared=False)
    location = "memory:"

    def __init__(self) -> None:
        self._tables = Tables()
        self._lock = threading.RLock()
        self._closed = False
        self._written = threading.Condition()
        self._commits = 0
        self._told = -1
        """So many commits were told of by `pause`."""

    def write(self, certain: bool = True) -> _Write:
        return _Write(self)

    def read(self) -> _Read:
        return _Read(self)

    def copied(self) -> MemoryReader:
        """A reader of a copy: for one who looks for long, and must keep no writer waiting."""
        with self._lock:
            tables = self._tables
            copy = Tables(**{name: dict(getattr(tables, name)) for name in Tables.__struct_fields__})
            copy.entries = {branch: list(rows) for branch, rows in tables.entries.items()}
            copy.events = {sid: list(rows) for sid, rows in tables.events.items()}
            copy.usage = {sid: list(rows) for sid, rows in tables.usage.items()}
        return MemoryReader(copy)

    def save(self, tables: Tables) -> None:
        """Called before a transaction that wrote something ends; what this raises undoes it. A subclass that
        keeps the tables somewhere is a backend of its own."""

    def scrub(self) -> None:
        """What is dropped from a dict is gone."""

    def pause(self, seconds: float) -> bool:
        with self._written:
            heard = self._written.wait_for(lambda: self._commits != self._told or self._closed, seconds)
            self._told = self._commits
        return heard

    def _tell(self) -> None:
        with self._written:
            self._commits += 1
            self._written.notify_all()

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self, *, is_child: bool) -> None:
        if is_child:
            self._written = threading.Condition()  # a thread of the parent may have held it
        self._lock.release()

    def close(self) -> None:
        self._closed = True
        self._tell()

    def _enter(self) -> None:
        if self._closed:
            raise StoreClosedError(self.location)
        self._lock.acquire()


class MemoryTransaction(MemoryReader, Transaction):
    """Writes at once, and remembers how to undo each write."""

    writes = 0

    def __init__(self, tables: Tables) -> None:
        self._of = tables
        self._undo: list[Undo] = []

    # -- sessions

    def add_session(self, row: SessionRow, details: Details) -> int:
        sid = self._new_number()
        self.set_session(msgspec.structs.replace(row, sid=sid, tree=row.tree or sid))
        self.set_details(sid, details)
        return sid

    def set_session(self, row: SessionRow) -> None:
        self._set(self._of.sessions, row.sid, row)
        if row.deleted is None:
            self._set(self._of.ids, row.id, row.sid)
        elif self._of.ids.get(row.id) == row.sid:
            self._drop(self._of.ids, row.id)

    def set_head(self, sid: int, head: HeadRow, updated: int, title: str | None, preview: str) -> None:
        row = msgspec.structs.replace(
            self._of.sessions[sid], head=head, grows=True, updated=updated, title=title, preview=preview
        )
        self._set(self._of.sessions, sid, row)

    def set_details(self, sid: int, details: Details) -> None:
        self._set(self._of.details, sid, details)

    def set_due(self, sid: int | None, due: int) -> None:
        for each in list(self._of.sessions) if sid is None else [sid]:
            self._set(self._of.sessions, each, msgspec.structs.replace(self._of.sessions[each], due=due))

    def drop_session(self, sid: int) -> None:
        row = self._of.sessions.get(sid)
        if row is not None and self._of.ids.get(row.id) == sid:
            self._drop(self._of.ids, row.id)
        self._drop(self._of.sessions, sid)
        self._drop(self._of.details, sid)
        for key in [key for key in self._of.records if key[0] == sid]:
            self._drop(self._of.records, key)
        self._drop_streams(sid)

    # -- log

    def add_branch(self, uid: str, tree: int, owner: int, parent: int, fork: int) -> int:
        branch = self._new_number()
        self._set(self._of.branches, branch, BranchRow(branch, uid, tree, owner, parent, fork))
        self._set(self._of.uids, uid, branch)
        self._set(self._of.entries, branch, [])
        return branch

    def disown_branch(self, branch: int) -> None:
        self.adopt_branch(branch, 0)

    def adopt_branch(self, branch: int, owner: int) -> None:
        row = msgspec.structs.replace(self._of.branches[branch], owner=owner)
        self._set(self._of.branches, branch, row)

    def drop_branch(self, branch: int) -> None:
        if branch in self._of.branches:
            self._drop(self._of.uids, self._of.branches[branch].uid)
        self._drop(self._of.branches, branch)
        self._drop(self._of.entries, branch)

    def add_entries(self, branch: int, rows: Sequence[EntryRow]) -> None:
        self._extend(self._of.entries[branch], list(rows))

    def drop_entries(self, branch: int, after: int) -> None:
        rows = self._of.entries[branch]
        self._set(self._of.entries, branch, [row for row in rows if row.position <= after])

    def erase_entries(self, branch: int, positions: Sequence[int]) -> None:
        wanted = set(positions)
        rows = self._of.entries.get(branch, [])
        if wanted.isdisjoint(row.position for row in rows):
            return
        erased = [
            msgspec.structs.replace(row, kind=REMOVED, body=ERASED) if row.position in wanted else row
            for row in rows
        ]
        self._set(self._of.entries, branch, erased)

    # -- records

    def put_record(self, sid: int, kind: RecordKind, name: str, value: bytes) -> None:
        self._set(self._of.records, (sid, kind, name), value)

    def drop_record(self, sid: int, kind: RecordKind, name: str) -> bool:
        return self._drop(self._of.records, (sid, kind, name))

    # -- streams

    def add_events(self, sid: int, rows: Sequence[EventRow]) -> None:
        if not rows:
            return
        if sid not in self._of.events:
            self._set(self._of.events, sid, [])
        self._extend(self._of.events[sid], list(rows))
        for row in rows:
            if row.id is not None:
                self._set(self._of.event_ids, (sid, row.id), row)

    def drop_events(self, sid: int, upto: int) -> None:
        rows = self._of.events.get(sid)
        if not rows or rows[0].number > upto:
            return
        self.writes += 1
        old = rows[: upto + 1 - rows[0].number]
        del rows[: len(old)]
        self._undo.append(lambda: rows.__setitem__(slice(0, 0), old))
        for row in old:
            if row.id is not None:
                self._drop(self._of.event_ids, (sid, row.id))

    def add_usage(self, sid: int, row: UsageRow) -> None:
        if sid not in self._of.usage:
            self._set(self._of.usage, sid, [])
        self._extend(self._of.usage[sid], [row])
        if row.id is not None:
            self._set(self._of.usage_ids, (sid, row.id), row)

    def _drop_streams(self, sid: int) -> None:
        for event in self._of.events.get(sid, ()):
            if event.id is not None:
                self._drop(self._of.event_ids, (sid, event.id))
        for call in self._of.usage.get(sid, ()):
            if call.id is not None:
                self._drop(self._of.usage_ids, (sid, call.id))
        self._drop(self._of.events, sid)
        self._drop(self._of.usage, sid)

    # -- objects

    def add_pack(self, codec: int, blob: bytes, size: int, members: Sequence[tuple[bytes, int, int]]) -> int:
        pack = self._new_number()
        self._set(self._of.packs, pack, (codec, blob, size))
        for name, offset, length in members:
            if name not in self._of.objects:
                self._set(self._of.objects, name, ObjectPlace(pack, offset, length))
        return pack

    def drop_objects(self, names: Sequence[bytes]) -> None:
        for name in names:
            self._drop(self._of.objects, name)

    def drop_pack(self, pack: int) -> None:
        self._drop(self._of.packs, pack)
        self.drop_objects([name for name, place in self._of.objects.items() if place.pack == pack])

    # -- numbers, and undo

    def _new_number(self) -> int:
        number = self._of.numbers["last"] = self._of.numbers.get("last", 0) + 1
        return number

    def rollback(self) -> None:
        for undo in reversed(self._undo):
            undo()

    def _set(self, table: dict[K, V], key: K, value: V) -> None:
        self.writes += 1
        if key in table:
            old = table[key]
            self._undo.append(lambda: table.__setitem__(key, old))
        else:
            self._undo.append(lambda: table.pop(key, None))
        table[key] = value

    def _drop(self, table: dict[K, V], key: K) -> bool:
        if key not in table:
            return False
        self.writes += 1
        old = table.pop(key)
        self._undo.append(lambda: table.__setitem__(key, old))
        return True

    def _extend(self, kept: list[V], rows: list[V]) -> None:
        self.writes += 1
        length = len(kept)
        self._undo.append(lambda: kept.__delitem__(slice(length, None)))
        kept.extend(rows)


class _Write:
    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    _transaction: MemoryTransaction | None = None

    def __enter__(self) -> MemoryTransaction:
        self._backend._enter()
        self._transaction = MemoryTransaction(self._backend._tables)
        return self._transaction

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        backend, tx = self._backend, self._transaction
        if not backend._lock._is_owned():  # type: ignore[attr-defined]
            return
        try:
            if exc is None and tx is not None and tx.writes:
                backend.save(backend._tables)
        except BaseException as error:
            exc = error
            raise
        finally:
            if exc is not None and tx is not None:
                tx.rollback()
            backend._lock.release()
        if exc is None and tx is not None and tx.writes:
            backend._tell()


class _Read:
    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    def __enter__(self) -> MemoryReader:
        self._backend._enter()
        return MemoryReader(self._backend._tables)

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._backend._lock.release()
