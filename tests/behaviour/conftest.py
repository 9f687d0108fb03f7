"""What Clew promises of a store is the same on every backend: each test here runs on all four."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from clew.backends.contract import Backend
from clew.backends.jsonl import JsonlBackend
from clew.backends.memory import MemoryBackend
from clew.backends.sqlite import SqliteBackend
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking
from tests.backends.postgres.servers.clock import Timed

BACKENDS = ("memory", "sqlite", "jsonl", "postgres")


@pytest.fixture(params=BACKENDS)
def backend(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Backend]:
    """A fresh, empty backend, of each kind in turn."""
    with closing(opened(request, tmp_path, monkeypatch)) as made:
        yield made


def opened(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backend:
    made: Backend
    if request.param == "memory":
        made = MemoryBackend()
    elif request.param == "sqlite":
        made = SqliteBackend(tmp_path / "clew.db")
    elif request.param == "jsonl":
        made = JsonlBackend(tmp_path / "store")
    else:
        from clew.backends.postgres import PostgresBackend

        monkeypatch.setattr("clew.core.engine.engine.Host", Timed)  # the server has the clock of the test
        made = PostgresBackend(request.getfixturevalue("emptied_postgres"), scrub="full")
    return made


@pytest.fixture
def clock() -> Ticking:
    return Ticking()


@pytest.fixture
def store(backend: Backend, clock: Ticking) -> Iterator[Store]:
    with Store(backend, clock=clock) as store:
        yield store


@pytest.fixture
def s(store: Store) -> Session:
    return store.session("s")


# -- stores whose clocks a test can set


@pytest.fixture
def wall() -> Ticking:
    """The clock on the wall, which anybody may set."""
    return Ticking(step=0)


@pytest.fixture
def steady() -> Ticking:
    """The clock for leases, which nobody can set."""
    return Ticking(now=5_000_000, step=0)


@pytest.fixture
def timed(backend: Backend, wall: Ticking, steady: Ticking) -> Iterator[Store]:
    with Store(backend, clock=wall, steady=steady) as store:
        yield store


@pytest.fixture
def real(backend: Backend) -> Iterator[Store]:
    """A store that goes by the time of the machine."""
    with Store(backend) as store:
        yield store
