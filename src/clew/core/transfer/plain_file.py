"""Opening what others name: never anything else than a file."""

from __future__ import annotations

import errno
import os
import stat
from typing import IO


def open_file(path: str | os.PathLike[str], buffering: int = -1) -> IO[bytes]:
    """A file, to be read. OSError: it can not be, or it is a pipe or a device, which could wait forever."""
    raw = open(path, "rb", buffering=buffering, opener=_without_waiting)  # noqa: SIM115 (the opener)
    if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
        raw.close()
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return raw


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
