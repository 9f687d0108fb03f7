"""A home with all agents, and nothing of the machine's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.importers.hooks import install

DIRECTORIES = (".claude", ".codex", ".gemini", ".config/opencode", ".pi/agent")
MOVED = (
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "OPENCODE_CONFIG_DIR",
    "PI_CODING_AGENT_DIR",
    "XDG_STATE_HOME",
    "XDG_DATA_HOME",
    "XDG_CONFIG_HOME",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "home"
    for name in (*DIRECTORIES, "runtime"):
        (place / name).mkdir(parents=True)
    (place / "runtime").chmod(0o700)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place / "runtime"))
    for name in MOVED:
        monkeypatch.delenv(name, raising=False)
    # A watcher of the user who runs the tests must not hear of them.
    monkeypatch.setattr(install, "_places", lambda: [str(place / ".local" / "state")])
    return place
