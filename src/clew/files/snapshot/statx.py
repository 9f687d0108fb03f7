"""Looking at all entries of a directory without making Python objects of what is found.

`os.stat` makes some twenty objects of each file, which is half of what a scan costs in which nothing
changed. Here statx(2) of Linux writes to a buffer, and the columns that count are cut out of that. It is
the same question to the system with the same answer; where it can not be asked, `os.stat` is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import compress, repeat
from typing import Any, Final

from clew.files.snapshot.rows import packed, row_of, unpacked

MOST: Final = 1024
"""Entries of a directory; of a larger one each is looked at by itself."""
_RECORD: Final = 256
_WORDS: Final = (3, 4, 5, 12, 13, 14, 15)
"""Where in a record of 32 words the numbers of a row are."""
_KIND: Final = 29
"""Where in a record the byte is that says what kind of file it is."""
_IS_DIRECTORY: Final = bytes(kind >> 4 == 4 for kind in range(256))
_FLAGS: Final = 0x100 | 0x800  # AT_SYMLINK_NOFOLLOW, AT_NO_AUTOMOUNT
_BASIC: Final = 0x7FF


class Found:
    """What statx says of the names of one directory."""

    def __init__(self, stats: bytes, kinds: bytes) -> None:
        self.stats = stats
        """Of all entries, as clew.files.snapshot.rows has them."""
        self.are_directories = kinds.translate(_IS_DIRECTORY)
        """For each entry 1 or 0."""

    @property
    def are_others(self) -> bytes:
        return self.are_directories.translate(b"\1\0" + bytes(254))

    def stats_of_others(self) -> bytes:
        """Of all that is no directory."""
        return packed(list(compress(unpacked(self.stats), self.are_others)))


class _Desk:
    """Room for what is found; of one thread at a time."""

    def __init__(self) -> None:
        import ctypes

        room = (ctypes.c_char * (_RECORD * MOST))()
        record = ctypes.c_char * _RECORD
        self._records = [record.from_buffer(room, _RECORD * number) for number in range(MOST)]
        self._bytes = memoryview(room).cast("B")
        self._words = self._bytes.cast("q")

    def look(self, statx: Callable[..., int], fd: int, names: Sequence[bytes]) -> Found | None:
        """None: one of them could not be looked at."""
        results = map(statx, repeat(fd), names, repeat(_FLAGS), repeat(_BASIC), self._records)
        if any(list(results)):
            return None
        words, length = _RECORD // 8, len(names)
        cut = self._words[: words * length]
        stats = b"".join([cut[word::words].tobytes() for word in _WORDS])
        return Found(stats, self._bytes[_KIND : _RECORD * length : _RECORD].tobytes())


_desks: Final[list[_Desk]] = []
"""Those that nobody uses at the moment."""


def look(fd: int, names: Sequence[bytes]) -> Found | None:
    """What is at these names in a directory. None: not all of them could be looked at in this way."""
    statx = _statx()
    return None if statx is None or len(names) > MOST else _look(statx, fd, names)


def _look(statx: Callable[..., int], fd: int, names: Sequence[bytes]) -> Found | None:
    desk = _desks.pop() if _desks else _Desk()
    try:
        return desk.look(statx, fd, names)
    finally:
        _desks.append(desk)


@cache
def _statx() -> Callable[..., int] | None:
    """The function, if there is one that says of a file just what `os.stat` says."""
    if sys.platform != "linux" or sys.byteorder != "little":
        return None
    import ctypes

    try:
        statx: Any = ctypes.CDLL(None).statx  # it lets other threads run meanwhile
        fd = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (AttributeError, OSError):
        return None
    try:
        found = _look(statx, fd, [b"."])
        return statx if found and unpacked(found.stats) == [row_of(os.fstat(fd))] else None
    finally:
        os.close(fd)
