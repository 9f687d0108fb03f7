"""The SQLite backend: one writing connection, a few reading ones."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import apsw

from clew.backends.contract import Capabilities
from clew.backends.sqlite.connection import (
    Level,
    create_private,
    open_read_only,
    open_reader,
    open_writer,
    patiently,
)
from clew.backends.sqlite.failures import translate, translating
from clew.backends.sqlite.reader import SqliteReader
from clew.backends.sqlite.writer import SqliteTransaction
from clew.core.rows import BranchRow
from clew.errors import InvalidUrlError, ReadOnlyError, StoreClosedError, StoreNotFoundError

READERS_KEPT: Final = 8


class SqliteBackend:
    """A store in one SQLite file (with its -wal and -shm beside it while it is open)."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Level = "full",
        timeout: float = 10.0,
        read_only: bool = False,
    ) -> None:
        if durability not in ("full", "process"):
            raise InvalidUrlError(f"durability is 'full' or 'process', not {durability!r}")
        self.path = Path(os.path.abspath(path))
        self.capabilities = Capabilities(durability=durability, shared=True)
        self._level = durability
        self._timeout = timeout
        self._read_only = read_only
        self._forget()
        with self._lock:
            self._open()

    def _forget(self) -> None:
        """Be as before opening."""
        self._lock = threading.Lock()
        self._opened = False
        self._closed = False
        self._branches: dict[int, BranchRow] = {}
        self._writer: apsw.Connection | None = None
        self._readers: list[apsw.Connection] = []
        self._reads_from = self.path

    def _open(self) -> None:
        with translating(self.location):
            if not self._read_only:
                self._open_for_writing()
            if self._read_only:
                if not self.path.exists():
                    raise StoreNotFoundError(self.location)
                connection, self._reads_from = open_read_only(self.path, self._timeout)
                self._readers.append(connection)
        self._opened = True

    def _open_for_writing(self) -> None:
        """Fall back to reading if the file is there and nothing can be written."""
        try:
            create_private(self.path)
            self._writer = open_writer(self.path, self._level, self._timeout)
        except (apsw.ReadOnlyError, apsw.CantOpenError, OSError) as exc:
            unwritable = isinstance(exc, apsw.Error) or exc.errno in (errno.EPERM, errno.EACCES, errno.EROFS)
            if not (unwritable and self.path.is_file()):
                raise
            self._read_only = True

    @property
    def location(self) -> str:
        return str(self.path)

    def write(self) -> _Write:
        return _Write(self)

    def read(self) -> _Read:
        return _Read(self)

    def _take_reader(self) -> apsw.Connection:
        if self._closed:
            raise StoreClosedError(self.location)
        try:
            return self._readers.pop()
        except IndexError:
            with translating(self.location):
                return open_reader(self._reads_from, self._timeout)

    def _give_reader(self, connection: apsw.Connection) -> None:
        if self._closed or len(self._readers) >= READERS_KEPT:
            connection.close()
        else:
            self._readers.append(connection)

    def _need_writer(self) -> apsw.Connection:
        if self._closed:
            raise StoreClosedError(self.location)
        if not self._opened:
            self._open()
        if self._writer is None:
            raise ReadOnlyError(f"the store {self.location} is open for reading only")
        return self._writer

    def scrub(self) -> None:
        """Rewrite the file without free space, and empty the log.

        `secure_delete` overwrites what is deleted, but not the copies that a split b-tree page
        leaves in its unused middle: only a rebuild is sure to have none.
        """
        left = "what was purged is gone, but traces of it may be left in the file; purge again"
        with self._lock, translating(self.location):
            writer = self._need_writer()
            writer.execute("PRAGMA temp_store = FILE")  # a copy of the whole store is no thing for the memory
            try:
                patiently(lambda: writer.execute("VACUUM"), self.location, self._timeout, otherwise=left)
            finally:
                writer.execute("PRAGMA temp_store = MEMORY")
            patiently(lambda: _empty_log(writer), self.location, self._timeout, otherwise=left)

    def bytes_on_disk(self) -> int:
        files = (self.path, *(self.path.with_name(self.path.name + end) for end in ("-wal", "-shm")))
        return sum(file.stat().st_size for file in files if file.exists())

    def after_fork(self) -> None:
        """Never close what the parent holds: closing would drop its locks and fold its log.

        The connections are kept alive for the life of this process, out of the garbage
        collector's reach, and new ones are opened when they are needed.
        """
        import ctypes

        for connection in (self._writer, *self._readers):
            if connection is not None:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        was_closed = self._closed
        self._forget()
        self._closed = was_closed

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for connection in (*self._readers, self._writer):
                if connection is not None:
                    connection.close()
            if self._reads_from != self.path:
                import shutil

                shutil.rmtree(self._reads_from.parent, ignore_errors=True)


def _empty_log(connection: apsw.Connection) -> None:
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").get
    if busy:
        raise apsw.BusyError("a reader still uses the log")


class _Write:
    """`with backend.write() as tx`: a class, not a generator, because every append passes here."""

    __slots__ = ("_backend", "_connection")

    def __init__(self, backend: SqliteBackend) -> None:
        self._backend = backend
        self._connection: Any = None

    def __enter__(self) -> SqliteTransaction:
        backend = self._backend
        backend._lock.acquire()
        try:
            self._connection = backend._need_writer()
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except apsw.BusyError:
                patiently(
                    lambda: self._connection.execute("BEGIN IMMEDIATE"), backend.location, backend._timeout
                )
            return SqliteTransaction(self._connection, backend._branches)
        except BaseException as exc:
            self._abandon()
            if isinstance(exc, apsw.Error):
                raise translate(exc, backend.location) from exc
            raise

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        backend = self._backend
        try:
            if exc is None:
                try:
                    self._connection.execute("COMMIT")
                except BaseException:
                    self._rollback()
                    raise
            else:
                self._rollback()
        except apsw.Error as error:
            raise translate(error, backend.location) from error
        finally:
            backend._lock.release()
        if isinstance(exc, apsw.Error):
            raise translate(exc, backend.location) from exc

    def _abandon(self) -> None:
        """It did not begin, or Ctrl-C came before anybody had it."""
        try:
            if self._connection is not None:
                self._rollback()
        finally:
            self._backend._lock.release()

    def _rollback(self) -> None:
        self._backend._branches.clear()
        if self._connection.in_transaction:  # SQLite ends it by itself on a full disk
            self._connection.execute("ROLLBACK")


class _Read:
    """`with backend.read() as reader`: borrows a connection."""

    __slots__ = ("_backend", "_connection")

    def __init__(self, backend: SqliteBackend) -> None:
        self._backend = backend

    def __enter__(self) -> SqliteReader:
        self._connection = self._backend._take_reader()
        return SqliteReader(self._connection, self._backend._branches)

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._backend._give_reader(self._connection)
        if isinstance(exc, apsw.Error):
            raise translate(exc, self._backend.location) from exc
