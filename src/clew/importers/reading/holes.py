"""Sparse files: a hole that `truncate` made takes nothing on the disk, and as long to read as if it did."""

from __future__ import annotations

import os
import sys
from typing import IO, Final

from clew.importers.unpacking import is_sparse

LARGE: Final = 4 * 1024 * 1024
"""Bytes of a hole from which on it is not read. What crashes leave is smaller."""
_NONE: Final = sys.maxsize, sys.maxsize


class WithoutHoles:
    """The lines of a sparse file; its large holes are skipped."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hole = -1, -1
        self._skipped = 0

    def readline(self, limit: int) -> bytes:
        found = b""
        while True:
            at = self._file.tell()
            start, end = self._next_hole(at)
            if at == start:
                self._skipped += self._file.seek(end) - start
                continue
            part = self._file.readline(min(limit - len(found), start - at))
            found += part
            if not part or part.endswith(b"\n") or len(found) == limit:
                return found

    def skipped(self) -> int:
        """Bytes of holes that were skipped since the last call."""
        skipped, self._skipped = self._skipped, 0
        return skipped

    def _next_hole(self, at: int) -> tuple[int, int]:
        if self._hole[0] < at:
            descriptor = self._file.fileno()
            before = os.lseek(descriptor, 0, os.SEEK_CUR)
            try:
                self._hole = _large_hole(descriptor, at)
            finally:
                os.lseek(descriptor, before, os.SEEK_SET)
        return self._hole


def without_holes(file: IO[bytes]) -> WithoutHoles | None:
    """None: the file has no holes."""
    return WithoutHoles(file) if is_sparse(file.fileno()) else None


def _large_hole(descriptor: int, at: int) -> tuple[int, int]:
    """Where the next one starts and ends. Behind the end of a file there is none."""
    size = os.fstat(descriptor).st_size
    while at < size:
        try:
            start = os.lseek(descriptor, at, os.SEEK_HOLE)
        except OSError:
            break
        try:
            at = os.lseek(descriptor, start, os.SEEK_DATA)
        except OSError:
            at = size
        if at - start >= LARGE:
            return start, at
    return _NONE
