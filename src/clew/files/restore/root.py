"""Work below one directory by file descriptors: no name is looked up from `/`, no symlink is followed.

Each path is opened again, one name after the other, from the descriptor of the root: a directory that
is swapped for a symlink meanwhile is not entered. Only POSIX systems have such calls.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from blake3 import blake3

from clew.core.disk import DIRECTORY_FLAGS, FILE_FLAGS, open_directory
from clew.files.objects.format import CHUNKED, LINK, Chunk, TreeEntry, object_name

NEW_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
PIECE: Final = 1024 * 1024
PERMISSIONS: Final = 0o777
"""All that a restore sets of a mode: set-user-id, set-group-id and sticky bits come from nowhere."""
NO_HARD_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})


class Root:
    """A directory that stays open, so that its own name does not matter any more."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, DIRECTORY_FLAGS)
        self.device = os.fstat(self.fd).st_dev

    def __enter__(self) -> Root:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self.fd)

    def open_folder(self, path: bytes) -> int:
        """The descriptor of a directory below, the root itself for an empty path; close it."""
        return open_directory(self.fd, path)

    @contextmanager
    def folder(self, path: bytes) -> Iterator[int]:
        """The same, as long as it is needed."""
        fd = self.open_folder(path)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def parent(self, path: bytes) -> Iterator[tuple[int, bytes]]:
        """The descriptor of the directory that a path lies in, and its name there."""
        above, _, name = path.rpartition(b"/")
        with self.folder(above) as fd:
            yield fd, name


class Nearby:
    """The directory of the last path stays open: the next one is likely to lie in it."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._path: bytes | None = None
        self._fd = -1

    def __enter__(self) -> Nearby:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def parent(self, path: bytes) -> tuple[int, bytes]:
        """As that of `Root`, good until the next call."""
        above, _, name = path.rpartition(b"/")
        if above != self._path:
            self._leave()
            self._fd = self._root.open_folder(above)
            self._path = above
        return self._fd, name

    def _leave(self) -> None:
        if self._path is not None:
            self._path = None
            os.close(self._fd)


def status(fd: int, name: bytes) -> os.stat_result | None:
    """Of what is there, a link too; None: nothing."""
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def is_same(one: os.stat_result | None, other: os.stat_result) -> bool:
    """Whether nothing happened to a file between two looks at it."""
    return one is not None and _identity(one) == _identity(other)


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return (
        status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns,
    )  # fmt: skip


def is_executable(status: os.stat_result) -> bool:
    return bool(status.st_mode & 0o111)


def holds(fd: int, name: bytes, found: os.stat_result, entry: TreeEntry, chunks: Sequence[Chunk]) -> bool:
    """Whether a file or link has exactly the content of an entry, by its hash. `chunks` of a chunked one."""
    if entry.kind == LINK:
        return stat.S_ISLNK(found.st_mode) and object_name(os.readlink(name, dir_fd=fd)) == entry.digest
    if not entry.is_file or not stat.S_ISREG(found.st_mode) or found.st_size != entry.size:
        return False
    file = os.open(name, FILE_FLAGS, dir_fd=fd)
    try:
        if not is_same(os.fstat(file), found):
            return False
        is_equal = (
            _has_chunks(file, chunks)
            if entry.kind & CHUNKED
            else _hash(file, min(found.st_size + 1, PIECE)) == entry.digest
        )
        return is_equal and is_same(os.fstat(file), found)
    finally:
        os.close(file)


def _hash(file: int, piece_size: int) -> bytes:
    hasher = blake3()
    while piece := os.read(file, piece_size):
        hasher.update(piece)
    return hasher.digest()


def _has_chunks(file: int, chunks: Sequence[Chunk]) -> bool:
    for chunk in chunks:
        hasher, left = blake3(), chunk.size
        while left and (piece := os.read(file, min(left, PIECE))):
            hasher.update(piece)
            left -= len(piece)
        if left or hasher.digest() != chunk.digest:
            return False
    return not os.read(file, 1)


def write_all(file: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]


def put_in_place(fd: int, temporary: bytes, name: bytes) -> None:
    """Give a file its name where there is none. FileExistsError: there is one by now."""
    try:
        os.link(temporary, name, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
    except OSError as exc:
        if exc.errno not in NO_HARD_LINKS:
            raise
        if status(fd, name) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(name)) from exc
        os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
    else:
        os.unlink(temporary, dir_fd=fd)


def remove_file(fd: int, name: bytes) -> None:
    """It may be gone already."""
    try:
        os.unlink(name, dir_fd=fd)
    except FileNotFoundError:
        pass
