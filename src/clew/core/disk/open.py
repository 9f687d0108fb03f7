"""Open files and directories that others may change meanwhile: follow no symlink, wait for no pipe."""

from __future__ import annotations

import errno
import os
import stat
from typing import IO, Final

_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)
FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
FILE_FLAGS: Final = FLAGS | _NO_WAIT | getattr(os, "O_NOCTTY", 0)  # a FIFO in its place must not make us wait
DIRECTORY_FLAGS: Final = FLAGS | getattr(os, "O_DIRECTORY", 0)


def open_file(path: str | os.PathLike[str], buffering: int = -1) -> IO[bytes]:
    """A file, to be read; its name may be a link. OSError: it cannot be read, or it is a pipe or a device,
    which could wait forever."""
    raw = open(path, "rb", buffering=buffering, opener=_without_waiting)  # noqa: SIM115 (the opener)
    if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
        raw.close()
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return raw


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | _NO_WAIT)


def open_directory(root: int, path: bytes) -> int:
    """The descriptor of a directory below that of the root, or of the root again if `path` is empty. It is
    opened one name after the other: a directory that is swapped for a symlink meanwhile is not entered."""
    fd = root
    for name in path.split(b"/") if path else (b".",):
        try:
            below = os.open(name, DIRECTORY_FLAGS, dir_fd=fd)
        finally:
            if fd != root:
                os.close(fd)
        fd = below
    return fd
