"""The SQLite backend keeps the contract, and keeps it across restarts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from clew.backends.sqlite import SqliteBackend
from clew.testing.backend import BackendConformance, DurableConformance


class TestSqlite(BackendConformance, DurableConformance):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> Iterator[SqliteBackend]:
        with closing(SqliteBackend(tmp_path / "clew.db")) as backend:
            yield backend

    def reopen(self, backend: SqliteBackend) -> SqliteBackend:  # type: ignore[override]
        backend.close()
        return SqliteBackend(backend.path)
