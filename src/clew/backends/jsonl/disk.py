"""Every file operation of this backend passes here: so faults can be put in, and what was done recorded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PRIVATE_FILE: Final = 0o600
PRIVATE_DIRECTORY: Final = 0o700
_BINARY: Final = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def make_directory(path: Path) -> bool:
    """Make a private directory, with those above it; False: it was there."""
    missing = [place for place in (path, *path.parents) if not place.exists()]
    for place in reversed(missing):
        try:
            os.mkdir(place, PRIVATE_DIRECTORY)
            os.chmod(place, PRIVATE_DIRECTORY)
        except FileExistsError:  # another process was faster
            pass
    for place in {made.parent for made in missing}:
        sync_directory(place)
    return bool(missing)


def open_for_reading(path: Path) -> int:
    return os.open(path, os.O_RDONLY | _BINARY)


def open_for_appending(path: Path) -> int:
    """Open a file to write at its end; it is made if it is not there."""
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _BINARY, PRIVATE_FILE)


def open_for_patching(path: Path) -> int:
    """Open a file to write anywhere in it; it is made if it is not there."""
    return os.open(path, os.O_RDWR | os.O_CREAT | _BINARY, PRIVATE_FILE)


def create(path: Path) -> int:
    """Make a file that is not there yet."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, PRIVATE_FILE)


def close(handle: int) -> None:
    os.close(handle)


def size(handle: int) -> int:
    return os.fstat(handle).st_size


def inode(handle: int) -> int:
    return os.fstat(handle).st_ino


def write(handle: int, data: bytes) -> None:
    """One call, and more only if the system took less than all."""
    written = os.write(handle, data)
    while written < len(data):
        written += os.write(handle, memoryview(data)[written:])


def write_at(handle: int, data: bytes, offset: int) -> None:
    written = 0
    while written < len(data):
        written += os.pwrite(handle, memoryview(data)[written:], offset + written)


def read_at(handle: int, count: int, offset: int) -> bytes:
    """`count` bytes, or fewer at the end of the file."""
    data = os.pread(handle, count, offset)
    if len(data) == count or not data:
        return data
    parts = [data]
    offset += len(data)
    count -= len(data)
    while count and (data := os.pread(handle, count, offset)):
        parts.append(data)
        offset += len(data)
        count -= len(data)
    return b"".join(parts)


def truncate(handle: int, length: int) -> None:
    os.ftruncate(handle, length)


def sync(handle: int) -> None:
    """Until this returns, what was written may be lost with the power."""
    getattr(os, "fdatasync", os.fsync)(handle)


def sync_directory(path: Path) -> None:
    """Until this returns, a new name in the directory may be lost with the power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace(source: Path, target: Path) -> None:
    os.replace(source, target)


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def write_whole(path: Path, data: bytes, *, durable: bool = True) -> None:
    """A file of this content is there as a whole, or not at all."""
    # A name of its own: two threads may open a new store at once.
    beside = path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}.new")
    remove(beside)
    handle = create(beside)
    try:
        write(handle, data)
        if durable:
            sync(handle)
    except BaseException:
        remove(beside)
        raise
    finally:
        close(handle)
    replace(beside, path)
    if durable:
        sync_directory(path.parent)
