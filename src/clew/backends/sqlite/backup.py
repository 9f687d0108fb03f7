"""A copy of the database in another file, while others write."""

from __future__ import annotations

from pathlib import Path

from clew.backends.sqlite.backend import SqliteBackend
from clew.backends.sqlite.connection import create_private
from clew.backends.sqlite.failures import translating


def write_backup(backend: SqliteBackend, to: Path) -> None:
    """One reading transaction, so it is the database of one moment. The backup interface of SQLite would
    begin anew whenever another process writes, and might never end."""
    with backend.read() as reader, translating(str(to)):
        create_private(to)
        connection = reader.connection
        connection.execute("PRAGMA temp_store = FILE")  # a copy of all is no thing for the memory
        try:
            connection.execute("VACUUM INTO ?", (str(to),))
        finally:
            connection.execute("PRAGMA temp_store = MEMORY")
