"""The PostgreSQL backend keeps the contract, and keeps it across restarts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from clew.backends.postgres import PostgresBackend
from clew.testing.backend import BackendConformance, DurableConformance
from tests.backends.postgres.servers.clock import Timed

FILES = """
    WITH tables AS (SELECT * FROM pg_class
                    WHERE relnamespace = to_regnamespace(%(s)s)::oid AND relkind = 'r'),
         kept AS (SELECT oid FROM tables UNION ALL SELECT reltoastrelid FROM tables WHERE reltoastrelid <> 0)
    SELECT current_setting('data_directory'), pg_relation_filepath(file)
    FROM (SELECT oid AS file FROM kept UNION ALL
          SELECT indexrelid FROM pg_index WHERE indrelid IN (SELECT oid FROM kept)) AS files
"""


class TestPostgres(BackendConformance, DurableConformance):
    @pytest.fixture(autouse=True)
    def _server_has_the_clock_of_the_test(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("clew.core.engine.engine.Host", Timed)

    @pytest.fixture
    def backend(self, emptied_postgres: str) -> Iterator[PostgresBackend]:
        # Tables are rewritten after a purge: the test that looks for traces looks into their files.
        with closing(PostgresBackend(emptied_postgres, scrub="full")) as backend:
            yield backend

    def reopen(self, backend: PostgresBackend) -> PostgresBackend:  # type: ignore[override]
        backend.close()
        return PostgresBackend(backend.location, scrub="full")

    def files(self, backend: PostgresBackend) -> list[Path]:  # type: ignore[override]
        """The files of all tables and indexes, as they are on the disk."""
        with psycopg.connect(backend.location.partition("?")[0], autocommit=True) as connection:
            connection.execute("CHECKPOINT")
            rows = connection.execute(FILES, {"s": backend.database.schema.quoted}).fetchall()
        return [file for base, path in rows for file in Path(base).glob(f"{path}*")]
