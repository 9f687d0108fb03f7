"""Open SQLite files: are they ours, pragmas, errors.

Whether the files of a database are files that SQLite may open: looked at before it does.

SQLite follows no links beside a database, but it takes whatever else lies there for its own: it writes over
the content of a hard link, and removes a file that a journal names.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, TypeVar

import apsw
import msgspec

from clew.backends.sqlite import sql
from clew.backends.sqlite.schema import (
    MIGRATIONS,
    STORE,
    Known,
    check_readable,
    check_writable,
    defend,
    migration,
    newest,
    steps,
    written_by,
)
from clew.core.disk import create_file, is_in_public, make_directories, name_of_kind, sync_directory
from clew.errors import (
    BackendError,
    BackendUnavailableError,
    ClewError,
    CorruptError,
    DiskFullError,
    InvalidEntryError,
    InvalidUrlError,
    ReadOnlyError,
    SchemaTooNewError,
    SchemaTooOldError,
    StoreBusyError,
)
from clew.version import __version__

BESIDE: Final = ("-wal", "-shm", "-journal")
"""How the names of the files end that SQLite keeps beside a database."""
_MAGIC: Final = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_REMOVE: Final = "if no program uses the store, remove it"


def refuse_planted(path: Path, *, writing: bool = False) -> None:
    """Raises InvalidUrlError if the database, or a file beside it, is not what it has to be."""
    name = str(path)
    own = _look(name)
    if own is not None:
        _check_database(path, own, writing=writing)
    for end in BESIDE:
        found = _look(name + end)
        if found is not None:
            _check_beside(name + end, found, own)
            if end == "-journal" and found.st_size:
                _refuse_naming(name + end)


def _look(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _check_database(path: Path, found: os.stat_result, *, writing: bool) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise InvalidUrlError(f"{path} is {name_of_kind(found.st_mode)}: an SQLite store is a file")
    if writing and _is_of_another(found) and is_in_public(path):
        raise InvalidUrlError(
            f"{path} belongs to another user, and lies where all users may write: what is written there is"
            " theirs to read; open it with read_only=True, or copy it to a directory of your own"
        )


def _check_beside(place: str, found: os.stat_result, own: os.stat_result | None) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise InvalidUrlError(
            f"{place} is {name_of_kind(found.st_mode)}, where SQLite keeps a file of its own; {_REMOVE}"
        )
    if found.st_nlink > 1:
        raise InvalidUrlError(
            f"{place} has a second name elsewhere, and what SQLite writes would change that file too;"
            f" {_REMOVE}"
        )
    if own is None:
        strange = _is_of_another(found)
    else:  # who may write the database may own what lies beside it
        is_shared = own.st_mode & _OTHERS_WRITE
        strange = _is_of_another(found) and found.st_uid != own.st_uid and not is_shared
    if strange:
        raise InvalidUrlError(f"{place} belongs to another user than the database; {_REMOVE}")


def _is_of_another(found: os.stat_result) -> bool:
    return os.name == "posix" and found.st_uid not in (os.geteuid(), 0)


def _refuse_naming(journal: str) -> None:
    """A journal may end with the name of another file, of a transaction over several databases. SQLite
    removes that file when it is done. A store is one database, and its journals name none."""
    try:
        handle = os.open(journal, _READ)
    except FileNotFoundError:  # its writer is done
        return
    try:
        size = os.fstat(handle).st_size
        os.lseek(handle, max(size - len(_MAGIC), 0), os.SEEK_SET)
        tail = os.read(handle, len(_MAGIC))
    finally:
        os.close(handle)
    if tail == _MAGIC and size > len(_MAGIC):
        raise InvalidUrlError(
            f"{journal} names another file, which SQLite would remove; no journal of a store does: {_REMOVE}"
        )


# ── Connections: pragmas, transactions, errors ────────────────────────────────────────────────────
# Opening a database file: private, durable, of a version we know; and the errors of the driver as ours.

T = TypeVar("T")

CHECKPOINT_PAGES: Final = 1000
LONGEST_PAUSE: Final = 0.003
"""Seconds between two looks whether others still write, with jitter. Who writes a lot makes a longer gap."""
SYNCHRONOUS: Final = {"full": 2, "process": 1}

# Links on the way are refused, too: they were followed when the store was named.
WRITING: Final = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
READING: Final = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW

NOT_WRITTEN: Final = "nothing was written; try again"

Level = Literal["full", "process"]


def patiently(attempt: Callable[[], T], location: str, timeout: float, *, otherwise: str = NOT_WRITTEN) -> T:
    """Call until the database is not busy, with jitter, under one deadline.

    SQLite's own busy handler does not cover every case (switching to WAL ignores it) and sleeps in
    step with other processes; this one covers all and does not.
    """
    deadline = time.monotonic() + timeout
    pause = 0.0005
    while True:
        try:
            return attempt()
        except (apsw.BusyError, apsw.LockedError, apsw.ProtocolError) as exc:
            left = deadline - time.monotonic()
            if left <= 0:
                raise StoreBusyError(f"others held {location} for {timeout:g} s: {otherwise}") from exc
            jitter = os.urandom(1)[0] / 255  # `random` takes longer to import than a store to open
            time.sleep(min(left, pause / 2 * (1 + jitter)))
            pause = min(pause * 1.5, LONGEST_PAUSE)


def create_private(path: Path) -> None:
    """Make the file 0600 and its directories 0700, whatever the umask, and durable by name."""
    refuse_planted(path, writing=True)
    missing = make_directories(path.parent)
    try:
        handle = create_file(path)
    except FileExistsError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    for directory in {path.parent, *(made.parent for made in missing)}:
        sync_directory(directory)


def _settle(connection: apsw.Connection) -> None:
    """Settings that every connection needs."""
    for setting in sql.SETTINGS:
        connection.execute(setting)


def open_writer(path: Path, level: Level, timeout: float, known: Known = STORE) -> apsw.Connection:
    """A connection that may write, on a database of the newest schema; a new one, if there is none.

    Raises ForeignSchemaError, before anything is written, for one whose schema is not ours.
    """
    create_private(path)
    connection = apsw.Connection(str(path), flags=WRITING)
    try:
        defend(connection)
        # What is refused stays as it is: its log is for the program that wrote it to fold.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, _has_log(path))
        version = patiently(lambda: _check_version(connection, path, known), str(path), timeout)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        _settle(connection)
        if version == 0:
            connection.execute(sql.PAGE_SIZE)
        mode = patiently(lambda: connection.execute(sql.USE_LOG).fetchone(), str(path), timeout)
        connection.execute(sql.SET_SYNCHRONOUS[SYNCHRONOUS[level]])
        refuse_planted(path, writing=True)  # SQLite has opened all that it found by now
        connection.wal_autocheckpoint(CHECKPOINT_PAGES)
        found = connection.execute(sql.SYNCHRONOUS).fetchone()
        if mode != ("wal",) or found != (SYNCHRONOUS[level],):
            raise BackendUnavailableError(
                f"{path} cannot promise durability {level!r}: journal mode {mode}, synchronous {found};"
                " is it on a network file system?"
            )
        if version < newest():
            patiently(lambda: _migrate(connection, path, known), str(path), timeout)
    except BaseException:
        connection.close(True)
        raise
    return connection


def open_reader(path: Path, timeout: float, *, immutable: bool = False) -> apsw.Connection:
    """One more connection to a database that a writer has opened; it cannot write."""
    refuse_planted(path)
    name, flags = str(path), READING
    if immutable:
        from urllib.parse import quote  # seldom needed, and takes as long to import as opening takes

        name, flags = f"file:{quote(name)}?immutable=1", flags | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(name, flags=flags)
    defend(connection)
    connection.set_busy_timeout(int(timeout * 1000))
    _settle(connection)
    return connection


def _has_log(path: Path) -> bool:
    log = path.with_name(path.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def open_read_only(path: Path, timeout: float) -> tuple[apsw.Connection, Path, bool]:
    """A connection to a database that must not, or cannot, be written; the path that it reads, and
    whether no process can write there.

    A database in WAL mode cannot be opened plainly on a read-only file system. `immutable` opens
    it, but ignores a write-ahead log: when there is one, both are copied aside first.
    """
    try:
        return _checked(path, path, timeout), path, False
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError):
        pass
    if not _has_log(path):
        return _checked(path, path, timeout, immutable=True), path, True
    import shutil

    from clew.core.work_folder import make_work_folder, remove_work_folder

    aside = make_work_folder("copy") / path.name
    try:
        for name in (path.name, path.name + "-wal"):
            shutil.copyfile(path.with_name(name), aside.with_name(name))
            aside.with_name(name).chmod(0o600)
        return _checked(aside, path, timeout), aside, False
    except BaseException:
        remove_work_folder(aside.parent)
        raise


def _checked(path: Path, given: Path, timeout: float, *, immutable: bool = False) -> apsw.Connection:
    try:
        connection = open_reader(path, timeout, immutable=immutable)
        _check_version(connection, given, writing=False)
    except apsw.NotADBError as exc:
        raise InvalidUrlError(f"{given} is not a Clew store: it is not an SQLite database") from exc
    return connection


def _check_version(
    connection: apsw.Connection, path: Path, known: Known = STORE, *, writing: bool = True
) -> int:
    """The schema version; 0 for a new file. Refuses what is not ours, without a write."""
    begun = connection.in_transaction
    try:
        if not begun:  # one view of all three: another process may be making the schema right now
            connection.execute(sql.BEGIN)
        version = int(connection.execute(sql.VERSION).get)
        owner = int(connection.execute(sql.OWNER).get)
        tables = connection.execute(sql.SCHEMA_SIZE).get
        if owner == sql.APPLICATION_ID and version in MIGRATIONS:
            check = check_writable if writing else check_readable
            check(connection, version, str(path), known)
        if owner == sql.APPLICATION_ID and version > newest():
            raise SchemaTooNewError(str(path), version, newest(), written_by(connection))
    except apsw.NotADBError as exc:
        raise InvalidUrlError(f"{path} is not a Clew store: it is not an SQLite database") from exc
    finally:
        if not begun and connection.in_transaction:
            connection.execute(sql.ROLLBACK)
    if owner != sql.APPLICATION_ID:
        if path.stat().st_size == 1:  # SQLite takes such a file for an empty one, and would write over it
            raise InvalidUrlError(f"{path} is not a Clew store: it is not an SQLite database")
        if owner or version or tables:
            raise InvalidUrlError(f"{path} is not a Clew store: it is a database of another program")
        return 0
    if version < 1:
        raise CorruptError(f"{path}: the version of its schema is lost, it says {version}")
    if version not in MIGRATIONS:
        raise SchemaTooOldError(str(path), version)
    return version


def refuse_newer(connection: apsw.Connection, location: str) -> None:
    """At the beginning of every transaction that writes: a newer Clew may have migrated the store since
    this process has opened it."""
    found = connection.execute(sql.VERSION).get
    if found > newest():
        raise SchemaTooNewError(location, found, newest(), written_by(connection))


def _migrate(connection: apsw.Connection, path: Path, known: Known) -> None:
    """All missing steps in one transaction: a crash leaves the old schema or the new one."""
    connection.execute(sql.BEGIN_WRITING)
    try:
        version = _check_version(connection, path, known)  # another process may have been faster
        for name in steps(version):
            connection.execute(migration(name))
        connection.execute(sql.FORGET_WRITTEN_BY)
        connection.execute(sql.SET_WRITTEN_BY, (__version__,))
        connection.execute(sql.SET_OWNER)
        connection.execute(sql.set_version(newest()))
        connection.execute(sql.COMMIT)
    except BaseException:
        if connection.in_transaction:  # SQLite ends it by itself when the disk fails
            connection.execute(sql.ROLLBACK)
        raise


# -- the errors of the driver as ours


def translate(exc: apsw.Error, location: str) -> ClewError:
    """The error of ours that says what `exc` means to a user."""
    detail = f"{location}: {exc}"
    match exc:
        case apsw.FullError():
            return DiskFullError(f"no space left to write {detail}")
        case apsw.IOError() | apsw.CantOpenError() if disk_is_full(location):
            return DiskFullError(f"no space left to write {detail}")
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return StoreBusyError(f"other processes hold {detail}")
        case apsw.ReadOnlyError():
            return ReadOnlyError(f"cannot write {detail}")
        case apsw.CorruptError() | apsw.NotADBError():
            return CorruptError(f"damaged database {detail}")
        case apsw.CantOpenError() | apsw.PermissionsError() | apsw.AuthError():
            return BackendUnavailableError(f"cannot open {detail}")
        case apsw.TooBigError():
            return InvalidEntryError("larger than SQLite can store")
        case _:
            return BackendError(f"{type(exc).__name__} of {detail}")


def disk_is_full(location: str) -> bool:
    """Some file systems report a full disk as a plain I/O error."""
    try:
        room = os.statvfs(os.path.dirname(location) or ".")
    except OSError as exc:
        return exc.errno == errno.ENOSPC
    return room.f_bavail == 0


def full_disk(exc: OSError, location: str) -> DiskFullError | None:
    """The error of ours for a disk or quota that is full; None: it is another error."""
    is_full = exc.errno in (errno.ENOSPC, errno.EDQUOT)
    return DiskFullError(f"no space left to write {location}: {exc}") if is_full else None


def reraise(exc: BaseException | None, location: str) -> None:
    """What went wrong inside a transaction or a read, as an error of ours."""
    if isinstance(exc, apsw.Error):
        raise translate(exc, location) from exc
    if isinstance(exc, msgspec.DecodeError | UnicodeDecodeError):
        raise CorruptError(f"a record in {location} is damaged: {exc}") from exc


class translating:
    """`with translating(location):` no driver error leaves the block."""

    __slots__ = ("location",)

    def __init__(self, location: str) -> None:
        self.location = location

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(exc, apsw.Error):
            raise translate(exc, self.location) from exc
        if isinstance(exc, OSError):
            if (full := full_disk(exc, self.location)) is not None:
                raise full from exc
            raise BackendUnavailableError(f"cannot open {self.location}: {exc}") from exc
