"""The index of a store in use: its file, its connections, and whether it has all that the logs have.

An index is a cache. One that cannot be used is set aside, and another is made of the logs: beside, and it
gets its name when it is whole. So a process that finds an index finds one that has all that the logs had at
some moment; and a process that fails to make one has changed nothing.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import apsw
import msgspec

from clew.backends.jsonl import disk, sql
from clew.backends.jsonl.disk import File, NotOursError, StrangeFileError
from clew.backends.jsonl.journal import Journal
from clew.backends.jsonl.layout import INDEX_FILE, Layout
from clew.backends.jsonl.lock import StoreLock
from clew.backends.jsonl.log_file import tell
from clew.backends.jsonl.recover import catch_up, is_behind
from clew.backends.sqlite.backend import Connections
from clew.backends.sqlite.connection import BESIDE, open_reader, open_writer, patiently
from clew.backends.sqlite.schema import check_writable, newest
from clew.backends.sqlite.sql import BEGIN_WRITING, COMMIT, EMPTY_LOG
from clew.errors import ClewError, CorruptError, CorruptSessionError, InvalidUrlError, VersionError

UNREAD: Final = (apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_CORRUPTFS)
"""What SQLite says when the disk does not give a page."""
TRIES: Final = 20
"""How often a store that is only read is opened again because others purge."""
_WRONG: Final = (
    apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.ConstraintError, apsw.MismatchError,
)  # fmt: skip
BROKEN: Final = (*_WRONG, CorruptError, InvalidUrlError, VersionError)
"""When it is opened."""
NONSENSE: Final = (
    *_WRONG, msgspec.MsgspecError, ValueError, TypeError, LookupError, ArithmeticError, StopIteration,
    struct.error,
)  # fmt: skip
"""When it catches up: of rows that Clew did not write. Lines of the logs are checked: they are no cause."""
MEANINGLESS: Final = (
    apsw.SQLError, msgspec.MsgspecError, UnicodeDecodeError, struct.error, CorruptSessionError,
)  # fmt: skip
"""When it is read."""


class Index:
    """What changes it needs the lock of the store."""

    def __init__(
        self,
        layout: Layout,
        journal: Journal,
        lock: StoreLock,
        *,
        durable: bool,
        timeout: float,
        opening: Callable[[], None],
        reopening: Callable[[], None],
    ) -> None:
        self._layout = layout
        self._journal = journal
        self._lock = lock
        self._durable = durable
        self.connections = Connections(layout.index, str(layout.root), timeout, opening, reopening)
        self.is_behind = False
        """It lacks what a log has: catch up before anything else."""
        self.is_broken = False
        self._was_suspected = False
        self._inode = 0
        self._last_named = 0
        """Logs up to this number have durable names."""

    # -- having all that the logs have

    def catch_up(self, *, renew: bool = False) -> None:
        try:
            if renew:
                self._renew()
            self._recover()
        except ClewError:
            raise
        except NONSENSE:
            self.is_broken = True
            self._renew()
            self._recover()

    def _renew(self) -> None:
        """Use the index that is there now, or make a new one. Until that is done no thread reads, and
        the next one tries again: what is open is damaged, or not the store's any more."""
        self.is_behind = True
        self._layout.renew()
        self._journal.replay()
        self.connections.use(self._sound_writer())
        self._inode = self._layout.index_inode()
        self.is_broken = False

    def _sound_writer(self) -> apsw.Connection:
        layout, timeout = self._layout, self.connections.timeout
        if not self.is_broken and layout.index.exists() and is_sound(layout):
            try:
                return open_index(layout, timeout)
            except BROKEN:
                pass
            except apsw.IOError as exc:
                if getattr(exc, "extendedresult", 0) not in UNREAD:
                    raise
        make_index(layout, timeout)
        return open_index(layout, timeout)

    def _recover(self) -> None:
        """Bring logs and index together."""
        writer = self._writer
        self._journal.replay()
        if catch_up(writer, self._layout, repair=True):
            self.connections.branches.clear()
        self._lock.clear()
        self.is_behind = False
        self._settle_names()

    @property
    def _writer(self) -> apsw.Connection:
        assert self.connections.writer is not None
        return self.connections.writer

    def refresh(self) -> apsw.Connection:
        """The writing connection to an index that has all that the logs have."""
        self.connections.need_writer()
        self._layout.recheck()
        if self._layout.sessions.has_moved():
            self._layout.renew()
            self.is_behind = True
        is_gone = self.is_gone()
        if is_gone or self.is_behind or self._lock.is_marked:
            self.catch_up(renew=is_gone)
        return self.connections.need_writer()

    def needs_settling(self) -> bool:
        """Whether a reader would miss something: nearly never."""
        one = self.connections
        is_open = one.is_open and not one.is_closed and one.writer is not None
        return is_open and (self.is_behind or self.is_gone())

    def is_gone(self) -> bool:
        """It was deleted, or another one was put there, or it was found to be damaged."""
        return self.is_broken or not self.is_ours()

    def is_ours(self) -> bool:
        """Whether the index that this process has open is the one that is there."""
        try:
            return self._layout.index_inode() == self._inode
        except OSError:
            return False

    def suspect(self, exc: BaseException | None) -> None:
        """An index that is damaged is set aside when it is needed next. One whose rows cannot be understood
        may be: but only once, for all else that could be the cause is there again afterwards."""
        if isinstance(exc, apsw.CorruptError | apsw.NotADBError):
            self.is_broken = True
        elif isinstance(exc, MEANINGLESS) and not self._was_suspected:
            self.is_broken = self._was_suspected = True

    # -- names of new logs

    def ensure_name(self, log: int) -> None:
        """Before a log alone is synced: its name must be durable too. The journal kept both until now."""
        if log > self._last_named:
            self._settle_names()

    def _settle_names(self) -> None:
        if self._durable:
            disk.sync_directory(self._layout.sessions)
            disk.sync_directory(self._layout.top)
        self._last_named = self._writer.execute(sql.LAST_NUMBER, ("logs",)).get or 0

    # -- the end

    def give_up_writing(self, reason: str) -> None:
        """It is only read from now on, because of this."""
        connections = self.connections
        writer, connections.writer = connections.writer, None
        if writer is not None:
            writer.close(True)
        self.is_behind = False
        connections.why_read_only = f"{connections.why_read_only}: {reason}"

    def close(self, *, may_write: bool) -> None:
        try:
            self.connections.close()
            if self.is_broken and may_write and self.is_ours():
                set_index_aside(self._layout)
        except (apsw.Error, OSError):  # of the index: the logs have it all
            self.connections.abandon()


