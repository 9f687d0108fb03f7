"""Watched directories, as a program uses them that follows files: no snapshot has a part in it."""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from clew.core import directory_watch
from clew.core.directory_watch import LOST, CannotWatchError, DirectoryWatches, Event, Inotify
from tests.support.descriptors import open_below

pytestmark = pytest.mark.skipif(not directory_watch.IS_THERE, reason="only Linux tells exactly what changed")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "projects/one").mkdir(parents=True)
    (tmp_path / "projects/two").mkdir()
    (tmp_path / "projects/one/log.jsonl").write_text("first\n")
    return tmp_path.resolve() / "projects"


@pytest.fixture
def watches(root: Path) -> Iterator[DirectoryWatches]:
    watches = DirectoryWatches(str(root))
    watches.watch([b"", b"one", b"two"])
    yield watches
    watches.close()


def append(path: Path, text: str = "more\n") -> None:
    with path.open("a") as file:
        file.write(text)


def test_only_the_directory_of_a_file_that_grew_is_named(root: Path, watches: DirectoryWatches) -> None:
    assert watches.changes() == (set(), None)
    append(root / "one/log.jsonl")

    assert watches.changes() == ({b"one"}, None)
    assert watches.changes() == (set(), None)


def test_a_change_wakes_whoever_waits_for_it(root: Path, watches: DirectoryWatches) -> None:
    assert select.select([watches], [], [], 0)[0] == []
    append(root / "two/new.jsonl")

    assert select.select([watches], [], [])[0] == [watches]
    assert watches.changes().directories == {b"two"}
    assert select.select([watches], [], [], 0)[0] == []


def test_a_new_directory_is_named_so_that_it_can_be_watched(root: Path, watches: DirectoryWatches) -> None:
    (root / "three").mkdir()
    append(root / "three/unseen.jsonl")  # before it is watched

    found = watches.changes()
    assert found.lost is None
    assert b"three" in found.directories
    began = watches.moment()
    late = watches.watch([b"one", b"three"], began)
    assert late == {b"three"}, "what happened in it before is not known: it has to be looked at"
    append(root / "three/seen.jsonl")
    assert watches.changes().directories == {b"three"}


def test_a_directory_that_moved_is_named_by_both_names(root: Path, watches: DirectoryWatches) -> None:
    (root / "one").rename(root / "other")

    assert {b"one", b"other"} <= watches.changes().directories


def test_events_that_did_not_fit_are_said(
    root: Path, watches: DirectoryWatches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Inotify, "read", lambda self: iter([Event(-1, LOST, b"")]))

    assert "could not tell all" in str(watches.changes().lost)


def test_a_root_that_is_another_directory_is_said(root: Path, watches: DirectoryWatches) -> None:
    root.rename(root.parent / "old")
    root.mkdir()

    assert watches.changes().lost is not None


@pytest.mark.parametrize(
    ("number", "said"), [(errno.ENOSPC, "max_user_watches"), (errno.EMFILE, "max_user_instances")]
)
def test_a_limit_that_is_reached_is_said_by_its_name(
    root: Path, watches: DirectoryWatches, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    def refuse(self: Inotify, directory: int) -> NoReturn:
        raise OSError(number, os.strerror(number))

    (root / "three").mkdir()
    monkeypatch.setattr(Inotify, "add", refuse)
    with pytest.raises(CannotWatchError, match=said):
        watches.watch([b"three"])


def test_a_queue_that_cannot_be_made_leaves_nothing_open(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Inotify) -> NoReturn:
        raise OSError(errno.EMFILE, "none left")

    monkeypatch.setattr(Inotify, "__init__", refuse)
    with pytest.raises(CannotWatchError):
        DirectoryWatches(str(root))
    assert open_below(root) == []
