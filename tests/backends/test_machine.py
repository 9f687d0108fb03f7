"""The state machine of clew.testing on the backends of this package."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from clew.backends.contract import Backend
from clew.backends.jsonl import JsonlBackend
from clew.backends.memory import MemoryBackend
from clew.backends.postgres import PostgresBackend
from clew.backends.sqlite import SqliteBackend
from clew.testing.machine import make_machine
from tests.backends.postgres.servers.clock import Timed
from tests.support.effort import usually

# Seconds when all is well; but Hypothesis shrinks a failure for up to five minutes.
pytestmark = pytest.mark.timeout(900)

_place: list[Path] = []
_server: list[tuple[str, Callable[[], None]]] = []


@pytest.fixture(autouse=True)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Examples are made without fixtures: where they find room, and a server."""
    _place.append(tmp_path)
    if request.cls is TestPostgres:
        monkeypatch.setattr("clew.core.engine.engine.Host", Timed)
        fixtures = map(request.getfixturevalue, ("emptied_postgres", "empty_reused"))
        _server.append(tuple(fixtures))
    yield
    _place.clear()
    _server.clear()


def machine(new: Callable[[], Backend], reopen: Any, *, percent: int, steps: int) -> Any:
    """Percent of the examples of the profile: that has 100, or 1000 with --hypothesis-profile=thorough."""
    made = make_machine(new, reopen=reopen)
    made.settings = settings(  # type: ignore[attr-defined]
        max_examples=max(settings().max_examples * percent // 100, 1),
        stateful_step_count=steps,
        suppress_health_check=list(HealthCheck),
    )
    return made


# "process": what is compared here is behaviour, and a few thousand fsyncs would not add to it.


def new_database() -> SqliteBackend:
    return SqliteBackend(Path(tempfile.mkdtemp(dir=_place[0])) / "clew.db", durability="process")


def reopened_database(backend: Backend) -> SqliteBackend:
    backend.close()
    return SqliteBackend(backend.location, durability="process")


def new_folder() -> JsonlBackend:
    return JsonlBackend(tempfile.mkdtemp(dir=_place[0]), durability="process")


def reopened_folder(backend: Backend) -> JsonlBackend:
    """Without the index, which is made again."""
    backend.close()
    for file in Path(backend.location).glob("index.db*"):
        file.unlink()
    return JsonlBackend(backend.location, durability="process")


def new_schema() -> PostgresBackend:
    ((url, empty),) = _server
    empty()
    return PostgresBackend(url)


def reopened_schema(backend: Backend) -> PostgresBackend:
    backend.close()
    return PostgresBackend(_server[0][0])


TestMemory = machine(MemoryBackend, None, percent=usually(40, quick=10, thorough=150), steps=60)
TestSqlite = machine(new_database, reopened_database, percent=usually(50, quick=12, thorough=80), steps=50)
TestJsonl = machine(new_folder, reopened_folder, percent=usually(25, quick=8, thorough=50), steps=40)
TestPostgres = machine(new_schema, reopened_schema, percent=usually(6, quick=2, thorough=12), steps=40)
