"""The connections to one database file: one that writes, a few that read, from any number of threads."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

import apsw

from clew.backends.contract import Backend, Capabilities
from clew.backends.sqlite import sql
from clew.backends.sqlite.connection import (
    BESIDE,
    Level,
    create_private,
    disk_is_full,
    full_disk,
    open_read_only,
    open_reader,
    open_writer,
    patiently,
    refuse_newer,
    reraise,
    translate,
    translating,
)
from clew.backends.sqlite.reader import SqliteReader
from clew.backends.sqlite.schema import ForeignSchemaError
from clew.backends.sqlite.writer import SqliteTransaction
from clew.core.disk import resolve
from clew.core.log.rows import BranchRow
from clew.errors import (
    BackendUnavailableError,
    ClewError,
    DiskFullError,
    InvalidUrlError,
    OutcomeUnknownError,
    ReadOnlyError,
    StoreBusyError,
    StoreClosedError,
    StoreNotFoundError,
)

READERS_KEPT: Final = 8
LOOK_EVERY: Final = 1.0
"""Seconds between two attempts of readers to open a store for writing that was opened on a full disk."""
ASK_EVERY: Final = 0.05
"""Seconds between two questions whether another process has committed."""
TRACES_LEFT: Final = "what was purged is gone, but traces of it may be left in the file; purge again"


class Connections:
    """Threads take turns with the writing connection, by `lock`, and borrow reading ones.

    `opening` opens what is needed: it sets `writer`, or lends the first reader. It is called by `need_open`,
    with the lock held, and again in a forked child. `reopening` is called with the lock held while `full`
    says that the disk had no room to open the store for writing: it opens the writer, or raises.
    """

    def __init__(
        self,
        path: Path,
        location: str,
        timeout: float,
        opening: Callable[[], None],
        reopening: Callable[[], None],
    ) -> None:
        self.path = path
        self.location = location
        """Of the store, for messages."""
        self.timeout = timeout
        self.why_read_only = "it is open for reading only"
        self._opening = opening
        self._reopening = reopening
        self._held: list[threading.RLock | threading.Lock] = []
        self._is_broken = False
        self.forget()

    def forget(self) -> None:
        """Be as before opening."""
        self.lock = threading.RLock()
        self.writer: apsw.Connection | None = None
        self.branches: dict[int, BranchRow] = {}
        """Shared by all readers: where a branch starts never changes."""
        self.full: DiskFullError | None = None
        """What the disk had no room for: there is no writer because of it, or the last write failed."""
        self._looked = 0.0
        self.is_open = False
        self.is_closed = False
        self.reads_from = self.path
        self.is_immutable = False
        self._gate = threading.Lock()
        self._borrowed: set[apsw.Connection] = set()
        self._readers: list[apsw.Connection] = []
        self._outdated: set[apsw.Connection] = set()
        """Borrowed ones that are not to be lent again."""
        self._asking: apsw.Connection | None = None
        """Asks whether others have committed; opened with the first question."""
        self._answer: tuple[apsw.Connection, int] | None = None
        """The last one that `pause` has told of."""
        self._committed = threading.Condition()
        self._pauses = 0

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
        if self.writer is None and self.full is not None:
            self._reopen()
        if self.writer is None:
            raise ReadOnlyError(f"nothing can be written to {self.location}: {self.why_read_only}")
        return self.writer

    def _reopen(self) -> None:
        """DiskFullError: there is still no room."""
        self._looked = time.monotonic()
        self._reopening()
        self.full = None

    def noted(self, error: ClewError) -> ClewError:
        """An error of a write, to be raised. A full disk is remembered, for those who ask for room."""
        if isinstance(error, DiskFullError):
            self.full = error
        return error

    def waits_for_room(self) -> DiskFullError | None:
        """Why nothing can be written for now; looks at the disk again."""
        if self.full is None or self.is_closed:
            return None
        with self.lock:
            try:
                self.need_writer()
            except (DiskFullError, StoreBusyError) as exc:
                return exc if isinstance(exc, DiskFullError) else self.full
            except ClewError:
                return None  # it is not the room that is missing
            if not disk_is_full(str(self.path)):
                self.full = None
            return self.full

    def _look_for_room(self) -> None:
        """Before a read: what was opened on a full disk may not show what others write."""
        if time.monotonic() - self._looked >= LOOK_EVERY and self.lock.acquire(blocking=False):
            try:
                if self.writer is None and self.full is not None and not self.is_closed:
                    self._reopen()
            except ClewError:
                pass  # it is read as before
            finally:
                self.lock.release()

    def read_from(self, connection: apsw.Connection, path: Path, *, immutable: bool = False) -> None:
        """Readers open this file, which may be a copy; the first is open already."""
        self.reads_from, self.is_immutable = path, immutable
        self._readers.append(connection)

    def use(self, writer: apsw.Connection) -> None:
        """Use this writing connection from now on, and reading ones to the same file. A thread that reads by
        another one finishes with it."""
        with self._gate:
            old, self.writer = self.writer, writer
            aside, self.reads_from, self.is_immutable = self.reads_from, self.path, False
            self._outdated.update(self._borrowed)
            self._close_readers()
            self._stop_asking()
            self.branches.clear()
        if old is not None:
            old.close(True)
        if aside != self.path:
            _remove_copy(aside)

    # -- readers

    def take_reader(self) -> apsw.Connection:
        if self.is_closed:
            raise StoreClosedError(self.location)
        if not self.is_open:
            with self.lock:
                self.need_open()
        if self.full is not None and self.writer is None:
            self._look_for_room()
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

    # -- waiting for others

    def pause(self, seconds: float) -> bool:
        """Wait until something was committed by another connection, of whatever process; False: nothing was,
        in all this time. Never a look at a table."""
        deadline = time.monotonic() + seconds
        if not self.is_open and not self.is_closed:
            with self.lock:  # not inside of `_committed`: who closes takes them in this order
                self.need_open()
        with self._committed:
            self._pauses += 1
            try:
                while not self.is_closed:
                    answer = self._ask()
                    if answer != self._answer:
                        self._answer = answer
                        return True
                    left = deadline - time.monotonic()
                    if left <= 0:
                        return False
                    self._committed.wait(min(left, ASK_EVERY))
            finally:
                self._pauses -= 1
        return True

    def _ask(self) -> tuple[apsw.Connection, int] | None:
        """Another answer than before: others have committed. Answers of two connections are never equal."""
        with self._gate, translating(self.location):
            if self.is_closed:
                return None
            if self._asking is None:
                self._asking = open_reader(self.reads_from, 0, immutable=self.is_immutable)
            try:
                return self._asking, self._asking.execute(sql.DATA_VERSION).get
            except apsw.BusyError:
                return self._answer  # a writer recovers the log just now

    def tell(self) -> None:
        """Something was committed by this process: no thread has to wait until it asks again."""
        if self._pauses:
            with self._committed:
                self._committed.notify_all()

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
                for connection in (self.writer, self._asking, *self._readers):
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
        with self._gate:
            self._stop_asking()
        self.tell()
        if self.writer is not None:
            self.writer.close()
        if self.reads_from != self.path:
            _remove_copy(self.reads_from)

    def _stop_asking(self) -> None:
        """Needs the gate."""
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.close()

    def abandon(self) -> None:
        """Close what is open without a last look at the file, which cannot be used."""
        for connection in (*self._readers, self._asking, self.writer):
            if connection is not None:
                connection.close(True)


def _remove_copy(path: Path) -> None:
    from clew.core.work_folder import remove_work_folder

    remove_work_folder(path.parent)


def _empty_log(connection: apsw.Connection) -> None:
    busy, _, _ = connection.execute(sql.EMPTY_LOG).get
    if busy:
        raise apsw.BusyError("a reader still uses the log")


# ── The SQLite backend: a store in one file ───────────────────────────────────────────────────────

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
        check_level(durability)
        self.path = resolve(path)  # the user may name a link that leads to the file
        self._capabilities = Capabilities(durability=durability, shared=True)
        self._level: Level = durability
        self._read_only = read_only
        self._connections = Connections(self.path, str(self.path), timeout, self._open, self._reopen)
        with self._connections.lock:
            self._connections.need_open()

    # -- opening

    def _open(self) -> None:
        connections = self._connections
        with translating(self.location):
            if not self._read_only:
                self._open_for_writing()
            if connections.writer is None:
                if not self.path.exists():
                    raise StoreNotFoundError(self.location)
                connection, path, immutable = open_read_only(self.path, connections.timeout)
                connections.read_from(connection, path, immutable=immutable)

    def _open_for_writing(self) -> None:
        """Fall back to reading if the file was there and nothing can be written."""
        connections, was_there = self._connections, self.path.is_file()
        try:
            connections.writer = open_writer(self.path, self._level, connections.timeout)
        except ForeignSchemaError as exc:
            self._read_only, connections.why_read_only = True, str(exc)
        except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.FullError, apsw.IOError, OSError) as exc:
            if isinstance(exc, apsw.Error):
                error: ClewError | None = translate(exc, self.location)
                unwritable = isinstance(error, UNWRITABLE)
            else:
                error = full_disk(exc, self.location)
                unwritable = error is not None or exc.errno in (errno.EPERM, errno.EACCES, errno.EROFS)
            if not (unwritable and was_there):
                raise
            if isinstance(error, DiskFullError):  # it passes
                connections.full = error
            else:
                self._read_only = True

    def _reopen(self) -> None:
        connections = self._connections
        with translating(self.location):
            connections.use(open_writer(self.path, self._level, connections.timeout))

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    # -- reading and writing

    def write(self, certain: bool = True) -> _Write:
        return _Write(self._connections)

    def read(self) -> _Read:
        return _Read(self._connections)

    def read_snapshot(self) -> _ReadSnapshot:
        return _ReadSnapshot(self._connections)

    # -- the rest

    def pause(self, seconds: float) -> bool:
        return self._connections.pause(seconds)

    def scrub(self) -> None:
        """Rewrite the file without free space, and empty the log."""
        with self._connections.lock, translating(self.location):
            self._connections.rebuild()

    def write_backup(self, to: Path) -> None:
        """Write all of it to another file, while others write. One reading transaction, so it is the database
        of one moment. The backup interface of SQLite would begin again whenever another process writes, and
        might never end."""
        with self.read() as reader, translating(str(to)):
            create_private(to)
            connection = reader.connection
            connection.execute(sql.SORT_ON_DISK)  # a copy of all is no thing for the memory
            try:
                connection.execute(sql.COPY_INTO, (str(to),))
            finally:
                connection.execute(sql.SORT_IN_MEMORY)
        self._fold_log()

    def _fold_log(self) -> None:
        """While all was read at one moment the log could not be used anew, and grew. Who commits next would
        have to fold all of it into the file: rather this caller, who waits anyway."""
        connections = self._connections
        with connections.lock:
            if connections.writer is not None and not connections.is_closed:
                with suppress(apsw.Error):  # another process does it, or the next commit
                    connections.writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def waits_for_room(self) -> DiskFullError | None:
        return self._connections.waits_for_room()

    def own_paths(self) -> list[Path]:
        return [self.path.with_name(self.path.name + end) for end in ("", *BESIDE)]

    def before_fork(self) -> None:
        self._connections.before_fork()

    def after_fork(self, *, is_child: bool) -> None:
        self._connections.after_fork(is_child=is_child)

    def close(self) -> None:
        with self._connections.lock:
            self._connections.close()


def check_level(durability: str) -> None:
    if durability not in ("full", "process"):
        raise InvalidUrlError(f"durability is 'full' or 'process', not {durability!r}")


class _Write:
    """`with backend.write() as tx`: a class, not a generator, because every append passes here."""

    __slots__ = ("_connections",)

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def __enter__(self) -> SqliteTransaction:
        connections = self._connections
        try:
            connections.lock.acquire()
            writer = connections.need_writer()
            try:
                writer.execute(sql.BEGIN_WRITING)
            except apsw.BusyError:
                patiently(
                    lambda: writer.execute(sql.BEGIN_WRITING), connections.location, connections.timeout
                )
            refuse_newer(writer, connections.location)
            return SqliteTransaction(writer, connections.branches)
        except BaseException as exc:
            self._leave()
            if isinstance(exc, apsw.Error):
                raise connections.noted(translate(exc, connections.location)) from exc
            raise

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        connections = self._connections
        try:
            if exc is None:
                connections.need_writer().execute(sql.COMMIT)
            else:
                connections.branches.clear()
        except apsw.Error as error:
            connections.branches.clear()
            if getattr(error, "extendedresult", 0) in (apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC):
                # The log holds the whole transaction: after a crash the next to open it would find it.
                raise OutcomeUnknownError(f"could not sync {connections.location}: {error}") from error
            raise connections.noted(translate(error, connections.location)) from error
        finally:
            self._leave()
        if exc is None:
            connections.tell()
        elif isinstance(exc, apsw.Error):
            raise connections.noted(translate(exc, connections.location)) from exc
        reraise(exc, connections.location)

    def _leave(self) -> None:
        """Undo what is not committed, and let others in. Looks at what is, not at what was begun:
        a signal handler may have raised anywhere."""
        connections = self._connections
        if connections.lock._is_owned():  # type: ignore[attr-defined]
            writer = connections.writer
            if not connections.is_closed and writer is not None and writer.in_transaction:
                connections.branches.clear()
                writer.execute(sql.ROLLBACK)
            connections.lock.release()


class _Read:
    """`with backend.read() as reader`: borrows a connection."""

    __slots__ = ("_connection", "_connections")

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def __enter__(self) -> SqliteReader:
        self._connection = self._connections.take_reader()
        return SqliteReader(self._connection, self._connections.branches)

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connections.give_reader(self._connection)
        reraise(exc, self._connections.location)


class _ReadSnapshot(_Read):
    """The first thing that is read decides on the moment."""

    __slots__ = ()

    def __enter__(self) -> SqliteReader:
        reader = super().__enter__()
        try:
            self._connection.execute(sql.BEGIN)
        except BaseException as exc:
            super().__exit__(type(exc), exc, None)
            raise
        return reader

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection.in_transaction:
            self._connection.execute(sql.ROLLBACK)
        super().__exit__(kind, exc, trace)
