"""Restores of so many files that they are made durable together."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.core import disk
from clew.errors import RestoreFailedError
from clew.files.objects.store import directories_of
from clew.files.restore.plan import make_plan
from clew.files.restore.root import Nearby, Root
from tests.files.restore.nested_trees import Tree, Workshop
from tests.files.trees import Link, build
from tests.support.descriptors import open_below

BEFORE: Tree = {b"d%d" % n: {b"f%d" % m: b"old %d" % m for m in range(10)} for n in range(6)}
TARGET: Tree = {b"d%d" % n: {b"f%d" % m: b"new %d/%d" % (n, m) for m in range(12)} for n in range(6)}
PREFIX = ".clew-restore-"

pytestmark = pytest.mark.skipif(os.name != "posix", reason="restores need POSIX")


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    shop = Workshop(tmp_path / "root")
    build(shop.root, BEFORE)
    return shop


def temporaries(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.name.startswith(PREFIX)]


def instead_of_sync(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Whatever the file system here is: take it for one that can sync all at once."""
    monkeypatch.setattr(disk, "can_sync_all", lambda fd: True)
    monkeypatch.setattr(disk, "sync_all", lambda fd: act())


def test_f43_no_file_gets_its_name_before_all_of_its_batch_are_durable(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, bool]] = []

    def sync() -> None:
        seen.append((len(temporaries(shop.root)), (shop.root / "d0/f0").read_bytes() == b"old 0"))

    instead_of_sync(monkeypatch, sync)
    report = shop.restore(TARGET, BEFORE)

    assert seen == [(72, True)]
    assert shop.state() == TARGET
    assert report.failed == ()
    assert temporaries(shop.root) == []


