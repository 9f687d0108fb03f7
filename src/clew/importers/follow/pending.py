"""What waits for the next pass: the paths that changed, up to a bound, or everything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MOST_PATHS: Final = 8_192
MOST_LETTERS: Final = 2 * 1024 * 1024


class Pending:
    """Paths, each once. If they are too many, they stand for everything: one look at all files costs less
    than a list without an end."""

    def __init__(self) -> None:
        self._paths: dict[str, None] = {}
        self._letters = 0
        self._is_all = False

    def __bool__(self) -> bool:
        return self._is_all or bool(self._paths)

    def add(self, paths: Iterable[str]) -> None:
        for path in paths:
            if self._is_all:
                return
            if path not in self._paths:
                self._paths[path] = None
                self._letters += len(path)
                if len(self._paths) > MOST_PATHS or self._letters > MOST_LETTERS:
                    self.add_all()

    def add_all(self) -> None:
        self._paths.clear()
        self._letters, self._is_all = 0, True

    def take(self) -> list[str] | None:
        """The paths, in the order in which they came; None: everything."""
        paths = None if self._is_all else list(self._paths)
        self._paths.clear()
        self._letters, self._is_all = 0, False
        return paths
