"""restic, a program for backups, with a repository on the same disk."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path


class Restic:
    """`backup`; `restore` over the tree."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._root = root
        self._environment = {
            **os.environ,
            "RESTIC_REPOSITORY": str(folder / "repository"),
            "RESTIC_CACHE_DIR": str(folder / "cache"),
            "RESTIC_PASSWORD": "benchmark",
        }
        self._run("init")

    @staticmethod
    def is_there() -> bool:
        return shutil.which("restic") is not None

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            ["restic", *arguments],
            cwd=self._root,
            env=self._environment,
            capture_output=True,
            check=True,
            text=True,
        )
        return done.stdout

    def snapshot(self) -> str:
        lines = self._run("backup", "--json", ".").splitlines()
        return str(json.loads(lines[-1])["snapshot_id"])

    def restore(self, snapshot: str) -> None:
        self._run("restore", snapshot, "--target", str(self._root))

    def settle(self) -> None:
        pass

    def tidy(self) -> None:
        self._run("prune", "--quiet")

    def close(self) -> None:
        pass
