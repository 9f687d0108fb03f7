"""The JSONL backend: logs that are the truth, and an index over them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, TypeVar

import apsw

from clew.backends.jsonl import disk
from clew.backends.jsonl.disk import Directory, File
from clew.backends.jsonl.index import (
    BROKEN,
    MEANINGLESS,
    NONSENSE,
    is_sound,
    make_index,
    open_for_reading_only,
    open_index,
    set_index_aside,
)
from clew.backends.jsonl.journal import Journal, NotUndoneError, speaking, write_out
from clew.backends.jsonl.layout import SESSIONS, Layout
from clew.backends.jsonl.lock import StillLock, StoreLock
from clew.backends.jsonl.log_file import UnreadableLogError
from clew.backends.jsonl.packs import remove_packs
from clew.backends.jsonl.reader import JsonlReader, NoCare
from clew.backends.jsonl.recover import catch_up
from clew.backends.jsonl.sql import INDEX_VERSION, LAST_NUMBER
from clew.backends.jsonl.writer import JsonlTransaction
from clew.backends.private_files import resolve
from clew.backends.sqlite.backend import SqliteBackend, _reraise
from clew.backends.sqlite.connection import Level, patiently, refuse_newer
from clew.errors import (
    BackendUnavailableError,
    ClewError,
    DiskFullError,
    OutcomeUnknownError,
    ReadOnlyError,
    StoreBusyError,
    StoreNotFoundError,
)

# ── `with backend.write()` and `with backend.read()`: where transactions begin and end ────────────


class Writing:
    """`with backend.write() as tx`."""

    __slots__ = ("_backend", "_tx")

    def __init__(self, backend: JsonlBackend) -> None:
        self._backend = backend
        self._tx: JsonlTransaction | None = None

    def __enter__(self) -> JsonlTransaction:
        backend = self._backend
        try:
            backend._lock.acquire()
            backend._need_writer()
            backend.store_lock.acquire(backend._timeout)
            connection = backend.refresh()
            patiently(lambda: connection.execute("BEGIN IMMEDIATE"), backend.location, backend._timeout)
            refuse_newer(connection, backend.location)
            self._tx = JsonlTransaction(
                connection, backend._branches, backend.layout, backend,
                durable=backend._level == "full",
            )  # fmt: skip
            return self._tx
        except BaseException as exc:
            self._leave()
            backend.suspect(exc)
            with speaking(backend.location):
                raise

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        backend, tx = self._backend, self._tx
        backend.suspect(exc)
        try:
            if exc is None and tx is not None:
                self._commit(tx)
            else:
                backend._branches.clear()
        except BaseException:
            backend._branches.clear()
            with speaking(backend.location):
                raise
        finally:
            self._tx = None
            self._leave()
            if exc is not None and tx is not None:
                with suppress(OSError):  # the next scrub removes what nothing names
                    remove_packs(backend.layout, tx.new_packs)
        _reraise(exc, backend.location)
        if isinstance(exc, OSError | UnreadableLogError):
            with speaking(backend.location):
                raise exc

    def _commit(self, tx: JsonlTransaction) -> None:
        backend = self._backend
        tx.settle_book()
        written = [(sheet, sheet.data()) for sheet in tx.book.written]
        connection = tx.connection
        if written:
            tx.book.note(written, durable=backend._level == "full")
            if len(written) == 1 and not written[0][0].is_new:
                backend.ensure_name(written[0][0].log)
            backend.store_lock.mark()
            try:
                write_out(backend.layout, backend.journal, written, durable=backend._level == "full")
            except NotUndoneError as failed:
                # The mark stays: whoever comes next reads the logs again.
                cause = failed.__cause__
                raise OutcomeUnknownError(f"could not write {backend.location}: {cause}") from cause
            except Exception:
                backend.store_lock.clear()
                raise
        try:
            tx.book.note_new(written)
            connection.execute("COMMIT")
        except apsw.Error:
            if not written:
                raise
            backend.is_behind = True  # the logs have it: that is what counts
            return
        with suppress(OSError):  # it is written: what is left to do can be done by the next
            if written:
                backend.store_lock.clear()
            if len(written) > 1 or (written and written[0][0].is_new):  # else it did not grow
                backend.journal.empty_if_long()
            self._remove_packs(tx.old_packs)

    def _remove_packs(self, files: list[str]) -> None:
        """Not while somebody reads all of the store: then the next scrub removes them."""
        if files:
            with suppress(ClewError), self._backend.still_lock.alone(0, "the files stay"):
                remove_packs(self._backend.layout, files)

    def _leave(self) -> None:
        """Undo what is not committed, and let others in. Looks at what is, not at what was begun."""
        backend = self._backend
        if backend._lock._is_owned():  # type: ignore[attr-defined]
            if not backend._closed and backend._writer is not None and backend._writer.in_transaction:
                backend._branches.clear()
                try:
                    backend._writer.execute("ROLLBACK")
                except apsw.Error:  # SQLite can not even undo it: this index is not used any more
                    backend.index_is_broken = True
            backend.store_lock.release()
            backend._lock.release()


class Reading:
    """`with backend.read() as reader`: borrows a connection."""

    __slots__ = ("_backend", "_connection")

    def __init__(self, backend: JsonlBackend) -> None:
        self._backend = backend

    def __enter__(self) -> JsonlReader:
        backend = self._backend
        if backend.needs_settling():
            backend.settle()
        self._connection = backend._take_reader()
        return JsonlReader(self._connection, backend._branches, backend.layout, backend)

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._backend._give_reader(self._connection)
        self._backend.suspect(exc)
        _reraise(exc, self._backend.location)
        if isinstance(exc, OSError):
            raise BackendUnavailableError(f"can not read {self._backend.location}: {exc}") from exc


# ── The JSONL backend: logs that are the truth, and an index over them ────────────────────────────

T = TypeVar("T")
PAUSE: Final = 0.01
LEFT: Final = "what was purged is gone, but traces of it may be left in the files; purge again"
UNREAD: Final = (apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_CORRUPTFS)
"""What SQLite says when the disk does not give a page."""


class JsonlBackend(SqliteBackend):
    """A store in a directory of plain files."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Level = "full",
        timeout: float = 10.0,
        read_only: bool = False,
    ) -> None:
        self.layout = self._layout_of(resolve(path))
        self.store_lock = StoreLock(self.layout.lock)
        self.still_lock = StillLock(self.layout.still)
        self.journal = Journal(self.layout, durable=durability == "full")
        self._last_named = 0
        """Logs up to this number have durable names."""
        self.index_inode = 0
        self.index_is_broken = False
        self._was_suspected = False
        self._unwritable = ""
        """Why the store is only read, though it was to be written."""
        self.is_behind = False
        """The index lacks what a log has: catch up before anything else."""
        super().__init__(self.layout.index, durability=durability, timeout=timeout, read_only=read_only)

    def _followed(self, path: str | os.PathLike[str]) -> Path:
        """Nobody names the index: a link in its place is followed by no one."""
        return Path(path)

    def _layout_of(self, root: Path) -> Layout:
        return Layout(root)

    @property
    def location(self) -> str:
        return str(self.layout.root)

    def _forget(self) -> None:
        super()._forget()
        self.store_lock.close()
        self.still_lock.close()

    def _need_writer(self) -> apsw.Connection:
        try:
            return super()._need_writer()
        except ReadOnlyError as exc:
            if self._unwritable:
                raise ReadOnlyError(f"{exc}: {self._unwritable}") from exc
            raise

    # -- opening

    def _open(self) -> None:
        if not self._read_only:
            try:
                self._open_for_writing()
            except (ReadOnlyError, DiskFullError) as exc:
                if not disk.exists(self.layout.about):
                    raise
                self._unwritable = str(exc)
                writer, self._writer = self._writer, None
                if writer is not None:
                    writer.close(True)
                self._read_only, self.is_behind = True, False
        if self._read_only:
            with speaking(self.location):
                if not (self.layout.root.is_dir() and self.layout.check()):
                    raise StoreNotFoundError(self.location)
                with self._while_nobody_writes():
                    connection, self._reads_from = open_for_reading_only(self.layout, self._timeout)
                self._readers.append(connection)
        self._opened = True

    @contextmanager
    def _while_nobody_writes(self) -> Iterator[None]:
        """So that all logs are read as of one moment. A store that cannot be locked is read as it is: where
        there are no locks nothing is written either."""
        try:
            if disk.exists(self.layout.lock):
                self.store_lock.acquire(self._timeout)
        except (OSError, StoreBusyError, BackendUnavailableError):
            pass
        try:
            yield
        finally:
            self.store_lock.release()

    def _open_for_writing(self) -> None:
        with speaking(self.location):
            self.layout.prepare()
            self.store_lock.acquire(self._timeout)
            try:
                self._catch_up(renew=True)
            finally:
                self.store_lock.release()

    def _catch_up(self, *, renew: bool = False) -> None:
        """Have an index that has all that the logs have. Needs the store's lock."""
        try:
            if renew:
                self._renew_index()
            self.recover()
        except ClewError:
            raise
        except NONSENSE:
            self.index_is_broken = True
            self._renew_index()
            self.recover()

    def _renew_index(self) -> None:
        """Use the index that is there now, or make a new one. Until that is done nobody reads, and whoever
        comes next tries again: what is open is damaged, or not the store's any more."""
        self.is_behind = True
        self.layout.renew()
        self.journal.replay()
        self._use(self._sound_index())

    def _sound_index(self) -> apsw.Connection:
        if not self.index_is_broken and self.layout.index.exists() and is_sound(self.layout):
            try:
                return open_index(self.layout, self._timeout)
            except BROKEN:
                pass
            except apsw.IOError as exc:
                if getattr(exc, "extendedresult", 0) not in UNREAD:
                    raise
        make_index(self.layout, self._timeout)
        return open_index(self.layout, self._timeout)

    def _use(self, writer: apsw.Connection) -> None:
        """From now on use this connection, and others to the same file. Whoever reads by another comes to
        his end with it."""
        with self._gate:
            old, self._writer = self._writer, writer
            self._outdated.update(self._borrowed)
            self._close_readers()
            self._branches.clear()
            self.index_inode = self.layout.index_inode()
            self.index_is_broken = False
        if old is not None:
            old.close(True)

    def recover(self) -> None:
        """Bring logs and index together. Needs the store's lock."""
        assert self._writer is not None
        self.journal.replay()
        if catch_up(self._writer, self.layout, repair=True):
            self._branches.clear()
        self.store_lock.clear()
        self.is_behind = False
        self._settle_names()

    def ensure_name(self, log: int) -> None:
        """Before a log alone is synced: its name must be durable too. The journal kept both until now."""
        if log > self._last_named:
            self._settle_names()

    def _settle_names(self) -> None:
        assert self._writer is not None
        if self._level == "full":
            disk.sync_directory(self.layout.sessions)
            disk.sync_directory(self.layout.top)
        self._last_named = self._writer.execute(LAST_NUMBER, ("logs",)).get or 0

    def refresh(self) -> apsw.Connection:
        """The writing connection to an index that has all that the logs have. Needs the store's lock."""
        self._need_writer()
        self.layout.recheck()
        if self.layout.sessions.has_moved():
            self.layout.renew()
            self.is_behind = True
        is_gone = self.index_is_gone()
        if is_gone or self.is_behind or self.store_lock.is_marked:
            self._catch_up(renew=is_gone)
        return self._need_writer()

    def index_is_gone(self) -> bool:
        """Somebody deleted it, or put another one there, or it was found to be damaged."""
        return self.index_is_broken or not self._is_our_index()

    def _is_our_index(self) -> bool:
        """Whether the index that this process has open is the one that is there."""
        try:
            return self.layout.index_inode() == self.index_inode
        except OSError:
            return False

    # -- reading and writing

    def write(self, certain: bool = True) -> Writing:  # type: ignore[override]
        return Writing(self)

    def read(self) -> Reading:  # type: ignore[override]
        return Reading(self)

    @contextmanager
    def read_snapshot(self) -> Iterator[JsonlReader]:  # type: ignore[override]
        """All of it as it is at one moment: the index in one transaction, and logs only grow. Who would write
        them anew, or remove a pack, waits."""
        with self.still_lock.shared(self._timeout, self.undisturbed), self.read() as reader:
            connection = reader.connection
            connection.execute("BEGIN")
            try:
                connection.execute(INDEX_VERSION).get  # noqa: B018 - the first look decides on the moment
                yield JsonlReader(connection, {}, self.layout, NoCare())
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def hold_files(self) -> AbstractContextManager[None]:
        """Meanwhile nobody writes logs anew, or removes packs."""
        return self.still_lock.shared(self._timeout, self.undisturbed)

    def needs_settling(self) -> bool:
        """Whether a reader would miss something: nearly never."""
        is_open = self._opened and not self._closed and self._writer is not None
        return is_open and (self.is_behind or self.index_is_gone())

    def settle(self) -> None:
        """Wait until no writer is at work, and catch up if one left something."""
        self.undisturbed(lambda: None)

    def undisturbed(self, look: Callable[[], T]) -> T:
        """Look while no writer is at work."""
        if self._writer is None:
            return look()
        with self._lock, speaking(self.location):
            if self._writer.in_transaction:  # our own: nobody else is
                return look()
            self.store_lock.acquire(self._timeout)
            try:
                self.refresh()
                return look()
            finally:
                self.store_lock.release()

    def suspect(self, exc: BaseException | None) -> None:
        """An index that is damaged is set aside when it is needed next. One whose rows can not be understood
        may be: but only once, for all else that could be the cause is there again afterwards."""
        if isinstance(exc, apsw.CorruptError | apsw.NotADBError):
            self.index_is_broken = True
        elif isinstance(exc, MEANINGLESS) and not self._was_suspected:
            self.index_is_broken = self._was_suspected = True

    # -- the rest

    def scrub(self) -> None:
        deadline = time.monotonic() + self._timeout
        while not self._scrub(may_wait=time.monotonic() < deadline):
            time.sleep(PAUSE)  # without the lock: others write while somebody makes a backup

    def _scrub(self, *, may_wait: bool) -> bool:
        """False: somebody reads all of the store as it is."""
        from clew.backends.jsonl.rewrite import rewrite_dirty_logs

        with self._lock, ExitStack() as alone, speaking(self.location):
            self._need_writer()
            self.store_lock.acquire(self._timeout)
            try:
                writer = self.refresh()
                try:
                    alone.enter_context(self.still_lock.alone(0, LEFT))
                except StoreBusyError:
                    if may_wait:
                        return False
                    raise
                self.store_lock.mark()  # until the index knows where everything lies now
                failed = rewrite_dirty_logs(writer, self.layout, self.journal)
                self.store_lock.clear()
                self._branches.clear()
                super().scrub()
            finally:
                self.store_lock.release()
        if failed:
            raise BackendUnavailableError(f"{LEFT}: {'; '.join(failed)}")
        return True

    def own_paths(self) -> list[Path]:
        return [self.layout.root]

    def close(self) -> None:
        with self._lock:
            if not self._closed and self._writer is not None:
                self._fold_journal()
            try:
                super().close()
                if self.index_is_broken and not self._read_only and self._is_our_index():
                    set_index_aside(self.layout)
            except (apsw.Error, OSError):  # of the index: the logs have it all
                for connection in (*self._readers, self._writer):
                    if connection is not None:
                        connection.close(True)
            finally:
                self.store_lock.close()
                self.layout.renew()

    def _fold_journal(self) -> None:
        """So that nothing but the logs is needed; if it can not be done now, the next to open does it."""
        try:
            self.store_lock.acquire(0.1)
            self.journal.empty()
        except Exception:  # noqa: BLE001 - nothing is lost by it
            pass
        finally:
            self.store_lock.release()


# ── One log that lies elsewhere, read as a store of its own ───────────────────────────────────────

NAME: Final = f"{SESSIONS}/session.jsonl"


class OneLogBackend(JsonlBackend):
    """`place` is an empty directory, for what a store needs beside its logs."""

    def __init__(self, place: Path, log: str | os.PathLike[str]) -> None:
        self._log = Path(os.path.realpath(log))
        Layout(place).prepare()
        super().__init__(place, read_only=True)

    def _layout_of(self, root: Path) -> Layout:
        return _OneLogLayout(root, self._log)


class _OneLogLayout(Layout):
    def __init__(self, root: Path, log: Path) -> None:
        super().__init__(root)
        self._log = Directory(log.parent, held=True).file(log.name)

    def file(self, log: str) -> File:
        return self._log if log == NAME else super().file(log)

    def path(self, log: str) -> Path:
        return self._log.path if log == NAME else super().path(log)

    def log_names(self) -> list[str]:
        return [NAME]
