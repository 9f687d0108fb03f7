"""A store and a directory to play with, in memory, and all that can be seen of a directory.

Imports no pytest: the processes that the tests start import it too."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import clew
from tests.faults.crash.common import quick_directory

State: TypeAlias = Mapping[bytes, tuple[str, int, bytes]]
"""Every path below a directory: what it is, its permissions, its content."""


@contextmanager
def cache_in(directory: Path) -> Iterator[None]:
    """The caches of stores are kept there meanwhile, not in the home of whoever runs the tests."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(directory / "cache")
    try:
        yield
    finally:
        if before is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = before


class House:
    """A directory with a store in it, and beside that the root, and another directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = directory / "root"
        self.outside = directory / "outside"
        self.path = directory / "store" / "files.db"
        for made in (self.root, self.outside, self.path.parent):
            made.mkdir(exist_ok=True)

    def open(self) -> clew.Store:
        return clew.open(self.path)


@contextmanager
def house() -> Iterator[House]:
    with quick_directory() as directory, cache_in(directory):
        yield House(directory)


def state(root: Path | str, *, but: bytes = b"") -> State:
    """All that is below a directory, links as links; `but`: a name at the top that is left out."""
    found: dict[bytes, tuple[str, int, bytes]] = {}
    _collect(os.fsencode(root), b"", found)
    if but:
        return {path: what for path, what in found.items() if path.split(b"/")[0] != but}
    return found


def _collect(at: bytes, below: bytes, found: dict[bytes, tuple[str, int, bytes]]) -> None:
    for name in os.listdir(at):
        path = at + b"/" + name
        status = os.lstat(path)
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            found[below + name] = ("link", 0, os.readlink(path))
        elif stat.S_ISREG(status.st_mode):
            found[below + name] = ("file", mode, Path(os.fsdecode(path)).read_bytes())
        elif stat.S_ISDIR(status.st_mode):
            found[below + name] = ("directory", mode, b"")
            _collect(path, below + name + b"/", found)
        else:
            found[below + name] = (f"special {stat.S_IFMT(status.st_mode):o}", mode, b"")


def kept(found: State) -> dict[bytes, tuple[str, bool, bytes]]:
    """What of a state a snapshot keeps: of the permissions, whether a file is a program."""
    return {
        path: (kind, kind == "file" and bool(mode & 0o111), content)
        for path, (kind, mode, content) in found.items()
    }


def copy(source: Path, target: Path) -> None:
    """Make `target` a copy of a directory, whatever was there."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
