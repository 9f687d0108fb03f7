"""The file of the stat cache: a small change is a small write, and what is torn says nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.files.snapshot import listing, statcache


@pytest.fixture(params=["read each time", "in memory"], autouse=True)
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "read each time":
        monkeypatch.setattr(statcache, "LARGEST", -1)


@pytest.fixture
def store(tmp_path: Path, own_cache: None) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "s.db") as store:
        yield store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for number in range(400):
        path = root / f"d{number // 10}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(number))
        os.utime(path, (1_000_000_000, 1_000_000_000))
    return root


def cache_file(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "cache").rglob("*.stat")
    return found


def test_what_changed_is_added_and_the_rest_is_not_written_again(
    store: clew.Store, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "TICKS", 0)  # else all that was just made is looked at again
    monkeypatch.setattr(listing, "MARGIN", 0)
    store.snapshot(root)
    whole, inode = cache_file(tmp_path).stat().st_size, cache_file(tmp_path).stat().st_ino
    (root / "d3" / "30.txt").write_text("changed")
    store.snapshot(root)
    now = cache_file(tmp_path).stat()

    assert now.st_ino == inode
    assert whole < now.st_size < whole * 1.2


def test_many_small_changes_do_not_make_the_file_grow_for_ever(
    store: clew.Store, root: Path, tmp_path: Path
) -> None:
    store.snapshot(root)
    whole = cache_file(tmp_path).stat().st_size
    for number in range(60):
        (root / f"d{number % 40}" / "more.txt").write_text(str(number))
        store.snapshot(root)

    assert cache_file(tmp_path).stat().st_size <= 3 * whole


def test_a_torn_end_costs_only_itself(store: clew.Store, root: Path, tmp_path: Path) -> None:
    store.snapshot(root)
    (root / "d3" / "30.txt").write_text("changed")
    whole = store.snapshot(root)
    file = cache_file(tmp_path)
    for cut in (1, 20, 200):
        file.write_bytes(file.read_bytes()[:-cut])
        assert store.snapshot(root).tree == whole.tree
    (root / "d5" / "50.txt").write_text("changed too")
    after = store.snapshot(root)
    file.unlink()
    assert store.snapshot(root).tree == after.tree != whole.tree


def test_the_file_of_another_scan_is_not_added_to(store: clew.Store, root: Path, tmp_path: Path) -> None:
    """Two processes with one cache: folders that two scans saw must not be mixed."""
    store.snapshot(root)
    with clew.open(tmp_path / "s.db") as other:
        for number in range(8):
            (root / f"d{number}" / "a.txt").write_text(str(number))
            mine, theirs = store.snapshot(root), other.snapshot(root)
            assert mine.tree == theirs.tree
            (root / f"d{number}" / "a.txt").write_text(f"{number}!")
            assert other.snapshot(root).tree == store.snapshot(root, exclude=["none-such"]).tree != mine.tree
