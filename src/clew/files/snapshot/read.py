"""Read the files that changed, with a few threads, none of them half.

What is stored of a file is what it held at one moment, or the file is listed as changing. Times tell: a
write stamps the file when it begins, so a stamp that is the same before and after the reading means that
no write began in between. Two things could deceive it, and are seen to:

- A write within the same tick of the kernel's clock may leave the same stamp. So, unless the clock has
  gone on since the last stamp when the reading begins, the file is read twice, and must be the same: a
  file that is rewritten more than twice within a tick, and met at the same byte each time, would pass
  (not where the kernel tells such changes apart: Linux 6.13 or newer with ext4, XFS, btrfs, tmpfs).
- A write that began before, and is not over: it may take long. The kernel lets no process look for holes
  meanwhile (ext4, tmpfs, btrfs, overlays of them; on XFS a read itself waits), so we do that first.

Not promised: that stores through a shared memory map, or direct I/O, are seen while they are under way
(neither stamps each change), nor that of two machines the clocks agree (NFS) or that calls that write
are waited for (NFS, FUSE, where nothing is known of holes).
A program that writes a file by several calls may be met between two of them.
"""

from __future__ import annotations

import errno
import os
import stat as modes
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from clew.core.disk import FILE_FLAGS
from clew.files.objects.format import CHUNKED, EXECUTABLE, FILE, Chunk, encode_chunks, object_name
from clew.model.files import SkipReason

if TYPE_CHECKING:
    from clew.files.objects.store import ObjectWriter

# -- cut large files to chunks
#
# Memory stays bounded, and an edit costs the chunks around it. The cuts are where the content says (FastCDC),
# so that an insertion at the front moves no chunk behind it. The parameters are part of the format: with
# other ones no content that is stored would be found again.

WHOLE: Final = 4 * 1024 * 1024
"""Files up to this size are one object."""

PIECE: Final = 1024 * 1024
_SMALLEST: Final = PIECE // 4
_LARGEST: Final = PIECE * 4
_NORMALISATION: Final = 1
_SEED: Final = 0


def cut(fd: int) -> Iterator[bytes]:
    """The content of a file from where it stands to its end, in chunks."""
    from pyfastcdc import FastCDC  # most trees have no file that large

    cutter = FastCDC(
        PIECE, min_size=_SMALLEST, max_size=_LARGEST, normalized_chunking=_NORMALISATION, seed=_SEED
    )
    # The next chunk is written over the memory of this one: so it is copied.
    return (bytes(chunk.data) for chunk in cutter.cut_stream(_Stream(fd)))


def store_chunks(pieces: Iterator[bytes], writer: ObjectWriter) -> tuple[bytes, int]:
    """Store the chunks and the list of them: the name of the list, the length of the file."""
    chunks: list[Chunk] = []
    for piece in pieces:
        name = object_name(piece)
        writer.put(piece, name)
        chunks.append(Chunk(name, len(piece)))
    return writer.put(encode_chunks(chunks)), sum(chunk.size for chunk in chunks)


class _Stream:
    """A descriptor as what the cutter reads from."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def readinto(self, buffer: memoryview) -> int:
        return os.readv(self._fd, [buffer])


# -- read files

ATTEMPTS: Final = 4
FRESH: Final = 50_000_000
"""Nanoseconds, more than any tick of a clock that files are stamped by."""

_STAMPS: Final = 5 if sys.platform == "linux" else None
"""CLOCK_REALTIME_COARSE: the clock that files are stamped by."""
TICK: Final = FRESH / 1e9 if _STAMPS is None else time.clock_getres(_STAMPS)

_NO_HOLES: Final = frozenset({errno.ENXIO, errno.EINVAL, errno.EOPNOTSUPP})
"""It is empty by now, or its file system does not know of holes."""

_OURS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Failures of this process, not of a file: it must not look as if the file could not be read."""


_REFUSED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EFBIG})
"""Nothing is wrong with the file, but it is not for us; or its rules are too large to be rules."""


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
    return "unreadable" if exc.errno in _REFUSED else "read error"


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
        return reason_of(exc)
    finally:
        os.close(fd)


def _store_stable(fd: int, writer: ObjectWriter, max_bytes: int) -> FileRead | SkipReason:
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(TICK)
        now = _stamp()
        read = _store_once(fd, writer, max_bytes)
        if isinstance(read, str):
            return read
        if read is None:
            continue
        if read.stat.st_ctime_ns < now:
            return read
        again = _store_once(fd, writer, max_bytes)
        if isinstance(again, FileRead) and again.digest == read.digest and _is_same(again.stat, read.stat):
            return again
    return "changing"


def _stamp() -> int:
    """A change from now on is stamped with this time, or with a later one."""
    return time.time_ns() - FRESH if _STAMPS is None else time.clock_gettime_ns(_STAMPS)


def _store_once(fd: int, writer: ObjectWriter, max_bytes: int) -> FileRead | SkipReason | None:
    """None: it changed meanwhile; what was stored of it is garbage."""
    before = os.fstat(fd)
    if not modes.S_ISREG(before.st_mode):
        return "changing"
    if before.st_size > max_bytes:
        return "too large"
    if before.st_size:
        _wait_for_writer(fd)
    kind = EXECUTABLE if before.st_mode & 0o111 else FILE
    if before.st_size <= WHOLE:
        content = _read_whole(fd, before.st_size)
        digest, size = object_name(content), len(content)
    else:
        kind |= CHUNKED
        os.lseek(fd, 0, os.SEEK_SET)
        digest, size = store_chunks(cut(fd), writer)
    after = os.fstat(fd)
    if size != before.st_size or not _is_same(before, after):
        return None
    if not kind & CHUNKED:
        writer.put(content, digest)
    return FileRead(kind, digest, after)


def _wait_for_writer(fd: int) -> None:
    """Return when no call that writes to the file is under way that was before."""
    try:
        os.lseek(fd, 0, os.SEEK_HOLE)
    except OSError as exc:
        if exc.errno not in _NO_HOLES:
            raise


def _read_whole(fd: int, size: int) -> bytes:
    content = os.pread(fd, size + 1, 0)
    while len(content) < size and (part := os.pread(fd, size + 1 - len(content), len(content))):
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
