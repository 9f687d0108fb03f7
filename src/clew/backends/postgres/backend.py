"""The clock of the server, read here without asking it each time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal

import psycopg

from clew.backends.contract import Capabilities
from clew.backends.postgres.address import Address, parse_address
from clew.backends.postgres.blobs import Blobs, check_blobs, sweep_strays
from clew.backends.postgres.connection import ServerConnection, censored, connect, translate
from clew.backends.postgres.ids import Ids
from clew.backends.postgres.notify import Listener, Notifier
from clew.backends.postgres.pool import Pool
from clew.backends.postgres.row_cache import RowCache
from clew.backends.postgres.schema.migrate import MIGRATIONS, TABLES, ensure_schema
from clew.backends.postgres.scopes import ReadScope, SnapshotReader, WriteScope, reraise_read, standing_still
from clew.backends.postgres.sql import SIZE_OUTSIDE, Schema
from clew.errors import (
    BackendUnavailableError,
    ClewError,
    InvalidUrlError,
    SchemaTooNewError,
    StoreBusyError,
    StoreClosedError,
)

ASK: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
REFRESH_AFTER: Final = 30.0


class ServerClock:
    """The distance of the server's clock from the monotonic one, to half of a round trip."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._distance = 0.0
        self._measured: float | None = None
        self._last = 0

    @property
    def is_old(self) -> bool:
        return self._measured is None or time.monotonic() - self._measured > REFRESH_AFTER

    def measure(self, line: ServerConnection) -> None:
        before = time.monotonic()
        ((server,),) = line.ask(ASK, ())
        after = time.monotonic()
        with self._lock:
            self._distance = server - (before + after) / 2 * 1e6
            self._measured = after

    def postpone(self) -> None:
        """The server has no time for this just now: do not ask again with every look at the clock."""
        with self._lock:
            self._measured = time.monotonic()

    def now(self) -> int:
        """Microseconds since 1970; never goes back."""
        with self._lock:
            self._last = max(self._last, int(time.monotonic() * 1e6 + self._distance))
            return self._last


# ── The PostgreSQL backend: one connection that writes, a pool of those that read ─────────────────

POOL: Final = 16
SCRUBBING: Final = 24 * 3600.0
SCHEMA: Final = "clew"
_SETTINGS: Final = "SELECT current_setting('fsync'), current_setting('synchronous_commit')"
_VERSION: Final = "SELECT version FROM {s}.meta"
_STORE: Final = "SELECT store FROM {s}.meta"
_SIZE: Final = (
    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class"
    " WHERE relnamespace = to_regnamespace($1)::oid AND relkind IN ('r', 'm')"
)


