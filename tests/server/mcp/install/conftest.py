from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.mcp.install.homes import make_home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_home(tmp_path / "home", monkeypatch)
