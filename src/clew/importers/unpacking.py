"""How much an import may make out of little: one budget for all that it unpacks.

A compressed file, a sparse file, and rows of a database that are read again and again all give far more than
they take on the disk. Each may give a multiple of what was read from the disk for it. What goes beyond that
comes out of one budget of the whole import, which honest files hardly touch.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO, Final

MOST: Final = 32 * 1024 * 1024
"""Bytes that one import may unpack beyond the multiples."""
TIMES: Final = 50
"""So many times its size may come out of a file: rows of a database are read twice or thrice, copies once."""
_PIECE: Final = 1024 * 1024
_MOST_EXTENTS: Final = 1000
"""Parts of a sparse file that are looked at. What is behind them counts as holes."""


class UnpackedTooMuchError(OSError):
    """A file would give more than the import may still unpack."""

    def __init__(self, path: str | os.PathLike[str], times: int, most: int) -> None:
        self.reason = (
            f"it unpacks to more than {times} times its size, and the {_mib(most)} that one import may unpack"
            " beyond that are used up; allow more with clew import --again --max-unpacked MIB"
        )
        super().__init__(errno.EFBIG, self.reason, os.fspath(path))

    def __str__(self) -> str:
        return self.reason


class Budget:
    """What one import may still unpack. `most`: in bytes; None: the usual."""

    def __init__(self, most: int | None = None) -> None:
        self.most = self.left = MOST if most is None else most

    @contextmanager
    def spent(self) -> Iterator[None]:
        """All that is unpacked in the block counts."""
        token = _budget.set(self)
        try:
            yield
        finally:
            _budget.reset(token)


_budget: ContextVar[Budget | None] = ContextVar("budget", default=None)


class Allowance:
    """What may come out of one file. Outside of an import it has a budget of its own.

    Args:
        path: The file, for the error.
        size: Bytes of it on the disk, as far as they were read already.
        times: How many times as much may come out before the budget is asked.
    """

    def __init__(self, path: str | os.PathLike[str], size: int = 0, times: int = TIMES) -> None:
        self._path = path
        self._times = times
        self._free = size * times
        self._budget = _budget.get() or Budget()

    def read(self, size: int) -> None:
        """Count bytes that were read from the disk."""
        self._free += size * self._times

    def take(self, size: int) -> None:
        """Count bytes that come out. UnpackedTooMuchError: they are more than what is left."""
        beyond = max(size - self._free, 0)
        if beyond > self._budget.left:
            raise UnpackedTooMuchError(self._path, self._times, self._budget.most)
        self._free -= size - beyond
        self._budget.left -= beyond


def take_holes(descriptor: int, path: str | os.PathLike[str]) -> None:
    """Count what reading a whole file gives; for all but sparse files that is nothing."""
    size = os.fstat(descriptor).st_size
    stored = stored_size(descriptor)
    if stored < size:
        Allowance(path, stored).take(size)


def stored_size(descriptor: int) -> int:
    """The bytes of a file that are no holes. On a file system without holes that is all of them."""
    size = os.fstat(descriptor).st_size
    if not is_sparse(descriptor):
        return size
    before = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        return _data_in(descriptor, size)
    finally:
        os.lseek(descriptor, before, os.SEEK_SET)


def is_sparse(descriptor: int) -> bool:
    """Whether a file may have holes, as its size on the disk tells."""
    stat = os.fstat(descriptor)
    blocks = getattr(stat, "st_blocks", None)
    return blocks is not None and blocks * 512 < stat.st_size and hasattr(os, "SEEK_DATA")


def copy_file(source: IO[bytes], target: IO[bytes], path: str | os.PathLike[str]) -> None:
    """Copy a file as far as it reaches now. UnpackedTooMuchError: nothing was copied of a sparse file."""
    left = os.fstat(source.fileno()).st_size
    Allowance(path, stored_size(source.fileno())).take(left)
    while left > 0 and (part := source.read(min(left, _PIECE))):
        target.write(part)
        left -= len(part)


def _data_in(descriptor: int, size: int) -> int:
    at = found = 0
    for _ in range(_MOST_EXTENTS):
        try:
            start = os.lseek(descriptor, at, os.SEEK_DATA)
            at = os.lseek(descriptor, start, os.SEEK_HOLE)
        except OSError as error:
            return found if error.errno == errno.ENXIO else size
        found += at - start
        if at >= size:
            break
    return found


def _mib(size: int) -> str:
    return f"{size / (1024 * 1024):g} MiB"
