"""Those who keep directory trees: one file for each, behind one small protocol.

Each has a copy of the tree for itself, and keeps its own files elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast


class TreeKeeper(Protocol):
    """Takes snapshots of one tree, and brings them back."""

    def __init__(self, folder: Path, root: Path) -> None:
        """Keep the tree `root` in `folder`, which is empty. Ready on return."""

    def snapshot(self) -> str:
        """Keep the tree as it is now."""

    def restore(self, snapshot: str) -> None:
        """Bring back the files that changed since, whatever their content is now."""

    def settle(self) -> None:
        """Be as small as one is between two runs of the program."""

    def tidy(self) -> None:
        """Make what is kept as small as its users would."""

    def close(self) -> None: ...


KEEPERS = {
    "clew": "clew_files:ClewFiles",
    "clew, watching": "clew_files:WatchingClewFiles",
    "git commit": "shadow_git:Committing",
    "git commit, tuned": "shadow_git:TunedCommitting",
    "git write-tree, tuned": "shadow_git:TunedTreeWriting",
    "restic": "restic:Restic",
}
"""Name in the tables, and where the class stands."""
GIT = tuple(name for name in KEEPERS if name.startswith("git"))
RESETTING = tuple(name for name in GIT if "commit" in name)
"""Those that restore by `reset --hard`."""
SLOW = ("restic",)
"""One round of them has to do."""
SLOW_TO_RESTORE = (*SLOW, "git write-tree, tuned")


def start(name: str, folder: Path, root: Path) -> TreeKeeper:
    """The keeper, in `folder`, which is made."""
    module, _, attribute = KEEPERS[name].partition(":")
    found = getattr(import_module(f"benchmarks.peers.{module}"), attribute)
    folder.mkdir(parents=True)
    return cast("Callable[[Path, Path], TreeKeeper]", found)(folder, root)


def is_there(name: str) -> bool:
    """Whether this keeper can run here."""
    module, _, attribute = KEEPERS[name].partition(":")
    found = getattr(import_module(f"benchmarks.peers.{module}"), attribute)
    return bool(found.is_there())
