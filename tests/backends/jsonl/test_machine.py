"""The state machine of clew.testing on the JSONL backend, whose index is deleted at every restart."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from clew.backends.contract import Backend
from clew.backends.jsonl import JsonlBackend
from clew.testing.machine import make_machine
from tests.support.effort import usually

pytestmark = pytest.mark.timeout(900)

_directories: list[Path] = []


@pytest.fixture(scope="module", autouse=True)
def remove_stores() -> Iterator[None]:
    yield
    while _directories:
        shutil.rmtree(_directories.pop())


def new_store() -> JsonlBackend:
    _directories.append(Path(tempfile.mkdtemp(prefix="clew-machine-")))
    return JsonlBackend(_directories[-1], durability="process")


def reopened(backend: Backend) -> JsonlBackend:
    backend.close()
    for file in Path(backend.location).glob("index.db*"):
        file.unlink()
    return JsonlBackend(backend.location, durability="process")


TestJsonl = make_machine(new_store, reopen=reopened)
TestJsonl.settings = settings(  # type: ignore[attr-defined]
    max_examples=settings().max_examples * usually(25, thorough=50) // 100,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