class PostgresBackend:
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
        self._address = parse_address(url)
        found = self._address.options
        self._timeout: float = _first(timeout, found.get("timeout"), 10.0)
        self._size: int = _first(pool, found.get("pool"), POOL)
        self._partitions: int = _first(partitions, found.get("partitions"), 0)
        self._pooler: bool = _first(pgbouncer, found.get("pgbouncer"), False)
        self.prepares = not self._pooler
        """Statements may be prepared: no pooler gives the server's sessions to others in between."""
        self._scrub: str = _first(scrub, found.get("scrub"), "vacuum")
        self._read_only: bool = _first(read_only, found.get("read_only"), False)
        self.is_sharded: bool = _first(sharded, found.get("sharded"), False)
        """Each statement of an append is about one tree, as Citus wants it."""
        self._blobs_at: str | None = blobs or found.get("blobs")
        self.blobs: Blobs | None = None
        """Where large packs lie, if not in the database."""
        self.schema = Schema(_first(schema, found.get("schema"), SCHEMA), is_sharded=self.is_sharded)
        if self._scrub not in ("vacuum", "full"):
            raise InvalidUrlError(f"scrub is 'vacuum' or 'full', not {self._scrub!r}")
        if self._timeout <= 0 or self._size < 1:
            raise InvalidUrlError("timeout and pool are above 0")
        if self._blobs_at is not None:
            check_blobs(self._blobs_at)
        self._closed = False
        self._forget()
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _forget(self) -> None:
        """Be as before opening."""
        self._lock = threading.RLock()
        self._held: list[threading.RLock] = []
        self._writer: ServerConnection | None = None
        self.numbers = Ids()
        self.memory = RowCache()
        self._clock = ServerClock()
        self.pool = Pool(self._connect, self._size, self._timeout, self.location)
        self.bell = Notifier(self.pool, self.schema)
        self._ear = Listener(self._connect, self.schema)

    def _open(self) -> None:
        with self.read() as reader:
            line = reader.line
            self._clock.measure(line)
            ensure_schema(
                line, self.schema, self.location, partitions=self._partitions, read_only=self._read_only
            )
            ((fsync, commits),) = line.ask(_SETTINGS, ())
            self.prepares = line.prepares
            if self._blobs_at is not None:
                ((store,),) = line.ask(self.schema[_STORE], ())
                self.blobs = Blobs(self._blobs_at, store, self._timeout)
        survives = fsync == "on" and commits != "off"
        self.capabilities = Capabilities(durability="full" if survives else "process", shared=True)
        self.try_to_sweep()

    def refuse_newer(self) -> None:
        """SchemaTooNewError if a newer Clew has migrated the tables since this process has opened them."""
        with self.read() as reader:
            ((version,),) = reader.ask(_VERSION)
        if version > len(MIGRATIONS):
            raise SchemaTooNewError(self.location, version, len(MIGRATIONS))

    @property
    def location(self) -> str:
        return self._address.shown

    def __repr__(self) -> str:
        return f"<PostgresBackend {self.location}>"

    # -- connections

    def _connect(self) -> ServerConnection:
        error: ClewError
        try:
            return connect(self._address.conninfo, self._timeout, prepares=self.prepares)
        except psycopg.ProgrammingError:
            # The driver repeats what it can not read, and that may be a password.
            error = InvalidUrlError(f"{self.location} has an option that the driver does not know")
        except psycopg.OperationalError as exc:
            error = _unreachable(exc, self._address)
            exc._pgconn = None  # it knows the password, and shows it to whoever looks
            if censored(exc, self._address) == str(exc).strip():
                raise error from exc
        raise error  # here, where nothing is its context

    def writing_line(self) -> ServerConnection:
        """The connection for writes: never shared with readers, so that no crowd of them holds up a lease."""
        if self._writer is None or not self._writer.is_alive():
            self.close_writer()
            self._writer = self._connect()
        return self._writer

    def close_writer(self) -> None:
        line, self._writer = self._writer, None
        if line is not None:
            line.close()

    def stop_preparing(self) -> None:
        """There is a pooler on the way that does not know prepared statements."""
        self.prepares = False
        self.pool.drop_idle()

    def check_open(self) -> None:
        if self._closed:
            raise StoreClosedError(self.location)

    # -- the contract

    def write(self, certain: bool = True) -> WriteScope:
        return WriteScope(self, certain)

    def read(self) -> ReadScope:
        return ReadScope(self)

    @contextmanager
    def read_still(self) -> Iterator[SnapshotReader]:
        """All of it as it is at one moment."""
        self.check_open()
        try:
            with standing_still(self.pool, self.schema, self.blobs) as reader:
                yield reader
        except Exception as exc:
            reraise_read(exc, self)
            raise

    def clock(self) -> int:
        if self._clock.is_old and not self._closed:
            try:
                with self.read() as reader:
                    self._clock.measure(reader.line)
            except (ClewError, psycopg.Error):
                self._clock.postpone()  # a monotonic clock is good for a while longer
        return self._clock.now()

    def pause(self, seconds: float) -> None:
        if self.prepares and not self._closed:
            self._ear.listen(seconds)
        else:
            time.sleep(seconds)  # a pooler does not pass on what others say

    def scrub(self) -> None:
        """Remove what is dead from the tables. Pages keep traces of it until they are written again, unless
        the tables are rewritten (`?scrub=full`); log files and backups keep it as long as they are kept."""
        how = "VACUUM (FULL)" if self._scrub == "full" else "VACUUM"
        self.sweep()
        with self.read() as reader, reader.line.taking_its_time(SCRUBBING):
            for table in TABLES:
                reader.line.run([(self.schema[f"{how} {{s}}.{table}"], ())])

    def bytes_on_disk(self) -> int:
        with self.read() as reader:
            ((size,),) = reader.line.ask(_SIZE, (self.schema.quoted,))
            ((outside,),) = reader.ask(SIZE_OUTSIDE)
            return int(size + outside)

    def sweep(self) -> None:
        """Remove the objects that no pack names any more."""
        if self.blobs is not None and not self._read_only:
            with self.read() as reader:
                sweep_strays(reader.line, self.schema, self.blobs)

    def try_to_sweep(self) -> None:
        """What can not be removed now is noted, and removed another time."""
        with suppress(ClewError):
            self.sweep()

    def before_fork(self) -> None:
        """No thread may be in the middle of a conversation with the server when the process forks."""
        deadline = time.monotonic() + self._timeout
        if self._lock.acquire(timeout=self._timeout):
            self._held.append(self._lock)
        self.pool.pause(max(deadline - time.monotonic(), 0))

    def after_fork(self, *, is_child: bool) -> None:
        """In the child: leave the parent's connections to the parent, and connect anew."""
        if is_child:
            self.pool.abandon()
            if self._writer is not None:
                self._writer.abandon()
            self._ear.abandon()
            clock = self._clock
            self._forget()
            self._clock = clock
        else:
            self.pool.resume()
            while self._held:
                self._held.pop().release()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self.bell.stop()
            self._ear.close()
            self.pool.close()
            self.close_writer()


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)


def _unreachable(exc: psycopg.OperationalError, address: Address) -> ClewError:
    """A server that has no connection left is busy; else it can not be reached."""
    error = translate(exc, address)
    if isinstance(error, StoreBusyError) or "too many" in str(exc) or "remaining connection" in str(exc):
        return StoreBusyError(f"no connection left: {error}")
    return error if isinstance(error, BackendUnavailableError) else BackendUnavailableError(str(error))
