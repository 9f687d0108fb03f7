"""Stores as earlier versions of Clew wrote them."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import apsw

from clew.backends.sqlite.connection import APPLICATION_ID
from clew.backends.sqlite.schema import MIGRATIONS

TEXTS = {"a": ["one", "two", "x" * 20_000], "f": ["one", "two", "x" * 20_000, "forked"]}
"""What the sessions of it say that are not in the trash."""


def store_of_schema_1(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN")
    migration = resources.files("clew.backends.sqlite").joinpath("migrations", MIGRATIONS[0])
    connection.execute(migration.read_text("utf-8"))
    connection.execute(Path(__file__).with_name("schema_1.sql").read_text("utf-8"))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    connection.execute("COMMIT")
    connection.close()
