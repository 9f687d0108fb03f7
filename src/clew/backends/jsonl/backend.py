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

from clew.backends.contract import Backend, Capabilities
from clew.backends.jsonl import disk, sql
from clew.backends.jsonl.index import Index, open_for_reading_only
from clew.backends.jsonl.journal import Journal, NotUndoneError, speaking, write_out
from clew.backends.jsonl.layout import SESSIONS, Layout
from clew.backends.jsonl.lock import SnapshotLock, StoreLock
from clew.backends.jsonl.lock_watch import LockWatch
from clew.backends.jsonl.log_file import UnreadableLogError, remove_packs
from clew.backends.jsonl.reader import JsonlReader, NoCare
from clew.backends.jsonl.versions import refuse_unknown_lines
from clew.backends.jsonl.writer import JsonlTransaction
from clew.backends.sqlite.backend import check_level
from clew.backends.sqlite.connection import Level, patiently, refuse_newer, reraise
from clew.backends.sqlite.sql import BEGIN, BEGIN_WRITING, COMMIT, ROLLBACK
from clew.core.disk import resolve
from clew.errors import (
    BackendUnavailableError,
    ClewError,
    DiskFullError,
    OutcomeUnknownError,
    ReadOnlyError,
    StoreBusyError,
    StoreNotFoundError,
)

T = TypeVar("T")
PAUSE: Final = 0.01
TRACES_LEFT: Final = "what was purged is gone, but traces of it may be left in the files; purge again"
ONE_LOG: Final = f"{SESSIONS}/session.jsonl"


