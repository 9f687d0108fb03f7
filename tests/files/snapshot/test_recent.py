"""Caches that stay in memory: used only while their file is the one that was read or written."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from clew.backends.memory import MemoryBackend
from clew.core.engine.engine import Engine
from clew.files.snapshot import statcache
from clew.files.snapshot import statcache as recent
from clew.files.snapshot.statcache import StatCache
from tests.files.trees import build, take


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The root of a tree that was scanned once; its cache is beside it."""
    root = tmp_path / "root"
    root.mkdir()
    build(root, {b"a": b"1", b"s": {b"b": b"2"}})
    take(Engine(MemoryBackend()), root, cache=opened(root))
    return root


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files of caches that were read."""
    found: list[str] = []
    real = statcache._own_content

    def counting(path: str) -> tuple[bytes, int]:
        found.append(path)
        return real(path)

    monkeypatch.setattr(statcache, "_own_content", counting)
    return found


def opened(root: Path, key: bytes = b"") -> StatCache:
    return StatCache.open(root.parent / "cache", str(root), key)


def file_of(root: Path) -> Path:
    (found,) = (root.parent / "cache").iterdir()
    return found


def test_a_cache_that_was_just_written_is_not_read(tree: Path, reads: list[str]) -> None:
    assert set(opened(tree).folders) == {b"", b"s"}
    assert not reads


def test_a_cache_that_was_read_once_is_not_read_again(tree: Path, reads: list[str]) -> None:
    recent._kept.clear()
    first = opened(tree)
    assert opened(tree).folders == first.folders != {}
    assert len(reads) == 1


def test_what_one_does_to_its_folders_another_does_not_see(tree: Path) -> None:
    opened(tree).folders.clear()
    assert set(opened(tree).folders) == {b"", b"s"}


def test_a_deleted_file_is_an_empty_cache(tree: Path) -> None:
    file_of(tree).unlink()
    assert opened(tree).folders == {}


def test_a_file_that_somebody_else_replaced_is_read(tree: Path, reads: list[str]) -> None:
    mine = opened(tree)
    other = opened(tree)
    del other.folders[b"s"]
    other.is_changed, other._inode = True, 0
    remembered = dict(recent._kept)
    other.save()
    recent._kept.update(remembered)  # as if it had been another process
    assert set(mine.folders) == {b"", b"s"}
    assert set(opened(tree).folders) == {b""}
    assert len(reads) == 1


def test_a_file_that_somebody_else_added_to_is_read(tree: Path, reads: list[str]) -> None:
    other = opened(tree)
    other.folders[b"s"] = msgspec.structs.replace(other.folders[b"s"], total_bytes=77)
    other.is_changed = True
    remembered = dict(recent._kept)
    other.save()
    recent._kept.update(remembered)
    assert opened(tree).folders[b"s"].total_bytes == 77
    assert len(reads) == 1


def test_a_file_that_others_may_write_to_now_is_not_believed(tree: Path) -> None:
    file_of(tree).chmod(0o666)
    assert opened(tree).folders == {}


def test_what_was_written_over_since_is_not_kept(tree: Path) -> None:
    """Between the end of a save and the look at the file."""
    cache = opened(tree)
    recent._kept.clear()
    with file_of(tree).open("ab") as file:
        file.write(b"more")
    cache._keep_in_memory()
    assert not recent._kept


def test_after_objects_were_collected_memory_says_nothing(tree: Path) -> None:
    assert opened(tree, b"another").folders == {}


def test_only_a_few_small_ones_stay(
    tree: Path, reads: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(recent.MOST + 3):
        StatCache.open(tmp_path, str(number), b"").save()
        cache = StatCache.open(tmp_path, str(number), b"")
        cache.is_changed = True
        cache.save()
    assert len(recent._kept) == recent.MOST
    monkeypatch.setattr(recent, "LARGEST", os.stat(file_of(tree)).st_size - 1)
    assert set(opened(tree).folders) == {b"", b"s"}
    assert str(file_of(tree)) not in recent._kept
