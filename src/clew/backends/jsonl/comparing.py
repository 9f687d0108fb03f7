"""Whether the index says what the logs say: another one is made of the logs, and the two are compared.

The logs are read as far as the index says that it has read them, so others may go on writing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from clew.backends.jsonl import disk
from clew.backends.jsonl.layout import STORE_LOG, Layout
from clew.backends.jsonl.log_row import LogRow
from clew.backends.jsonl.reading_logs import read_log
from clew.backends.jsonl.recognizing import UnreadableLogError, is_same, reading
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


class WrittenAnewError(Exception):
    """Somebody wrote a log anew meanwhile: look again."""


class Compared(NamedTuple):
    unread: list[str]
    """What is wrong with the logs that can not be read: if there are any, nothing was compared."""
    differing: list[str]
    """Of each table the first row in which the index differs."""


def compare(connection: apsw.Connection, layout: Layout) -> Compared:
    """Hold the index against the logs. It must not have damage of its own.

    Raises:
        WrittenAnewError: it can not be told now.
    """
    rows = [LogRow(*row) for row in connection.execute(ALL_LOGS)]
    with tempfile.TemporaryDirectory(prefix="clew-") as aside:
        made = open_writer(Path(aside, "index.db"), "process", 0)
        try:
            made.execute(SCHEMA)
            unread = list(_read_all(made, layout, rows))
            return Compared(unread, [] if unread else list(_differing(connection, made)))
        finally:
            made.close(True)


def _differing(connection: apsw.Connection, made: apsw.Connection) -> Iterator[str]:
    for table, (columns, order) in TABLES.items():
        text = f"SELECT {columns} FROM {table} ORDER BY {order}"  # noqa: S608 - of this file
        found = _first_difference(connection.execute(text), made.execute(text))
        if found is not None:
            yield f"the index does not say what the logs say: {table}, the row of {found}"


def _read_all(made: apsw.Connection, layout: Layout, rows: list[LogRow]) -> Iterator[str]:
    """Fill an index; what is wrong with the logs that can not be read."""
    made.execute("BEGIN")
    made.execute(LOOSEN)
    for row in sorted(rows, key=lambda row: (row.name != STORE_LOG, row.name)):
        made.execute(ADD_PLAIN_LOG, (row.log, row.name))
        if row.applied:
            try:
                _read(made, layout, row)
            except UnreadableLogError as exc:
                yield f"{exc} ({layout.path(row.name)})"
    made.execute("COMMIT")


def _read(made: apsw.Connection, layout: Layout, row: LogRow) -> None:
    with reading(row.name):
        try:
            handle = disk.open_for_reading(layout.path(row.name))
        except FileNotFoundError as exc:
            raise WrittenAnewError from exc
        try:
            if not is_same(handle, row):
                raise WrittenAnewError
            plain = LogRow(row.log, row.name, 0, 0, 0, 0, 0, b"", 0, 0, 0)
            read_log(made, handle, plain, limit=row.applied)
        finally:
            disk.close(handle)


def _first_difference(one: Any, other: Any) -> object:
    for mine, right in zip_longest(one, other):
        if mine != right:
            return (mine or right)[0]
    return None
