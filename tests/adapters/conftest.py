"""A place for a store, of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["memory", "sqlite", "jsonl", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store that is empty."""
    match request.param:
        case "memory":
            return "memory:"
        case "sqlite":
            return str(tmp_path / "agents.db")
        case "jsonl":
            return f"jsonl:///{tmp_path}/agents"
        case _:
            address: str = request.getfixturevalue("emptied_postgres")
            return address
