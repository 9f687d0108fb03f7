"""The PostgreSQL backend: opening, the server's clock, upkeep, forks, closing."""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager
from typing import Any, Final, Literal

import psycopg

from clew.backends.contract import Backend, Capabilities
from clew.backends.postgres import sql
from clew.backends.postgres.address import check_blobs, parse_address
from clew.backends.postgres.blobs import Blobs
from clew.backends.postgres.connection import ServerConnection
from clew.backends.postgres.migrate import TABLES, ensure_schema
from clew.backends.postgres.notify import Listener
from clew.backends.postgres.pool import Database
from clew.backends.postgres.scopes import (
    ReadScope,
    SnapshotReader,
    WriteScope,
    snapshot_scope,
    sweep,
    try_to_sweep,
)
from clew.errors import ClewError, InvalidUrlError, StoreBusyError

POOL: Final = 16
SCHEMA: Final = "clew"
SCRUB_TIMEOUT: Final = 24 * 3600.0
OLDER_TRANSACTIONS: Final = 60.0
"""How long a rewrite of the tables waits for them, in seconds."""
CLOCK_REFRESH: Final = 30.0


class PostgresBackend(Backend):
    """A store in one schema of a database."""

    def __init__(
        self,
        url: str,
        *,
        schema: str | None = None,
        timeout: float | None = None,
        pool: int | None = None,
        partitions: int | None = None,
        pgbouncer: bool | None = None,
        scrub: Literal["vacuum", "full"] | None = None,
        sharded: bool | None = None,
        read_only: bool | None = None,
        blobs: str | None = None,
    ) -> None:
        address = parse_address(url)
        found = address.options
        wait: float = _first(timeout, found.get("timeout"), 10.0)
        size: int = _first(pool, found.get("pool"), POOL)
        is_sharded: bool = _first(sharded, found.get("sharded"), False)
        blobs_at: str | None = blobs or found.get("blobs")
        self._scrub: str = _first(scrub, found.get("scrub"), "vacuum")
        if self._scrub not in ("vacuum", "full"):
            raise InvalidUrlError(f"scrub must be 'vacuum' or 'full', not {self._scrub!r}")
        if wait <= 0 or size < 1:
            raise InvalidUrlError("timeout and pool must be above 0")
        if blobs_at is not None:
            check_blobs(blobs_at)
        self.database = Database(
            address,
            sql.Schema(_first(schema, found.get("schema"), SCHEMA), is_sharded=is_sharded),
            timeout=wait,
            pool_size=size,
            prepares=not _first(pgbouncer, found.get("pgbouncer"), False),
            is_sharded=is_sharded,
            read_only=_first(read_only, found.get("read_only"), False),
        )
        self._clock = ServerClock()
        self._listener = Listener(self.database.connect, self.database.schema)
        self._held: list[threading.RLock] = []
        try:
            self._open(_first(partitions, found.get("partitions"), 0), blobs_at)
        except BaseException:
            self.close()
            raise

    def _open(self, partitions: int, blobs_at: str | None) -> None:
        database = self.database
        with self.read() as reader:
            connection = reader.connection
            self._clock.measure(connection)
            ensure_schema(
                connection,
                database.schema,
                self.location,
                partitions=partitions,
                read_only=database.read_only,
            )
            ((fsync, commits),) = connection.ask(sql.DURABILITY, ())
            database.prepares = connection.prepares
            if blobs_at is not None:
                ((store,),) = connection.ask(database.schema[sql.STORE_ID], ())
                database.blobs = Blobs(blobs_at, store, database.timeout)
        survives = fsync == "on" and commits != "off"
        self._capabilities = Capabilities(durability="full" if survives else "process", shared=True)
        try_to_sweep(database)

    @property
    def location(self) -> str:
        return self.database.location

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def __repr__(self) -> str:
        return f"<PostgresBackend {self.location}>"

    # -- transactions

    def write(self, certain: bool = True) -> WriteScope:
        return WriteScope(self.database, certain)

    def read(self) -> ReadScope:
        return ReadScope(self.database)

    def read_snapshot(self) -> AbstractContextManager[SnapshotReader]:
        """The whole store as it is at one moment, while others write."""
        return snapshot_scope(self.database)

    # -- time

    def clock(self) -> int:
        if self._clock.is_old and not self.database.is_closed:
            try:
                with self.read() as reader:
                    self._clock.measure(reader.connection)
            except (ClewError, psycopg.Error):
                self._clock.postpone()  # a monotonic clock is good for a while longer
        return self._clock.now()

    def pause(self, seconds: float) -> bool:
        if self.database.is_closed:
            return True
        if not self.database.prepares:
            return super().pause(seconds)  # a pooler does not pass notices on
        return self._listener.listen(seconds)

    # -- upkeep

    def scrub(self) -> None:
        """Remove dead rows from the tables. Pages keep traces of them until they are written again, unless
        the tables are rewritten (`?scrub=full`); log files and backups keep them as long as they are
        kept.

        StoreBusyError: tables were to be rewritten, and a transaction that began before this did
        not end: one of the database, or one that writes in another database of the server. A rewrite keeps
        the rows that it may still look at, whatever tables it uses."""
        is_full = self._scrub == "full"
        vacuum = sql.VACUUM_FULL if is_full else sql.VACUUM
        sweep(self.database)
        with self.read() as reader, reader.connection.with_timeout(SCRUB_TIMEOUT):
            if is_full:
                _wait_for_older_transactions(reader.connection)
            for table in TABLES:
                reader.connection.run([(self.database.schema[vacuum + table], ())])

    def bytes_on_disk(self) -> int:
        with self.read() as reader:
            ((size,),) = reader.connection.ask(sql.STORE_SIZE, (self.database.schema.quoted,))
            ((outside,),) = reader.ask(sql.SIZE_OUTSIDE)
            return int(size + outside)

    # -- forks, and the end

    def before_fork(self) -> None:
        """No thread may be waiting for an answer of the server when the process forks."""
        database = self.database
        deadline = time.monotonic() + database.timeout
        if database.lock.acquire(timeout=database.timeout):
            self._held.append(database.lock)
        database.pool.pause(max(deadline - time.monotonic(), 0))

    def after_fork(self, *, is_child: bool) -> None:
        """In the child: leave the parent's connections to the parent, and connect again when needed."""
        database = self.database
        if is_child:
            self._listener.abandon()
            self._listener = Listener(database.connect, database.schema)
            self._held = []
            database.abandon()
        else:
            database.pool.resume()
            while self._held:
                self._held.pop().release()

    def close(self) -> None:
        with self.database.lock:
            if not self.database.is_closed:
                self.database.is_closed = True
                self._listener.close()
                self.database.close()


