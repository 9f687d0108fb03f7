"""A home with all clients, and nothing of the machine's own; and tests that need one for each client."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from clew.server.mcp.install.clients import CLIENTS, Client
from tests.support.rows import named

DIRECTORIES = (".claude", ".codex", ".gemini", ".config/opencode", ".cursor", ".config/Code/User")
MOVED = (
    "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "OPENCODE_CONFIG_DIR", "XDG_CONFIG_HOME",
    "XDG_DATA_HOME", "CLEW_STORE",
)  # fmt: skip
OWN = ("client", "home", "tmp_path")
"""What a test gets that runs for each client."""


def make_home(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a program `clew` on the PATH."""
    for name in (*DIRECTORIES, "bin"):
        (place / name).mkdir(parents=True)
    program = place / "bin" / "clew"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("PATH", str(place / "bin"))
    monkeypatch.setattr("sys.platform", "linux")
    for name in MOVED:
        monkeypatch.delenv(name, raising=False)
    return place


def for_each(
    clients: Iterable[Client] = CLIENTS.values(),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for each client, one after the other, with a `home` and a `tmp_path` of its own."""
    chosen = list(clients)

    def fold(test: Callable[..., None]) -> Callable[..., None]:
        wanted = inspect.signature(test)

        @functools.wraps(test)
        def run(tmp_path: Path, **fixtures: Any) -> None:
            for client in chosen:
                place = tmp_path / client.name
                with named(client.name), pytest.MonkeyPatch.context() as patch:
                    given = dict(zip(OWN, (client, make_home(place / "home", patch), place), strict=True))
                    test(**fixtures, **{name: given[name] for name in wanted.parameters if name in given})

        others = [
            one for name, one in wanted.parameters.items() if name not in ("client", "home", "tmp_path")
        ]
        own = inspect.Parameter("tmp_path", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = wanted.replace(parameters=[own, *others])  # type: ignore[attr-defined]
        return run

    return fold
