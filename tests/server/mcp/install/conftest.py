"""A home with all clients, and nothing of the machine's own."""

from __future__ import annotations

from pathlib import Path

import pytest

DIRECTORIES = (".claude", ".codex", ".gemini", ".config/opencode", ".cursor", ".config/Code/User")
MOVED = (
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "OPENCODE_CONFIG_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "CLEW_STORE",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a program `clew` on the PATH."""
    place = tmp_path / "home"
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
