"""A store that must not, or can not, be written: its index is used as it is, or one is made elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import apsw

from clew.backends.jsonl.catching_up import catch_up, is_behind
from clew.backends.jsonl.index_file import is_sound
from clew.backends.jsonl.layout import Layout
from clew.backends.jsonl.statements import INDEX, INDEX_VERSION, SCHEMA, VERSION
from clew.backends.sqlite.connection import open_reader, open_writer
from clew.backends.sqlite.schema import MIGRATIONS, check_writable
from clew.errors import CorruptError, InvalidUrlError

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
