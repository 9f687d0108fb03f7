"""The file of the index: opened if it can be used, else made anew of the logs."""

from __future__ import annotations

import os
import re
import stat
import struct
import time
from pathlib import Path
from typing import Final

import apsw
import msgspec

from clew.backends.jsonl import disk
from clew.backends.jsonl.disk import File, NotOursError, StrangeFileError
from clew.backends.jsonl.layout import INDEX_FILE, Layout
from clew.backends.jsonl.log_file import tell
from clew.backends.jsonl.recover import catch_up, is_behind
from clew.backends.jsonl.sql import INDEX, INDEX_VERSION, SCHEMA, TABLES, TABLES_THERE, VERSION
from clew.backends.sqlite.connection import open_reader, open_writer, patiently
from clew.backends.sqlite.schema import MIGRATIONS, check_writable
from clew.backends.sqlite.side_files import BESIDE
from clew.errors import CorruptError, CorruptSessionError, InvalidUrlError, SchemaTooNewError

# ── By which errors an index that can not be used is known: it is a cache, and made anew ──────────

_WRONG: Final = (
    apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.ConstraintError, apsw.MismatchError,
)  # fmt: skip
BROKEN: Final = (*_WRONG, CorruptError, InvalidUrlError, SchemaTooNewError)
"""When it is opened."""
NONSENSE: Final = (
    *_WRONG, msgspec.MsgspecError, ValueError, TypeError, LookupError, ArithmeticError, StopIteration,
    struct.error,
)  # fmt: skip
"""When it catches up: of rows that nobody wrote. The logs can not be the cause, their lines are checked."""
MEANINGLESS: Final = (
    apsw.SQLError, msgspec.MsgspecError, UnicodeDecodeError, struct.error, CorruptSessionError,
)  # fmt: skip
"""When it is read."""


# ── The file of the index: opened if it can be used, else made anew of the logs ───────────────────
# A new one is made beside, and gets its name when it is whole. So whoever finds an index finds one that has
# all that the logs had at some moment; and whoever fails to make one has changed nothing.

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
    """A connection that may write. Raises one of `index_errors.BROKEN` for one that can not be used."""
    # "process": it is only a cache, but must be whole after a power cut, if older.
    writer = open_writer(layout.index, "process", timeout, INDEX)
    try:
        patiently(lambda: writer.execute("BEGIN IMMEDIATE"), str(layout.root), timeout)
        if writer.execute(TABLES_THERE).get != TABLES:
            raise apsw.CorruptError("an index that lost a table")
        if writer.execute(INDEX_VERSION).get != VERSION:
            raise apsw.CorruptError("an index of another version")
        writer.execute("COMMIT")
    except BaseException:
        writer.close(True)
        raise
    return writer


def make_index(layout: Layout, timeout: float) -> None:
    """Make an index of the logs, and put it in the place of what is there, which is set aside. Needs the
    store's lock, and that the journal is done."""
    for name in disk.names(layout.top):  # of those who did not come to their end
        if _LEFT.fullmatch(name):
            disk.remove(layout.top.file(name))
    made = layout.top.file(f"{INDEX_FILE}.{os.urandom(8).hex()}.new")
    try:
        disk.close(disk.create(made))
        writer = open_writer(made.path, "process", timeout)
        try:
            writer.execute(SCHEMA)
            catch_up(writer, layout, repair=True)
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # syncs it
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


# ── Reading only ──────────────────────────────────────────────────────────────────────────────────
# A store that must not, or can not, be written: its index is used as it is, or one is made elsewhere.

TRIES: Final = 20
"""How often it begins again because others purge."""


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
            check_writable(connection, len(MIGRATIONS), str(layout.index), INDEX)
            if connection.execute(INDEX_VERSION).get == VERSION and not is_behind(connection, layout):
                return connection, layout.index
            connection.close()
        except (apsw.Error, CorruptError, InvalidUrlError):
            pass  # a cache: another one will do
    return _elsewhere(layout, timeout)


def _elsewhere(layout: Layout, timeout: float) -> tuple[apsw.Connection, Path]:
    import shutil
    import tempfile

    aside = Path(os.path.realpath(tempfile.mkdtemp(prefix="clew-"))) / "index.db"
    try:
        writer = open_writer(aside, "process", timeout)
        try:
            writer.execute(SCHEMA)
            catch_up(writer, layout, repair=False)
        finally:
            writer.close()
        return open_reader(aside, timeout), aside
    except BaseException:
        shutil.rmtree(aside.parent, ignore_errors=True)
        raise
