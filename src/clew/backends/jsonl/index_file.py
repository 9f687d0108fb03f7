"""The file of the index: opened if it can be used, else made anew of the logs.

A new one is made beside, and gets its name when it is whole. So whoever finds an index finds one that has
all that the logs had at some moment; and whoever fails to make one has changed nothing.
"""

from __future__ import annotations

import os
import re
import stat
import time
from typing import Final

import apsw

from clew.backends.jsonl import disk
from clew.backends.jsonl.catching_up import catch_up
from clew.backends.jsonl.directory import File, NotOursError, StrangeFileError
from clew.backends.jsonl.layout import INDEX_FILE, Layout
from clew.backends.jsonl.quarantine import tell
from clew.backends.jsonl.statements import INDEX, INDEX_VERSION, SCHEMA, TABLES, TABLES_THERE, VERSION
from clew.backends.sqlite.connection import open_writer, patiently
from clew.backends.sqlite.side_files import BESIDE

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
