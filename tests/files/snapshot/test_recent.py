"""Caches that stay in memory: used only while their file is the one that was read or written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from clew.backends.memory import MemoryBackend
from clew.core.engine.engine import Engine
from clew.files.snapshot import statcache
from clew.files.snapshot.statcache import StatCache
from tests.files.trees import build, take


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a tree that was scanned once; its cache is beside it."""
    root = tmp_path / "root"
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


def in_another_process(root: Path, change: Callable[[StatCache], None]) -> None:
    """Save a changed cache; the memory of this process knows nothing of it."""
    other = opened(root)
    change(other)
    other.is_changed = True
    remembered = dict(statcache._kept)
    other.save()
    statcache._kept.update(remembered)


def replace(other: StatCache) -> None:
    del other.folders[b"s"]
    other._inode = 0


def add(other: StatCache) -> None:
    other.folders[b"s"] = msgspec.structs.replace(other.folders[b"s"], total_bytes=77)


def test_a_cache_that_was_just_written_or_read_is_not_read_again(root: Path, reads: list[str]) -> None:
    assert set(opened(root).folders) == {b"", b"s"}
    assert not reads
    statcache._kept.clear()
    assert opened(root).folders == opened(root).folders != {}
    assert len(reads) == 1


def test_what_one_does_to_its_folders_another_does_not_see(root: Path) -> None:
    opened(root).folders.clear()
    assert set(opened(root).folders) == {b"", b"s"}


@pytest.mark.parametrize(("change", "total"), [(replace, None), (add, 77)])
def test_a_file_that_somebody_else_wrote_to_is_read(
    root: Path, reads: list[str], change: Callable[[StatCache], None], total: int | None
) -> None:
    mine = opened(root)
    in_another_process(root, change)
    assert set(mine.folders) == {b"", b"s"}
    found = opened(root).folders.get(b"s")
    assert (found and found.total_bytes) == total
    assert len(reads) == 1


def test_memory_says_nothing_of_a_file_that_is_gone_or_not_ours_or_after_objects_were_collected(
    root: Path,
) -> None:
    assert opened(root, b"another").folders == {}
    file_of(root).chmod(0o666)
    assert opened(root).folders == {}
    file_of(root).unlink()
    assert opened(root).folders == {}


def test_what_was_written_over_since_is_not_kept(root: Path) -> None:
    """Between the end of a save and the look at the file."""
    cache = opened(root)
    statcache._kept.clear()
    with file_of(root).open("ab") as file:
        file.write(b"more")
    cache._keep_in_memory()
    assert not statcache._kept


def test_only_a_few_small_ones_stay(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(statcache.MOST + 3):
        cache = StatCache.open(tmp_path, str(number), b"")
        cache.is_changed = True
        cache.save()
    assert len(statcache._kept) == statcache.MOST
    monkeypatch.setattr(statcache, "LARGEST", os.stat(file_of(root)).st_size - 1)
    assert set(opened(root).folders) == {b"", b"s"}
    assert str(file_of(root)) not in statcache._kept
