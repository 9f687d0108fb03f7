"""Whether the times of a file tell of every change to it.

A file is stamped with the time of its last change, but clocks tick: a change soon after the file was read
may leave the same stamp, and would not be seen (racy timestamps). So what was changed shortly before a
scan began is read again by the next one.

How shortly depends on the clock. The local file systems of Linux are stamped by its coarse clock, which
ticks every 10 ms at the most and is never ahead of the one that we ask. A change after a scan began at T
has a stamp after T - 10 ms; a file with an older one was not changed since. TICKS is ten times that.
Others, and those of these that keep whole seconds only, get two seconds, as much as FAT needs.

What is written through a memory map is stamped when its page is first written to, and not again before
that was stored on disk: no margin would be enough. It is seen by the scan after that.
"""

from __future__ import annotations

import os
import time
from typing import Final

import msgspec

from clew.core.disk.filesystems import BTRFS, EXT4, F2FS, OVERLAY, TMPFS, XFS, kind_of

MARGIN: Final = 2_000_000_000
TICKS: Final = 100_000_000
"""Nanoseconds, both."""
FINE: Final = frozenset({EXT4, XFS, BTRFS, F2FS, TMPFS, OVERLAY})
_SECOND: Final = 1_000_000_000


class Beginning(msgspec.Struct, frozen=True, gc=False):
    """When a scan began, and how old the stamp of what it may trust has to be."""

    time: int
    margin: int = MARGIN

    @classmethod
    def now(cls, root: str) -> Beginning:
        """Before anything is looked at."""
        began = time.time_ns()
        try:
            fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return cls(began)
        try:
            return cls(began, TICKS if kind_of(fd) in FINE else MARGIN)
        finally:
            os.close(fd)

    def is_racy(self, mtime: int, ctime: int) -> bool:
        """Whether a later change might leave these times as they are. A ctime cannot be set, so one that
        lies in the future says that the clock was set back; an mtime there says nothing."""
        margin = self.margin if ctime % _SECOND else MARGIN  # ext4 may have been made to keep seconds only
        horizon = self.time - margin
        return ctime >= horizon or horizon <= mtime <= self.time + margin
