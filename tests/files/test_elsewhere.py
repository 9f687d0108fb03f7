"""Stores and sessions that were brought elsewhere: their files, and the directories that they name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import clew
from clew.errors import RootNotNamedError, SnapshotNotFoundError


@pytest.fixture
def root(tmp_path: Path, own_cache: None) -> Path:
    """A directory that went back with a session of the store `first.db`."""
    root = tmp_path / "work"
    root.mkdir()
    (root / "a").write_text("old")
    with clew.open(tmp_path / "first.db") as store:
        s = store.session("s")
        s.append({"role": "user", "content": "hi"})
        s.checkpoint("start", files=root)
        (root / "a").write_text("new")
        s.append({"role": "user", "content": "go on"})
        s.rewind("start", files=True)
    return root


def copied(place: Path) -> Path:
    clew.copy(place / "first.db", place / "second.db")
    return place / "second.db"


def backed_up(place: Path) -> Path:
    with clew.open(place / "first.db") as store:
        store.backup(place / "second.db")
    return place / "second.db"


def repaired(place: Path) -> Path:
    with clew.open(place / "first.db") as store:
        store.repair(to=place / "second.db")
    return place / "second.db"


def moved(place: Path) -> Path:
    (place / "elsewhere").mkdir()
    return (place / "first.db").rename(place / "elsewhere" / "second.db")


WAYS = [copied, backed_up, repaired, moved]


@pytest.mark.parametrize("bring", WAYS)
def test_s50_an_owner_goes_on_in_a_copy_and_nobody_else_does(
    tmp_path: Path, root: Path, bring: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with clew.open(bring(tmp_path)) as store:
        s = store.get("s")
        with monkeypatch.context() as other:
            other.setenv("CLEW_STATE_DIR", str(tmp_path / "other"))
            with pytest.raises(RootNotNamedError):
                s.undo()
            with pytest.raises(RootNotNamedError):
                s.rewind("start", files=True)
        assert (root / "a").read_text() == "old"
        s.undo()
        assert (root / "a").read_text() == "new"
        s.rewind("start", files=True)
        assert (root / "a").read_text() == "old"


def test_p19_a_session_that_is_imported_has_no_files_and_is_no_damage(tmp_path: Path, root: Path) -> None:
    """An export holds the conversation. What it says of files is not taken for a loss."""
    with clew.open(tmp_path / "first.db") as store:
        store.export("s", "jsonl", path=tmp_path / "s.clew.jsonl")
    with clew.open(tmp_path / "second.db") as store:
        store.import_path(tmp_path / "s.clew.jsonl")
        s = store.get("s")
        assert [one.name for one in s.checkpoints()] == ["start"]
        assert [info.id for info in store.list()] == ["s"]
        head = s.head
        with pytest.raises(SnapshotNotFoundError, match="an export holds no files"):
            s.rewind("start", files=True)
        with pytest.raises(SnapshotNotFoundError, match="an export holds no files"):
            s.restore_files(0)
        assert s.head == head
        assert store.verify(full=True).problems == ()
        assert store.gc().objects == 0
        s.undo()
        assert (s.info.messages, (root / "a").read_text()) == (2, "old")
