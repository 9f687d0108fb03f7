"""The file of the index: opened if it can be used, else made anew of the logs.

A new one is made beside, and gets its name when it is whole. So whoever finds an index finds one that has
all that the logs had at some moment; and whoever fails to make one has changed nothing.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import apsw

from clew.backends.jsonl import disk
from clew.backends.jsonl.catching_up import catch_up
from clew.backends.jsonl.layout import Layout
from clew.backends.jsonl.statements import INDEX, INDEX_VERSION, SCHEMA, TABLES, TABLES_THERE, VERSION
from clew.backends.sqlite.connection import create_private, open_writer, patiently

BESIDE: Final = ("-wal", "-shm")
"""How the names of the files end that SQLite keeps beside a database."""


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
    for file in layout.root.glob("index.db.*.new*"):  # of those who did not come to their end
        disk.remove(file)
    made = layout.index.with_name(f"{layout.index.name}.{os.urandom(4).hex()}.new")
    try:
        create_private(made)
        writer = open_writer(made, "process", timeout)
        try:
            writer.execute(SCHEMA)
            catch_up(writer, layout, repair=True)
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # syncs it
        finally:
            writer.close()
        set_index_aside(layout)
        disk.replace(made, layout.index)
        disk.sync_directory(layout.root)
    except BaseException:
        for end in ("", *BESIDE):
            disk.remove(Path(f"{made}{end}"))
        raise


def set_index_aside(layout: Layout) -> None:
    """Rename what is there. A log of SQLite that is left without its database must go: it would be taken for
    that of the next one."""
    stamp = time.time_ns() // 1_000_000
    is_there = layout.index.exists()
    for end in ("", *BESIDE):
        file = Path(f"{layout.index}{end}")
        if is_there and file.exists():
            disk.replace(file, Path(f"{layout.index}.corrupt-{stamp}{end}"))
        else:
            disk.remove(file)
