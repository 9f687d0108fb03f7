"""Every file operation of this backend passes here: so faults can be put in, and what was done recorded."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from clew.backends.jsonl.directory import NO_LINK, Directory, File
from clew.backends.private_files import DIRECTORY, FILE, make_directories

# A pipe in the place of a file must not make anybody wait.
_PLAIN: Final = (
    getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | NO_LINK
)


def make_root(path: Path) -> None:
    """Make a private directory, with those above it, if it is not there."""
    for place in {made.parent for made in make_directories(path)}:
        sync_directory(Directory(place, held=False))


def make_directory(directory: Directory, within: Directory) -> None:
    """Make a private directory inside another one, if it is not there."""
    at = within.opened()
    file = within.file(directory.path.name)
    try:
        os.mkdir(file.where(at), DIRECTORY, dir_fd=at.fd)
    except FileExistsError:
        return
    made = directory.opened()
    os.chmod(directory.path if made.fd is None else made.fd, DIRECTORY)
    sync_directory(within)


def open_for_reading(file: File) -> int:
    return _open(file, os.O_RDONLY, writes=False)


def open_for_appending(file: File) -> int:
    """Open a file to write at its end; it is made if it is not there."""
    return _open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, writes=True)


def open_for_patching(file: File) -> int:
    """Open a file to write anywhere in it; it is made if it is not there."""
    return _open(file, os.O_RDWR | os.O_CREAT, writes=True)


def create(file: File) -> int:
    """Make a file that is not there yet."""
    return _open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, writes=True)


def _open(file: File, flags: int, *, writes: bool) -> int:
    at = file.directory.opened()
    if not NO_LINK:  # pragma: no cover - Windows
        check(file, writes=False)
    try:
        handle = os.open(file.where(at), flags | _PLAIN, FILE, dir_fd=at.fd)
    except OSError as exc:
        exc.filename = str(file)
        if not isinstance(exc, FileNotFoundError | FileExistsError):
            check(file, writes=False)
        raise
    if not flags & os.O_EXCL:
        try:
            file.check(os.fstat(handle), writes=writes)
        except BaseException:
            os.close(handle)
            raise
    return handle


def check(file: File, *, writes: bool) -> None:
    """Refuse what is there if it is no plain file, or must not be written; nothing is there: that will do."""
    found = status(file)
    if found is not None:
        file.check(found, writes=writes)


def status(file: File) -> os.stat_result | None:
    """Of what is there, be it a link; None: nothing."""
    at = file.directory.opened()
    try:
        return os.stat(file.where(at), dir_fd=at.fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def exists(file: File) -> bool:
    """Whether anything is there."""
    try:
        return status(file) is not None
    except (FileNotFoundError, NotADirectoryError):  # nor is its directory
        return False


def length(file: File) -> int:
    at = file.directory.opened()
    return os.stat(file.where(at), dir_fd=at.fd, follow_symlinks=False).st_size


def names(directory: Directory) -> list[str]:
    """All that is there, in order."""
    at = directory.opened()
    if at.fd is None:
        return sorted(os.listdir(directory.path))
    # A descriptor of its own: where a listing has come to belongs to it.
    own = os.open(".", os.O_RDONLY | getattr(os, "O_CLOEXEC", 0), dir_fd=at.fd)
    try:
        return sorted(os.listdir(own))
    finally:
        os.close(own)


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


def sync_directory(directory: Directory) -> None:
    """Until this returns, a new name in the directory may be lost with the power."""
    at = directory.opened()
    if at.fd is not None:
        os.fsync(at.fd)


def replace(source: File, target: File) -> None:
    one, other = source.directory.opened(), target.directory.opened()
    os.replace(source.where(one), target.where(other), src_dir_fd=one.fd, dst_dir_fd=other.fd)


def remove(file: File) -> None:
    """Remove a file, or a link, if it is there; a directory is let be."""
    at = file.directory.opened()
    try:
        os.unlink(file.where(at), dir_fd=at.fd)
    except (FileNotFoundError, IsADirectoryError):
        pass
    except PermissionError:  # what macOS says of a directory
        found = status(file)
        if found is None or not stat.S_ISDIR(found.st_mode):
            raise


def write_whole(file: File, data: bytes, *, durable: bool = True) -> None:
    """A file of this content is there as a whole, or not at all."""
    # A name that nobody can know before: two threads may open a new store at once, and others wait for it.
    beside = file.beside(f"{file.name}.{os.urandom(8).hex()}.new")
    handle = create(beside)
    try:
        try:
            write(handle, data)
            if durable:
                sync(handle)
        finally:
            close(handle)
        replace(beside, file)
    except BaseException:
        remove(beside)
        raise
    if durable:
        sync_directory(file.directory)
