"""Listing a directory: by one question for all, or by one for each, what is found is the same."""

from __future__ import annotations

import os
import socket
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.files.snapshot import listing
from clew.files.snapshot import listing as statx
from clew.files.snapshot.listing import (
    UNKNOWN,
    Listing,
    Row,
    list_directory,
    mode_of,
    packed,
    row_of,
    size_of,
    split,
    times_of,
    unpacked,
    with_size,
)

numbers = st.integers(-(2**63), 2**63 - 1)
rows = st.tuples(*[numbers] * 7)


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[Path]:
    """One of each kind, with times and names of all sorts."""
    folder = tmp_path / "mixed"
    folder.mkdir()
    for number, time in enumerate((0, -1_500_000_001, 1_000_000_000_123_456_789, 4_000_000_000_000_000_001)):
        path = folder / f"file {number}"
        path.write_bytes(b"x" * number)
        path.chmod(0o755 if number % 2 else 0o4600)
        os.utime(path, ns=(0, time))
    os.close(os.open(os.fsencode(folder) + b"/\xff\xfe", os.O_CREAT | os.O_WRONLY))
    (folder / "link").symlink_to("nowhere")
    (folder / "to a directory").symlink_to(".")
    os.mkfifo(folder / "fifo")
    for mode in (0o700, 0o1777, 0o2755):
        (folder / f"directory {mode}").mkdir()
        (folder / f"directory {mode}").chmod(mode)
    with tempfile.TemporaryDirectory(prefix="clew") as near, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{near}/s")
        os.rename(f"{near}/s", folder / "socket")
        yield folder


def listed(path: Path) -> Listing:
    fd = os.open(path, os.O_RDONLY)
    try:
        return list_directory(fd)
    finally:
        os.close(fd)


def one_by_one(path: Path, patch: pytest.MonkeyPatch) -> Listing:
    with patch.context() as inner:
        inner.setattr(statx, "look", lambda fd, names: None)
        return listed(path)


def test_all_at_once_is_found_what_each_by_itself_is(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = listed(mixed)
    assert found == one_by_one(mixed, monkeypatch)
    assert found.length == len(split(found.names)) == 9
    assert sorted(split(found.directories)) == ["directory 1023", "directory 1517", "directory 448"]
    for name, row in zip(split(found.names), unpacked(found.stats), strict=True):
        told = os.lstat(mixed / name)
        assert (mode_of(row), size_of(row)) == (told.st_mode, told.st_size)
        assert times_of(row) == (told.st_mtime_ns, told.st_ctime_ns)


@pytest.mark.parametrize("count", [0, 1, statx.MOST, statx.MOST + 1])
def test_a_directory_may_have_any_number_of_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    for number in range(count):
        (tmp_path / str(number)).touch()
    found = listed(tmp_path)
    assert (found, found.length) == (one_by_one(tmp_path, monkeypatch), count)


def test_what_is_gone_before_it_is_looked_at_is_not_listed(
    mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda fd: [*real(fd), "gone"])
    assert listed(mixed) == one_by_one(mixed, monkeypatch)


def test_what_can_not_be_looked_at_is_listed_without_what_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"1")

    def refusing(stat: os.stat_result) -> Row:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(listing, "row_of", refusing)
    found = one_by_one(tmp_path, monkeypatch)
    assert (found.names, unpacked(found.stats)) == (b"a", [UNKNOWN])


def test_threads_do_not_see_what_others_found(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(4)]
    for number, folder in enumerate(folders):
        folder.mkdir()
        for name in range(200):
            (folder / str(name)).write_bytes(b"x" * number)
    found: list[tuple[int, set[int]]] = []

    def look(folder: Path, size: int) -> None:
        found.extend((size, {size_of(row) for row in unpacked(listed(folder).stats)}) for _ in range(50))

    threads = [threading.Thread(target=look, args=(folder, n)) for n, folder in enumerate(folders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 200
    assert all(sizes == {size} for size, sizes in found)


def test_a_system_that_tells_something_else_than_stat_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    find = statx._statx.__wrapped__
    for answer in (None, statx.Found(packed([UNKNOWN]), b"\x41")):
        monkeypatch.setattr(statx, "_look", lambda *_, answer=answer: answer)
        assert find() is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can be asked in this way")
def test_linux_is_asked_for_all_at_once() -> None:
    assert statx._statx() is not None


# -- rows


@given(st.lists(rows, max_size=20))
def test_rows_come_back_as_they_were(given_rows: list[Row]) -> None:
    assert unpacked(packed(given_rows)) == given_rows


def test_an_inode_of_64_bits_has_a_row() -> None:
    fields = (stat.S_IFREG | 0o644, 2**64 - 2, 1, 1, 0, 0, 5, 0, 0, 0)
    told = os.stat_result(fields, {"st_mtime_ns": 1, "st_ctime_ns": 2})
    row = row_of(told)
    assert unpacked(packed([row])) == [row]
    assert (mode_of(row), row[1], size_of(with_size(row, 7))) == (stat.S_IFREG | 0o644, -2, 7)
