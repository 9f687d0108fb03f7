"""Leases are what several machines meet at: these tests run over HTTP too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from clew.backends.contract import Backend
from clew.backends.sqlite import SqliteBackend
from clew.store import Store
from tests.backends.http.serving import Serving, serving
from tests.backends.postgres.servers.clock import Timed
from tests.behaviour.conftest import BACKENDS, opened


@pytest.fixture(scope="session")
def served() -> Iterator[Serving]:
    """A server, for all tests that open their store over HTTP."""
    with serving() as found:
        yield found


@pytest.fixture(params=(*BACKENDS, "http"))
def backend(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Backend]:
    if request.param != "http":
        with closing(opened(request, tmp_path, monkeypatch)) as made:
            yield made
        return
    monkeypatch.setattr("clew.core.engine.engine.Host", Timed)  # the server has the clock of the test
    behind = Store(SqliteBackend(tmp_path / "clew.db", durability="process"))
    with closing(request.getfixturevalue("served").put(behind)) as made:
        yield made