# -- its file

_EFFECTIVE: Final = os.access in os.supports_effective_ids
_LEFT: Final = re.compile(r"index\.db\.[0-9a-f]+\.new(-wal|-shm|-journal)?")


def files_of(layout: Layout) -> list[File]:
    """The files of the index, whether they are there or not."""
    return [layout.top.file(f"{INDEX_FILE}{end}") for end in ("", *BESIDE)]


def is_sound(layout: Layout) -> bool:
    """Whether SQLite may open what is there: it would follow links, wait for pipes, and write into files
    that have other names elsewhere."""
    try:
        for file in files_of(layout):
            disk.check(file, writes=True)
    except (StrangeFileError, NotOursError) as exc:
        tell("the index is not used: %s", exc)
        return False
    return not layout.index.exists() or os.access(layout.index, os.R_OK, effective_ids=_EFFECTIVE)


def open_index(layout: Layout, timeout: float) -> apsw.Connection:
    """A connection that may write. Raises one of BROKEN for one that cannot be used."""
    # "process": it is only a cache, but must be whole after a power cut, if older.
    writer = open_writer(layout.index, "process", timeout, sql.INDEX)
    try:
        patiently(lambda: writer.execute(BEGIN_WRITING), str(layout.root), timeout)
        if writer.execute(sql.TABLES_THERE).get != sql.TABLES:
            raise apsw.CorruptError("an index that lost a table")
        if writer.execute(sql.INDEX_VERSION).get != sql.VERSION:
            raise apsw.CorruptError("an index of another version")
        writer.execute(COMMIT)
    except BaseException:
        writer.close(True)
        raise
    return writer


def make_index(layout: Layout, timeout: float) -> None:
    """Make an index of the logs, and put it in the place of what is there, which is set aside. Needs the
    store's lock, and that the journal is done."""
    for name in disk.names(layout.top):  # of processes that were killed
        if _LEFT.fullmatch(name):
            disk.remove(layout.top.file(name))
    made = layout.top.file(f"{INDEX_FILE}.{os.urandom(8).hex()}.new")
    try:
        disk.close(disk.create(made))
        writer = open_writer(made.path, "process", timeout)
        try:
            writer.execute(sql.SCHEMA)
            catch_up(writer, layout, repair=True)
            writer.execute(EMPTY_LOG)  # syncs it
        finally:
            writer.close()
        set_index_aside(layout)
        disk.replace(made, layout.top.file(INDEX_FILE))
        disk.sync_directory(layout.top)
    except BaseException:
        for end in ("", *BESIDE):
            disk.remove(made.beside(f"{made.name}{end}"))
        raise


def set_index_aside(layout: Layout) -> None:
    """Rename what is there. A log of SQLite that is left without its database must go: it would be taken for
    that of the next one."""
    stamp = f"{time.time_ns() // 1_000_000}-{os.urandom(8).hex()}"
    is_there = disk.exists(layout.top.file(INDEX_FILE))
    for file in files_of(layout):
        found = disk.status(file)
        if found is None:
            continue
        if is_there or not stat.S_ISREG(found.st_mode):
            end = file.name.removeprefix(INDEX_FILE)
            disk.replace(file, layout.top.file(f"{INDEX_FILE}.corrupt-{stamp}{end}"))
        else:
            disk.remove(file)


# -- a store that is only read


def open_for_reading_only(layout: Layout, timeout: float) -> tuple[apsw.Connection, Path]:
    """A connection to an index that has all that the logs have, and the path of that index."""
    for _ in range(TRIES - 1):
        try:
            return _open(layout, timeout)
        except FileNotFoundError:
            pass  # the store's lock could not be had, and a log was removed while the logs were read
    return _open(layout, timeout)


def _open(layout: Layout, timeout: float) -> tuple[apsw.Connection, Path]:
    if layout.index.exists() and is_sound(layout):
        try:
            connection = open_reader(layout.index, timeout)
            check_writable(connection, newest(), str(layout.index), sql.INDEX)
            if connection.execute(sql.INDEX_VERSION).get == sql.VERSION and not is_behind(connection, layout):
                return connection, layout.index
            connection.close()
        except (apsw.Error, CorruptError, InvalidUrlError, VersionError):
            pass  # a cache: another one will do
    return _elsewhere(layout, timeout)


def _elsewhere(layout: Layout, timeout: float) -> tuple[apsw.Connection, Path]:
    from clew.core.work_folder import make_work_folder, remove_work_folder

    aside = make_work_folder("index") / "index.db"
    try:
        writer = open_writer(aside, "process", timeout)
        try:
            writer.execute(sql.SCHEMA)
            catch_up(writer, layout, repair=False)
        finally:
            writer.close()
        return open_reader(aside, timeout), aside
    except BaseException:
        remove_work_folder(aside.parent)
        raise