@pytest.mark.parametrize("count", [1, 5, 72])
def test_f43_where_all_can_not_be_synced_at_once_each_file_is_before_it_gets_its_name(
    tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Workshop(tmp_path / "root")
    target: Tree = {b"f%d" % n: b"%d" % n for n in range(count)}
    build(shop.root, dict.fromkeys(target, b"before"))
    synced: set[int] = set()
    named: list[int] = []
    really_sync, really_rename = os.fsync, os.rename

    def fsync(fd: int) -> None:
        really_sync(fd)
        synced.add(os.fstat(fd).st_ino)

    def rename(source: Any, target: Any, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        named.append(os.stat(source, dir_fd=src_dir_fd).st_ino)
        assert named[-1] in synced
        really_rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(disk, "can_sync_all", lambda fd: False)
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    report = shop.restore(target, dict.fromkeys(target, b"before"))

    assert report.failed == ()
    assert len(named) == count
    assert shop.root.stat().st_ino in synced
    assert shop.state() == target


def test_f44_what_changes_while_many_are_made_durable_is_left_alone_and_reported(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        (shop.root / "d1/f3").write_bytes(b"mine!")  # of the same size
        (shop.root / "d2/f11").write_bytes(b"mine")
        (shop.root / "d3/f4").unlink()

    instead_of_sync(monkeypatch, work)
    report = shop.restore(TARGET, BEFORE)

    state = shop.state()
    assert state[b"d1"][b"f3"] == b"mine!"
    assert state[b"d2"][b"f11"] == b"mine"
    assert b"f4" not in state[b"d3"]
    assert {failure.path: failure.reason for failure in report.failed} == dict.fromkeys(
        ("d1/f3", "d2/f11", "d3/f4"), "changed while restoring"
    )
    assert len(report.changes) == 69
    assert temporaries(shop.root) == []


def test_s08_a_directory_swapped_for_a_symlink_while_many_are_made_durable_leads_nowhere(
    shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    build(outside, BEFORE[b"d1"])

    def swap() -> None:
        (shop.root / "d1").rename(tmp_path / "moved")
        (shop.root / "d1").symlink_to(outside)

    instead_of_sync(monkeypatch, swap)
    report = shop.restore(TARGET, BEFORE)

    assert len(report.failed) == 12
    assert sorted(os.listdir(outside)) == sorted(os.fsdecode(name) for name in BEFORE[b"d1"])
    assert all((outside / f"f{n}").read_bytes() == b"old %d" % n for n in range(10))


def test_f06_a_disk_that_fails_to_make_many_durable_changes_nothing_and_the_restore_finishes_later(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        instead_of_sync(patch, fail)
        with pytest.raises(RestoreFailedError) as stopped:
            shop.restore(TARGET, BEFORE)
    report: Any = stopped.value.report
    assert report.changes == ()
    assert shop.state() == BEFORE

    assert shop.finish(report.id).failed == ()
    assert shop.state() == TARGET
    assert shop.pending() == []


@pytest.mark.parametrize("is_changed", [False, True])
def test_p13_a_file_with_several_names_is_looked_into_again_before_each_of_them_goes(
    tmp_path: Path, is_changed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Workshop(tmp_path / "root")
    before: Tree = {b"f%d" % n: b"one" for n in range(40)}
    shop.root.mkdir()
    (shop.root / "f0").write_bytes(b"one")
    for n in range(1, 40):
        (shop.root / f"f{n}").hardlink_to(shop.root / "f0")

    def work() -> None:
        if is_changed:
            (shop.root / "f0").write_bytes(b"two")

    instead_of_sync(monkeypatch, work)
    target: Tree = {b"f%d" % n: b"%d" % n for n in range(39)} | {b"f39": Link(b"f0")}
    report = shop.restore(target, before)

    assert shop.state() == (dict.fromkeys(before, b"two") if is_changed else target)
    assert len(report.failed) == (40 if is_changed else 0)


def test_the_system_is_asked_for_all_at_once_only_where_that_can_be_trusted(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        if disk.can_sync_all(fd):
            disk.sync_all(fd)
            with pytest.raises(OSError, match="Bad file descriptor"):
                disk.sync_all(-1)
    finally:
        os.close(fd)
    assert not disk.can_sync_all(-1)
    with open("/proc/self/status" if sys.platform == "linux" else os.devnull, "rb") as other:
        assert not disk.can_sync_all(other.fileno())


def test_a_plan_that_is_made_again_reads_no_directory_twice(shop: Workshop) -> None:
    asked: list[bytes] = []
    real = shop.reader.get_many

    def get_many(names: Any) -> Any:
        asked.extend(names)
        return real(names)

    shop.reader.get_many = get_many  # type: ignore[method-assign]
    directories = directories_of(shop.reader)
    target, now = shop.put(TARGET), shop.put(BEFORE)

    plans = [make_plan(target, now, now, directories) for _ in range(2)]

    assert plans[0] == plans[1]
    assert len(plans[0].steps) == 72
    assert len(asked) == len(set(asked)) > 0


def test_no_descriptor_stays_open_where_a_directory_on_the_way_is_missing_or_a_link(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/link").symlink_to("b")

    with Root(str(tmp_path)) as root:
        with Nearby(root) as nearby:
            fd, name = nearby.parent(b"a/b/file")
            for way in (b"a/b/missing/file", b"a/link/file", b"a/link/missing/file"):
                with pytest.raises(OSError, match=r"No such file|Not a directory|symbolic links"):
                    nearby.parent(way)
            fd, name = nearby.parent(b"a/b/file")
            assert (os.fstat(fd).st_ino, name) == ((tmp_path / "a/b").stat().st_ino, b"file")
            top, name = nearby.parent(b"file")
            assert (os.fstat(top).st_ino, name) == (tmp_path.stat().st_ino, b"file")
        assert os.fstat(root.fd).st_ino == tmp_path.stat().st_ino
        assert open_below(tmp_path) == [str(tmp_path)]

    assert open_below(tmp_path) == []


def test_no_descriptor_stays_open_after_a_restore_of_many(shop: Workshop) -> None:
    assert shop.restore(TARGET, BEFORE).failed == ()

    assert shop.state() == TARGET
    assert open_below(shop.root) == []
