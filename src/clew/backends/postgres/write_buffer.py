"""What a transaction has written and not yet sent, and the statements that it becomes.

Writes are gathered so that an append is one statement and a crowd of them one round trip. A row of a
session is written as it is in the end, once, and only if it still has the version that was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from clew.backends.contract import STORE_WIDE
from clew.backends.listing import facets_of
from clew.backends.postgres.connection import Statement
from clew.backends.postgres.ids import Ids, home_of
from clew.backends.postgres.rows import (
    columns,
    encode,
    encode_details,
    entry_values,
    facet_hash,
    head_values,
    lock_key,
    session_values,
)
from clew.backends.postgres.sql import (
    ADD_ENTRY,
    ADD_FACET,
    ADD_NAME,
    ADD_SESSION,
    APPEND,
    APPENDS,
    DROP_FACETS,
    DROP_NAME,
    GUARD,
    LOCK,
    LOCK_SHARED,
    PUT_GUARDED,
    PUT_RECORD,
    SET_DETAILS,
    SET_HEAD,
    SET_SESSION,
    Guarded,
    Schema,
)
from clew.core.log.rows import Details, EntryRow, SessionRow

UNCHANGED, HEAD, ROW, NEW = range(4)

CROWD: Final = 2
"""From so many appends on there is one statement for all: what is one statement is one round trip."""

RecordName = tuple[int, str, str]


class SessionLock:
    """The row of a session in a transaction."""

    __slots__ = ("change", "is_locked", "made", "name", "row", "version")

    def __init__(
        self, row: SessionRow | None, version: int, *, is_locked: bool, change: int = UNCHANGED
    ) -> None:
        self.row = row
        self.version = version
        self.is_locked = is_locked
        """The database has confirmed the row, and lets nobody else change it."""
        self.change = change
        self.made = 0
        self.name = None if change == NEW else name_of(row)
        """The id under which it stands in the table of names."""


def name_of(row: SessionRow | None) -> str | None:
    """The id by which a session is found, unless it is in the trash."""
    return None if row is None or row.deleted is not None or not isinstance(row.id, str) else row.id


class WriteBuffer:
    """Writes in waiting, by what they are about."""

    def __init__(self, schema: Schema, numbers: Ids, *, is_sharded: bool) -> None:
        self._schema = schema
        self._is_sharded = is_sharded
        self._numbers = numbers
        self.held: dict[int, SessionLock] = {}
        self.entries: dict[int, list[EntryRow]] = {}
        self.details: dict[int, Details] = {}
        self.records: dict[RecordName, bytes | None] = {}
        """As they are now: read or written in this transaction."""
        self.unwritten: set[RecordName] = set()
        self._locks: set[tuple[int, bool]] = set()
        self._sent: list[Statement] = []

    # -- locks

    def lock(self, *parts: str, shared: bool = False) -> None:
        """Have a lock, until the transaction ends, that stands for something that is no row."""
        key = lock_key(self._schema.name, *parts)
        if (key, False) not in self._locks and (key, shared) not in self._locks:
            self._locks.add((key, shared))
            self.add(LOCK_SHARED if shared else LOCK, key)

    def lock_record(self, kind: str, name: str, *, to_read: bool = False) -> None:
        """Before a record beside the store is read or written. The rules of retention are read with every
        event: nobody waits for those who only read them."""
        self.lock("kind", kind, shared=True)
        self.lock("record", kind, name, shared=to_read and kind == "retention")

    def lock_kind(self, kind: str) -> None:
        self.lock("kind", kind)

    # -- statements

    def add(self, template: str, *given: object) -> None:
        self._sent.append((self._schema[template], given))

    @property
    def relies(self) -> bool:
        """Whether rows were remembered that the database has not confirmed."""
        return any(not held.is_locked for held in self.held.values())

    def guards(self) -> list[Statement]:
        """Confirm and lock the rows that were remembered."""
        waiting = sorted((sid, held) for sid, held in self.held.items() if not held.is_locked)
        for _, held in waiting:
            held.is_locked = True
        return [(self._schema[GUARD], (home_of(sid), sid, held.version)) for sid, held in waiting]

    def take_alone(self) -> tuple[Statement | None, list[Statement], list[Statement]]:
        """The one guarded statement that does it all, if there is one; else guards, and then all the rest."""
        unchanged = any(not held.is_locked and not held.change for held in self.held.values())
        guards, statements = self.guards(), self.take()
        if len(statements) != 1:
            return None, guards, statements
        ((sql, given),) = statements
        if isinstance(sql, Guarded) and not unchanged:
            return statements[0], [], []
        if sql == self._schema[PUT_RECORD] and len(guards) == 1 and guards[0][1][:2] == given[:2]:
            return (self._schema[PUT_GUARDED], (*guards[0][1], *given[2:])), [], []
        return None, guards, statements

    def take(self) -> list[Statement]:
        """Everything that is to be sent, in order; nothing is in waiting afterwards."""
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
                self.add(DROP_NAME, encode(held.name), sid)
        crowd = [] if self._is_sharded else [(sid, held) for sid, held in changed if self._appends(held)]
        if sum(len(self._entries_of(held)) for _, held in crowd) >= CROWD:
            self._write_crowd(crowd)
        for sid, held in changed:
            if held.change:
                self._write_row(sid, held)
        for sid, held in renamed:
            held.name = name_of(held.row)
            if held.name is not None:
                self.add(ADD_NAME, encode(held.name), sid)
        self._write_details()
        for branch, rows in self.entries.items():
            for row in rows:
                self.add(ADD_ENTRY, *entry_values(branch, row))
        self.entries.clear()
        for sid, kind, name in sorted(self.unwritten):
            value = self.records[sid, kind, name]
            self.add(PUT_RECORD, home_of(sid), sid, kind, encode(name), value)
        self.unwritten.clear()

    def _write_row(self, sid: int, held: SessionLock) -> None:
        row = held.row
        assert row is not None
        version = self._numbers.version(held.version)
        known = (home_of(sid), sid, held.version, version)
        if held.change == NEW:
            self.add(ADD_SESSION, home_of(sid), version, held.made, sid, *session_values(row))
        elif held.change == ROW:
            self.add(SET_SESSION, *known, *session_values(row))
        elif rows := self.entries.get(row.head.branch):
            self.add(APPEND, *known, *head_values(row), *entry_values(row.head.branch, rows.pop()))
        else:
            self.add(SET_HEAD, *known, *head_values(row))
        held.version = version
        held.is_locked = True
        held.change = UNCHANGED

    def _appends(self, held: SessionLock) -> bool:
        """Whether nothing but an append happened to it."""
        return held.change == HEAD and bool(self._entries_of(held))

    def _entries_of(self, held: SessionLock) -> Sequence[EntryRow]:
        return () if held.row is None else self.entries.get(held.row.head.branch, ())

    def _write_crowd(self, crowd: Sequence[tuple[int, SessionLock]]) -> None:
        """The appends to many sessions, in one statement."""
        rows, entries = [], []
        for sid, held in crowd:
            assert held.row is not None
            known, held.version = held.version, self._numbers.version(held.version)
            rows.append((home_of(sid), sid, known, held.version, *head_values(held.row)))
            branch = held.row.head.branch
            entries += [entry_values(branch, row) for row in self.entries.pop(branch, ())]
            held.is_locked = True
            held.change = UNCHANGED
        self.add(APPENDS, len(rows), *columns(rows), *columns(entries))

    def _write_details(self) -> None:
        for sid, details in self.details.items():
            at = (home_of(sid), sid)
            self.add(SET_DETAILS, *at, encode_details(details))
            self.add(DROP_FACETS, *at)
            for name, value in dict.fromkeys(facets_of(details)):
                self.add(ADD_FACET, *at, facet_hash(name, value), encode(name), encode(value))
        self.details.clear()

    def forget_session(self, sid: int) -> None:
        """It is dropped: what was to be written beside it is not."""
        for key in [key for key in self.records if key[0] == sid]:
            del self.records[key]
            self.unwritten.discard(key)
        self.details.pop(sid, None)

    def rows(self) -> Iterator[tuple[int, SessionLock]]:
        yield from self.held.items()