class ServerClock:
    """The server's clock, read without asking the server each time: its distance from the monotonic clock of
    this machine, exact to half a round trip."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._distance = 0.0
        self._measured: float | None = None
        self._last = 0

    @property
    def is_old(self) -> bool:
        return self._measured is None or time.monotonic() - self._measured > CLOCK_REFRESH

    def measure(self, connection: ServerConnection) -> None:
        before = time.monotonic()
        ((server,),) = connection.ask(sql.NOW, ())
        after = time.monotonic()
        with self._lock:
            self._distance = server - (before + after) / 2 * 1e6
            self._measured = after

    def postpone(self) -> None:
        """The server is busy or away: do not ask again with every look at the clock."""
        with self._lock:
            self._measured = time.monotonic()

    def now(self) -> int:
        """Microseconds since 1970; never goes back."""
        with self._lock:
            self._last = max(self._last, int(time.monotonic() * 1e6 + self._distance))
            return self._last


def _wait_for_older_transactions(connection: ServerConnection) -> None:
    ((horizon,),) = connection.ask(sql.HORIZON, ())
    until = time.monotonic() + OLDER_TRANSACTIONS
    while older := connection.ask(sql.OLDER_TRANSACTIONS, (horizon,)):
        if time.monotonic() > until:
            names = ", ".join(f"{pid} {name!r}" if name else str(pid) for pid, name in older[:5])
            raise StoreBusyError(
                "what was purged is removed, but its bytes are kept for transactions that began before"
                f": server processes {names}. Wait for them or end them, and purge again"
            )
        time.sleep(0.01)


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)
