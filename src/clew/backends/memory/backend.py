"""A store in memory: the reference for every other backend, and what tests and tutorials use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TypeAlias, TypeVar

import msgspec

from clew.backends.contract import Backend, Capabilities, RecordKind, Transaction
from clew.backends.memory.reader import MemoryReader, Tables
from clew.core.log.rows import (
    ERASED,
    REMOVED,
    BranchRow,
    Details,
    EntryRow,
    EventRow,
    ObjectPlace,
    SessionRow,
    Tip,
    UsageRow,
)
from clew.errors import StoreClosedError

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

    def write(self, certain: bool = True) -> _Write:
        return _Write(self)

    def read(self) -> _Read:
        return _Read(self)

    def save(self, tables: Tables) -> None:
        """Called before a transaction that wrote something ends; what this raises undoes it. A subclass that
        keeps the tables somewhere is a backend of its own."""

    def scrub(self) -> None:
        """What is dropped from a dict is gone."""

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

    def set_head(self, sid: int, head: Tip, updated: int, title: str | None, preview: str) -> None:
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
        row = msgspec.structs.replace(self._of.branches[branch], owner=0)
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
