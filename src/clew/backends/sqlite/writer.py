"""Writes, inside a transaction that the backend opened."""

from __future__ import annotations

from collections.abc import Sequence

from clew.backends.contract import RecordKind, Transaction
from clew.backends.listing import facets_of
from clew.backends.sqlite.reader import SqliteReader
from clew.backends.sqlite.rows import (
    MOST_BRANCHES,
    POSITION_MASK,
    details_values,
    entry_values,
    erased_values,
    key,
    session_values,
)
from clew.backends.sqlite.search import TextWriter
from clew.backends.sqlite.sql import (
    ADD_BRANCH,
    ADD_ENTRY,
    ADD_FACET,
    ADD_SESSION,
    DISOWN_BRANCH,
    DROP_BRANCH,
    DROP_ENTRIES,
    DROP_FACETS,
    DROP_RECORD,
    DROP_SESSION,
    ENTRY_FRAME,
    ERASE_ENTRY,
    PUT_RECORD,
    SET_ALL_DUE,
    SET_DETAILS,
    SET_DUE,
    SET_HEAD,
    SET_SESSION,
    SET_TREE,
)
from clew.core.log.rows import Details, EntryRow, SessionRow, Tip
from clew.errors import CorruptError


class SqliteTransaction(SqliteReader, TextWriter, Transaction):
    """`Transaction` over the writing connection."""

    def add_session(self, row: SessionRow, details: Details) -> int:
        self.writes += 1
        self._execute(ADD_SESSION, session_values(row))
        sid = self._new_number("session")
        if not row.tree:
            self._execute(SET_TREE, (sid,))
        self.set_details(sid, details)
        return sid

    def set_session(self, row: SessionRow) -> None:
        self.writes += 1
        self._execute(SET_SESSION, (*session_values(row), row.sid))

    def set_head(self, sid: int, head: Tip, updated: int, title: str | None, preview: str) -> None:
        self.writes += 1
        values = (
            head.branch, head.position, head.digest, head.messages, head.turns, head.size,
            head.cut, head.summary, head.asked, updated, title, preview, sid,
        )  # fmt: skip
        self._execute(SET_HEAD, values)

    def set_details(self, sid: int, details: Details) -> None:
        self.writes += 1
        self._execute(SET_DETAILS, (sid, details_values(details)))
        self._execute(DROP_FACETS, (sid,))
        facets = facets_of(details)
        if facets:
            self.connection.executemany(ADD_FACET, [(name, value, sid) for name, value in facets])

    def set_due(self, sid: int | None, due: int) -> None:
        if sid is None:
            self._execute(SET_ALL_DUE, (due,))
            self.writes += self.connection.changes() > 0
        else:
            self.writes += 1
            self._execute(SET_DUE, (due, sid))

    def drop_session(self, sid: int) -> None:
        self.writes += 1
        for statement in DROP_SESSION:
            self._execute(statement, (sid,))
        self._forget_searched(sid=sid)

    def add_branch(self, uid: str, tree: int, owner: int, parent: int, fork: int) -> int:
        self.writes += 1
        self._execute(ADD_BRANCH, (uid, tree, owner, parent, fork))
        return self._new_number("branch")

    def _new_number(self, what: str) -> int:
        """Numbers are counted from 1, and a key has 31 bits for them."""
        number = self.connection.last_insert_rowid()
        if not 0 < number < MOST_BRANCHES:
            raise CorruptError(f"{self.connection.filename}: its next {what} would be number {number}")
        return number

    def disown_branch(self, branch: int) -> None:
        self.writes += 1
        self._branches.pop(branch, None)
        self._execute(DISOWN_BRANCH, (branch,))

    def drop_branch(self, branch: int) -> None:
        self.writes += 1
        self._branches.pop(branch, None)
        self._execute(DROP_BRANCH, (branch,))
        self._forget_searched(branch=branch)

    def add_entries(self, branch: int, rows: Sequence[EntryRow]) -> None:
        self.writes += 1
        if len(rows) == 1:
            self._execute(ADD_ENTRY, entry_values(branch, rows[0]))
        else:
            self.connection.executemany(ADD_ENTRY, (entry_values(branch, row) for row in rows))

    def drop_entries(self, branch: int, after: int) -> None:
        self.writes += 1
        dropped = key(branch, after + 1), key(branch, POSITION_MASK)
        self._forget_texts(*dropped)
        self._lower_searched(branch, after)
        self._execute(DROP_ENTRIES, dropped)

    def erase_entries(self, branch: int, positions: Sequence[int]) -> None:
        erased = []
        for position in positions:
            frame = self._one(ENTRY_FRAME, key(branch, position))
            if frame is not None:
                erased.append((*erased_values(position, *frame), key(branch, position)))
                self._forget_texts(key(branch, position), key(branch, position))
        if erased:
            self.writes += 1
            self.connection.executemany(ERASE_ENTRY, erased)

    def put_record(self, sid: int, kind: RecordKind, name: str, value: bytes) -> None:
        self.writes += 1
        self._execute(PUT_RECORD, (sid, kind, name, value))

    def drop_record(self, sid: int, kind: RecordKind, name: str) -> bool:
        self._execute(DROP_RECORD, (sid, kind, name))
        dropped = self.connection.changes() > 0
        self.writes += dropped
        return dropped
