"""The caches that this process read or wrote last, so that the next snapshot need not read them again.

One is used only while its file is the one that was read or written then. So a file that was deleted,
replaced or added to, by whomever, is read anew.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    from clew.files.snapshot.statcache import Folder

MOST: Final = 4
LARGEST: Final = 12 * 1024 * 1024
"""Bytes of a file; a larger one is read each time, for the sake of memory."""

Mark: TypeAlias = tuple[int, int, int, int]
"""Of a file: inode, size, mtime_ns, ctime_ns."""


class Recent(msgspec.Struct, frozen=True):
    """What a file holds. Nobody changes it, so any number of threads may have it."""

    mark: Mark
    root: bytes
    key: bytes
    folders: dict[bytes, Folder]
    first: int


_kept: Final[dict[str, Recent]] = {}
"""By path; that which was used last is at the end. Each access is one step: a lock could be held by
another thread when this one forks."""


def keep(path: str, recent: Recent) -> None:
    _kept.pop(path, None)
    if recent.mark[1] <= LARGEST:
        _kept[path] = recent
    for other in list(_kept)[:-MOST]:
        _kept.pop(other, None)


def recall(path: str) -> Recent | None:
    """What the file holds; None: it has to be read."""
    recent = _kept.pop(path, None)
    if recent is None or recent.mark != mark_of(path):
        return None
    _kept[path] = recent
    return recent


def mark_of(path: str) -> Mark | None:
    """What changes when a file is written to or replaced; None: it is not there."""
    try:
        stat = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
