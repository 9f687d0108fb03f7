"""Writes until the commit, and rows by their version."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from clew.backends.contract import STORE_WIDE
from clew.backends.postgres import sql
from clew.backends.postgres.connection import Statement
from clew.backends.postgres.rows import (
    Ids,
    columns,
    encode,
    encode_details,
    entry_values,
    facet_hash,
    head_values,
    home_of,
    lock_key,
    session_values,
)
from clew.backends.rows import facets_of
from clew.core.log.rows import BranchRow, Details, EntryRow, SessionColumn, SessionRow

# ── Rows that this process has read or written: sessions with their versions, and branches ────────

KEPT: Final = 10_000


class RowCache:
    """Any row may be out of date: a transaction that uses one names its version to the database when it
    writes. Branches do not change, except their owner."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: OrderedDict[int, tuple[SessionRow, int]] = OrderedDict()
        self._branches: OrderedDict[int, BranchRow] = OrderedDict()
        self._seen = ""
        self._counts: dict[tuple[SessionColumn, bool], dict[str, int]] = {}

    def counts(self, seen: str) -> dict[tuple[SessionColumn, bool], dict[str, int]]:
        """What was counted by questions that saw this snapshot; to be added to."""
        with self._lock:
            if seen != self._seen:
                self._seen, self._counts = seen, {}
            return self._counts

    def session(self, sid: int) -> tuple[SessionRow, int] | None:
        with self._lock:
            known = self._sessions.get(sid)
            if known is not None:
                self._sessions.move_to_end(sid)
            return known

    def note(self, row: SessionRow, version: int) -> None:
        """Keep a row, unless a newer version of it is known."""
        with self._lock:
            known = self._sessions.get(row.sid)
            if known is None or known[1] < version:
                self._sessions[row.sid] = row, version
            if len(self._sessions) > KEPT:
                self._sessions.popitem(last=False)

    def forget(self, sids: Iterable[int]) -> None:
        with self._lock:
            for sid in sids:
                self._sessions.pop(sid, None)

    def branch(self, branch: int) -> BranchRow | None:
        with self._lock:
            return self._branches.get(branch)

    def note_branch(self, row: BranchRow) -> None:
        with self._lock:
            self._branches[row.branch] = row
            if len(self._branches) > KEPT:
                self._branches.popitem(last=False)

    def forget_branch(self, branch: int) -> None:
        with self._lock:
            self._branches.pop(branch, None)

    def clear(self) -> None:
        with self._lock:
            self._sessions.clear()
            self._branches.clear()


# ── The writes of a transaction that were not sent yet, and the statements that they become ───────
# Writes are collected so that an append is one statement and a batch of appends one round trip. A session's
# row is written once, in its final state, and only if the database still has the version that was read.

UNCHANGED, HEAD, ROW, NEW = range(4)

BATCH: Final = 2
"""From this many appends on, one statement writes all of them: one statement is one round trip."""

RecordName = tuple[int, str, str]


class SessionLock:
    """The row of a session in a transaction, and whether the database has locked it."""

    __slots__ = ("change", "is_locked", "made", "name", "row", "version")

    def __init__(
        self, row: SessionRow | None, version: int, *, is_locked: bool, change: int = UNCHANGED
    ) -> None:
        self.row = row
        self.version = version
        self.is_locked = is_locked
        """The database has confirmed the row and locked it for this transaction."""
        self.change = change
        self.made = 0
        self.name = None if change == NEW else name_of(row)
        """Its id in the table of names."""


def name_of(row: SessionRow | None) -> str | None:
    """The id of a session, unless it is in the trash."""
    return None if row is None or row.deleted is not None or not isinstance(row.id, str) else row.id


