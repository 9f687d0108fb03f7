"""Kinds of file systems, and making what was written to one durable."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ctypes

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
