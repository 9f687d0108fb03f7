"""Does the index say what the logs say? A second index is made of the logs, and the two are compared.

The logs are read as far as the index says that it has read them, so others may go on writing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

import apsw

from clew.backends.jsonl import disk
from clew.backends.jsonl.layout import STORE_LOG, Layout
from clew.backends.jsonl.log_file import LogRow, UnreadableLogError, is_same, reading
from clew.backends.jsonl.recover import read_log
from clew.backends.jsonl.sql import (
    ADD_PLAIN_LOG,
    ALL_DAMAGE,
    ALL_LOGS,
    CONTENTS,
    LOOSEN,
    SCHEMA,
)
from clew.backends.sqlite.connection import open_writer
from clew.backends.sqlite.schema import watching_time
from clew.backends.sqlite.sql import BEGIN, COMMIT
from clew.core.work_folder import work_folder


class WrittenAnewError(Exception):
    """A log was rewritten meanwhile: look again."""


class Compared(NamedTuple):
    damaged: list[tuple[str, int, str]]
    """(log, line, reason) of what cannot be read of the logs, line 0: all of it. The index may know what was
    there; so if there is any, nothing was compared."""
    differing: list[str]
    """Of each table the first row in which the index differs."""


def compare(connection: apsw.Connection, layout: Layout, go_on: Callable[[], None]) -> Compared:
    """Hold the index against the logs. `go_on` is called often, and raises when time is over.

    Raises:
        WrittenAnewError: it cannot be told now.
    """
    rows = [LogRow(*row) for row in connection.execute(ALL_LOGS)]
    with work_folder("index") as aside:
        made = open_writer(aside / "index.db", "process", 0)
        try:
            with watching_time(made, go_on):
                made.execute(SCHEMA)
                damaged = [*_read_all(made, layout, rows), *made.execute(ALL_DAMAGE)]
                return Compared(damaged, [] if damaged else list(_differing(connection, made)))
        finally:
            made.close(True)


def _differing(connection: apsw.Connection, made: apsw.Connection) -> Iterator[str]:
    for table, text in CONTENTS.items():
        found = _first_difference(connection.execute(text), made.execute(text))
        if found is not None:
            yield f"the index does not say what the logs say: {table}, the row of {found}"


def _read_all(made: apsw.Connection, layout: Layout, rows: list[LogRow]) -> Iterator[tuple[str, int, str]]:
    """Fill an index; which logs cannot be read, and why."""
    made.execute(BEGIN)
    made.execute(LOOSEN)
    for row in sorted(rows, key=lambda row: (row.name != STORE_LOG, row.name)):
        made.execute(ADD_PLAIN_LOG, (row.log, row.name))
        if row.applied:
            try:
                _read(made, layout, row)
            except UnreadableLogError as exc:
                yield row.name, 0, str(exc.reason)
    made.execute(COMMIT)


def _read(made: apsw.Connection, layout: Layout, row: LogRow) -> None:
    with reading(row.name):
        try:
            handle = disk.open_for_reading(layout.file(row.name))
        except FileNotFoundError as exc:
            raise WrittenAnewError from exc
        try:
            if not is_same(handle, row):
                raise WrittenAnewError
            # All of it was whole when the index read it: what is not now is damaged, not torn.
            plain = LogRow(row.log, row.name, 0, 0, 0, 0, 0, b"", 0, 0, row.applied)
            read_log(made, handle, plain, limit=row.applied)
        finally:
            disk.close(handle)


def _first_difference(one: Any, other: Any) -> object:
    for mine, right in zip_longest(one, other):
        if mine != right:
            return (mine or right)[0]
    return None
