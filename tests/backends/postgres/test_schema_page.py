"""docs/reference/postgres-schema.md tells of the tables as they are."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg

import clew
from clew.backends.postgres.migrate import TABLES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "postgres-schema.md"


def told() -> dict[str, tuple[str, list[str]]]:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return {table: (key, re.findall(r"`(\w+)`", columns.partition(":")[0])) for table, key, columns in rows}


def test_the_page_has_every_table_with_every_column(postgres_place: str) -> None:
    clew.open(postgres_place).close()
    url, _, schema = postgres_place.partition("?schema=")
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = %s AND table_name <> 'meta' ORDER BY table_name, ordinal_position",
            (schema,),
        ).fetchall()
    found: dict[str, list[str]] = {}
    for table, column in rows:
        found.setdefault(table, []).append(column)

    assert {table: columns for table, (_, columns) in told().items()} == found
    assert {table: key for table, (key, _) in told().items()} == TABLES
