"""The SQLite backend: one writing connection, a few reading ones."""

from __future__ import annotations

import errno
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

import apsw
import msgspec

from clew.backends.contract import Backend, Capabilities
from clew.backends.private_files import resolve
from clew.backends.sqlite.connection import (
    Level,
    create_private,
    open_read_only,
    open_reader,
    open_writer,
    patiently,
    refuse_newer,
    translate,
    translating,
)
from clew.backends.sqlite.reader import SqliteReader
from clew.backends.sqlite.schema import ForeignSchemaError
from clew.backends.sqlite.side_files import BESIDE
from clew.backends.sqlite.sql import MERGE
from clew.backends.sqlite.writer import SqliteTransaction
from clew.core.log.rows import BranchRow
from clew.errors import (
    BackendUnavailableError,
    CorruptError,
    DiskFullError,
    InvalidUrlError,
    OutcomeUnknownError,
    ReadOnlyError,
    StoreClosedError,
    StoreNotFoundError,
)

# ── The SQLite backend: one writing connection, a few reading ones ────────────────────────────────

READERS_KEPT: Final = 8
UNWRITABLE: Final = (ReadOnlyError, BackendUnavailableError, DiskFullError)


class SqliteBackend(Backend):
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
        self.path = self._followed(path)
        self._capabilities = Capabilities(durability=durability, shared=True)
        self._level = durability
        self._timeout = timeout
        self._read_only = read_only
        self._why_read_only = "it is open for reading only"
        self._held: list[threading.RLock | threading.Lock] = []
        self._broken = False
        self._forget()
        with self._lock:
            self._open()

    def _followed(self, path: str | os.PathLike[str]) -> Path:
        """The user may name a link that leads to the file."""
        return resolve(path)

    def _forget(self) -> None:
        """Be as before opening."""
        self._lock = threading.RLock()
        self._gate = threading.Lock()
        self._borrowed: set[apsw.Connection] = set()
        self._opened = False
        self._closed = False
        self._branches: dict[int, BranchRow] = {}
        self._writer: apsw.Connection | None = None
        self._readers: list[apsw.Connection] = []
        self._outdated: set[apsw.Connection] = set()
        """Borrowed ones that are not to be lent again."""
        self._reads_from = self.path
        self._immutable = False

    def _open(self) -> None:
        with translating(self.location):
            if not self._read_only:
                self._open_for_writing()
            if self._read_only:
                if not self.path.exists():
                    raise StoreNotFoundError(self.location)
                connection, self._reads_from, self._immutable = open_read_only(self.path, self._timeout)
                self._readers.append(connection)
        self._opened = True

    def _open_for_writing(self) -> None:
        """Fall back to reading if the file is there and nothing can be written."""
        try:
            self._writer = open_writer(self.path, self._level, self._timeout)
        except ForeignSchemaError as exc:
            self._read_only, self._why_read_only = True, str(exc)
        except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.FullError, apsw.IOError, OSError) as exc:
            if isinstance(exc, apsw.Error):
                unwritable = isinstance(translate(exc, self.location), UNWRITABLE)
            else:
                unwritable = exc.errno in (errno.EPERM, errno.EACCES, errno.EROFS)
            if not (unwritable and self.path.is_file()):
                raise
            self._read_only = True

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def write(self, certain: bool = True) -> _Write:
        return _Write(self)

    def read(self) -> _Read:
        return _Read(self)

    def read_snapshot(self) -> _ReadSnapshot:
        """All of it as it is at one moment, while others go on writing."""
        return _ReadSnapshot(self)

    def _take_reader(self) -> apsw.Connection:
        if self._closed:
            raise StoreClosedError(self.location)
        if not self._opened:
            with self._lock:
                self._need_open()
        with self._gate:
            connection = self._idle_reader()
            if connection is None:
                with translating(self.location):
                    connection = open_reader(self._reads_from, self._timeout, immutable=self._immutable)
            self._borrowed.add(connection)
        return connection

    def _idle_reader(self) -> apsw.Connection | None:
        """One that nobody uses; None: there is none. Whoever gave one back just when it became outdated may
        have missed that."""
        while True:
            try:
                connection = self._readers.pop()
            except IndexError:
                return None
            if connection not in self._outdated:
                return connection
            self._outdated.discard(connection)
            connection.close()

    def _give_reader(self, connection: apsw.Connection) -> None:
        # Not behind the gate: who is about to fork holds it, and waits for this.
        if connection in self._outdated or len(self._readers) >= READERS_KEPT:
            self._outdated.discard(connection)
            connection.close()
        else:
            self._readers.append(connection)
        self._borrowed.discard(connection)
        if self._closed:  # looked at last: whoever closes meanwhile may have missed this one
            self._close_readers()

    def _close_readers(self) -> None:
        """Close those that nobody uses. Several threads may do so at once."""
        while self._readers:
            with suppress(IndexError):
                self._readers.pop().close()

    def _need_writer(self) -> apsw.Connection:
        if self._closed:
            raise StoreClosedError(self.location)
        self._need_open()
        if self._writer is None:
            raise ReadOnlyError(f"nothing can be written to {self.location}: {self._why_read_only}")
        return self._writer

    def _need_open(self) -> None:
        """In a forked child: open anew what the parent had open."""
        if self._broken:
            raise BackendUnavailableError(
                f"this process was forked while another thread used {self.location}; start it by exec instead"
            )
        if not self._opened:
            self._open()

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
                patiently(lambda: writer.execute(MERGE), self.location, self._timeout, otherwise=left)
                patiently(lambda: writer.execute("VACUUM"), self.location, self._timeout, otherwise=left)
            finally:
                writer.execute("PRAGMA temp_store = MEMORY")
            patiently(lambda: _empty_log(writer), self.location, self._timeout, otherwise=left)

    def own_paths(self) -> list[Path]:
        return [self.path.with_name(self.path.name + end) for end in ("", *BESIDE)]

    def before_fork(self) -> None:
        """No thread may be inside SQLite when the process forks: the child would inherit its mutexes
        held, and a transaction of which it has no thread to end it."""
        deadline = time.monotonic() + self._timeout
        for lock in (self._lock, self._gate):
            if lock.acquire(timeout=max(deadline - time.monotonic(), 0)):
                self._held.append(lock)
        while self._borrowed and time.monotonic() < deadline:
            time.sleep(0.0005)

    def after_fork(self, *, is_child: bool) -> None:
        """In the child: close what the parent has open, so that no trace of it is left in SQLite.

        SQLite remembers by inode which locks this process holds, but a fork does not inherit them:
        a new connection would share that memory, take no locks, and lose its log to whoever closes
        the file next. So the inherited connections have to go; NULL_IO keeps them from touching the
        file while they do.
        """
        if is_child:
            if len(self._held) < 2 or self._borrowed:
                self._broken = True  # some thread was inside: nothing of SQLite can be trusted here
            elif not self._closed:
                for connection in (self._writer, *self._readers):
                    if connection is not None:
                        connection.file_control("main", apsw.SQLITE_FCNTL_NULL_IO, 0)
                        connection.close(True)
            was_closed = self._closed
            self._forget()
            self._closed = was_closed
            self._held.clear()
        while self._held:
            self._held.pop().release()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._close_readers()
            if self._writer is not None:
                self._writer.close()
            if self._reads_from != self.path:
                import shutil

                shutil.rmtree(self._reads_from.parent, ignore_errors=True)


