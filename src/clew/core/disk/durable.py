"""Make what was written durable: file by file, or all of a file system with one call.

One call costs about as much as one file does, so it wins where there are many. It is used only where it
waits for the disk and tells of failures: on Linux from 5.8 on, for file systems that are known to do so.
"""

from __future__ import annotations

import os
from typing import Final

from clew.core.disk.filesystems import BTRFS, EXT4, F2FS, TMPFS, XFS, kind_of, library, release

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
