"""Reads outside of transactions, on a connection borrowed from the pool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import msgspec
import psycopg

from clew.backends.contract import Stale
from clew.backends.postgres.blobs import Blobs, still_key
from clew.backends.postgres.connection import (
    CHANGED,
    FORGOTTEN,
    REFUSED,
    DeadlineError,
    ServerConnection,
    StaleRowError,
    is_lost,
    translate,
)
from clew.backends.postgres.pool import Pool
from clew.backends.postgres.reader import PostgresReader
from clew.backends.postgres.row_cache import RowCache
from clew.backends.postgres.rows import Row
from clew.backends.postgres.sql import FITS, LOCK_SHARED, Schema
from clew.backends.postgres.transaction import PostgresTransaction
from clew.errors import CorruptError, OutcomeUnknownError, ReadOnlyError, StoreBusyError

if TYPE_CHECKING:
    from clew.backends.postgres.backend import PostgresBackend


class BorrowedReader(PostgresReader):
    """Each question sees everything committed before it. Reads can be repeated: a connection that is lost
    is replaced once."""

    def __init__(self, backend: PostgresBackend) -> None:
        super().__init__(backend.memory, backend.blobs)
        self._backend = backend
        self.line: ServerConnection = backend.pool.take()

    def ask(self, template: str, *given: Any) -> list[Row]:
        sql = self._backend.schema[template]
        try:
            return self.line.ask(sql, given)
        except psycopg.Error as exc:
            if isinstance(exc, FORGOTTEN):
                self._backend.stop_preparing()
                self.line.close()
            elif isinstance(exc, DeadlineError) or not (is_lost(exc) and self.line.closed):
                raise
        self._backend.pool.give(self.line)
        self.line = self._backend.pool.take()
        return self.line.ask(sql, given)

    def give_back(self) -> None:
        self._backend.pool.give(self.line)


# ── Reading a whole store as it is at one moment, while others write ──────────────────────────────

_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_NO_HURRY: Final = "SET LOCAL idle_in_transaction_session_timeout = 0"
_NOW: Final = "SELECT 1"


class SnapshotReader(PostgresReader):
    """Asks within one transaction. What this process remembers is of other moments, and is not used."""

    def __init__(self, line: ServerConnection, schema: Schema, blobs: Blobs | None) -> None:
        super().__init__(RowCache(), blobs)
        self._line = line
        self._schema = schema

    def ask(self, template: str, *given: Any) -> list[Row]:
        return self._line.ask(self._schema[template], given)


@contextmanager
def standing_still(pool: Pool, schema: Schema, blobs: Blobs | None) -> Iterator[SnapshotReader]:
    with _objects_kept(pool, schema, blobs), _transaction(pool, _BEGIN) as line:
        line.ask(_NOW, ())  # the first question decides on the moment
        yield SnapshotReader(line, schema, blobs)


@contextmanager
def _objects_kept(pool: Pool, schema: Schema, blobs: Blobs | None) -> Iterator[None]:
    """Packs that are dropped later are still there at this moment, but their objects would not be.
    On a connection of its own: the lock has to be there before the moment is."""
    if blobs is None:
        yield
        return
    with _transaction(pool, "BEGIN") as line:
        line.run([(LOCK_SHARED, (still_key(schema),))])
        yield


@contextmanager
def _transaction(pool: Pool, begin: str) -> Iterator[ServerConnection]:
    line = pool.take()
    try:
        line.run([(begin, ()), (_NO_HURRY, ())])
        yield line
    finally:
        try:
            line.execute("ROLLBACK")
        except psycopg.Error:
            pass  # then the pool does not take it back
        pool.give(line)


# ── `with backend.write()` and `with backend.read()`: where transactions begin and end ────────────


class WriteScope:
    """`with backend.write() as tx`: a class, not a generator, because every append passes here."""

    __slots__ = ("_backend", "_certain", "_transaction")

    def __init__(self, backend: PostgresBackend, certain: bool) -> None:
        self._backend = backend
        self._certain = certain
        self._transaction: PostgresTransaction | None = None

    def __enter__(self) -> PostgresTransaction:
        backend = self._backend
        try:
            if not backend._lock.acquire(timeout=backend._timeout):
                raise StoreBusyError(f"other threads wrote to {backend.location} for {backend._timeout:g} s")
            backend.check_open()
            if backend._read_only:
                raise ReadOnlyError(f"the store {backend.location} is open for reading only")
            self._transaction = PostgresTransaction(backend, certain=self._certain)
            return self._transaction
        except BaseException:
            self._leave()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is None:
            self._leave()
            return
        try:
            if exc is None:
                try:
                    transaction.commit()
                except psycopg.Error as error:
                    exc = error
                    was_refused = transaction.is_implicit and isinstance(error, REFUSED)
                    if transaction.is_ending and is_lost(error) and not was_refused:
                        raise OutcomeUnknownError(
                            f"the connection to {self._backend.location} was lost while committing"
                        ) from error
        finally:
            if exc is not None:
                transaction.forget()
            self._leave()
            if transaction.doubtful:
                self._backend.try_to_sweep()
        if exc is None and transaction.writes:
            self._backend.bell.ring()
        self._reraise(exc)

    def _reraise(self, exc: BaseException | None) -> None:
        """What went wrong, in our words."""
        backend = self._backend
        if isinstance(exc, StaleRowError) and exc.sql == backend.schema[FITS]:
            backend.refuse_newer()
        if isinstance(exc, CHANGED):
            backend.numbers.change_lane()
            raise Stale from exc
        if isinstance(exc, FORGOTTEN):
            backend.stop_preparing()
            backend.close_writer()
            raise Stale from exc
        if isinstance(exc, psycopg.Error):
            if is_lost(exc):
                raise Stale from exc  # nothing was committed: again, on a new connection
            raise translate(exc, backend._address) from exc
        if isinstance(exc, msgspec.DecodeError | UnicodeDecodeError):
            raise CorruptError(f"a record in {backend.location} is damaged: {exc}") from exc

    def _leave(self) -> None:
        """Undo what is not committed, and let others in. Looks at what is, not at what was begun:
        a signal handler may have raised anywhere."""
        backend = self._backend
        if backend._lock._is_owned():  # type: ignore[attr-defined]
            line = backend._writer
            if line is not None and not line.closed and not line.is_idle:
                try:
                    line.execute("ROLLBACK")
                except psycopg.Error:
                    pass
                if not line.is_idle:
                    line.close()
            backend._lock.release()


class ReadScope:
    """`with backend.read() as reader`: borrows a connection."""

    __slots__ = ("_backend", "_reader")

    def __init__(self, backend: PostgresBackend) -> None:
        self._backend = backend

    def __enter__(self) -> BorrowedReader:
        self._backend.check_open()
        self._reader = BorrowedReader(self._backend)
        return self._reader

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.give_back()
        reraise_read(exc, self._backend)


def reraise_read(exc: BaseException | None, backend: PostgresBackend) -> None:
    """What went wrong while reading, in our words."""
    if isinstance(exc, psycopg.Error):
        raise translate(exc, backend._address) from exc
    if isinstance(exc, msgspec.DecodeError | UnicodeDecodeError):
        raise CorruptError(f"a record in {backend.location} is damaged: {exc}") from exc