class WriteBuffer:
    """Writes that wait to be sent, by what they are about."""

    def __init__(self, schema: sql.Schema, ids: Ids, *, is_sharded: bool) -> None:
        self._schema = schema
        self._is_sharded = is_sharded
        self._ids = ids
        self.held: dict[int, SessionLock] = {}
        self.entries: dict[int, list[EntryRow]] = {}
        self.details: dict[int, Details] = {}
        self.records: dict[RecordName, bytes | None] = {}
        """Records as this transaction has read or written them."""
        self.unwritten: set[RecordName] = set()
        self._locks: set[tuple[int, bool]] = set()
        self._sent: list[Statement] = []

    # -- locks

    def lock(self, *parts: str, shared: bool = False) -> None:
        """Take a lock that stands for something that is not a row. It ends with the transaction."""
        key = lock_key(self._schema.name, *parts)
        if (key, False) not in self._locks and (key, shared) not in self._locks:
            self._locks.add((key, shared))
            self.add(sql.LOCK_SHARED if shared else sql.LOCK, key)

    def lock_record(self, kind: str, name: str, *, to_read: bool = False) -> None:
        """Before a store-wide record is read or written. Every event reads the retention rules, so readers of
        them share the lock."""
        self.lock("kind", kind, shared=True)
        self.lock("record", kind, name, shared=to_read and kind == "retention")

    def lock_kind(self, kind: str) -> None:
        self.lock("kind", kind)

    # -- statements

    def add(self, template: str, *given: object) -> None:
        self._sent.append((self._schema[template], given))

    @property
    def relies(self) -> bool:
        """Whether the transaction used cached rows that the database has not confirmed."""
        return any(not held.is_locked for held in self.held.values())

    def guards(self) -> list[Statement]:
        """Statements that confirm and lock the cached rows."""
        waiting = sorted((sid, held) for sid, held in self.held.items() if not held.is_locked)
        for _, held in waiting:
            held.is_locked = True
        return [(self._schema[sql.GUARD], (home_of(sid), sid, held.version)) for sid, held in waiting]

    def take_alone(self) -> tuple[Statement | None, list[Statement], list[Statement]]:
        """The single guarded statement that does everything, if there is one; else the guards and all the
        rest."""
        unchanged = any(not held.is_locked and not held.change for held in self.held.values())
        guards, statements = self.guards(), self.take()
        if len(statements) != 1:
            return None, guards, statements
        ((statement, given),) = statements
        if isinstance(statement, sql.Guarded) and not unchanged:
            return statements[0], [], []
        if statement == self._schema[sql.PUT_RECORD] and len(guards) == 1 and guards[0][1][:2] == given[:2]:
            return (self._schema[sql.PUT_GUARDED], (*guards[0][1], *given[2:])), [], []
        return None, guards, statements

    def take(self) -> list[Statement]:
        """Everything that is to be sent, in order; nothing waits afterwards."""
        self._settle()
        statements, self._sent = self._sent, []
        return statements

    def _settle(self) -> None:
        for _, kind, name in sorted(key for key in self.unwritten if key[0] == STORE_WIDE):
            self.lock_record(kind, name)
        changed = sorted((sid, held) for sid, held in self.held.items() if held.change)
        renamed = [(sid, held) for sid, held in changed if held.name != name_of(held.row)]
        for sid, held in renamed:
            if held.name is not None:
                self.add(sql.DROP_NAME, encode(held.name), sid)
        batch = [] if self._is_sharded else [(sid, held) for sid, held in changed if self._appends(held)]
        if sum(len(self._entries_of(held)) for _, held in batch) >= BATCH:
            self._write_batch(batch)
        for sid, held in changed:
            if held.change:
                self._write_row(sid, held)
        for sid, held in renamed:
            held.name = name_of(held.row)
            if held.name is not None:
                self.add(sql.ADD_NAME, encode(held.name), sid)
        self._write_details()
        for branch, rows in self.entries.items():
            for row in rows:
                self.add(sql.ADD_ENTRY, *entry_values(branch, row))
        self.entries.clear()
        for sid, kind, name in sorted(self.unwritten):
            value = self.records[sid, kind, name]
            self.add(sql.PUT_RECORD, home_of(sid), sid, kind, encode(name), value)
        self.unwritten.clear()

    def _write_row(self, sid: int, held: SessionLock) -> None:
        row = held.row
        assert row is not None
        version = self._ids.version(held.version)
        known = (home_of(sid), sid, held.version, version)
        if held.change == NEW:
            self.add(sql.ADD_SESSION, home_of(sid), version, held.made, sid, *session_values(row))
        elif held.change == ROW:
            self.add(sql.SET_SESSION, *known, *session_values(row))
        elif rows := self.entries.get(row.head.branch):
            self.add(sql.APPEND, *known, *head_values(row), *entry_values(row.head.branch, rows.pop()))
        else:
            self.add(sql.SET_HEAD, *known, *head_values(row))
        held.version = version
        held.is_locked = True
        held.change = UNCHANGED

    def _appends(self, held: SessionLock) -> bool:
        """Whether an append is all that happened to it."""
        return held.change == HEAD and bool(self._entries_of(held))

    def _entries_of(self, held: SessionLock) -> Sequence[EntryRow]:
        return () if held.row is None else self.entries.get(held.row.head.branch, ())

    def _write_batch(self, batch: Sequence[tuple[int, SessionLock]]) -> None:
        """Appends to many sessions, in one statement."""
        rows, entries = [], []
        for sid, held in batch:
            assert held.row is not None
            known, held.version = held.version, self._ids.version(held.version)
            rows.append((home_of(sid), sid, known, held.version, *head_values(held.row)))
            branch = held.row.head.branch
            entries += [entry_values(branch, row) for row in self.entries.pop(branch, ())]
            held.is_locked = True
            held.change = UNCHANGED
        self.add(sql.APPENDS, len(rows), *columns(rows), *columns(entries))

    def _write_details(self) -> None:
        for sid, details in self.details.items():
            at = (home_of(sid), sid)
            self.add(sql.SET_DETAILS, *at, encode_details(details))
            self.add(sql.DROP_FACETS, *at)
            for name, value in dict.fromkeys(facets_of(details)):
                self.add(sql.ADD_FACET, *at, facet_hash(name, value), encode(name), encode(value))
        self.details.clear()

    def forget_session(self, sid: int) -> None:
        """Do not write the records and details of a session that is dropped."""
        for key in [key for key in self.records if key[0] == sid]:
            del self.records[key]
            self.unwritten.discard(key)
        self.details.pop(sid, None)

    def rows(self) -> Iterator[tuple[int, SessionLock]]:
        yield from self.held.items()
