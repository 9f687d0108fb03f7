"""A place that the system does not tell of: all its files are looked at from time to time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Final

from clew.importers.follow.trees import DEEPEST, LEFT_OUT, file_meant

SHORTEST: Final = 2.0
LONGEST: Final = 60.0
"""Seconds between two looks."""
_SHARE: Final = 50
"""A look takes at most one part in so many of the time."""


class Polled:
    """One place. What was there at first is not news."""

    def __init__(self, root: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._seen: frozenset[int] = frozenset()
        """A number for each file as it was at the last look: names would take too much memory."""
        self.due = 0.0
        self.look()

    def look(self) -> list[str]:
        """The files that are not as they were at the last look."""
        began = self._clock()
        changed, seen = [], set[int]()
        for path, found in _files(self._root):
            look = hash((path, found.st_ino, found.st_size, found.st_mtime_ns))
            seen.add(look)
            if look not in self._seen and (file := file_meant(path, is_written=True)) is not None:
                changed.append(file)
        self._seen = frozenset(seen)
        now = self._clock()
        self.due = now + min(max(SHORTEST, (now - began) * _SHARE), LONGEST)
        return changed


def _files(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """The files at and below a path. A database has a log beside it."""
    if not os.path.isdir(root):
        for path in (root, f"{root}-wal"):
            try:
                yield path, os.stat(path)
            except OSError:
                continue
        return
    waiting = [(root, 0)]
    while waiting:
        folder, level = waiting.pop()
        try:
            with os.scandir(folder) as inside:
                entries = list(inside)
        except OSError:
            continue
        for entry in entries:
            try:
                if not entry.is_dir(follow_symlinks=False):
                    yield entry.path, entry.stat()
                elif entry.name not in LEFT_OUT and level < DEEPEST:
                    waiting.append((entry.path, level + 1))
            except OSError:
                continue
