"""Transactions: what is remembered until something has to be asked, then a real one.

A transaction begins in mind only. Rows of sessions come from memory if they are there, writes are
gathered, and at its end all goes to the server in one go, which is one transaction there: it fails as a
whole if a row is not of the version that was remembered. A read that memory can not answer begins a
transaction on the server first, in which the rows relied upon so far are confirmed and locked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.backends.postgres.connection import Line, Statement
from clew.backends.postgres.ids import home_of
from clew.backends.postgres.reader import PostgresReader
from clew.backends.postgres.rows import Row, session_from, sound_session
from clew.backends.postgres.sql import FITS, LOCK_SESSION, LOCK_SHARED, LOCK_TREE
from clew.backends.postgres.strays import NOTE_STRAY, stray_key
from clew.backends.postgres.write_buffer import Gathering, Held
from clew.core import checked
from clew.core.rows import BranchRow, SessionRow

if TYPE_CHECKING:
    from clew.backends.postgres.backend import PostgresBackend


class Conversation(PostgresReader):
    """What a transaction asks and sends. Nothing is sent before something is asked or the end is reached."""

    def __init__(self, backend: PostgresBackend, *, certain: bool) -> None:
        super().__init__(backend.memory, backend.blobs)
        self.writes = 0
        self.is_certain = True
        """Whether nothing that it answered came from memory, unconfirmed."""
        self._backend = backend
        self._numbers = backend.numbers
        self._may_rely = not certain
        self._waiting = Gathering(backend.schema, backend.numbers, is_sharded=backend.is_sharded)
        self._branches: dict[int, BranchRow] = {}
        self._altered: set[int] = set()
        self._failure: BaseException | None = None
        self.is_implicit = False
        """It was sent in one go: the server commits it after its last answer, not before."""
        self.is_ending = False
        """The server may have been told to commit."""
        self.line: Line | None = None
        """The connection, once the server knows of this transaction."""
        self.doubtful = False
        """It may leave objects in the object store that nothing names."""

    # -- asking

    def ask(self, template: str, *given: Any) -> list[Row]:
        try:
            if self.line is None:
                line, before = self._begin()
            else:
                line, before = self.line, self._waiting.take()
            answer = line.ask(self._backend.schema[template], given, after=before)
        except BaseException as exc:
            # Whoever asked may live with it, but what others wrote before is gone: nothing may be committed.
            self._failure = exc
            raise
        self.is_certain = True
        return answer

    def _begin(self) -> tuple[Line, list[Statement]]:
        """Let the server know of this transaction; what is to be sent with the first question. Nothing is
        written before the rows that were relied upon are confirmed: it could only fail."""
        guards, writes = self._waiting.guards(), self._waiting.take()
        self.line = self._backend.writing_line()
        opening = self._opening(guards)
        if not guards or not writes:
            return self.line, [*opening, *writes]
        self.line.run(opening)
        return self.line, writes

    def _opening(self, guards: list[Statement]) -> list[Statement]:
        return [("BEGIN", ()), (self._backend.schema[FITS], ()), *guards]

    def _confirm(self) -> None:
        """Have every row that was relied upon confirmed and locked."""
        if self.line is None and self._waiting.relies:
            try:
                self.line = self._backend.writing_line()
                self.line.run(self._opening(self._waiting.guards()))
            except BaseException as exc:
                self._failure = exc
                raise

    def commit(self) -> None:
        """Make it durable. Called once, at the end."""
        if self._failure is not None:
            raise self._failure
        if self.line is not None:
            self._end(self.line, self._waiting.take())
        elif self.writes:
            self._send()
        for sid, held in self._waiting.rows():
            if held.row is None:
                self._memory.forget([sid])
            elif held.is_locked:
                self._memory.note(held.row, held.version)
        for branch in self._branches.values():
            self._memory.note_branch(branch)

    def _send(self) -> None:
        """All of it is sent only now: as one statement if it is one, which is one round trip, else in two."""
        alone, guards, statements = self._waiting.take_alone()
        line = self._backend.writing_line()
        if alone is not None:
            self.is_implicit = self.is_ending = True
            line.run([alone])
        elif statements:
            self.line = line
            line.run(self._opening(guards))
            self._end(line, statements)

    def _end(self, line: Line, statements: list[Statement]) -> None:
        self.is_ending = True
        line.run([*statements, ("COMMIT", ())])

    def forget(self) -> None:
        """It did not happen, or nobody knows: what was relied upon may be wrong."""
        self._memory.forget([sid for sid, _ in self._waiting.rows()])
        for branch in self._altered:
            self._memory.forget_branch(branch)

    def _doubt(self, blob: bytes) -> None:
        """Before an object is put or loses a row: note it, and keep it from those who remove strays."""
        self.ask(LOCK_SHARED, stray_key(self._backend.schema, blob))
        with self._backend.read() as reader:
            reader.ask(NOTE_STRAY, blob)
        self.doubtful = True

    # -- sessions

    def get_session(self, sid: int) -> SessionRow | None:
        held = self._hold(sid)
        return None if held is None or held.row is None else checked.session(held.row)

    def _hold(self, sid: int) -> Held | None:
        held = self._waiting.held.get(sid)
        if held is not None:
            return held
        known = self._memory.session(sid) if self._may_rely and self.line is None else None
        if known is not None:
            self.is_certain = False
            held = self._waiting.held[sid] = Held(*known, is_locked=False)
            return held
        rows = self.ask(LOCK_SESSION, home_of(sid), sid)
        return self._lock(rows[0]) if rows else None

    def _lock(self, row: Row) -> Held:
        session = session_from(row)
        held = self._waiting.held.get(session.sid)
        if held is None:
            held = self._waiting.held[session.sid] = Held(session, row[-1], is_locked=True)
        return held

    def find_session(self, id: str) -> SessionRow | None:
        self._waiting.lock_record("alias", id)  # an id and an alias exclude each other
        return super().find_session(id)

    def find_deleted(self, id: str) -> SessionRow | None:
        found = super().find_deleted(id)
        return None if found is None else self.get_session(found.sid)

    def tree_sessions(self, tree: int) -> list[SessionRow]:
        """Locked, all of them: look again until nobody was added while this waited for a lock."""
        known: list[int] = []
        while True:
            rows = self.ask(LOCK_TREE, home_of(tree), tree)
            sids = [row[0] for row in rows]
            if sids == known:
                return [sound_session(row) for row in rows]
            known = sids
            for row in rows:
                self._lock(row)

    def _seen(self, row: Row) -> SessionRow:
        return sound_session(row)  # of a transaction that may yet be undone
