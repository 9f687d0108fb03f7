"""Make what was written durable: file by file, or all of a file system with one call.

One call costs about as much as one file does, so it wins where there are many. It is used only where it
waits for the disk and tells of failures: on Linux from 5.8 on, for file systems that are known to do so.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ctypes

MANY: Final = 32
"""So few files are better made durable by themselves: the one call waits for what others wrote, too."""
TELLS_OF_FAILURES: Final = (5, 8)
KNOWN: Final = frozenset({0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994})
"""ext4, XFS, Btrfs, F2FS, tmpfs."""


def can_sync_all(fd: int) -> bool:
    """Whether `sync_all` can be trusted with the file system of this descriptor."""
    library = _library()
    if library is None:
        return False
    import ctypes

    # The kind is the first field; the whole is smaller than this on every architecture.
    status = (ctypes.c_long * 64)()
    if library.fstatfs(fd, status) != 0:
        return False
    return status[0] & 0xFFFFFFFF in KNOWN


def sync_all(fd: int) -> None:
    """Wait until all that was written to the file system of this descriptor is on disk."""
    import ctypes

    library = _library()
    assert library is not None
    if library.syncfs(fd) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


@cache
def _library() -> ctypes.CDLL | None:
    if sys.platform != "linux" or _release() < TELLS_OF_FAILURES:
        return None
    import ctypes

    try:
        library = ctypes.CDLL(None, use_errno=True)
        library.syncfs.argtypes = [ctypes.c_int]
        library.fstatfs.argtypes = [ctypes.c_int, ctypes.c_void_p]
    except (OSError, AttributeError):
        return None
    return library


def _release() -> tuple[int, int]:
    major, minor, *_ = *os.uname().release.split("."), "0"
    try:
        return int(major), int("".join(filter(str.isdigit, minor)))
    except ValueError:
        return 0, 0
