"""The state machine of clew.testing on the backends of this package."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from clew.backends.contract import Backend
from clew.backends.memory import MemoryBackend
from clew.backends.sqlite import SqliteBackend
from clew.testing.machine import make_machine
from tests.support.effort import usually

# Seconds when all is well; but Hypothesis shrinks a failure for up to five minutes.
pytestmark = pytest.mark.timeout(900)

EXAMPLES = settings().max_examples  # of the profile: 100, or 1000 with --hypothesis-profile=thorough
UNHURRIED = [HealthCheck.too_slow, HealthCheck.data_too_large]

_directories: list[Path] = []


@pytest.fixture(scope="module", autouse=True)
def remove_databases() -> Iterator[None]:
    yield
    while _directories:
        shutil.rmtree(_directories.pop())


def new_database() -> SqliteBackend:
    # "process": what is compared here is behaviour, and a few thousand fsyncs would not add to it.
    _directories.append(Path(tempfile.mkdtemp(prefix="clew-machine-")))
    return SqliteBackend(_directories[-1] / "clew.db", durability="process")


def reopened(backend: Backend) -> SqliteBackend:
    backend.close()
    return SqliteBackend(backend.location, durability="process")


TestMemory = make_machine(MemoryBackend)
TestMemory.settings = settings(  # type: ignore[attr-defined]
    max_examples=EXAMPLES * usually(40, thorough=150) // 100,
    stateful_step_count=60,
    suppress_health_check=UNHURRIED,
)
TestSqlite = make_machine(new_database, reopen=reopened)
TestSqlite.settings = settings(  # type: ignore[attr-defined]
    max_examples=EXAMPLES * usually(50, thorough=80) // 100,
    stateful_step_count=50,
    suppress_health_check=UNHURRIED,
)
