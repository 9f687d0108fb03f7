"""Stores that the async face opens."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["memory:", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory:" else f"{tmp_path}/clew.db"
