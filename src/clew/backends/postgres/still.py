"""Reading a whole store as it is at one moment, while others write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg

from clew.backends.postgres.blobs import Blobs
from clew.backends.postgres.connection import Line
from clew.backends.postgres.pool import Pool
from clew.backends.postgres.reader import PostgresReader
from clew.backends.postgres.row_cache import Memory
from clew.backends.postgres.rows import Row
from clew.backends.postgres.sql import LOCK_SHARED, Schema
from clew.backends.postgres.strays import still_key

_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_NO_HURRY: Final = "SET LOCAL idle_in_transaction_session_timeout = 0"
_NOW: Final = "SELECT 1"


class StillReader(PostgresReader):
    """Asks within one transaction. What this process remembers is of other moments, and is not used."""

    def __init__(self, line: Line, schema: Schema, blobs: Blobs | None) -> None:
        super().__init__(Memory(), blobs)
        self._line = line
        self._schema = schema

    def ask(self, template: str, *given: Any) -> list[Row]:
        return self._line.ask(self._schema[template], given)


@contextmanager
def standing_still(pool: Pool, schema: Schema, blobs: Blobs | None) -> Iterator[StillReader]:
    with _objects_kept(pool, schema, blobs), _transaction(pool, _BEGIN) as line:
        line.ask(_NOW, ())  # the first question decides on the moment
        yield StillReader(line, schema, blobs)


@contextmanager
def _objects_kept(pool: Pool, schema: Schema, blobs: Blobs | None) -> Iterator[None]:
    """Packs that are dropped later are still there at this moment, but their objects would not be.
    On a connection of its own: the lock has to be there before the moment is."""
    if blobs is None:
        yield
        return
    with _transaction(pool, "BEGIN") as line:
        line.run([(LOCK_SHARED, (still_key(schema),))])
        yield


@contextmanager
def _transaction(pool: Pool, begin: str) -> Iterator[Line]:
    line = pool.take()
    try:
        line.run([(begin, ()), (_NO_HURRY, ())])
        yield line
    finally:
        try:
            line.execute("ROLLBACK")
        except psycopg.Error:
            pass  # then the pool does not take it back
        pool.give(line)
