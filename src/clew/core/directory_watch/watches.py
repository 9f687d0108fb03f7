"""Watched directories below a root: in which of them something happened."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Collection
from typing import Final

from clew.core.directory_watch import inotify
from clew.core.directory_watch.inotify import Event, Inotify
from clew.core.disk.open import DIRECTORY_FLAGS, open_directory

# ── Mounts ────────────────────────────────────────────────────────────────────────────────────────
# What is mounted where: a mount in a directory changes what is seen there, and nobody gives notice.

_TABLE: Final = "/proc/self/mountinfo"
_LOCAL: Final = frozenset({
    "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "jfs", "ntfs3", "overlay", "ramfs",
    "reiserfs", "tmpfs", "vfat", "xfs", "zfs",
})  # fmt: skip
"""File systems that only this machine writes to; of the others, changes come without notice."""
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")


def mounts_at(root: bytes) -> tuple[bytes, ...] | None:
    """The lines of the system's table that decide what is seen at and below a directory. None: it can
    not be told, or what is there may change without notice."""
    with open(_TABLE, "rb") as table:
        lines = table.read().splitlines()
    holding, below = b"", list[bytes]()
    longest = -1
    for line in lines:
        point = _ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), line.split(b" ")[4])
        if _is_inside(point, root) and point != root:
            below.append(line)
        elif _is_inside(root, point) and len(point) >= longest:  # of two at one place the later one
            holding, longest = line, len(point)
    if _kind(holding) not in _LOCAL:
        return None
    return (holding, *below)


def _kind(line: bytes) -> str:
    return line.partition(b" - ")[2].split(b" ")[0].decode("ascii", "replace")


def _is_inside(path: bytes, directory: bytes) -> bool:
    return path == directory or path.startswith(directory.rstrip(b"/") + b"/")


# ── Watching the directories of a root: which of them something happened in ───────────────────────
# A directory that came, went or moved takes all that is below it with it: the watches there are dropped,
# for their paths may be others now. A file with a second name can be written by that name without notice
# in its directory: so that is always suspect. So is one that can not be watched.

_SELF: Final = inotify.SELF_DELETED | inotify.SELF_MOVED | inotify.UNMOUNTED | inotify.ENDED
_NAMES: Final = inotify.CREATED | inotify.DELETED | inotify.MOVED_AWAY | inotify.MOVED_HERE
_OURS: Final = frozenset({errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EBADF})
"""Errors that are not about one directory."""


class DirectoryWatches:
    """Open until `close`. OSError: the system does not let us watch. One thread at a time."""

    def __init__(self, root: str) -> None:
        if not inotify.IS_THERE:
            raise OSError(errno.ENOTSUP, "only Linux tells exactly what changed")
        self._root = root
        self._fd = os.open(root, DIRECTORY_FLAGS)
        try:
            self._identity = _identity(os.fstat(self._fd))
            self._mounts = mounts_at(os.fsencode(root))
            if self._mounts is None:
                raise OSError(errno.ENOTSUP, "others may write to this file system without notice")
            self._queue = Inotify()
        except BaseException:
            os.close(self._fd)
            raise
        self._number_of: dict[bytes, int] = {}
        self._paths: dict[int, bytes] = {}
        self._since: dict[bytes, int] = {}
        """Of each path that is watched: the moment."""
        self._moment = 0
        self._shared: set[bytes] = set()
        """Directories with files that have more than one name."""
        self._touched: set[bytes] = set()
        """Directories that may be so by now."""

    def close(self) -> None:
        self._queue.close()
        os.close(self._fd)

    def tick(self) -> int:
        """The number of this moment; what is watched later is watched since a later one."""
        self._moment += 1
        return self._moment

    def watch(self, folders: Collection[bytes], began: int | None = None) -> set[bytes]:
        """Watch these directories; those that were not watched before the moment `began` (now)."""
        limit = self._moment + 1 if began is None else began
        for path in folders:
            if path not in self._since:
                self._at(path, self._add)
        late = {path for path in folders if self._since.get(path, limit) >= limit}
        return late | self._shared

    def look_for_names(self) -> None:
        """Whether files in directories where something happened have a second name now."""
        for path in self._touched.intersection(self._since):
            self._at(path, self._note_shared)
        self._touched.clear()

    def take_in(self) -> tuple[set[bytes], str | None]:
        """Directories in which something happened since the last time; and why that may not be all."""
        suspect, moved, reason = set[bytes](), set[bytes](), self._why_lost()
        for event in self._queue.read():
            if event.mask & inotify.LOST:
                reason = "so much changed that the system could not tell all of it"
            path = self._paths.get(event.watch)
            if path is None:
                continue
            suspect.add(path)
            if event.mask & _SELF:
                moved.add(path)
                if not path:
                    reason = "the root was moved or deleted"
            elif event.mask & inotify.IS_DIRECTORY:
                (moved if event.mask & _NAMES else suspect).add(_named(path, event))
        self._touched |= suspect
        return suspect | moved | self._drop(moved), reason

    def _why_lost(self) -> str | None:
        try:
            found = _identity(os.stat(self._root, follow_symlinks=False))
        except OSError:
            return "the root is not there any more"
        if found != self._identity:
            return "another directory is in the place of the root"
        if mounts_at(os.fsencode(self._root)) != self._mounts:
            return "something was mounted or unmounted"
        return None

    # -- watches

    def _at(self, path: bytes, act: Callable[[bytes, int], None]) -> None:
        """Do something with a directory, opened; nothing, if it is not there or not for us."""
        try:
            fd = open_directory(self._fd, path)
            try:
                act(path, fd)
            finally:
                os.close(fd)
        except OSError as exc:
            if exc.errno in _OURS:
                raise

    def _add(self, path: bytes, fd: int) -> None:
        number = self._queue.add(fd)
        other = self._paths.get(number)
        if other is not None:  # moved just now, or mounted at two places: only one of them is watched
            self._forget(other)
        self._number_of[path], self._paths[number], self._since[path] = number, path, self._moment
        self._note_shared(path, fd)

    def _note_shared(self, path: bytes, fd: int) -> None:
        with os.scandir(fd) as entries:
            is_shared = any(_has_other_names(entry) for entry in entries)
        if is_shared:
            self._shared.add(path)
        else:
            self._shared.discard(path)

    def _drop(self, moved: set[bytes]) -> set[bytes]:
        """Watch nothing at and below these paths; what is not watched any more."""
        dropped = {path for path in self._since if _is_at_or_below(path, moved)} if moved else set()
        for path in dropped:
            self._queue.remove(self._number_of[path])
            self._forget(path)
        return dropped

    def _forget(self, path: bytes) -> None:
        del self._paths[self._number_of.pop(path)]
        del self._since[path]
        self._shared.discard(path)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _named(path: bytes, event: Event) -> bytes:
    return path + b"/" + event.name if path and event.name else path or event.name


def _has_other_names(entry: os.DirEntry[str]) -> bool:
    try:
        return not entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_nlink > 1
    except FileNotFoundError:
        return False


def _is_at_or_below(path: bytes, places: set[bytes]) -> bool:
    while path not in places:
        if not path:
            return False
        path = path.rpartition(b"/")[0]
    return True
