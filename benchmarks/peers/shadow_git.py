"""Shadow git, as agents use it for checkpoints: a repository beside the tree, the tree as its work tree."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import ClassVar

_IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "benchmark"), ("EMAIL", "benchmark@localhost"))
}
_TUNED = {
    "core.untrackedCache": "true",
    "core.preloadIndex": "true",
    "gc.auto": "0",
    "feature.manyFiles": "true",
}


class Committing:
    """`add -A` and `commit`; `reset --hard`. As git is set up by default."""

    settings: ClassVar[dict[str, str]] = {}

    def __init__(self, folder: Path, root: Path) -> None:
        self._root = root
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            **_IDENTITY,
            "GIT_DIR": str(folder / "shadow.git"),
            "GIT_WORK_TREE": str(root),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        self.git("init", "--quiet")
        for name, value in self.settings.items():
            self.git("config", name, value)

    @staticmethod
    def is_there() -> bool:
        return shutil.which("git") is not None

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self._root,
            env=self._environment,
            capture_output=True,
            check=True,
            text=True,
        )
        return done.stdout.strip()

    def snapshot(self) -> str:
        self.git("add", "-A")
        self.git("commit", "--quiet", "--allow-empty", "--no-verify", "-m", "checkpoint")
        return self.git("rev-parse", "HEAD")

    def restore(self, snapshot: str) -> None:
        self.git("reset", "--quiet", "--hard", snapshot)

    def settle(self) -> None:
        pass

    def tidy(self) -> None:
        self.git("gc", "--quiet")

    def close(self) -> None:
        pass


class TunedCommitting(Committing):
    """The same with everything that makes git faster, and no gc in between."""

    settings = _TUNED


class TunedTreeWriting(TunedCommitting):
    """`add` and `write-tree`; `read-tree` and `checkout-index`."""

    def snapshot(self) -> str:
        self.git("add", ".")
        return self.git("write-tree")

    def restore(self, snapshot: str) -> None:
        self.git("read-tree", snapshot)
        self.git("checkout-index", "--all", "--force")
