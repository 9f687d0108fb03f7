"""How many paths a walk through a tree may come to.

Equal directories are one object, so a tree of a few hundred bytes can have more paths than there are atoms:
each directory holds the next one twice. Nothing that Clew took is like that, but a store may come from
anybody.
"""

from __future__ import annotations

from typing import Final

from clew.errors import CorruptError

MOST_PATHS: Final = 2_000_000
"""A snapshot holds up to a million files, and the directories that they are in."""
MOST_BYTES: Final = 512 * 1024 * 1024
"""Of all paths together: those of a tree that is deep are long."""


class TreeBudget:
    """Of one walk."""

    def __init__(self) -> None:
        self._paths = 0
        self._bytes = 0

    def spend(self, path: bytes) -> None:
        """CorruptError: there are too many."""
        self._paths += 1
        self._bytes += len(path)
        if self._paths > MOST_PATHS or self._bytes > MOST_BYTES:
            raise CorruptError(
                f"the tree has more than {MOST_PATHS:,} paths, or they are longer than {MOST_BYTES:,} bytes"
                " together: no snapshot that Clew took is so large; name some of its paths (paths=)"
            )
