"""A store to keep files in, on each of the two backends that need no server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.core.engine.engine import Engine


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open("memory:" if request.param == "memory" else tmp_path / "store" / "s.db") as store:
        yield store


@pytest.fixture
def engine(store: clew.Store) -> Engine:
    return store._engine


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What snapshots remember is kept beside the test's own files, and so is the key of the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CLEW_STATE_DIR", str(tmp_path / "state"))
