"""Full disks, and nodes that are no files (F-06, I-21): told, and nothing is half-stored or half-written."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import ClewError, DiskFullError, QuotaExceededError, RestoreFailedError
from clew.model.files import RestoreReport
from clew.testing.faults import call
from tests.crash.helper import message, texts
from tests.crash.root import NOBODY, mounted, needs_root
from tests.files.housing import House, cache_in, house, kept, state

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
    monkeypatch.setattr("clew.files.objects.ROOM_LEFT", -(1 << 50))


# -- F-06


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
def test_f06_a_disk_that_fills_up_in_a_restore_leaves_whole_files_and_both_ways_open(way: str) -> None:
    """A typed error that says how far it came; finished or undone when there is room."""
    with small_disk("8m") as home, house() as elsewhere, elsewhere.open() as store:
        write_noise(home.root, 300_000)
        snapshot = store.snapshot(home.root)
        target = state(home.root)
        write_noise(home.root, 10_000)
        before = state(home.root)
        ballast = fill_up(home.directory, 1_000_000)

        with pytest.raises(RestoreFailedError) as failed:
            store.restore(snapshot, on_conflict="overwrite")

        report = failed.value.report
        assert isinstance(report, RestoreReport)
        assert report.id is not None
        assert len(report.changes) == check_whole(home.root, 10_000, 300_000) < FILES
        assert [one.id for one in store.pending_restores()] == [report.id]
        with pytest.raises(RestoreFailedError):
            store.finish_restore(report.id)  # there is still no room
        check_whole(home.root, 10_000, 300_000)

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
    for left in range(0, 5_000_000, 300_000):
        with small_disk("12m") as home, home.open() as store:
            session = store.session("s")
            write_noise(home.root, 150_000)
            target = state(home.root)
            session.checkpoint("start", files=home.root)
            session.append(message("one"))
            write_noise(home.root, 50_000)
            before = state(home.root)
            ballast = fill_up(home.directory, left)
            outcome = outcome_of(lambda: session.rewind("start", files=True, on_conflict="overwrite"))  # noqa: B023
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


# -- I-21


def make_nodes(root: Path) -> None:
    """All that a directory may hold beside files."""
    (root / "file").write_text("file")
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
    (root / "dangling").symlink_to("missing")
    (root / "loop").symlink_to("loop")
    (root / "out").symlink_to("/etc")
    os.link(root / "file", root / "hard link")
    with (root / "sparse").open("wb") as file:
        file.truncate(10 * 1024 * MIB)
    (root / "nested/.git").mkdir(parents=True)
    (root / "nested/.git/HEAD").write_text("ref: refs/heads/main")
    (root / "nested/source").write_text("source")


SKIPPED = {"fifo": "fifo", "socket": "socket", "sparse": "too large", "nested/.git": "nested repository"}


def take_and_restore(directory: str) -> dict[str, Any]:
    """A snapshot, a restore of it after changes, what was skipped; in a process that may hang."""
    home = House(Path(directory))
    with cache_in(home.directory), home.open() as store:
        first = store.snapshot(home.root)
        (home.root / "file").write_text("changed")
        (home.root / "dangling").unlink()
        report = store.restore(first, on_conflict="overwrite")
        problems = [*store.verify().problems]
    skipped = {one.path: one.reason for one in first.skipped}
    return {"skipped": skipped, "failed": len(report.failed), "links": first.links, "problems": problems}


def test_i21_what_is_no_file_is_skipped_listed_and_left_alone(tmp_path: Path) -> None:
    """No hang at a FIFO; links are links; a hole of ten gigabytes is not read."""
    home = House(tmp_path)
    make_nodes(home.root)

    found = call(take_and_restore, str(tmp_path), timeout=30)

    assert found == {"skipped": SKIPPED, "failed": 0, "links": 3, "problems": []}
    assert stat.S_ISFIFO((home.root / "fifo").stat().st_mode)
    assert stat.S_ISSOCK((home.root / "socket").stat().st_mode)
    assert os.readlink(home.root / "dangling") == "missing"
    assert (home.root / "file").read_text() == "file"
    assert (home.root / "hard link").read_text() == "file"
    assert (home.root / "nested/.git/HEAD").read_text() == "ref: refs/heads/main"


@needs_root
def test_i21_devices_are_not_opened(tmp_path: Path) -> None:
    """A terminal or a disk would answer for ever."""
    home = House(tmp_path)
    os.mknod(home.root / "zero", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    os.mknod(home.root / "disk", 0o600 | stat.S_IFBLK, os.makedev(7, 250))
    (home.root / "file").write_text("file")
    (home.root / "dangling").symlink_to("missing")

    found = call(take_and_restore, str(tmp_path), timeout=30)

    assert found["skipped"] == {"zero": "device", "disk": "device"}
    assert found["failed"] == 0


def take_as_nobody(directory: str, warm_up: str) -> dict[str, Any]:
    """As somebody who may not even read the interpreter: so all is imported, and made, before."""
    warm = House(Path(warm_up))
    (warm.root / "dangling").symlink_to("missing")
    take_and_restore(warm_up)
    home = House(Path(directory))
    home.open().close()
    for path in (
        home.directory,
        home.root,
        home.root / "file",
        *home.directory.glob("store*"),
        *home.directory.glob("store/*"),
    ):
        os.chown(path, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        return take_and_restore(directory)
    finally:
        os.seteuid(0)


@needs_root
def test_i21_what_must_not_be_read_is_skipped_and_listed(tmp_path: Path) -> None:
    """A file, and a directory, without the permission to read them."""
    with house() as home:
        (home.root / "file").write_text("file")
        (home.root / "dangling").symlink_to("missing")
        (home.root / "secret").write_text("secret")
        (home.root / "secret").chmod(0o000)
        (home.root / "closed").mkdir(0o000)
        found = call(take_as_nobody, str(home.directory), str(tmp_path), timeout=30)

        skipped = {"secret": "unreadable", "closed": "unreadable"}
        assert found == {"skipped": skipped, "failed": 0, "links": 1, "problems": []}
        assert (home.root / "secret").read_text() == "secret"


@contextmanager
def mounted_at(directory: Path) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(directory)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


@needs_root
def test_i21_another_mount_is_neither_entered_nor_written_to() -> None:
    """P14: a file system that was mounted over a directory since the snapshot is not the snapshot's."""
    with house() as home, home.open() as store:
        (home.root / "inner").mkdir()
        (home.root / "inner/a").write_text("below the mount")
        (home.root / "inner/b").write_text("below the mount")
        (home.root / "file").write_text("one")
        snapshot = store.snapshot(home.root)
        (home.root / "file").write_text("two")
        with mounted_at(home.root / "inner"):
            (home.root / "inner/a").write_text("of the other mount")
            inside = state(home.root / "inner")

            second = store.snapshot(home.root)
            report = store.restore(snapshot, on_conflict="overwrite")

            assert [(one.path, one.reason) for one in second.skipped] == [("inner", "other mount")]
            assert state(home.root / "inner") == inside
            assert (home.root / "file").read_text() == "one"
            told = {failure.path.split("/")[0] for failure in report.failed} | {
                path.split("/")[0] for path in report.kept
            }
            assert told == {"inner"}
        assert (home.root / "inner/a").read_text() == "below the mount"


def test_s05_the_files_of_the_store_are_in_no_snapshot_and_in_no_restore() -> None:
    """A store inside of the root: it is skipped, listed, and survives a restore."""
    with house() as home, clew.open(home.root / "store.db") as store:
        (home.root / "file").write_text("one")
        snapshot = store.snapshot(home.root)
        (home.root / "file").write_text("two")

        store.restore(snapshot, on_conflict="overwrite")

        assert (home.root / "file").read_text() == "one"
        assert {one.path for one in snapshot.skipped} >= {"store.db", "store.db-wal"}
        assert snapshot.files == 1
        assert store.verify().problems == ()
