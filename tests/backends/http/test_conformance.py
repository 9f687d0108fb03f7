"""The storage contract over HTTP: a client, a real server on the loopback interface, a store behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

import clew
from clew.backends.http.backend import HttpBackend
from clew.server.rows.door import Door
from clew.testing.backend import BackendConformance, DurableConformance
from tests.backends.postgres.servers.clock import Timed
from tests.server.conftest import TOKEN, Running, running


@pytest.fixture(autouse=True)
def _server_has_the_clock_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.core.engine.engine.Host", Timed)


def unchecked(server: Running) -> Running:
    """The suite writes rows that Clew would not: only what each row can be is looked at."""
    server.app.rows.close()
    server.app.rows = Door(server.store._engine, is_checked=False)
    return server


class TestOverMemory(BackendConformance):
    @pytest.fixture
    def backend(self) -> Iterator[HttpBackend]:
        with (
            clew.open("memory:") as store,
            running(store) as server,
            closing(HttpBackend(unchecked(server).url, token=TOKEN)) as backend,
        ):
            yield backend


class TestOverSqlite(BackendConformance, DurableConformance):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        return tmp_path / "served" / "store.db"

    @pytest.fixture
    def backend(self, place: Path) -> Iterator[HttpBackend]:
        self._place = place
        self._opened = ExitStack()
        with self._opened:
            yield self._start()

    def _start(self) -> HttpBackend:
        store = self._opened.enter_context(clew.open(self._place, durability="process"))
        server = unchecked(self._opened.enter_context(running(store)))
        backend = HttpBackend(server.url, token=TOKEN)
        self._opened.callback(backend.close)
        return backend

    def reopen(self, backend: HttpBackend) -> HttpBackend:  # type: ignore[override]
        """The client, the server and the store behind it are all started anew."""
        self._opened.pop_all().close()
        return self._start()

    def files(self, backend: HttpBackend) -> list[Path]:  # type: ignore[override]
        return [file for file in self._place.parent.glob(f"{self._place.name}*") if file.is_file()]
