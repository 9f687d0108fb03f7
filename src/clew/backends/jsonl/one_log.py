"""One log that lies elsewhere, read as a store of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from clew.backends.jsonl.backend import JsonlBackend
from clew.backends.jsonl.directory import Directory, File
from clew.backends.jsonl.layout import SESSIONS, Layout

NAME: Final = f"{SESSIONS}/session.jsonl"


class OneLogBackend(JsonlBackend):
    """`place` is an empty directory, for what a store needs beside its logs."""

    def __init__(self, place: Path, log: str | os.PathLike[str]) -> None:
        self._log = Path(os.path.realpath(log))
        Layout(place).prepare()
        super().__init__(place, read_only=True)

    def _layout_of(self, root: Path) -> Layout:
        return _OneLogLayout(root, self._log)


class _OneLogLayout(Layout):
    def __init__(self, root: Path, log: Path) -> None:
        super().__init__(root)
        self._log = Directory(log.parent, held=True).file(log.name)

    def file(self, log: str) -> File:
        return self._log if log == NAME else super().file(log)

    def path(self, log: str) -> Path:
        return self._log.path if log == NAME else super().path(log)

    def log_names(self) -> list[str]:
        return [NAME]
