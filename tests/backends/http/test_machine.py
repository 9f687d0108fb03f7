"""The state machine of clew.testing on a store that is served: every write is looked at by the server."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import clew
from clew.backends.contract import Backend
from clew.backends.http.backend import HttpBackend
from clew.testing.machine import make_machine
from tests.backends.http.serving import Serving, serving
from tests.backends.postgres.servers.clock import Timed
from tests.support.effort import usually

EXAMPLES = settings().max_examples
_serving: list[Serving] = []
_directories: list[Path] = []


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[None]:
    """Examples are made without fixtures: one server, and a new store behind it for each."""
    with pytest.MonkeyPatch.context() as patch, serving() as found:
        patch.setattr("clew.core.engine.engine.Host", Timed)
        _serving.append(found)
        yield
        _serving.clear()
    while _directories:
        shutil.rmtree(_directories.pop())


def over_memory() -> HttpBackend:
    return _serving[0].put(clew.open("memory:"))


def over_sqlite() -> HttpBackend:
    _directories.append(Path(tempfile.mkdtemp(prefix="clew-machine-")))
    return _serving[0].put(clew.open(_directories[-1] / "clew.db", durability="process"))


def reopened(backend: Backend) -> HttpBackend:
    """The client and the store behind the server are closed and opened again."""
    backend.close()
    return _serving[0].put(clew.open(_directories[-1] / "clew.db", durability="process"))


def play(machine: Any, examples: int) -> None:
    machine.settings = settings(
        max_examples=examples, stateful_step_count=50, suppress_health_check=list(HealthCheck)
    )
    machine().runTest()


def test_a_few_stories_over_sqlite() -> None:
    """Some hundred requests, and after each all that is there is compared: that takes a second."""
    play(make_machine(over_sqlite, reopen=reopened), 2)


def test_many_stories_over_memory() -> None:
    play(make_machine(over_memory), EXAMPLES // usually(10, thorough=4))


def test_many_stories_over_sqlite() -> None:
    play(make_machine(over_sqlite, reopen=reopened), EXAMPLES // usually(12, thorough=4))
