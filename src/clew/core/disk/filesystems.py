"""Which kind of file system something is on: what it can be trusted with depends on that."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ctypes

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
