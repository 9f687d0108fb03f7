"""Reading the files that changed, with a few threads, none of them half."""

from __future__ import annotations

import errno
import os
import stat as modes
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from clew.core.objects import CHUNKED, EXECUTABLE, FILE, object_name
from clew.files.chunks import WHOLE, cut, store_chunks
from clew.model.files import SkipReason

if TYPE_CHECKING:
    from clew.files.objects import ObjectWriter

ATTEMPTS: Final = 3
FRESH: Final = 50_000_000
"""Nanoseconds: within one tick of the kernel's clock, a second change leaves the same timestamp."""

FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS: Final = FLAGS | os.O_NONBLOCK | os.O_NOCTTY  # a FIFO in its place must not make us wait
DIRECTORY_FLAGS: Final = FLAGS | os.O_DIRECTORY

_OURS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Failures of this process, not of a file: it must not look as if the file could not be read."""


class FileRead(msgspec.Struct, frozen=True, gc=False):
    kind: int
    digest: bytes
    stat: os.stat_result


def reason_of(exc: OSError) -> SkipReason | None:
    """Why something could not be opened; None: it is not there any more."""
    if exc.errno in _OURS:
        raise exc
    if exc.errno == errno.ENOENT:
        return None
    if exc.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
        return "changing"  # something else is in its place now
    return "unreadable"


def open_directory(root: int, path: bytes) -> int:
    """A descriptor of a directory below the root; no symlink is followed on the way."""
    fd = os.open(b".", DIRECTORY_FLAGS, dir_fd=root)
    for name in path.split(b"/") if path else ():
        try:
            below = os.open(name, DIRECTORY_FLAGS, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    return fd


def store_file(
    directory: int, name: str, writer: ObjectWriter, max_bytes: int
) -> FileRead | SkipReason | None:
    """Store what a file holds. A reason: it was skipped; None: it is gone."""
    try:
        fd = os.open(name, FILE_FLAGS, dir_fd=directory)
    except OSError as exc:
        return reason_of(exc)
    try:
        return _store_stable(fd, writer, max_bytes)
    except OSError as exc:
        if exc.errno in _OURS:
            raise
        return "unreadable"
    finally:
        os.close(fd)


def _store_stable(fd: int, writer: ObjectWriter, max_bytes: int) -> FileRead | SkipReason:
    for _ in range(ATTEMPTS):
        read = _store_once(fd, writer, max_bytes)
        if isinstance(read, str):
            return read
        if read is None:
            continue
        if abs(time.time_ns() - read.stat.st_ctime_ns) > FRESH:
            return read
        # So young that its times could not tell a change while it was read: read it once more.
        again = _store_once(fd, writer, max_bytes)
        if isinstance(again, FileRead) and again.digest == read.digest:
            return again
    return "changing"


def _store_once(fd: int, writer: ObjectWriter, max_bytes: int) -> FileRead | SkipReason | None:
    """None: it changed meanwhile; what was stored of it is garbage."""
    os.lseek(fd, 0, os.SEEK_SET)
    before = os.fstat(fd)
    if not modes.S_ISREG(before.st_mode):
        return "changing"
    if before.st_size > max_bytes:
        return "too large"
    kind = EXECUTABLE if before.st_mode & 0o111 else FILE
    if before.st_size <= WHOLE:
        content = _read_whole(fd, before.st_size)
        digest, size = object_name(content), len(content)
    else:
        kind |= CHUNKED
        digest, size = store_chunks(cut(fd), writer)
    after = os.fstat(fd)
    if size != before.st_size or not _is_same(before, after):
        return None
    if not kind & CHUNKED:
        writer.put(content, digest)
    return FileRead(kind, digest, after)


def _read_whole(fd: int, size: int) -> bytes:
    content = os.read(fd, size + 1)
    while len(content) < size and (part := os.read(fd, size + 1 - len(content))):
        content += part
    return content


def _is_same(a: os.stat_result, b: os.stat_result) -> bool:
    return (a.st_size, a.st_mtime_ns, a.st_ctime_ns) == (b.st_size, b.st_mtime_ns, b.st_ctime_ns)


def in_threads(jobs: Iterable[Callable[[], object]], threads: int) -> None:
    """Run all jobs. The first failure ends the others, and is raised."""
    waiting = deque(jobs)
    failures: list[BaseException] = []

    def work() -> None:
        while not failures:
            try:
                job = waiting.popleft()
            except IndexError:
                return
            try:
                job()
            except BaseException as exc:  # noqa: BLE001 - raised by the caller, below
                failures.append(exc)

    helpers = [threading.Thread(target=work, name="clew-read", daemon=True) for _ in range(threads - 1)]
    for helper in helpers:
        helper.start()
    try:
        work()
        for helper in helpers:
            helper.join()
    except BaseException as exc:  # an interrupt: the others end with their present file
        failures.append(exc)
        raise
    if failures:
        raise failures[0]
