"""A file system that has no locks: nothing is written there, and what is there can be read."""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path

import pytest

import clew
from tests.backends.jsonl.stores import said


@pytest.fixture
def unlockable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with a message, on a disk that lost its locks."""
    address = f"jsonl:///{tmp_path / 'store'}"
    with clew.open(address) as store:
        store.session("s").append({"role": "user", "content": "hi"})

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    return address


def test_p23_a_store_that_cannot_be_locked_can_be_read(unlockable: str) -> None:
    with clew.open(unlockable, read_only=True) as store:
        assert said(store) == ["hi"]
    with pytest.raises(clew.BackendError, match="lock"):
        clew.open(unlockable)


def test_p23_a_store_that_cannot_be_locked_can_be_copied(unlockable: str) -> None:
    with clew.open("memory:") as copy:
        clew.copy(unlockable, copy)
        assert [message["content"] for message in copy.get("s").messages()] == ["hi"]
