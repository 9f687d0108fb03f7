"""Changes to a directory by plain file operations, as any program makes them."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st

from tests.files.trees import contents, names

MODES = (0o600, 0o640, 0o644, 0o700, 0o755, 0o444)


class Change(NamedTuple):
    verb: str
    place: int
    """Which of the paths that are there, by its number."""
    name: bytes
    content: bytes
    mode: int


def changes(largest: int) -> st.SearchStrategy[list[Change]]:
    verbs = st.sampled_from(
        ["rewrite", "append", "delete", "rename", "mode", "link", "folder", "file", "add"]
    )
    one = st.builds(Change, verbs, st.integers(0, 50), names(), contents(largest), st.sampled_from(MODES))
    return st.lists(one, min_size=1, max_size=8)


def apply(root: Path, change: Change, spared: bytes = b"") -> None:
    """Make one change; nothing happens where it makes no sense. Names that end in `spared` are spared."""
    paths = sorted(path for path in _paths(os.fsencode(root)) if not spared or not path.endswith(spared))
    at = paths[change.place % len(paths)] if paths else os.fsencode(root) + b"/" + change.name
    try:
        _act(os.fsencode(root), at, change)
    except OSError:
        pass  # the name is too long, a directory is in the way: so be it


def _paths(at: bytes) -> list[bytes]:
    return [
        os.path.join(directory, name)
        for directory, folders, files in os.walk(at)
        for name in (*folders, *files)
    ]


def _act(root: bytes, at: bytes, change: Change) -> None:
    is_folder = os.path.lexists(at) and stat.S_ISDIR(os.lstat(at).st_mode)
    is_file = os.path.lexists(at) and stat.S_ISREG(os.lstat(at).st_mode)
    beside = os.path.join(at if is_folder else os.path.dirname(at), change.name)
    match change.verb:
        case "rewrite" | "append" if is_file:
            with open(at, "wb" if change.verb == "rewrite" else "ab") as file:
                file.write(change.content)
        case "delete":
            _remove(at)
        case "rename" if not os.path.lexists(beside):
            os.rename(at, beside)
        case "mode" if is_file or is_folder:
            os.chmod(at, change.mode | 0o700 if is_folder else change.mode)
        case "link":
            _remove(at)
            os.symlink(change.name, at)
        case "folder":
            _remove(at)
            os.mkdir(at)
            _write(os.path.join(at, change.name), change)
        case "file":
            _remove(at)
            _write(at, change)
        case "add" if not os.path.lexists(beside):
            _write(beside, change)


def _write(path: bytes, change: Change) -> None:
    with open(path, "wb") as file:
        file.write(change.content)
    os.chmod(path, change.mode)


def _remove(path: bytes) -> None:
    if not os.path.lexists(path):
        return
    if stat.S_ISDIR(os.lstat(path).st_mode):
        shutil.rmtree(path)
    else:
        os.unlink(path)
