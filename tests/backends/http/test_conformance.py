"""The storage contract over HTTP: a client, a real server on the loopback interface, a store behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

import clew
from clew.backends.http.backend import HttpBackend
from clew.testing.backend import BackendConformance, DurableConformance
from tests.backends.http.serving import Serving, serving
from tests.backends.postgres.servers.clock import Timed


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    """One for all, with a store of its own behind it for each test.

    The suite writes rows that Clew would not: only what each row can be is looked at."""
    with serving() as found:
        yield found


@pytest.fixture(autouse=True)
def _server_has_the_clock_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.core.engine.engine.Host", Timed)


class TestOverMemory(BackendConformance):
    @pytest.fixture
    def backend(self, server: Serving) -> Iterator[HttpBackend]:
        with closing(server.put(clew.open("memory:"), is_checked=False)) as backend:
            yield backend


class TestOverSqlite(BackendConformance, DurableConformance):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        return tmp_path / "served" / "store.db"

    @pytest.fixture
    def backend(self, place: Path, server: Serving) -> Iterator[HttpBackend]:
        self._place = place
        self._server = server
        self._opened = ExitStack()
        with self._opened:
            yield self._start()
        server.end()

    def _start(self) -> HttpBackend:
        backend = self._server.put(clew.open(self._place, durability="process"), is_checked=False)
        self._opened.callback(backend.close)
        return backend

    def reopen(self, backend: HttpBackend) -> HttpBackend:  # type: ignore[override]
        """The client and the store behind the server are closed and opened again."""
        self._opened.pop_all().close()
        return self._start()

    def files(self, backend: HttpBackend) -> list[Path]:  # type: ignore[override]
        return [file for file in self._place.parent.glob(f"{self._place.name}*") if file.is_file()]
