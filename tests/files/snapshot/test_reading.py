"""What is stored of a file is what it held at one moment, whoever writes to it meanwhile."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clew.files.objects.format import CHUNKED, decode_chunks, object_name
from clew.files.snapshot import read as reading
from clew.files.snapshot.read import WHOLE, FileRead, store_file
from clew.model.files import SkipReason

MIB = 1024 * 1024

WRITER = """
import os, sys
file, size = os.open(sys.argv[1], os.O_WRONLY), int(sys.argv[2])
one, two = b"A" * size, b"B" * size
os.write(1, b"ready")
while True:
    os.pwrite(file, two, 0)
    os.pwrite(file, one, 0)
"""


class Shelf:
    """What was stored, by its name."""

    def __init__(self) -> None:
        self.objects: dict[bytes, bytes] = {}

    def put(self, content: bytes, name: bytes | None = None) -> bytes:
        name = name or object_name(content)
        self.objects[name] = bytes(content)
        return name

    def content(self, read: FileRead) -> bytes:
        if not read.kind & CHUNKED:
            return self.objects[read.digest]
        chunks = decode_chunks(self.objects[read.digest])
        return b"".join(self.objects[chunk.digest] for chunk in chunks)


def store(path: Path, shelf: Shelf, most: int = 1024 * MIB) -> FileRead | SkipReason | None:
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        return store_file(directory, path.name, shelf, most)  # type: ignore[arg-type]
    finally:
        os.close(directory)


@contextmanager
def written_to(path: Path, size: int) -> Iterator[None]:
    """Another process writes one content over the other, in place, as fast as it can."""
    path.write_bytes(b"A" * size)
    command = [sys.executable, "-c", WRITER, str(path), str(size)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.read(5) == b"ready"
        try:
            yield
        finally:
            writer.kill()


@pytest.mark.parametrize("size", [64 * 1024, 3 * MIB, WHOLE + MIB])
def test_a_file_that_is_rewritten_in_place_is_never_stored_torn(tmp_path: Path, size: int) -> None:
    """Of 3 MiB, two of three were, when the writer's call was not waited for."""
    path = tmp_path / "file"
    stored: list[set[int]] = []
    with written_to(path, size):
        for _ in range(8):
            shelf = Shelf()
            read = store(path, shelf)
            if isinstance(read, FileRead):
                stored.append(set(shelf.content(read)))
            else:
                assert read == "changing"
    assert [found for found in stored if len(found) != 1] == []


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def make_link(path: Path) -> None:
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("make", [make_fifo, make_socket, make_link, Path.mkdir])
def test_what_took_the_place_of_a_file_since_it_was_listed_makes_it_changing(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """I-21: nobody waits for the other end of a FIFO."""
    make(tmp_path / "file")
    assert store(tmp_path / "file", Shelf()) == "changing"


def test_what_is_gone_since_it_was_listed_is_none(tmp_path: Path) -> None:
    assert store(tmp_path / "file", Shelf()) is None


@pytest.mark.parametrize("size", [0, 1, 4096, WHOLE, WHOLE + 1, WHOLE + MIB])
def test_a_file_that_was_written_just_now_is_stored_whole(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    (tmp_path / "file").write_bytes(content)
    shelf = Shelf()
    read = store(tmp_path / "file", shelf)
    assert isinstance(read, FileRead)
    assert shelf.content(read) == content
    assert read.stat.st_size == size


def test_a_file_over_the_limit_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert store(tmp_path / "file", Shelf(), 4) == "too large"


def looks_at(monkeypatch: pytest.MonkeyPatch, contents: Iterator[bytes]) -> list[bytes]:
    """What each look at a file sees; what was seen so far."""
    looks: list[bytes] = []

    def look(fd: int, size: int) -> bytes:
        looks.append(next(contents))
        return looks[-1]

    monkeypatch.setattr(reading, "_read_whole", look)
    return looks


def test_while_the_clock_stands_still_a_file_needs_two_equal_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a tick of the clock, a change may leave the stamp as it was."""
    (tmp_path / "file").write_bytes(b"one")
    stamp = os.stat(tmp_path / "file").st_ctime_ns
    monkeypatch.setattr(reading, "_stamp", lambda: stamp)
    looks = looks_at(monkeypatch, iter([b"one", b"two", b"two", b"two"]))
    shelf = Shelf()
    read = store(tmp_path / "file", shelf)
    assert isinstance(read, FileRead)
    assert shelf.content(read) == b"two"
    assert looks == [b"one", b"two", b"two", b"two"]


def test_once_the_clock_has_gone_on_a_file_needs_one_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"one")
    stamp = os.stat(tmp_path / "file").st_ctime_ns
    monkeypatch.setattr(reading, "_stamp", lambda: stamp + 1)
    looks = looks_at(monkeypatch, iter([b"one"]))
    assert isinstance(store(tmp_path / "file", Shelf()), FileRead)
    assert looks == [b"one"]


def test_a_file_that_is_another_at_each_look_is_changing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by the clock of a server that is ahead of ours: it says nothing of when a write began."""
    (tmp_path / "file").write_bytes(b"one")
    monkeypatch.setattr(reading, "_stamp", lambda: 0)
    looks_at(monkeypatch, iter([b"one", b"two"] * 10))
    assert store(tmp_path / "file", Shelf()) == "changing"


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EOPNOTSUPP, errno.ENXIO])
def test_a_file_system_that_knows_no_holes_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    (tmp_path / "file").write_bytes(b"one")
    seek = os.lseek

    def refuse(fd: int, at: int, how: int) -> int:
        if how == os.SEEK_HOLE:
            raise OSError(code, "no holes")
        return seek(fd, at, how)

    monkeypatch.setattr(os, "lseek", refuse)
    shelf = Shelf()
    read = store(tmp_path / "file", shelf)
    assert isinstance(read, FileRead)
    assert shelf.content(read) == b"one"
