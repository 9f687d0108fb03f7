"""The connections of an open store: a pool that readers borrow from, and one connection that writes.

Not psycopg_pool: that connects in threads of its own, so a server that is down shows itself as a time-out
without a reason, and a fork leaves threads behind. Here the caller connects, and hears why it failed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from clew.backends.postgres.address import Address
from clew.backends.postgres.blobs import Blobs
from clew.backends.postgres.connection import ServerConnection, censored, connect, translate
from clew.backends.postgres.notify import Notifier
from clew.backends.postgres.rows import Ids
from clew.backends.postgres.sql import Schema
from clew.backends.postgres.write_buffer import RowCache
from clew.errors import (
    BackendUnavailableError,
    ClewError,
    InvalidUrlError,
    StoreBusyError,
    StoreClosedError,
)


class Pool:
    """At most `size` connections at a time; the one given back last is used first."""

    def __init__(
        self, connect: Callable[[], ServerConnection], size: int, timeout: float, location: str
    ) -> None:
        self._connect = connect
        self._size = size
        self._timeout = timeout
        self._location = location
        self._changed = threading.Condition()
        self._idle: list[ServerConnection] = []
        self._borrowed: set[ServerConnection] = set()
        self._connecting = 0
        self._paused = False
        self._closed = False

    @property
    def in_use(self) -> int:
        return len(self._borrowed) + self._connecting

    def take(self) -> ServerConnection:
        with self._changed:
            if not self._changed.wait_for(self._has_room, self._timeout):
                raise StoreBusyError(
                    f"all {self._size} connections to {self._location} were in use for {self._timeout:g} s;"
                    " give the store a larger pool, as in ?pool=32"
                )
            while self._idle:
                connection = self._idle.pop()
                if connection.is_alive():
                    self._borrowed.add(connection)
                    return connection
                connection.close()
            self._connecting += 1
        try:
            connection = self._connect()
            with self._changed:
                self._borrowed.add(connection)
            return connection
        finally:
            with self._changed:
                self._connecting -= 1
                self._changed.notify()

    def _has_room(self) -> bool:
        return not self._paused and self.in_use < self._size

    def give(self, connection: ServerConnection) -> None:
        with self._changed:
            self._borrowed.discard(connection)
            if connection.is_idle and not self._closed:
                self._idle.append(connection)
            else:
                connection.close()
            self._changed.notify()

    @contextmanager
    def borrow(self) -> Iterator[ServerConnection]:
        connection = self.take()
        try:
            yield connection
        finally:
            self.give(connection)

    def pause(self, timeout: float) -> bool:
        """Let no caller in, and wait until all are out; whether they are."""
        deadline = time.monotonic() + timeout
        with self._changed:
            self._paused = True
        while self.in_use and time.monotonic() < deadline:
            time.sleep(0.0005)
        return not self.in_use

    def resume(self) -> None:
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    def abandon(self) -> None:
        """In a forked child."""
        for connection in (*self._idle, *self._borrowed):
            connection.abandon()
        self._idle.clear()
        self._borrowed.clear()

    def close(self) -> None:
        """For ever: connections given back from now on are closed too."""
        self._closed = True
        self.drop_idle()

    def drop_idle(self) -> None:
        with self._changed:
            connections, self._idle = self._idle, []
        for connection in connections:
            try:
                connection.close()
            except psycopg.Error:
                pass


class Database:
    """One open store, as its transactions see it: connections, schema, and what this process remembers."""

    def __init__(
        self,
        address: Address,
        schema: Schema,
        *,
        timeout: float,
        pool_size: int,
        prepares: bool,
        is_sharded: bool,
        read_only: bool,
    ) -> None:
        self.address = address
        self.schema = schema
        self.timeout = timeout
        self._pool_size = pool_size
        self.prepares = prepares
        """Statements may be prepared: no pooler gives the server's sessions to others in between."""
        self.is_sharded = is_sharded
        """Each statement of an append is about one tree, as Citus wants it."""
        self.read_only = read_only
        self.is_closed = False
        self.blobs: Blobs | None = None
        """Where large packs are, if not in the database."""
        self.reset()

    def reset(self) -> None:
        """Start without connections and memories: at the beginning, and in a forked child."""
        self.lock = threading.RLock()
        """Held by the transaction that uses the connection for writes."""
        self._writer: ServerConnection | None = None
        self.ids = Ids()
        self.cache = RowCache()
        self.pool = Pool(self.connect, self._pool_size, self.timeout, self.location)
        self.notifier = Notifier(self.pool.borrow, self.schema)

    @property
    def location(self) -> str:
        return self.address.shown

    def check_open(self) -> None:
        if self.is_closed:
            raise StoreClosedError(self.location)

    def connect(self) -> ServerConnection:
        error: ClewError
        try:
            return connect(self.address.conninfo, self.timeout, prepares=self.prepares)
        except psycopg.ProgrammingError:
            # The driver repeats what it cannot read, and that may be a password.
            error = InvalidUrlError(f"{self.location} has an option that the driver does not know")
        except psycopg.OperationalError as exc:
            error = _unreachable(exc, self.address)
            exc._pgconn = None  # it knows the password, and a debugger or an error report would show it
            if censored(exc, self.address) == str(exc).strip():
                raise error from exc
        raise error  # here, where nothing is its context

    def writer(self) -> ServerConnection:
        """The connection for writes. Readers never share it, so that many of them do not delay a lease."""
        if self._writer is None or not self._writer.is_alive():
            self.close_writer()
            self._writer = self.connect()
        return self._writer

    def close_writer(self) -> None:
        connection, self._writer = self._writer, None
        if connection is not None:
            connection.close()

    def roll_back(self) -> None:
        """End the transaction on the connection for writes, if there is one."""
        connection = self._writer
        if connection is not None and not connection.closed and not connection.is_idle:
            connection.roll_back()
            if not connection.is_idle:
                connection.close()

    def stop_preparing(self) -> None:
        """There is a pooler on the way that does not support prepared statements."""
        self.prepares = False
        self.pool.drop_idle()

    def abandon(self) -> None:
        """In a forked child: leave the parent's connections to the parent."""
        self.pool.abandon()
        if self._writer is not None:
            self._writer.abandon()
        self.reset()

    def close(self) -> None:
        self.is_closed = True
        self.notifier.stop()
        self.pool.close()
        self.close_writer()


def _unreachable(exc: psycopg.OperationalError, address: Address) -> ClewError:
    """StoreBusyError if the server has no connection left; else the server cannot be reached."""
    error = translate(exc, address)
    if isinstance(error, StoreBusyError) or "too many" in str(exc) or "remaining connection" in str(exc):
        return StoreBusyError(f"the server has no connection left: {error}")
    return error if isinstance(error, BackendUnavailableError) else BackendUnavailableError(str(error))
