"""Linux's notices of changes in directories.

The kernel puts an event in the queue before the call that caused it returns. So a process that reads the
queue to its end knows all that happened before, without waiting. What did not fit in the queue is said too:
LOST. (Libraries over inotify hide that; watchfiles 1.3 does.)
"""

from __future__ import annotations

import errno
import os
import re
import struct
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from clew.core.disk import DIRECTORY_FLAGS, open_directory

if TYPE_CHECKING:
    import ctypes

IS_THERE: Final = sys.platform == "linux"

MODIFIED: Final = 0x2
ATTRIBUTES: Final = 0x4
CLOSED: Final = 0x8
MOVED_AWAY: Final = 0x40
MOVED_HERE: Final = 0x80
CREATED: Final = 0x100
DELETED: Final = 0x200
SELF_DELETED: Final = 0x400
SELF_MOVED: Final = 0x800
UNMOUNTED: Final = 0x2000
LOST: Final = 0x4000
"""The queue was full: events are missing."""
ENDED: Final = 0x8000
"""The watch is gone."""
IS_DIRECTORY: Final = 0x40000000

_NO_LINKS: Final = 0x02000000
_ONLY_DIRECTORIES: Final = 0x01000000
_TOO: Final = 0x20000000
"""What is watched already stays watched."""

_CONTENT: Final = MODIFIED | ATTRIBUTES | CLOSED | MOVED_AWAY | MOVED_HERE | CREATED | DELETED
_MASK: Final = _CONTENT | SELF_DELETED | SELF_MOVED | _ONLY_DIRECTORIES

_HEAD: Final = struct.Struct("iIII")
_BUFFER: Final = 256 * 1024


class Event(NamedTuple):
    watch: int
    mask: int
    name: bytes
    """In the directory; empty: the directory itself."""


