"""I-21: what is in a directory beside files is skipped, listed, and left alone."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.faults.requirements import NOBODY, needs_root
from tests.files.playground import House, cache_in, house, state
from tests.support.forks import call_in_fork

MIB = 1024 * 1024


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
        report = store.restore(first)
        problems = [*store.verify().problems]
    skipped = {one.path: one.reason for one in first.skipped}
    return {"skipped": skipped, "failed": len(report.failed), "links": first.links, "problems": problems}


def test_i21_what_is_no_file_is_skipped_listed_and_left_alone(tmp_path: Path) -> None:
    """No hang at a FIFO; links are links; a hole of ten gigabytes is not read."""
    home = House(tmp_path)
    make_nodes(home.root)

    found = call_in_fork(take_and_restore, str(tmp_path))

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

    found = call_in_fork(take_and_restore, str(tmp_path))

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
    os.environ["CLEW_STATE_DIR"] = str(home.directory / "state")
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
        found = call_in_fork(take_as_nobody, str(home.directory), str(tmp_path))

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
            report = store.restore(snapshot)

            assert [(one.path, one.reason) for one in second.skipped] == [("inner", "other mount")]
            assert state(home.root / "inner") == inside
            assert (home.root / "file").read_text() == "one"
            told = {failure.path.split("/")[0] for failure in report.failed} | {
                kept.path.split("/")[0] for kept in report.kept
            }
            assert told == {"inner"}
        assert (home.root / "inner/a").read_text() == "below the mount"