class JsonlBackend(Backend):
    """A store in a directory of plain files."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Level = "full",
        timeout: float = 10.0,
        read_only: bool = False,
    ) -> None:
        check_level(durability)
        self._start(Layout(resolve(path)), durability, timeout, read_only=read_only)

    def _start(self, layout: Layout, durability: Level, timeout: float, *, read_only: bool) -> None:
        self._capabilities = Capabilities(durability=durability, shared=True)
        self._read_only = read_only
        self._timeout = timeout
        self.layout = layout
        self.is_durable = durability == "full"
        self.store_lock = StoreLock(layout.lock)
        self.snapshot_lock = SnapshotLock(layout.snapshot_lock)
        self.journal = Journal(layout, durable=self.is_durable)
        self.index = Index(
            layout, self.journal, self.store_lock,
            durable=self.is_durable, timeout=timeout, opening=self._open, reopening=self._reopen,
        )  # fmt: skip
        self._connections = self.index.connections
        self._watch = LockWatch(layout.lock)
        with self._connections.lock:
            self._connections.need_open()

    @property
    def location(self) -> str:
        return str(self.layout.root)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    # -- opening

    def _open(self) -> None:
        if not self._read_only:
            try:
                self._open_for_writing()
            except (ReadOnlyError, DiskFullError) as exc:
                if not disk.exists(self.layout.about):
                    raise
                self.index.give_up_writing(str(exc))
                if isinstance(exc, DiskFullError):  # it passes
                    self._connections.full = exc
                else:
                    self._read_only = True
        if self._connections.writer is None:
            self._open_for_reading()

    def _open_for_reading(self) -> None:
        with speaking(self.location):
            if not (self.layout.root.is_dir() and self.layout.check()):
                raise StoreNotFoundError(self.location)
            with self._while_no_process_writes():
                connection, path = open_for_reading_only(self.layout, self._timeout)
            self._connections.read_from(connection, path)

    def _reopen(self) -> None:
        """When the disk was full. What is open for reading stays, unless an index took its place."""
        try:
            self._open_for_writing()
        except BaseException as exc:
            if self._connections.writer is not None:
                self.index.give_up_writing(str(exc))
                self._open_for_reading()
            raise

    @contextmanager
    def _while_no_process_writes(self) -> Iterator[None]:
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
            refuse_unknown_lines(self.layout)
            self.layout.prepare()
            self.store_lock.acquire(self._timeout)
            try:
                self.index.catch_up(renew=True)
            finally:
                self.store_lock.release()

    # -- reading and writing

    def write(self, certain: bool = True) -> Writing:
        return Writing(self)

    def read(self) -> Reading:
        return Reading(self)

    @contextmanager
    def read_snapshot(self) -> Iterator[JsonlReader]:
        """The index in one transaction, and logs only grow. A process that would rewrite them, or remove a
        pack, waits."""
        with self.hold_files(), self.read() as reader:
            connection = reader.connection
            connection.execute(BEGIN)
            try:
                connection.execute(sql.INDEX_VERSION).get  # noqa: B018 - the first look decides on the moment
                yield JsonlReader(connection, {}, self.layout, NoCare())
            finally:
                if connection.in_transaction:
                    connection.execute(ROLLBACK)

    def hold_files(self) -> AbstractContextManager[None]:
        """Meanwhile no process rewrites logs, or removes packs."""
        return self.snapshot_lock.shared(self._timeout, self.undisturbed)

    def undisturbed(self, look: Callable[[], T]) -> T:
        """Look while no writer is at work, at an index that has all that the logs have."""
        connections = self._connections
        if connections.writer is None:
            return look()
        with connections.lock, speaking(self.location):
            if connections.writer.in_transaction:  # our own: no other process is
                return look()
            self.store_lock.acquire(self._timeout)
            try:
                self.index.refresh()
                return look()
            finally:
                self.store_lock.release()

    def suspect(self, exc: BaseException | None) -> None:
        self.index.suspect(exc)

    # -- the rest

    def pause(self, seconds: float) -> bool:
        if self._connections.is_closed:
            return True
        heard = self._watch.pause(seconds)
        return self._connections.pause(seconds) if heard is None else heard

    def scrub(self) -> None:
        deadline = time.monotonic() + self._timeout
        while not self._scrub(may_wait=time.monotonic() < deadline):
            time.sleep(PAUSE)  # without the lock: others write while a backup is made

    def _scrub(self, *, may_wait: bool) -> bool:
        """False: a process reads all of the store as it is."""
        from clew.backends.jsonl.rewrite import rewrite_dirty_logs

        connections = self._connections
        with connections.lock, ExitStack() as alone, speaking(self.location):
            connections.need_writer()
            self.store_lock.acquire(self._timeout)
            try:
                writer = self.index.refresh()
                try:
                    alone.enter_context(self.snapshot_lock.alone(0, TRACES_LEFT))
                except StoreBusyError:
                    if may_wait:
                        return False
                    raise
                self.store_lock.mark()  # until the index knows where everything lies now
                failed = rewrite_dirty_logs(writer, self.layout, self.journal)
                self.store_lock.clear()
                connections.branches.clear()
                connections.rebuild()
            finally:
                self.store_lock.release()
        if failed:
            raise BackendUnavailableError(f"{TRACES_LEFT}: {'; '.join(failed)}")
        return True

    def waits_for_room(self) -> DiskFullError | None:
        return self._connections.waits_for_room()

    def own_paths(self) -> list[Path]:
        return [self.layout.root]

    def before_fork(self) -> None:
        self._connections.before_fork()

    def after_fork(self, *, is_child: bool) -> None:
        self._connections.after_fork(is_child=is_child)
        if is_child:
            self.store_lock.close()
            self.snapshot_lock.close()
            self._watch.abandon()

    def close(self) -> None:
        self._watch.close()
        with self._connections.lock:
            if not self._connections.is_closed and self._connections.writer is not None:
                self._fold_journal()
            try:
                self.index.close(may_write=not self._read_only)
            finally:
                self.store_lock.close()
                self.layout.renew()

    def _fold_journal(self) -> None:
        """So that nothing but the logs is needed; if it cannot be done now, the next to open does it."""
        try:
            self.store_lock.acquire(0.1)
            self.journal.empty()
        except Exception:  # noqa: BLE001 - nothing is lost by it
            pass
        finally:
            self.store_lock.release()


# -- scopes


class Writing:
    """`with backend.write() as tx`."""

    __slots__ = ("_backend", "_connections", "_tx")

    def __init__(self, backend: JsonlBackend) -> None:
        self._backend = backend
        self._connections = backend.index.connections
        self._tx: JsonlTransaction | None = None

    def __enter__(self) -> JsonlTransaction:
        backend, connections = self._backend, self._connections
        try:
            connections.lock.acquire()
            connections.need_writer()
            backend.store_lock.acquire(connections.timeout)
            writer = backend.index.refresh()
            patiently(lambda: writer.execute(BEGIN_WRITING), backend.location, connections.timeout)
            refuse_newer(writer, backend.location)
            self._tx = JsonlTransaction(
                writer, connections.branches, backend.layout, backend, durable=backend.is_durable
            )
            return self._tx
        except BaseException as exc:
            self._leave()
            backend.suspect(exc)
            with self._noting_a_full_disk(), speaking(backend.location):
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
                self._connections.branches.clear()
        except BaseException:
            self._connections.branches.clear()
            with self._noting_a_full_disk(), speaking(backend.location):
                raise
        finally:
            self._tx = None
            self._leave()
            if exc is not None and tx is not None:
                with suppress(OSError):  # the next scrub removes what nothing names
                    remove_packs(backend.layout, tx.new_packs)
        if exc is None:
            self._connections.tell()
        with self._noting_a_full_disk():
            reraise(exc, backend.location)
            if isinstance(exc, OSError | UnreadableLogError):
                with speaking(backend.location):
                    raise exc

    @contextmanager
    def _noting_a_full_disk(self) -> Iterator[None]:
        try:
            yield
        except DiskFullError as error:
            self._connections.full = error
            raise

    def _commit(self, tx: JsonlTransaction) -> None:
        backend = self._backend
        tx.settle_batch()
        written = [(append, append.data()) for append in tx.batch.written]
        if written:
            tx.batch.note(written, durable=backend.is_durable)
            if len(written) == 1 and not written[0][0].is_new:
                backend.index.ensure_name(written[0][0].log)
            backend.store_lock.mark()
            try:
                write_out(backend.layout, backend.journal, written, durable=backend.is_durable)
            except NotUndoneError as failed:
                # The mark stays: the next that comes reads the logs again.
                cause = failed.__cause__
                raise OutcomeUnknownError(f"could not write {backend.location}: {cause}") from cause
            except Exception:
                backend.store_lock.clear()
                raise
        try:
            tx.batch.note_new(written)
            tx.connection.execute(COMMIT)
        except apsw.Error:
            if not written:
                raise
            backend.index.is_behind = True  # the logs have it: that is what counts
            return
        with suppress(OSError):  # it is written: what is left to do can be done by the next
            if written:
                backend.store_lock.clear()
            if len(written) > 1 or (written and written[0][0].is_new):  # else it did not grow
                backend.journal.empty_if_long()
            self._remove_packs(tx.old_packs)

    def _remove_packs(self, files: list[str]) -> None:
        """Not while a process reads all of the store: then the next scrub removes them."""
        if files:
            with suppress(ClewError), self._backend.snapshot_lock.alone(0, "the files stay"):
                remove_packs(self._backend.layout, files)

    def _leave(self) -> None:
        """Undo what is not committed, and let others in. Looks at what is, not at what was begun."""
        connections = self._connections
        if connections.lock._is_owned():  # type: ignore[attr-defined]
            writer = connections.writer
            if not connections.is_closed and writer is not None and writer.in_transaction:
                connections.branches.clear()
                try:
                    writer.execute(ROLLBACK)
                except apsw.Error:  # SQLite cannot even undo it: this index is not used any more
                    self._backend.index.is_broken = True
            self._backend.store_lock.release()
            connections.lock.release()


class Reading:
    """`with backend.read() as reader`: borrows a connection."""

    __slots__ = ("_backend", "_connection")

    def __init__(self, backend: JsonlBackend) -> None:
        self._backend = backend

    def __enter__(self) -> JsonlReader:
        backend = self._backend
        index = backend.index
        if index.needs_settling():
            backend.undisturbed(lambda: None)  # wait until no writer is at work, and catch up
        self._connection = index.connections.take_reader()
        return JsonlReader(self._connection, index.connections.branches, backend.layout, backend)

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        backend = self._backend
        backend.index.connections.give_reader(self._connection)
        backend.suspect(exc)
        reraise(exc, backend.location)
        if isinstance(exc, OSError):
            raise BackendUnavailableError(f"cannot read {backend.location}: {exc}") from exc


# -- one log that lies elsewhere


class OneLogBackend(JsonlBackend):
    """A log read as a store of its own. `place` is an empty directory, for what a store needs beside it."""

    def __init__(self, place: Path, log: str | os.PathLike[str]) -> None:
        Layout(place).prepare()
        layout = _OneLogLayout(resolve(place), Path(os.path.realpath(log)))
        self._start(layout, "full", 10.0, read_only=True)


class _OneLogLayout(Layout):
    def __init__(self, root: Path, log: Path) -> None:
        super().__init__(root)
        self._log = disk.Directory(log.parent, held=True).file(log.name)

    def file(self, log: str) -> disk.File:
        return self._log if log == ONE_LOG else super().file(log)

    def path(self, log: str) -> Path:
        return self._log.path if log == ONE_LOG else super().path(log)

    def log_names(self) -> list[str]:
        return [ONE_LOG]