def _empty_log(connection: apsw.Connection) -> None:
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").get
    if busy:
        raise apsw.BusyError("a reader still uses the log")


def _reraise(exc: BaseException | None, location: str) -> None:
    """What went wrong inside a transaction or a read, in our words."""
    if isinstance(exc, apsw.Error):
        raise translate(exc, location) from exc
    if isinstance(exc, msgspec.DecodeError | UnicodeDecodeError):
        raise CorruptError(f"a record in {location} is damaged: {exc}") from exc


class _Write:
    """`with backend.write() as tx`: a class, not a generator, because every append passes here."""

    __slots__ = ("_backend",)

    def __init__(self, backend: SqliteBackend) -> None:
        self._backend = backend

    def __enter__(self) -> SqliteTransaction:
        backend = self._backend
        try:
            backend._lock.acquire()
            connection = backend._need_writer()
            try:
                connection.execute("BEGIN IMMEDIATE")
            except apsw.BusyError:
                patiently(lambda: connection.execute("BEGIN IMMEDIATE"), backend.location, backend._timeout)
            refuse_newer(connection, backend.location)
            return SqliteTransaction(connection, backend._branches)
        except BaseException as exc:
            self._leave()
            if isinstance(exc, apsw.Error):
                raise translate(exc, backend.location) from exc
            raise

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        backend = self._backend
        try:
            if exc is None:
                backend._need_writer().execute("COMMIT")
            else:
                backend._branches.clear()
        except apsw.Error as error:
            backend._branches.clear()
            if getattr(error, "extendedresult", 0) in (apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC):
                # The log holds the whole transaction: after a crash the next to open it would find it.
                raise OutcomeUnknownError(f"could not sync {backend.location}: {error}") from error
            raise translate(error, backend.location) from error
        finally:
            self._leave()
        _reraise(exc, backend.location)

    def _leave(self) -> None:
        """Undo what is not committed, and let others in. Looks at what is, not at what was begun:
        a signal handler may have raised anywhere."""
        backend = self._backend
        if backend._lock._is_owned():  # type: ignore[attr-defined]
            if not backend._closed and backend._writer is not None and backend._writer.in_transaction:
                backend._branches.clear()
                backend._writer.execute("ROLLBACK")
            backend._lock.release()


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
        _reraise(exc, self._backend.location)


class _ReadSnapshot(_Read):
    """The first thing that is read decides on the moment."""

    __slots__ = ()

    def __enter__(self) -> SqliteReader:
        reader = super().__enter__()
        try:
            self._connection.execute("BEGIN")
        except BaseException as exc:
            super().__exit__(type(exc), exc, None)
            raise
        return reader

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        super().__exit__(kind, exc, trace)


# ── A copy of the database in another file, while others write ────────────────────────────────────


def write_backup(backend: SqliteBackend, to: Path) -> None:
    """One reading transaction, so it is the database of one moment. The backup interface of SQLite would
    begin anew whenever another process writes, and might never end."""
    with backend.read() as reader, translating(str(to)):
        create_private(to)
        connection = reader.connection
        connection.execute("PRAGMA temp_store = FILE")  # a copy of all is no thing for the memory
        try:
            connection.execute("VACUUM INTO ?", (str(to),))
        finally:
            connection.execute("PRAGMA temp_store = MEMORY")
