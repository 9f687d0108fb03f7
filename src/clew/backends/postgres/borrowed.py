"""Reads outside of transactions, on a connection borrowed from the pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from clew.backends.postgres.connection import DeadlineError, Line
from clew.backends.postgres.failures import FORGOTTEN, is_lost
from clew.backends.postgres.reader import PostgresReader
from clew.backends.postgres.rows import Row

if TYPE_CHECKING:
    from clew.backends.postgres.backend import PostgresBackend


class BorrowedReader(PostgresReader):
    """Each question sees everything committed before it. Reads can be repeated: a connection that is lost
    is replaced once."""

    def __init__(self, backend: PostgresBackend) -> None:
        super().__init__(backend.memory, backend.blobs)
        self._backend = backend
        self.line: Line = backend.pool.take()

    def ask(self, template: str, *given: Any) -> list[Row]:
        sql = self._backend.schema[template]
        try:
            return self.line.ask(sql, given)
        except psycopg.Error as exc:
            if isinstance(exc, FORGOTTEN):
                self._backend.stop_preparing()
                self.line.close()
            elif isinstance(exc, DeadlineError) or not (is_lost(exc) and self.line.closed):
                raise
        self._backend.pool.give(self.line)
        self.line = self._backend.pool.take()
        return self.line.ask(sql, given)

    def give_back(self) -> None:
        self._backend.pool.give(self.line)
