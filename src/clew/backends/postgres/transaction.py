"""Transactions: local until the database must be asked, then one on the server.

A transaction starts locally: nothing is sent to the server until it reads or commits. Rows of sessions come
from the cache if they are there, writes wait in a `WriteBuffer`, and the commit sends everything at once, as
one transaction of the server, which fails as a whole if a row does not have the remembered version. A read
that the cache cannot answer begins a transaction on the server first, which confirms and locks the rows used
so far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clew.backends.contract import STORE_WIDE, RecordKind, Transaction
from clew.backends.postgres import sql
from clew.backends.postgres.blobs import LARGE, blob_name, stray_key
from clew.backends.postgres.connection import ServerConnection, Statement
from clew.backends.postgres.pool import Database
from clew.backends.postgres.reader import PostgresReader
from clew.backends.postgres.rows import (
    Row,
    encode,
    erased_values,
    event_values,
    home_of,
    lock_key,
    session_from,
    slices_of,
    sound_session,
    usage_values,
)
from clew.backends.postgres.write_buffer import HEAD, NEW, ROW, SessionLock, WriteBuffer
from clew.backends.rows import pack_checksum
from clew.core.log import checks
from clew.core.log.rows import BranchRow, Details, EntryRow, EventRow, HeadRow, SessionRow, UsageRow
from clew.core.messages.search_text import TextRow


class TransactionIO(PostgresReader):
    """What a transaction asks and sends. Nothing is sent before the first question or the commit."""

    def __init__(self, database: Database, *, certain: bool) -> None:
        super().__init__(database.cache, database.blobs)
        self.writes = 0
        self.is_certain = True
        """False while an answer came from the cache, and the database has not confirmed it."""
        self._database = database
        self._ids = database.ids
        self._may_rely = not certain
        self._waiting = WriteBuffer(database.schema, database.ids, is_sharded=database.is_sharded)
        self._branches: dict[int, BranchRow] = {}
        self._altered: set[int] = set()
        self._failure: BaseException | None = None
        self.is_implicit = False
        """It was sent as one statement: the server commits after its answer, not before."""
        self.is_ending = False
        """The server may have been told to commit."""
        self.connection: ServerConnection | None = None
        """The connection, once the server knows of this transaction."""
        self._texts_locked = False
        self.doubtful = False
        """It may leave objects in the object store that no row names."""

    # -- asking

    def ask(self, template: str, *given: Any) -> list[Row]:
        try:
            if self.connection is None:
                connection, before = self._begin()
            else:
                connection, before = self.connection, self._waiting.take()
            answer = connection.ask(self._database.schema[template], given, after=before)
        except BaseException as exc:
            # The caller may handle the error, but writes sent before it are lost: nothing may be committed.
            self._failure = exc
            raise
        self.is_certain = True
        return answer

    def _begin(self) -> tuple[ServerConnection, list[Statement]]:
        """Begin the transaction on the server; the statements to send with the first question. Writes are
        sent after the cached rows are confirmed: before that they could only fail."""
        guards, writes = self._waiting.guards(), self._waiting.take()
        self.connection = self._database.writer()
        opening = self._opening(guards)
        if not guards or not writes:
            return self.connection, [*opening, *writes]
        self.connection.run(opening)
        return self.connection, writes

    def _opening(self, guards: list[Statement]) -> list[Statement]:
        return [(sql.BEGIN, ()), (self._database.schema[sql.FITS], ()), *guards]

    def _confirm(self) -> None:
        """Have the database confirm and lock every cached row that was used."""
        if self.connection is None and self._waiting.relies:
            try:
                self.connection = self._database.writer()
                self.connection.run(self._opening(self._waiting.guards()))
            except BaseException as exc:
                self._failure = exc
                raise

    def _push(self) -> None:
        """Turn waiting writes into statements, before a statement that depends on them."""
        self._confirm()
        for statement, given in self._waiting.take():
            self._waiting.add(statement, *given)

    # -- ending

    def commit(self) -> None:
        """Make it durable. Called once, at the end."""
        if self._failure is not None:
            raise self._failure
        if self.connection is not None:
            self._end(self.connection, self._waiting.take())
        elif self.writes:
            self._send()
        for sid, held in self._waiting.rows():
            if held.row is None:
                self._cache.forget([sid])
            elif held.is_locked:
                self._cache.note(held.row, held.version)
        for branch in self._branches.values():
            self._cache.note_branch(branch)

    def _send(self) -> None:
        """Send everything: in one round trip if it is a single statement, else in two."""
        alone, guards, statements = self._waiting.take_alone()
        connection = self._database.writer()
        if alone is not None:
            self.is_implicit = self.is_ending = True
            connection.run([alone])
        elif statements:
            self.connection = connection
            connection.run(self._opening(guards))
            self._end(connection, statements)

    def _end(self, connection: ServerConnection, statements: list[Statement]) -> None:
        self.is_ending = True
        connection.run([*statements, (sql.COMMIT, ())])

    def forget(self) -> None:
        """It failed, or its outcome is unknown: the rows that it used may be out of date."""
        self._cache.forget([sid for sid, _ in self._waiting.rows()])
        for branch in self._altered:
            self._cache.forget_branch(branch)


class PostgresTransaction(TransactionIO, Transaction):
    """`Transaction`: overrides of reads that must see the waiting writes, and the writes."""

    # -- sessions

    @property
    def era(self) -> int:
        """How often a replica has replaced the server: each begins a timeline of its own."""
        ((name,),) = self.ask(sql.TIMELINE)
        return int(name[:8], 16) - 1

    def get_session(self, sid: int) -> SessionRow | None:
        held = self._hold(sid)
        return None if held is None or held.row is None else checks.session(held.row)

    def _hold(self, sid: int) -> SessionLock | None:
        held = self._waiting.held.get(sid)
        if held is not None:
            return held
        known = self._cache.session(sid) if self._may_rely and self.connection is None else None
        if known is not None:
            self.is_certain = False
            held = self._waiting.held[sid] = SessionLock(*known, is_locked=False)
            return held
        rows = self.ask(sql.LOCK_SESSION, home_of(sid), sid)
        return self._lock(rows[0]) if rows else None

    def _lock(self, row: Row) -> SessionLock:
        session = session_from(row)
        held = self._waiting.held.get(session.sid)
        if held is None:
            held = self._waiting.held[session.sid] = SessionLock(session, row[-1], is_locked=True)
        return held

    def _seen(self, row: Row) -> SessionRow:
        return sound_session(row)  # not cached: the transaction may still be undone

    def find_session(self, id: str, *, deleted: bool = False) -> SessionRow | None:
        if deleted:
            found = super().find_session(id, deleted=True)
            return None if found is None else self.get_session(found.sid)
        self._waiting.lock_record("alias", id)  # an id and an alias exclude each other
        return super().find_session(id)

    def tree_sessions(self, tree: int) -> list[SessionRow]:
        """All of them, locked. Read again until no session was added while this waited for a lock."""
        known: list[int] = []
        while True:
            rows = self.ask(sql.LOCK_TREE, home_of(tree), tree)
            sids = [row[0] for row in rows]
            if sids == known:
                return [sound_session(row) for row in rows]
            known = sids
            for row in rows:
                self._lock(row)

    def get_details(self, sid: int) -> Details:
        waiting = self._waiting.details.get(sid)
        return waiting if waiting is not None else super().get_details(sid)

    def add_session(self, row: SessionRow, details: Details) -> int:
        self.writes += 1
        sid = self._ids.within(row.tree) if row.tree else self._ids.root()
        held = SessionLock(
            msgspec.structs.replace(row, sid=sid, tree=row.tree or sid), 0, is_locked=True, change=NEW
        )
        held.made = self._ids.made()
        self._waiting.held[sid] = held
        self.set_details(sid, details)
        return sid

    def set_session(self, row: SessionRow) -> None:
        self._change(row.sid, row, ROW)

    def set_head(self, sid: int, head: HeadRow, updated: int, title: str | None, preview: str) -> None:
        held = self._hold(sid)
        if held is not None and held.row is not None:
            row = msgspec.structs.replace(
                held.row, head=head, grows=True, updated=updated, title=title, preview=preview
            )
            self._change(sid, row, HEAD)

    def set_due(self, sid: int | None, due: int) -> None:
        if sid is None:
            self._set_all_due(due)
            return
        held = self._hold(sid)
        if held is not None and held.row is not None:
            self._change(sid, msgspec.structs.replace(held.row, due=due), ROW)

    def _change(self, sid: int, row: SessionRow, change: int) -> None:
        self.writes += 1
        held = self._hold(sid)
        if held is not None and held.row is not None:
            held.row = row
            held.change = max(held.change, change)

    def set_details(self, sid: int, details: Details) -> None:
        self.writes += 1
        self._waiting.details[sid] = details

    def _set_all_due(self, due: int) -> None:
        ((count,),) = self.ask(sql.SET_ALL_DUE, self._ids.version(0), due)
        self.writes += count > 0
        if count:
            self._cache.clear()
            self._waiting.held.clear()  # all versions have changed; the locks stay

    def drop_session(self, sid: int) -> None:
        self.writes += 1
        held = self._hold(sid)
        self._push()
        self._waiting.forget_session(sid)
        if held is not None and held.name is not None:
            self._waiting.add(sql.DROP_NAME, encode(held.name), sid)
        for statement in sql.DROP_SESSION:
            self._waiting.add(statement, home_of(sid), sid)
        self._forget_searched(sid=sid)
        gone = SessionLock(None, 0, is_locked=True)
        self._waiting.held[sid] = gone

    # -- log

    def get_branch(self, branch: int) -> BranchRow:
        known = self._branches.get(branch)
        return known if known is not None else super().get_branch(branch)

    def add_branch(self, uid: str, tree: int, owner: int, parent: int, fork: int) -> int:
        self.writes += 1
        branch = self._ids.within(tree)
        self._branches[branch] = BranchRow(branch, uid, tree, owner, parent, fork)
        self._waiting.add(
            sql.ADD_BRANCH, home_of(branch), self._ids.made(), branch, uid, tree, owner, parent, fork
        )
        return branch

    def disown_branch(self, branch: int) -> None:
        self._alter_branch(branch, sql.OWN_BRANCH, 0)

    def adopt_branch(self, branch: int, owner: int) -> None:
        self._alter_branch(branch, sql.OWN_BRANCH, owner)

    def drop_branch(self, branch: int) -> None:
        self._alter_branch(branch, sql.DROP_BRANCH)
        self._forget_searched(branch=branch)

    def _alter_branch(self, branch: int, statement: str, *values: int) -> None:
        self.writes += 1
        self._branches.pop(branch, None)
        self._altered.add(branch)
        self._cache.forget_branch(branch)
        self._push()
        self._waiting.add(statement, home_of(branch), branch, *values)

    def add_entries(self, branch: int, rows: Sequence[EntryRow]) -> None:
        self.writes += 1
        self._waiting.entries.setdefault(branch, []).extend(rows)

    def drop_entries(self, branch: int, after: int) -> None:
        self.writes += 1
        self._push()
        self._drop_texts(branch, after)
        self._waiting.add(sql.DROP_ENTRIES, home_of(branch), branch, after)

    def erase_entries(self, branch: int, positions: Sequence[int]) -> None:
        frames = self.ask(sql.ENTRY_FRAMES, home_of(branch), branch, list(positions))
        self.writes += bool(frames)
        if frames:
            self._erase_texts(branch, positions)
        for position, time, flags in frames:
            erased = erased_values(position, time, flags)
            self._waiting.add(sql.ERASE_ENTRY, home_of(branch), branch, position, *erased)

    # -- records

    def get_record(self, sid: int, kind: RecordKind, name: str) -> bytes | None:
        key = (sid, kind, name)
        if key not in self._waiting.records:
            if sid == STORE_WIDE:
                self._waiting.lock_record(kind, name, to_read=True)
            self._waiting.records[key] = super().get_record(sid, kind, name)
        return self._waiting.records[key]

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
        if sid == STORE_WIDE:
            self._waiting.lock_kind(kind)
        return super().scan_records(sid, kind, first, last, reverse=reverse, limit=limit)

    def put_record(self, sid: int, kind: RecordKind, name: str, value: bytes) -> None:
        self.writes += 1
        self._waiting.records[sid, kind, name] = value
        self._waiting.unwritten.add((sid, kind, name))

    def drop_record(self, sid: int, kind: RecordKind, name: str) -> bool:
        if sid == STORE_WIDE:
            self._waiting.lock_record(kind, name)
        ((count,),) = self.ask(sql.DROP_RECORD, home_of(sid), sid, kind, encode(name))
        self._waiting.records[sid, kind, name] = None
        self.writes += count
        return bool(count)

    # -- streams

    def add_events(self, sid: int, rows: Sequence[EventRow]) -> None:
        self.writes += bool(rows)
        for row in rows:
            self._waiting.add(sql.ADD_EVENT, home_of(sid), sid, *event_values(row))

    def drop_events(self, sid: int, upto: int) -> None:
        ((count,),) = self.ask(sql.DROP_EVENTS, home_of(sid), sid, upto)
        self.writes += count > 0

    def add_usage(self, sid: int, row: UsageRow) -> None:
        self.writes += 1
        self._waiting.add(sql.ADD_USAGE, home_of(sid), sid, *usage_values(row))

    # -- objects

    def add_pack(self, codec: int, blob: bytes, size: int, members: Sequence[tuple[bytes, int, int]]) -> int:
        pack = self._ids.root()
        recorded = pack_checksum(size, codec, blob)
        if self._blobs is not None and len(blob) > LARGE:
            outside = blob_name(blob)
            self._doubt(outside)
            self._blobs.put(outside, blob)
            self._waiting.add(sql.ADD_PACK_OUTSIDE, pack, size, codec, recorded, len(blob), outside)
        else:
            self._waiting.add(sql.ADD_PACK, pack, size, codec, recorded, blob)
        self.writes += 1
        for name, offset, length in sorted(members):
            self._waiting.add(sql.ADD_OBJECT, name, pack, offset, length)
        return pack

    def drop_objects(self, names: Sequence[bytes]) -> None:
        ((count,),) = self.ask(sql.DROP_OBJECTS, list(names))
        self.writes += count > 0

    def drop_pack(self, pack: int) -> None:
        for (outside,) in self.ask(sql.PACK_BLOB, pack):
            self._doubt(outside)
        ((count,),) = self.ask(sql.DROP_PACK, pack)
        self.writes += count > 0

    def _doubt(self, blob: bytes) -> None:
        """Before an object is put or loses a row: note it as a stray, and lock it against sweeps."""
        self.ask(sql.LOCK_SHARED, stray_key(self._database.schema, blob))
        with self._database.pool.borrow() as connection:
            connection.ask(self._database.schema[sql.NOTE_STRAY], (blob,))
        self.doubtful = True

    # -- texts

    def _lock_texts(self, *, to_remove: bool) -> None:
        """No transaction may remove entries while another indexes their words: the words would stay behind.
        Appends take no part in this."""
        if not self._texts_locked:
            self._texts_locked = True
            key = lock_key("texts", self._database.schema.name)
            self.ask(sql.LOCK if to_remove else sql.LOCK_SHARED, key)

    def searched_upto(self, branch: int) -> int:
        self._lock_texts(to_remove=False)
        return super().searched_upto(branch)

    def add_texts(self, rows: Sequence[TextRow], upto: Mapping[int, int]) -> None:
        self._lock_texts(to_remove=False)
        self.writes += 1
        for row in rows:
            time, branch, position = row.place
            slices = slices_of(row)
            for number, words in enumerate(slices):
                self._waiting.add(
                    sql.ADD_TEXT,
                    home_of(branch),
                    branch,
                    position,
                    number,
                    len(slices),
                    time,
                    row.role,
                    words,
                )
        for branch, position in upto.items():
            self._waiting.add(sql.SET_UPTO, home_of(branch), branch, position)

    def set_searched(self, rows: Sequence[SessionRow]) -> None:
        self.writes += 1
        for row in rows:
            head = row.head
            self._waiting.add(
                sql.SET_SEARCHED,
                home_of(row.sid),
                row.sid,
                row.updated,
                head.branch,
                head.position,
                row.moves,
            )

    def _drop_texts(self, branch: int, after: int) -> None:
        self._lock_texts(to_remove=True)
        home = home_of(branch)
        self._waiting.add(sql.DROP_TEXTS, home, branch, after)
        self._waiting.add(sql.LOWER_UPTO, home, branch, after)
        self._waiting.add(sql.FORGET_TREE, home, branch)

    def _erase_texts(self, branch: int, positions: Sequence[int]) -> None:
        self._lock_texts(to_remove=True)
        self._waiting.add(sql.ERASE_TEXTS, home_of(branch), branch, list(positions))

    def _forget_searched(self, *, branch: int = 0, sid: int = 0) -> None:
        if branch:
            self._waiting.add(sql.DROP_UPTO, home_of(branch), branch)
        if sid:
            self._waiting.add(sql.DROP_SEARCHED, home_of(sid), sid)
