"""The user's disk: open files without being led astray, kinds of file systems, durable writes."""

from __future__ import annotations

import errno
import os
import stat
import sys
from functools import cache
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ctypes

# ── Open files and directories that others may change meanwhile: follow no symlink, wait for no pipe ───

_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)
FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
FILE_FLAGS: Final = FLAGS | _NO_WAIT | getattr(os, "O_NOCTTY", 0)  # a FIFO in its place must not make us wait
DIRECTORY_FLAGS: Final = FLAGS | getattr(os, "O_DIRECTORY", 0)


def open_file(path: str | os.PathLike[str], buffering: int = -1) -> IO[bytes]:
    """A file, to be read; its name may be a link. OSError: it cannot be read, or it is a pipe or a device,
    which could wait forever."""
    raw = open(path, "rb", buffering=buffering, opener=_without_waiting)  # noqa: SIM115 (the opener)
    if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
        raw.close()
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return raw


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | _NO_WAIT)


def open_directory(root: int, path: bytes) -> int:
    """The descriptor of a directory below that of the root, or of the root again if `path` is empty. It is
    opened one name after the other: a directory that is swapped for a symlink meanwhile is not entered."""
    fd = root
    for name in path.split(b"/") if path else (b".",):
        try:
            below = os.open(name, DIRECTORY_FLAGS, dir_fd=fd)
        finally:
            if fd != root:
                os.close(fd)
        fd = below
    return fd


# ── Kinds of file systems, and making what was written to one durable ─────────────────────────────

# -- kinds

EXT4: Final = 0xEF53
XFS: Final = 0x58465342
BTRFS: Final = 0x9123683E
F2FS: Final = 0xF2F52010
TMPFS: Final = 0x01021994
OVERLAY: Final = 0x794C7630


def kind_of(fd: int) -> int | None:
    """The number of the kind, as Linux gives it; None: it is not known."""
    libc = library()
    if libc is None:
        return None
    import ctypes

    # The kind is the first field; the whole is smaller than this on every architecture.
    status = (ctypes.c_long * 64)()
    return None if libc.fstatfs(fd, status) != 0 else status[0] & 0xFFFFFFFF


@cache
def library() -> ctypes.CDLL | None:
    """The C library of Linux."""
    if sys.platform != "linux":
        return None
    import ctypes

    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.syncfs.argtypes = [ctypes.c_int]
        libc.fstatfs.argtypes = [ctypes.c_int, ctypes.c_void_p]
    except (OSError, AttributeError):
        return None
    return libc


def release() -> tuple[int, int]:
    """The version of the kernel."""
    major, minor, *_ = *os.uname().release.split("."), "0"
    try:
        return int(major), int("".join(filter(str.isdigit, minor)))
    except ValueError:
        return 0, 0


# -- make what was written durable
#
# One call costs about as much as one file does, so it wins where there are many. It is used only where it
# waits for the disk and tells of failures: on Linux from 5.8 on, for file systems that are known to do so.

MANY: Final = 32
"""So few files are better made durable by themselves: the one call waits for what others wrote, too."""
TELLS_OF_FAILURES: Final = (5, 8)
KNOWN: Final = frozenset({EXT4, XFS, BTRFS, F2FS, TMPFS})


def can_sync_all(fd: int) -> bool:
    """Whether `sync_all` can be trusted with the file system of this descriptor."""
    return kind_of(fd) in KNOWN and release() >= TELLS_OF_FAILURES


def sync_all(fd: int) -> None:
    """Wait until all that was written to the file system of this descriptor is on disk."""
    import ctypes

    libc = library()
    assert libc is not None
    if libc.syncfs(fd) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
