"""The connections to one database file: one that writes, a few that read, from any number of threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw

from clew.backends.sqlite import sql
from clew.backends.sqlite.connection import open_reader, patiently, translating
from clew.core.log.rows import BranchRow
from clew.errors import BackendUnavailableError, ReadOnlyError, StoreClosedError

READERS_KEPT: Final = 8
TRACES_LEFT: Final = "what was purged is gone, but traces of it may be left in the file; purge again"


class Connections:
    """Threads take turns with the writing connection, by `lock`, and borrow reading ones.

    `opening` opens what is needed: it sets `writer`, or lends the first reader. It is called by `need_open`,
    with the lock held, and again in a forked child.
    """

    def __init__(self, path: Path, location: str, timeout: float, opening: Callable[[], None]) -> None:
        self.path = path
        self.location = location
        """Of the store, for messages."""
        self.timeout = timeout
        self.why_read_only = "it is open for reading only"
        self._opening = opening
        self._held: list[threading.RLock | threading.Lock] = []
        self._is_broken = False
        self.forget()

    def forget(self) -> None:
        """Be as before opening."""
        self.lock = threading.RLock()
        self.writer: apsw.Connection | None = None
        self.branches: dict[int, BranchRow] = {}
        """Shared by all readers: where a branch starts never changes."""
        self.is_open = False
        self.is_closed = False
        self.reads_from = self.path
        self.is_immutable = False
        self._gate = threading.Lock()
        self._borrowed: set[apsw.Connection] = set()
        self._readers: list[apsw.Connection] = []
        self._outdated: set[apsw.Connection] = set()
        """Borrowed ones that are not to be lent again."""

    # -- opening

    def need_open(self) -> None:
        """In a forked child: open again what the parent had open."""
        if self._is_broken:
            raise BackendUnavailableError(
                f"this process was forked while another thread used {self.location}; start it by exec instead"
            )
        if not self.is_open:
            self._opening()
            self.is_open = True

    def need_writer(self) -> apsw.Connection:
        if self.is_closed:
            raise StoreClosedError(self.location)
        self.need_open()
        if self.writer is None:
            raise ReadOnlyError(f"nothing can be written to {self.location}: {self.why_read_only}")
        return self.writer

    def read_from(self, connection: apsw.Connection, path: Path, *, immutable: bool = False) -> None:
        """Readers open this file, which may be a copy; the first is open already."""
        self.reads_from, self.is_immutable = path, immutable
        self._readers.append(connection)

    def use(self, writer: apsw.Connection) -> None:
        """Use this writing connection from now on, and reading ones to the same file. A thread that reads by
        another one finishes with it."""
        with self._gate:
            old, self.writer = self.writer, writer
            self._outdated.update(self._borrowed)
            self._close_readers()
            self.branches.clear()
        if old is not None:
            old.close(True)

    # -- readers

    def take_reader(self) -> apsw.Connection:
        if self.is_closed:
            raise StoreClosedError(self.location)
        if not self.is_open:
            with self.lock:
                self.need_open()
        with self._gate:
            connection = self._idle_reader()
            if connection is None:
                with translating(self.location):
                    connection = open_reader(self.reads_from, self.timeout, immutable=self.is_immutable)
            self._borrowed.add(connection)
        return connection

    def _idle_reader(self) -> apsw.Connection | None:
        """One that no thread uses; None: there is none. A thread that gave one back just when it became
        outdated may have missed that."""
        while True:
            try:
                connection = self._readers.pop()
            except IndexError:
                return None
            if connection not in self._outdated:
                return connection
            self._outdated.discard(connection)
            connection.close()

    def give_reader(self, connection: apsw.Connection) -> None:
        # Not behind the gate: a thread that is about to fork holds it, and waits for this.
        if connection in self._outdated or len(self._readers) >= READERS_KEPT:
            self._outdated.discard(connection)
            connection.close()
        else:
            self._readers.append(connection)
        self._borrowed.discard(connection)
        if self.is_closed:  # looked at last: a thread that closes meanwhile may have missed this one
            self._close_readers()

    def _close_readers(self) -> None:
        """Close those that no thread uses. Several threads may do so at once."""
        while self._readers:
            with suppress(IndexError):
                self._readers.pop().close()

    # -- the rest

    def rebuild(self) -> None:
        """Rewrite the file without free space, and empty the log. Needs the lock.

        `secure_delete` overwrites what is deleted, but not the copies that a split b-tree page
        leaves in its unused middle: only a rebuild is sure to have none.
        """
        writer = self.need_writer()

        def insist(step: Callable[[], object]) -> None:
            patiently(step, self.location, self.timeout, otherwise=TRACES_LEFT)

        writer.execute(sql.SORT_ON_DISK)  # a copy of the whole store is no thing for the memory
        try:
            insist(lambda: writer.execute(sql.MERGE))
            insist(lambda: writer.execute(sql.REBUILD))
        finally:
            writer.execute(sql.SORT_IN_MEMORY)
        insist(lambda: _empty_log(writer))

    def before_fork(self) -> None:
        """No thread may be inside SQLite when the process forks: the child would inherit its mutexes
        held, and a transaction of which it has no thread to end it."""
        deadline = time.monotonic() + self.timeout
        for lock in (self.lock, self._gate):
            if lock.acquire(timeout=max(deadline - time.monotonic(), 0)):
                self._held.append(lock)
        while self._borrowed and time.monotonic() < deadline:
            time.sleep(0.0005)

    def after_fork(self, *, is_child: bool) -> None:
        """In the child: close what the parent has open, so that no trace of it is left in SQLite.

        SQLite remembers by inode which locks this process holds, but a fork does not inherit them:
        a new connection would share that memory, take no locks, and lose its log to the process that closes
        the file next. So the inherited connections have to go; NULL_IO keeps them from touching the
        file while they do.
        """
        if is_child:
            if len(self._held) < 2 or self._borrowed:
                self._is_broken = True  # some thread was inside: nothing of SQLite can be trusted here
            elif not self.is_closed:
                for connection in (self.writer, *self._readers):
                    if connection is not None:
                        connection.file_control("main", apsw.SQLITE_FCNTL_NULL_IO, 0)
                        connection.close(True)
            was_closed = self.is_closed
            self.forget()
            self.is_closed = was_closed
            self._held.clear()
        while self._held:
            self._held.pop().release()

    def close(self) -> None:
        """Needs the lock. Idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        self._close_readers()
        if self.writer is not None:
            self.writer.close()
        if self.reads_from != self.path:
            import shutil

            shutil.rmtree(self.reads_from.parent, ignore_errors=True)

    def abandon(self) -> None:
        """Close what is open without a last look at the file, which cannot be used."""
        for connection in (*self._readers, self.writer):
            if connection is not None:
                connection.close(True)


def _empty_log(connection: apsw.Connection) -> None:
    busy, _, _ = connection.execute(sql.EMPTY_LOG).get
    if busy:
        raise apsw.BusyError("a reader still uses the log")