class Inotify:
    """One queue of events. OSError: the system refuses, for instance because of a limit."""

    def __init__(self) -> None:
        self.fd = _checked(_libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def add(self, directory: int) -> int:
        """Watch an open directory, whatever its name is by now; the number of the watch. A directory
        that is watched already has the same number again."""
        name = b"/proc/self/fd/%d" % directory
        return _checked(_libc().inotify_add_watch(self.fd, name, _MASK))

    def add_named(self, path: bytes, events: int, *, is_file: bool = False) -> int:
        """Watch a directory, or a file, for some events; the number of the watch. One that is watched already
        has the same number again, and is watched for these events too. A link is refused."""
        mask = events | SELF_DELETED | SELF_MOVED | _NO_LINKS | _TOO | (0 if is_file else _ONLY_DIRECTORIES)
        return _checked(_libc().inotify_add_watch(self.fd, path, mask))

    def remove(self, watch: int) -> None:
        """It may be gone already."""
        _libc().inotify_rm_watch(self.fd, watch)

    def read(self) -> Iterator[Event]:
        """All that happened so far."""
        while True:
            try:
                data = os.read(self.fd, _BUFFER)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                watch, mask, _, length = _HEAD.unpack_from(data, at)
                at += _HEAD.size + length
                yield Event(watch, mask, data[at - length : at].rstrip(b"\0"))

    def close(self) -> None:
        os.close(self.fd)


@cache
def _libc() -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        import ctypes

        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


# ── Watched directories below a root: in which of them something happened ─────────────────────────
# A directory that came, went or moved takes all that is below it with it: the watches there are dropped,
# for their paths may be others now. A file with a second name can be written by that name without notice
# in its directory: so that is always suspect. So is one that cannot be watched.

_SELF: Final = SELF_DELETED | SELF_MOVED | UNMOUNTED | ENDED
_NAMES: Final = CREATED | DELETED | MOVED_AWAY | MOVED_HERE
EXHAUSTED: Final = frozenset({errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EBADF})
"""Errors that are not about one directory."""
LIMITS: Final = {
    errno.ENOSPC: "the limit of watches is reached: raise fs.inotify.max_user_watches",
    errno.EMFILE: "the limit of open files, or of fs.inotify.max_user_instances, is reached",
}


class CannotWatchError(Exception):
    """The system does not let us watch, or does not tell what changed; the text says why."""


class Changes(NamedTuple):
    """What happened since the last time."""

    directories: set[bytes]
    """In which something happened, as paths below the root."""
    lost: str | None
    """Why these may not be all; None: they are."""


class DirectoryWatches:
    """Open until `close`. Every method may raise CannotWatchError; then close it, and look at everything.
    One thread at a time."""

    def __init__(self, root: str) -> None:
        if not IS_THERE:
            raise CannotWatchError("only Linux tells exactly what changed")
        self._root = root
        with _said_plainly():
            self._fd = os.open(root, DIRECTORY_FLAGS)
            try:
                self._identity = _identity(os.fstat(self._fd))
                self._mounts = mounts_at(os.fsencode(root))
                if self._mounts is None:
                    raise CannotWatchError("others may write to this file system without notice")
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

    def fileno(self) -> int:
        """Readable when there is something for `changes` to tell."""
        return self._queue.fd

    def moment(self) -> int:
        """The number of this moment; what is watched later is watched since a later one."""
        self._moment += 1
        return self._moment

    def watch(self, directories: Collection[bytes], began: int | None = None) -> set[bytes]:
        """Watch these directories too; look at them after that. What comes back may have changed without
        notice: with `began`, those that were not watched before that moment; and those with files of several
        names."""
        limit = self._moment + 1 if began is None else began
        with _said_plainly():
            for path in directories:
                if path not in self._since:
                    self._at(path, self._add)
        late = {path for path in directories if self._since.get(path, limit) >= limit}
        return late | self._shared

    def look_for_second_names(self) -> None:
        """Whether files in directories where something happened have a second name now."""
        with _said_plainly():
            for path in self._touched.intersection(self._since):
                self._at(path, self._note_shared)
        self._touched.clear()

    def changes(self) -> Changes:
        """All that happened before this call: nothing has to be waited for."""
        changed, moved = set[bytes](), set[bytes]()
        with _said_plainly():
            lost = self._why_lost()
            for event in self._queue.read():
                if event.mask & LOST:
                    lost = "so much changed that the system could not tell all of it"
                path = self._paths.get(event.watch)
                if path is None:
                    continue
                changed.add(path)
                if event.mask & _SELF:
                    moved.add(path)
                    if not path:
                        lost = "the root was moved or deleted"
                elif event.mask & IS_DIRECTORY:
                    (moved if event.mask & _NAMES else changed).add(_named(path, event))
        self._touched |= changed
        return Changes(changed | moved | self._drop(moved), lost)

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
            if exc.errno in EXHAUSTED:
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


@contextmanager
def _said_plainly() -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise CannotWatchError(LIMITS.get(exc.errno or 0) or exc.strerror or str(exc)) from exc


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


# -- mounts: one below a directory changes what is seen there, and no event tells of it

_TABLE: Final = "/proc/self/mountinfo"
_LOCAL: Final = frozenset({
    "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "jfs", "ntfs3", "overlay", "ramfs",
    "reiserfs", "tmpfs", "vfat", "xfs", "zfs",
})  # fmt: skip
"""File systems that only this machine writes to; of the others, changes come without notice."""
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")


def silent_file_system(path: str) -> str | None:
    """The kind of a file system at or below a directory that does not tell of all changes, as one of another
    machine; None: there is none."""
    with open(_TABLE, "rb") as table:
        holding, below = _lines_at(table.read().splitlines(), os.fsencode(path))
    kinds = (_kind(line) for line in (holding, *below))
    return next((kind or "unknown" for kind in kinds if kind not in _LOCAL), None)


def mounts_at(root: bytes) -> tuple[bytes, ...] | None:
    """The lines of the system's table that decide what is seen at and below a directory. None: they
    cannot be told, or what is there may change without notice."""
    with open(_TABLE, "rb") as table:
        holding, below = _lines_at(table.read().splitlines(), root)
    if _kind(holding) not in _LOCAL:
        return None
    return (holding, *below)


def _lines_at(lines: list[bytes], root: bytes) -> tuple[bytes, list[bytes]]:
    """The line of the file system that holds a directory, and those of what is mounted below it."""
    holding, below = b"", list[bytes]()
    longest = -1
    for line in lines:
        point = _ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), line.split(b" ")[4])
        if _is_inside(point, root) and point != root:
            below.append(line)
        elif _is_inside(root, point) and len(point) >= longest:  # of two at one place the later one
            holding, longest = line, len(point)
    return holding, below


def _kind(line: bytes) -> str:
    return line.partition(b" - ")[2].split(b" ")[0].decode("ascii", "replace")


def _is_inside(path: bytes, directory: bytes) -> bool:
    return path == directory or path.startswith(directory.rstrip(b"/") + b"/")
