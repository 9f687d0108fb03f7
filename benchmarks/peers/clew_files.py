"""Clew as a keeper of trees: one store, open all the time, as an agent has it."""

from __future__ import annotations

import os
from pathlib import Path

import clew


class ClewFiles:
    """`store.snapshot`; `store.restore` with its safety snapshot, over whatever changed."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._folder = folder
        self._root = root
        self._open()

    def _open(self) -> None:
        self.store = clew.open(str(self._folder / "clew.db"))

    @staticmethod
    def is_there() -> bool:
        return True

    def snapshot(self) -> str:
        self._keep_caches_here()
        return self.store.snapshot(self._root).id

    def restore(self, snapshot: str) -> None:
        self._keep_caches_here()
        report = self.store.restore(snapshot)
        assert not report.failed, report.failed

    def _keep_caches_here(self) -> None:
        # Counted as ours, and gone with us, like the index of git.
        os.environ["XDG_CACHE_HOME"] = str(self._folder / "cache")

    def settle(self) -> None:
        self.close()
        self._open()

    def tidy(self) -> None:
        self.store.gc(merge=True)
        self.store.vacuum()

    def close(self) -> None:
        self.store.close()


class WatchingClewFiles(ClewFiles):
    """With a watcher that says which directories changed."""

    def _open(self) -> None:
        super()._open()
        self._watch = self.store.watch_files(self._root)

    @staticmethod
    def is_there() -> bool:
        return hasattr(clew.Store, "watch_files")

    def close(self) -> None:
        self._watch.stop()
        super().close()
