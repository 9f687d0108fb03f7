"""A store that lies in the directory of which it keeps snapshots never keeps itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew

ADDRESSES = {"sqlite": "data/s.db", "jsonl": "data/logs"}


@pytest.fixture
def work(tmp_path: Path, own_cache: None) -> Path:
    work = tmp_path / "work"
    (work / "data").mkdir(parents=True)
    (work / "a.txt").write_text("one")
    (work / "data" / "mine.txt").write_text("not of the store, though beside it")
    return work


@pytest.fixture(params=ADDRESSES)
def store(request: pytest.FixtureRequest, work: Path) -> Iterator[clew.Store]:
    address = work / ADDRESSES[request.param]
    with clew.open(f"jsonl:///{address}" if request.param == "jsonl" else address) as opened:
        opened.session("s").append({"role": "user", "content": "hi"})
        yield opened


def test_its_files_are_left_out_and_named(store: clew.Store, work: Path) -> None:
    snap = store.snapshot(work)
    assert snap.files == 2
    assert {skip.reason for skip in snap.skipped} == {"store"}
    assert all(skip.path.startswith(("data/s.db", "data/logs")) for skip in snap.skipped)


def test_what_the_store_writes_changes_no_snapshot_and_adds_nothing(store: clew.Store, work: Path) -> None:
    first = store.snapshot(work)
    for number in range(3):
        store.session("s").append({"role": "user", "content": f"more {number}"})
        again = store.snapshot(work)
        assert (again.tree, again.files, again.new_bytes) == (first.tree, 2, 0)


def test_include_and_force_do_not_bring_it_in(store: clew.Store, work: Path) -> None:
    snap = store.snapshot(work, include=["data/*", "data/logs/**", "*.db"], force=True)
    assert snap.files == 2


def test_a_rewind_with_files_leaves_the_conversation_whole(store: clew.Store, work: Path) -> None:
    s = store.get("s")
    s.checkpoint("before", files=work)
    s.append({"role": "user", "content": "after"})
    (work / "a.txt").write_text("two")
    (work / "data" / "mine.txt").unlink()
    s.rewind("before", files=True)
    assert (work / "a.txt").read_text() == "one"
    assert (work / "data" / "mine.txt").exists()
    assert [m["content"] for m in s.messages()] == ["hi"]
    s.undo()
    assert [m["content"] for m in s.messages()] == ["hi", "after"]
    assert store.verify().ok


def test_a_store_that_is_reached_through_a_link_is_left_out_too(work: Path, tmp_path: Path) -> None:
    os.symlink(work, tmp_path / "link")
    with clew.open(f"jsonl:///{tmp_path / 'link' / 'data' / 'logs'}") as store:
        store.session("s").append({"role": "user", "content": "hi"})
        assert store.snapshot(work).files == 2


@pytest.mark.parametrize("part", ["", "sessions", "packs"])
def test_the_directory_of_a_store_is_no_root(work: Path, part: str) -> None:
    with clew.open(f"jsonl:///{work / 'data' / 'logs'}") as store:
        store.session("s").append({"role": "user", "content": "hi"})
        for force in (False, True):
            with pytest.raises(clew.errors.RootRefusedError, match="keep the store elsewhere"):
                store.snapshot(work / "data" / "logs" / part, force=force)
        assert store.snapshots() == []


def test_a_directory_whose_name_begins_like_that_of_the_store_is_taken(work: Path) -> None:
    (work / "data" / "logs-of-mine").mkdir()
    (work / "data" / "logs-of-mine" / "b.txt").write_text("two")
    with clew.open(f"jsonl:///{work / 'data' / 'logs'}") as store:
        assert store.snapshot(work).files == 3
        assert store.snapshot(work / "data" / "logs-of-mine").files == 1
