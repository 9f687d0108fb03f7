"""`with backend.write()`, `read()` and `read_snapshot()`: where transactions and readers begin and end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

import msgspec
import psycopg

from clew.backends.contract import Stale
from clew.backends.postgres import sql
from clew.backends.postgres.blobs import Blobs, snapshot_key, sweep_strays
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
from clew.backends.postgres.pool import Database, Pool
from clew.backends.postgres.reader import PostgresReader
from clew.backends.postgres.rows import Row
from clew.backends.postgres.transaction import PostgresTransaction
from clew.backends.postgres.write_buffer import RowCache
from clew.core.log.rows import SessionColumn
from clew.errors import (
    ClewError,
    CorruptError,
    OutcomeUnknownError,
    ReadOnlyError,
    SchemaTooNewError,
    StoreBusyError,
)

# -- write


class WriteScope:
    """`with backend.write() as tx`. A class, not a generator, because every append passes here."""

    __slots__ = ("_certain", "_database", "_transaction")

    def __init__(self, database: Database, certain: bool) -> None:
        self._database = database
        self._certain = certain
        self._transaction: PostgresTransaction | None = None

    def __enter__(self) -> PostgresTransaction:
        database = self._database
        try:
            if not database.lock.acquire(timeout=database.timeout):
                raise StoreBusyError(
                    f"other threads wrote to {database.location} for {database.timeout:g} s; try again"
                )
            database.check_open()
            if database.read_only:
                raise ReadOnlyError(f"the store {database.location} is open for reading only")
            self._transaction = PostgresTransaction(database, certain=self._certain)
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
                            f"the connection to {self._database.location} was lost while committing"
                        ) from error
        finally:
            if exc is not None:
                transaction.forget()
            self._leave()
            if transaction.doubtful:
                try_to_sweep(self._database)
        if exc is None and transaction.writes:
            self._database.notifier.notify()
        self._reraise(exc)

    def _reraise(self, exc: BaseException | None) -> None:
        """The driver's error as ours; Stale if the operations can be run again."""
        database = self._database
        if isinstance(exc, StaleRowError) and exc.statement == database.schema[sql.FITS]:
            _refuse_newer(database)
        if isinstance(exc, CHANGED):
            database.ids.change_lane()
            raise Stale from exc
        if isinstance(exc, FORGOTTEN):
            database.stop_preparing()
            database.close_writer()
            raise Stale from exc
        if isinstance(exc, psycopg.Error) and is_lost(exc):
            raise Stale from exc  # nothing was committed: again, on a new connection
        reraise(exc, database)

    def _leave(self) -> None:
        """Undo what is not committed, and let other threads in. Looks at the actual state, not at the steps
        taken: a signal handler may have raised anywhere."""
        database = self._database
        if database.lock._is_owned():  # type: ignore[attr-defined]
            database.roll_back()
            database.lock.release()


def _refuse_newer(database: Database) -> None:
    """SchemaTooNewError if a newer Clew has migrated the tables since this process has opened them."""
    with ReadScope(database) as reader:
        ((version, written_by),) = reader.ask(sql.STORE_VERSION)
    if version > sql.VERSION:
        raise SchemaTooNewError(database.location, version, sql.VERSION, written_by)


# -- read


class PooledReader(PostgresReader):
    """Reads outside of transactions, on a connection from the pool. Each question sees everything committed
    before it. Reads can be repeated: a connection that is lost is replaced once."""

    def __init__(self, database: Database) -> None:
        super().__init__(database.cache, database.blobs)
        self._database = database
        self.connection: ServerConnection = database.pool.take()

    def count_by(self, column: SessionColumn, *, deleted: bool = False) -> dict[str, int]:
        """A look at every facet; none if nothing was committed since the last one."""
        if self._database.is_sharded:  # what is written to a shard does not show in the snapshot
            return super().count_by(column, deleted=deleted)
        ((seen,),) = self.ask(sql.SNAPSHOT)
        counts = self._cache.counts(seen)
        if (column, deleted) not in counts:
            counts[column, deleted] = super().count_by(column, deleted=deleted)
        return dict(counts[column, deleted])

    def ask(self, template: str, *given: Any) -> list[Row]:
        statement = self._database.schema[template]
        try:
            return self.connection.ask(statement, given)
        except psycopg.Error as exc:
            if isinstance(exc, FORGOTTEN):
                self._database.stop_preparing()
                self.connection.close()
            elif isinstance(exc, DeadlineError) or not (is_lost(exc) and self.connection.closed):
                raise
        self._database.pool.give(self.connection)
        self.connection = self._database.pool.take()
        return self.connection.ask(statement, given)

    def give_back(self) -> None:
        self._database.pool.give(self.connection)


class ReadScope:
    """`with backend.read() as reader`: borrows a connection."""

    __slots__ = ("_database", "_reader")

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> PooledReader:
        self._database.check_open()
        self._reader = PooledReader(self._database)
        return self._reader

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.give_back()
        reraise(exc, self._database)


def reraise(exc: BaseException | None, database: Database) -> None:
    """The driver's error as ours; nothing if it is not one."""
    if isinstance(exc, psycopg.Error):
        raise translate(exc, database.address) from exc
    if isinstance(exc, msgspec.DecodeError | UnicodeDecodeError):
        raise CorruptError(f"a record in {database.location} is damaged: {exc}") from exc


# -- read a snapshot of the whole store


class SnapshotReader(PostgresReader):
    """Reads a whole store as of one moment, within one transaction. The cache of this process holds rows of
    other moments and is not used."""

    def __init__(self, connection: ServerConnection, schema: sql.Schema, blobs: Blobs | None) -> None:
        super().__init__(RowCache(), blobs)
        self._connection = connection
        self._schema = schema

    def ask(self, template: str, *given: Any) -> list[Row]:
        return self._connection.ask(self._schema[template], given)


@contextmanager
def snapshot_scope(database: Database) -> Iterator[SnapshotReader]:
    """`with backend.read_snapshot() as reader`."""
    database.check_open()
    try:
        with _objects_kept(database), _transaction(database.pool, sql.BEGIN_SNAPSHOT) as connection:
            connection.ask(sql.PING, ())  # the first question fixes the moment
            yield SnapshotReader(connection, database.schema, database.blobs)
    except Exception as exc:
        reraise(exc, database)
        raise


@contextmanager
def _objects_kept(database: Database) -> Iterator[None]:
    """Packs that are dropped later still exist at this moment, but a sweep would remove their objects. The
    lock must be held before the moment is fixed, so it has a connection of its own."""
    if database.blobs is None:
        yield
        return
    with _transaction(database.pool, sql.BEGIN) as connection:
        connection.run([(sql.LOCK_SHARED, (snapshot_key(database.schema),))])
        yield


@contextmanager
def _transaction(pool: Pool, begin: str) -> Iterator[ServerConnection]:
    with pool.borrow() as connection:
        try:
            connection.run([(begin, ()), (sql.NO_IDLE_TIMEOUT, ())])
            yield connection
        finally:
            connection.roll_back()  # if that fails, the pool does not take it back


# -- strays in the object store


def sweep(database: Database) -> None:
    """Remove the objects that no pack names any more."""
    if database.blobs is not None and not database.read_only:
        with ReadScope(database) as reader:
            sweep_strays(reader.connection, database.schema, database.blobs)


def try_to_sweep(database: Database) -> None:
    """The same. An object that cannot be removed now stays noted, and is removed another time."""
    with suppress(ClewError):
        sweep(database)
