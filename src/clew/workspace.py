"""Where a session's work happens."""

from __future__ import annotations

import os


def normalised(path: str | os.PathLike[str]) -> str:
    """The one name of a directory: absolute, symlinks resolved, whether it exists or not."""
    return os.path.realpath(os.fspath(path))
