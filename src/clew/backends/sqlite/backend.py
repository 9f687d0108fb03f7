"""The SQLite backend: a store in one file."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import TracebackType
from typing import Final

import apsw

from clew.backends.contract import Backend, Capabilities
from clew.backends.private_files import resolve
from clew.backends.sqlite import sql
from clew.backends.sqlite.connection import (
    Level,
    create_private,
    open_read_only,
    open_writer,
    patiently,
    refuse_newer,
    reraise,
    translate,
    translating,
)
from clew.backends.sqlite.pool import Connections
from clew.backends.sqlite.reader import SqliteReader
from clew.backends.sqlite.schema import ForeignSchemaError
from clew.backends.sqlite.side_files import BESIDE
from clew.backends.sqlite.writer import SqliteTransaction
from clew.errors import (
    BackendUnavailableError,
    DiskFullError,
    InvalidUrlError,
    OutcomeUnknownError,
    ReadOnlyError,
    StoreNotFoundError,
)

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
        self._connections = Connections(self.path, str(self.path), timeout, self._open)
        with self._connections.lock:
            self._connections.need_open()

    # -- opening

    def _open(self) -> None:
        connections = self._connections
        with translating(self.location):
            if not self._read_only:
                self._open_for_writing()
            if self._read_only:
                if not self.path.exists():
                    raise StoreNotFoundError(self.location)
                connection, path, immutable = open_read_only(self.path, connections.timeout)
                connections.read_from(connection, path, immutable=immutable)

    def _open_for_writing(self) -> None:
        """Fall back to reading if the file is there and nothing can be written."""
        connections = self._connections
        try:
            connections.writer = open_writer(self.path, self._level, connections.timeout)
        except ForeignSchemaError as exc:
            self._read_only, connections.why_read_only = True, str(exc)
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

    # -- reading and writing

    def write(self, certain: bool = True) -> _Write:
        return _Write(self._connections)

    def read(self) -> _Read:
        return _Read(self._connections)

    def read_snapshot(self) -> _ReadSnapshot:
        return _ReadSnapshot(self._connections)

    # -- the rest

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
                raise translate(exc, connections.location) from exc
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
            raise translate(error, connections.location) from error
        finally:
            self._leave()
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
