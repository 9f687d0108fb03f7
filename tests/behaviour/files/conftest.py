"""A directory in which an agent works."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.session import Session
from clew.testing.backend.base import say
from tests.behaviour.files.trees import NOW, THEN, write


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the files of THEN."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CLEW_STATE_DIR", str(tmp_path / "states" / "owner"))
    root = tmp_path / "work"
    write(root, THEN)
    return root


@pytest.fixture
def worked(s: Session, root: Path) -> Session:
    """A session with a checkpoint of THEN, after which an agent made NOW of it."""
    say(s, "first")
    s.checkpoint("start", files=root)
    say(s, "second")
    (root / "deleted").unlink()
    write(root, NOW)
    return s
