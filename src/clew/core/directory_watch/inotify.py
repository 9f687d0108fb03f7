"""Linux's notices of changes in directories.

The kernel puts an event in the queue before the call that caused it returns. So a process that reads the
queue to its end knows all that happened before, without waiting. What did not fit in the queue is said too:
LOST. (Libraries over inotify hide that; watchfiles 1.3 does.)
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import ctypes

IS_THERE: Final = sys.platform == "linux"

MODIFIED: Final = 0x2
ATTRIBUTES: Final = 0x4
CLOSED: Final = 0x8
MOVED_AWAY: Final = 0x40
MOVED_HERE: Final = 0x80
CREATED: Final = 0x100
DELETED: Final = 0x200
SELF_DELETED: Final = 0x400
SELF_MOVED: Final = 0x800
UNMOUNTED: Final = 0x2000
LOST: Final = 0x4000
"""The queue was full: events are missing."""
ENDED: Final = 0x8000
"""The watch is gone."""
IS_DIRECTORY: Final = 0x40000000

_CONTENT: Final = MODIFIED | ATTRIBUTES | CLOSED | MOVED_AWAY | MOVED_HERE | CREATED | DELETED
_MASK: Final = _CONTENT | SELF_DELETED | SELF_MOVED | 0x01000000  # that it is a directory

_HEAD: Final = struct.Struct("iIII")
_BUFFER: Final = 256 * 1024


class Event(NamedTuple):
    watch: int
    mask: int
    name: bytes
    """In the directory; empty: the directory itself."""


class Inotify:
    """One queue of events. OSError: the system refuses, for instance because of a limit."""

    def __init__(self) -> None:
        self.fd = _checked(_libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def add(self, directory: int) -> int:
        """Watch an open directory, whatever its name is by now; the number of the watch. A directory
        that is watched already has the same number again."""
        name = b"/proc/self/fd/%d" % directory
        return _checked(_libc().inotify_add_watch(self.fd, name, _MASK))

    def remove(self, watch: int) -> None:
        """It may be gone already."""
        _libc().inotify_rm_watch(self.fd, watch)

    def read(self) -> Iterator[Event]:
        """All that happened so far."""
        while True:
            try:
                data = os.read(self.fd, _BUFFER)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                watch, mask, _, length = _HEAD.unpack_from(data, at)
                at += _HEAD.size + length
                yield Event(watch, mask, data[at - length : at].rstrip(b"\0"))

    def close(self) -> None:
        os.close(self.fd)


@cache
def _libc() -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        import ctypes

        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
