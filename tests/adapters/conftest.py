"""A store of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import clew


@pytest.fixture(params=["memory", "sqlite", "jsonl", "postgresql"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(request: pytest.FixtureRequest, backend: str, tmp_path: Path) -> str:
    """The address of a store that is empty."""
    match backend:
        case "memory":
            return "memory:"
        case "sqlite":
            return str(tmp_path / "agents.db")
        case "jsonl":
            return f"jsonl:///{tmp_path}/agents"
        case _:
            address: str = request.getfixturevalue("emptied_postgres")
            return address


@pytest.fixture
def store(url: str) -> Iterator[clew.Store]:
    with clew.open(url) as store:
        yield store


@pytest.fixture
def local(tmp_path: Path) -> Iterator[clew.Store]:
    """On one kind of store, for what does not depend on it."""
    with clew.open(tmp_path / "agents.db") as store:
        yield store
