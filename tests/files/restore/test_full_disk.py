"""F-06: full disks. It is told, and nothing is half-stored or half-written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import ClewError, DiskFullError, QuotaExceededError, RestoreFailedError
from clew.files import journal
from clew.model.files import RestoreReport
from tests.faults.crash.common import message, texts
from tests.faults.requirements import mounted, needs_root
from tests.files.playground import House, cache_in, house, kept, state

MIB = 1024 * 1024
FILES = 12


@contextmanager
def small_disk(size: str) -> Iterator[House]:
    with mounted(["-t", "tmpfs", "-o", f"size={size}", "tmpfs"]) as disk, cache_in(disk):
        yield House(disk)


@contextmanager
def small_store(size: str) -> Iterator[tuple[Path, clew.Store]]:
    """A disk with nothing but a store on it."""
    with mounted(["-t", "tmpfs", "-o", f"size={size}", "tmpfs"]) as disk, clew.open(disk / "a.db") as store:
        yield disk, store


def fill_up(disk: Path, left: int) -> Path:
    """Take all room but for some bytes; the file to be removed for it to come back."""
    ballast = disk / "ballast"
    taken = os.statvfs(disk)
    ballast.write_bytes(bytes(max(0, taken.f_bavail * taken.f_frsize - left)))
    return ballast


def write_noise(root: Path, each: int, count: int = FILES) -> None:
    for number in range(count):
        (root / f"noise-{number}").write_bytes(os.urandom(each))


@pytest.fixture
def no_room_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the look at the free space before writing: the disk itself says no."""
    monkeypatch.setattr("clew.files.objects.store.ROOM_LEFT", -(1 << 50))


@needs_root
def test_f06_a_snapshot_is_refused_before_the_disk_is_full() -> None:
    """A quota: the user's last megabytes are not filled, and the same store goes on when there is room."""
    with house() as home, small_store("100m") as (disk, store):
        (home.root / "a").write_text("first")
        first = store.snapshot(home.root)
        write_noise(home.root, MIB)
        ballast = fill_up(disk, 66 * MIB)

        with pytest.raises(QuotaExceededError) as refused:
            store.snapshot(home.root)

        assert str(disk) in str(refused.value)
        assert [one.id for one in store.snapshots()] == [first.id]
        store.session("s").append(message("still possible"))
        assert store.verify().problems == ()

        ballast.unlink()
        taken = store.snapshot(home.root)
        assert taken.files == FILES + 1
        assert store.verify().problems == ()


@needs_root
@pytest.mark.usefixtures("no_room_needed")
def test_f06_a_disk_that_fills_up_in_a_snapshot_leaves_no_half_snapshot() -> None:
    """A typed error; what was there can be read and restored; the same store object then writes again."""
    with house() as home, small_store("24m") as (disk, store):
        (home.root / "a").write_text("first")
        first = store.snapshot(home.root)
        store.session("s").append(message("one"))
        write_noise(home.root, 2 * MIB)
        before = state(home.root)

        with pytest.raises(DiskFullError):
            store.snapshot(home.root)

        assert [one.id for one in store.snapshots()] == [first.id]
        assert store.verify().problems == ()
        assert texts(store.get("s")) == ["one"]
        subprocess.run(["mount", "-o", "remount,size=100m", str(disk)], check=True)
        again = store.snapshot(home.root)
        report = store.restore(again, home.directory / "elsewhere")
        assert report.failed == ()
        assert kept(state(home.directory / "elsewhere")) == kept(before)
        assert store.verify().problems == ()


def check_whole(root: Path, old: int, new: int) -> int:
    """Every file is the old one or the new one; how many are new."""
    found = [(root / f"noise-{number}").read_bytes() for number in range(FILES)]
    assert all(len(content) in (old, new) for content in found)
    assert not list(root.rglob(".clew-restore-*"))
    return sum(len(content) == new for content in found)


@needs_root
@pytest.mark.parametrize("way", ["finish", "undo"])
def test_f06_a_disk_that_fills_up_in_a_restore_leaves_whole_files_and_both_ways_open(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A typed error that says how far it came; finished or undone when there is room."""
    with small_disk("8m") as home, house() as elsewhere, elsewhere.open() as store:
        write_noise(home.root, 300_000)
        snapshot = store.snapshot(home.root)
        target = state(home.root)
        write_noise(home.root, 10_000)
        before = state(home.root)
        ballasts: list[Path] = []
        begin = journal.begin

        def begin_and_fill_up(*args: Any) -> None:
            begin(*args)
            ballasts.append(fill_up(home.directory, 1_000_000))

        monkeypatch.setattr(journal, "begin", begin_and_fill_up)
        with pytest.raises(RestoreFailedError) as failed:
            store.restore(snapshot)

        report = failed.value.report
        assert isinstance(report, RestoreReport)
        assert report.id is not None
        assert len(report.changes) == check_whole(home.root, 10_000, 300_000) < FILES
        assert [one.id for one in store.pending_restores()] == [report.id]
        with pytest.raises(RestoreFailedError):
            store.finish_restore(report.id)  # there is still no room
        check_whole(home.root, 10_000, 300_000)

        for ballast in ballasts:
            ballast.unlink()
        settle = store.finish_restore if way == "finish" else store.undo_restore
        assert settle(report.id).failed == ()
        assert state(home.root) == (target if way == "finish" else before)
        assert store.pending_restores() == []
        assert store.verify().problems == ()


@needs_root
@pytest.mark.usefixtures("no_room_needed")
def test_f06_store_and_files_on_one_full_disk_agree_whenever_it_fills_up() -> None:
    """Wherever in a restore the room ends: files and head go on, or are untouched, when there is some."""
    outcomes = set()
    for left in range(0, 5_000_000, 700_000):
        with small_disk("12m") as home, home.open() as store:
            session = store.session("s")
            write_noise(home.root, 150_000)
            target = state(home.root)
            session.checkpoint("start", files=home.root)
            session.append(message("one"))
            write_noise(home.root, 50_000)
            before = state(home.root)
            ballast = fill_up(home.directory, left)
            outcome = outcome_of(lambda: session.rewind("start", files=True))  # noqa: B023
            check_whole(home.root, 50_000, 150_000)
            outcomes.add(outcome)

            ballast.unlink()
            for pending in store.pending_restores():
                assert store.finish_restore(pending.id).failed == ()
                outcome = "finished"
            is_done = outcome in ("done", "finished")
            assert state(home.root) == (target if is_done else before)
            assert len(session.messages()) == (0 if is_done else 1)
            assert store.verify().problems == ()
    assert {"disk_full", "done"} <= outcomes


def outcome_of(act: Callable[[], object]) -> str:
    try:
        act()
    except ClewError as exc:
        return exc.code
    return "done"
