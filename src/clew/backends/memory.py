"""A store in memory: the reference for every other backend, and what tests and tutorials use."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TypeAlias, TypeVar

import msgspec

from clew.backends.contract import Capabilities, OnDamage, RecordKind
from clew.core.codec import decode_json
from clew.core.listing import TAG, facets_of
from clew.core.rows import MESSAGE, BranchRow, Details, EntryRow, SessionQuery, SessionRow, Tip, Totals
from clew.errors import CorruptEntryError, StoreClosedError
from clew.model import Json

Undo: TypeAlias = Callable[[], object]
K = TypeVar("K")
V = TypeVar("V")


class MemoryBackend:
    """Keeps everything until it is closed. Any number of threads; one process."""

    capabilities = Capabilities(durability="memory", shared=False)
    location = "memory:"

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._closed = False
        self._numbers = itertools.count(1)
        self.sessions: dict[int, SessionRow] = {}
        self.ids: dict[str, int] = {}
        self.details: dict[int, Details] = {}
        self.branches: dict[int, BranchRow] = {}
        self.entries: dict[int, list[EntryRow]] = {}
        self.records: dict[tuple[int, RecordKind, str], bytes] = {}

    def write(self) -> _Write:
        return _Write(self)

    def read(self) -> _Read:
        return _Read(self)

    def scrub(self) -> None:
        """What is dropped from a dict is gone."""

    def bytes_on_disk(self) -> int:
        return 0

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self, *, is_child: bool) -> None:
        self._lock.release()

    def close(self) -> None:
        self._closed = True

    def _enter(self) -> None:
        if self._closed:
            raise StoreClosedError(self.location)
        self._lock.acquire()


class MemoryReader:
    def __init__(self, backend: MemoryBackend) -> None:
        self._of = backend

    def find_session(self, id: str) -> SessionRow | None:
        return self._of.sessions.get(self._of.ids.get(id, 0))

    def get_session(self, sid: int) -> SessionRow | None:
        return self._of.sessions.get(sid)

    def find_deleted(self, id: str) -> SessionRow | None:
        found = [row for row in self._of.sessions.values() if row.id == id and row.deleted is not None]
        return max(found, key=lambda row: (row.deleted, row.sid), default=None)

    def get_details(self, sid: int) -> Details:
        return self._of.details.get(sid, Details())

    def list_sessions(self, query: SessionQuery) -> list[tuple[SessionRow, Details]]:
        def moment(row: SessionRow) -> int:
            return row.updated if row.deleted is None else row.deleted

        after = (-query.after[0], query.after[1]) if query.after else None
        facets = {*((TAG, tag) for tag in query.tags), *query.where}
        found = [
            row
            for row in self._of.sessions.values()
            if (row.deleted is not None) == query.deleted
            and (query.workspace is None or row.workspace == query.workspace)
            and (row.head.messages or not query.nonempty)
            and (after is None or (-moment(row), row.id) > after)
            and facets <= set(facets_of(self.get_details(row.sid)))
        ]
        found.sort(key=lambda row: (-moment(row), row.id.encode()))
        return [(row, self.get_details(row.sid)) for row in found[: query.limit]]

    def tree_sessions(self, tree: int) -> list[SessionRow]:
        return sorted(
            (row for row in self._of.sessions.values() if row.tree == tree), key=lambda row: row.sid
        )

    def get_branch(self, branch: int) -> BranchRow:
        return self._of.branches[branch]

    def find_branch(self, uid: str) -> BranchRow | None:
        return next((row for row in self._of.branches.values() if row.uid == uid), None)

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

    def get_entry(self, branch: int, position: int) -> EntryRow | None:
        if branch not in self._of.branches:
            return None
        return next(iter(self._between(branch, position, position)), None)

    def get_tip(self, branch: int, position: int) -> Tip | None:
        row = self.get_entry(branch, position)
        return None if row is None else row.tip(branch)

    def read_entries(
        self,
        branch: int,
        first: int,
        last: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
        on_damage: OnDamage | None = None,
    ) -> list[EntryRow]:
        if limit is not None and last - first >= limit:
            first, last = (last - limit + 1, last) if reverse else (first, first + limit - 1)
        found = self._between(branch, first, last)
        missing: set[int] = set()
        if len(found) <= last - first:
            missing = set(range(first, last + 1)).difference(row.position for row in found)
        for position in sorted(missing):
            damage = CorruptEntryError(self.get_branch(branch).uid, position, "it is missing")
            if on_damage is None:
                raise damage
            on_damage(damage)
        return found[::-1] if reverse else found

    def read_messages(
        self,
        branch: int,
        first: int,
        last: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
        on_damage: OnDamage | None = None,
    ) -> list[tuple[int, dict[str, Json]]]:
        rows = self._between(branch, first, last)
        messages = (row for row in (reversed(rows) if reverse else rows) if row.kind == MESSAGE)
        return [(row.position, decode_json(row.body)) for row in itertools.islice(messages, limit)]

    def get_record(self, sid: int, kind: RecordKind, name: str) -> bytes | None:
        return self._of.records.get((sid, kind, name))

    def scan_records(
        self, sid: int, kind: RecordKind, first: str = "", last: str | None = None
    ) -> list[tuple[str, bytes]]:
        found = [
            (name, value)
            for (owner, of_kind, name), value in self._of.records.items()
            if owner == sid and of_kind == kind and name >= first and (last is None or name <= last)
        ]
        return sorted(found)

    def totals(self) -> Totals:
        rows = [row for rows in self._of.entries.values() for row in rows]
        messages = [row for row in rows if row.kind == MESSAGE]
        return Totals(
            sessions=len(self._of.ids),
            deleted=len(self._of.sessions) - len(self._of.ids),
            messages=len(messages),
            entries=len(rows),
            size=sum(len(row.body) for row in messages),
        )


class MemoryTransaction(MemoryReader):
    """Writes at once and remembers how to take each write back."""

    writes = 0

    def __init__(self, backend: MemoryBackend) -> None:
        super().__init__(backend)
        self._undo: list[Undo] = []

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

    def add_session(self, row: SessionRow, details: Details) -> int:
        sid = next(self._of._numbers)
        self.set_session(msgspec.structs.replace(row, sid=sid, tree=row.tree or sid))
        self.set_details(sid, details)
        return sid

    def set_session(self, row: SessionRow) -> None:
        self._set(self._of.sessions, row.sid, row)
        if row.deleted is None:
            self._set(self._of.ids, row.id, row.sid)
        elif self._of.ids.get(row.id) == row.sid:
            self._drop(self._of.ids, row.id)

    def set_head(self, sid: int, head: Tip, updated: int, title: str | None, preview: str) -> None:
        row = msgspec.structs.replace(
            self._of.sessions[sid], head=head, grows=True, updated=updated, title=title, preview=preview
        )
        self._set(self._of.sessions, sid, row)

    def set_details(self, sid: int, details: Details) -> None:
        self._set(self._of.details, sid, details)

    def drop_session(self, sid: int) -> None:
        row = self._of.sessions.get(sid)
        if row is not None and self._of.ids.get(row.id) == sid:
            self._drop(self._of.ids, row.id)
        self._drop(self._of.sessions, sid)
        self._drop(self._of.details, sid)
        for key in [key for key in self._of.records if key[0] == sid]:
            self._drop(self._of.records, key)

    def add_branch(self, uid: str, tree: int, owner: int, parent: int, fork: int) -> int:
        branch = next(self._of._numbers)
        self._set(self._of.branches, branch, BranchRow(branch, uid, tree, owner, parent, fork))
        self._set(self._of.entries, branch, [])
        return branch

    def disown_branch(self, branch: int) -> None:
        row = msgspec.structs.replace(self._of.branches[branch], owner=0)
        self._set(self._of.branches, branch, row)

    def drop_branch(self, branch: int) -> None:
        self._drop(self._of.branches, branch)
        self._drop(self._of.entries, branch)

    def add_entries(self, branch: int, rows: Sequence[EntryRow]) -> None:
        self.writes += 1
        kept = self._of.entries[branch]
        length = len(kept)
        self._undo.append(lambda: kept.__delitem__(slice(length, None)))
        kept.extend(rows)

    def drop_entries(self, branch: int, after: int) -> None:
        rows = self._of.entries[branch]
        self._set(self._of.entries, branch, [row for row in rows if row.position <= after])

    def put_record(self, sid: int, kind: RecordKind, name: str, value: bytes) -> None:
        self._set(self._of.records, (sid, kind, name), value)

    def drop_record(self, sid: int, kind: RecordKind, name: str) -> bool:
        return self._drop(self._of.records, (sid, kind, name))


class _Write:
    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    _transaction: MemoryTransaction | None = None

    def __enter__(self) -> MemoryTransaction:
        self._backend._enter()
        self._transaction = MemoryTransaction(self._backend)
        return self._transaction

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._backend._lock._is_owned():  # type: ignore[attr-defined]
            if exc is not None and self._transaction is not None:
                self._transaction.rollback()
            self._backend._lock.release()


class _Read:
    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    def __enter__(self) -> MemoryReader:
        self._backend._enter()
        return MemoryReader(self._backend)

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._backend._lock.release()
