"""A home with a small store, and the ways to reach it: `clew mcp` as a process, and a server in this one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.server.conftest import Running, running
from tests.server.mcp.clients.samples import fill
from tests.server.process.commands import environment


@pytest.fixture
def home(tmp_path: Path) -> Path:
    fill(tmp_path / "agents.db", tmp_path / "work")
    return tmp_path


@pytest.fixture
def over_pipes(home: Path) -> dict[str, Any]:
    """How a client starts `clew mcp`, in the words of every client's settings."""
    return {
        "command": sys.executable,
        "args": ["-m", "clew", "mcp", "--allow", "write"],
        "env": environment(home),
        "cwd": str(home / "work"),
    }


@pytest.fixture
def served(home: Path) -> Iterator[Running]:
    with clew.open(home / "agents.db") as store, running(store) as found:
        yield found
