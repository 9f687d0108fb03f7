"""Whether the index says what the logs say: another one is made of the logs, and the two are compared.

The logs are read as far as the index says that it has read them, so others may go on writing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import apsw

from clew.backends.jsonl import disk
from clew.backends.jsonl.layout import STORE_LOG, Layout
from clew.backends.jsonl.log_row import LogRow
from clew.backends.jsonl.reading_logs import read_log
from clew.backends.jsonl.statements import ADD_PLAIN_LOG, ALL_LOGS, LOOSEN, SCHEMA
from clew.backends.sqlite.connection import open_writer
from clew.backends.sqlite.statements import SESSION

# When a session is due is in no log.
TABLES: Final = {
    "sessions": (SESSION.removesuffix(", due"), "sid"),
    "details": ("sid, value", "sid"),
    "facets": ("name, value, sid", "name, value, sid"),
    "branches": ("branch, uid, tree, owner, parent, fork", "branch"),
    "places": ("branch, log", "branch"),
    "entries": ("*", "key"),
    "records": ("sid, kind, name, value", "sid, kind, name"),
    "events": ("*", "key"),
    "usage": ("*", "key"),
    "packs": ("*", "pack"),
    "objects": ("*", "key"),
}


def differences(connection: apsw.Connection, layout: Layout) -> Iterator[str]:
    """Of each table the first row in which the index differs. It must not have damage of its own."""
    rows = [LogRow(*row) for row in connection.execute(ALL_LOGS)]
    with tempfile.TemporaryDirectory(prefix="clew-") as aside:
        made = open_writer(Path(aside, "index.db"), "process", 0)
        try:
            made.execute(SCHEMA)
            if not _read_all(made, layout, rows):
                return
            for table, (columns, order) in TABLES.items():
                text = f"SELECT {columns} FROM {table} ORDER BY {order}"  # noqa: S608 - of this file
                found = _first_difference(connection.execute(text), made.execute(text))
                if found is not None:
                    yield f"the index does not say what the logs say: {table}, the row of {found}"
        finally:
            made.close(True)


def _read_all(made: apsw.Connection, layout: Layout, rows: list[LogRow]) -> bool:
    """False: a log was written anew meanwhile, so that the two can not be compared."""
    made.execute("BEGIN")
    made.execute(LOOSEN)
    for row in sorted(rows, key=lambda row: (row.name != STORE_LOG, row.name)):
        made.execute(ADD_PLAIN_LOG, (row.log, row.name))
        if not row.applied:
            continue
        try:
            handle = disk.open_for_reading(layout.path(row.name))
        except FileNotFoundError:
            return False
        try:
            if disk.inode(handle) != row.inode or disk.size(handle) < row.applied:
                return False
            plain = LogRow(row.log, row.name, 0, 0, 0, 0, 0, b"", 0, 0, 0)
            read_log(made, handle, plain, limit=row.applied)
        finally:
            disk.close(handle)
    made.execute("COMMIT")
    return True


def _first_difference(one: Any, other: Any) -> object:
    for mine, right in zip_longest(one, other):
        if mine != right:
            return (mine or right)[0]
    return None
