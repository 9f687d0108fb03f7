"""List a directory: names, what the file system says of them, and whether its times can be trusted."""

from __future__ import annotations

import os
import stat as modes
import struct
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from itertools import compress, repeat
from typing import Any, Final, TypeAlias

import msgspec

from clew.core.disk import BTRFS, EXT4, F2FS, FILE_FLAGS, OVERLAY, TMPFS, XFS, kind_of
from clew.files.snapshot.ignore import RULE_FILES
from clew.files.snapshot.read import reason_of
from clew.model.files import SkipReason

# -- what the file system says of each entry, packed by columns
#
# Of each entry seven numbers of 64 bits, little endian: group and mode, inode, size, and the seconds and
# nanoseconds of ctime and mtime. First all the first ones, then all the second ones, and so on: so they can
# be cut out of what the system writes without a look at each (see clew.files.snapshot.listing), and two
# listings of a directory are compared as a whole.

Row: TypeAlias = tuple[int, int, int, int, int, int, int]

ROW_SIZE: Final = 7 * 8
UNKNOWN: Final[Row] = (0, 0, 0, 0, 0, 0, 0)
"""Of what cannot be looked at."""
_SECOND: Final = 1_000_000_000


def row_of(stat: os.stat_result) -> Row:
    inode = stat.st_ino - (1 << 64) if stat.st_ino >> 63 else stat.st_ino
    ctime, mtime = divmod(stat.st_ctime_ns, _SECOND), divmod(stat.st_mtime_ns, _SECOND)
    return stat.st_gid | stat.st_mode << 32, inode, stat.st_size, *ctime, *mtime


def mode_of(row: Row) -> int:
    return row[0] >> 32


def size_of(row: Row) -> int:
    return row[2]


def times_of(row: Row) -> tuple[int, int]:
    """mtime_ns, ctime_ns"""
    return row[5] * _SECOND + row[6], row[3] * _SECOND + row[4]


def with_size(row: Row, size: int) -> Row:
    return *row[:2], size, *row[3:]


def packed(rows: Sequence[Row]) -> bytes:
    return b"".join(struct.pack(f"<{len(rows)}q", *column) for column in zip(*rows, strict=True))


def unpacked(columns: bytes) -> list[Row]:
    count = len(columns) // ROW_SIZE
    flat = struct.unpack(f"<{7 * count}q", columns)
    return list(zip(*(flat[at * count : (at + 1) * count] for at in range(7)), strict=True))


# -- look at all entries without making Python objects of what is found
#
# `os.stat` makes some twenty objects of each file, which is half of what a scan costs in which nothing
# changed. Here statx(2) of Linux writes to a buffer, and the columns that count are cut out of that. It is
# the same question to the system with the same answer; where it cannot be asked, `os.stat` is.

MOST: Final = 1024
"""Entries of a directory; of a larger one each is looked at by itself."""
_RECORD: Final = 256
_WORDS: Final = (3, 4, 5, 12, 13, 14, 15)
"""Where in a record of 32 words the numbers of a row are."""
_KIND: Final = 29
"""Where in a record the byte is that says what kind of file it is."""
_IS_DIRECTORY: Final = bytes(kind >> 4 == 4 for kind in range(256))
_FLAGS: Final = 0x100 | 0x800  # AT_SYMLINK_NOFOLLOW, AT_NO_AUTOMOUNT
_BASIC: Final = 0x7FF


class Found:
    """What statx says of the names of one directory."""

    def __init__(self, stats: bytes, kinds: bytes) -> None:
        self.stats = stats
        """Of all entries, as clew.files.snapshot.listing has them."""
        self.are_directories = kinds.translate(_IS_DIRECTORY)
        """For each entry 1 or 0."""

    @property
    def are_others(self) -> bytes:
        return self.are_directories.translate(b"\1\0" + bytes(254))

    def stats_of_others(self) -> bytes:
        """Of all that is no directory."""
        return packed(list(compress(unpacked(self.stats), self.are_others)))


class _Desk:
    """Room for what is found; of one thread at a time."""

    def __init__(self) -> None:
        import ctypes

        room = (ctypes.c_char * (_RECORD * MOST))()
        record = ctypes.c_char * _RECORD
        self._records = [record.from_buffer(room, _RECORD * number) for number in range(MOST)]
        self._bytes = memoryview(room).cast("B")
        self._words = self._bytes.cast("q")

    def look(self, statx: Callable[..., int], fd: int, names: Sequence[bytes]) -> Found | None:
        """None: one of them could not be looked at."""
        results = map(statx, repeat(fd), names, repeat(_FLAGS), repeat(_BASIC), self._records)
        if any(list(results)):
            return None
        words, length = _RECORD // 8, len(names)
        cut = self._words[: words * length]
        stats = b"".join([cut[word::words].tobytes() for word in _WORDS])
        return Found(stats, self._bytes[_KIND : _RECORD * length : _RECORD].tobytes())


_desks: Final[list[_Desk]] = []
"""Those that are not in use."""


def look(fd: int, names: Sequence[bytes]) -> Found | None:
    """What is at these names in a directory. None: not all of them could be looked at in this way."""
    statx = _statx()
    return None if statx is None or len(names) > MOST else _look(statx, fd, names)


def _look(statx: Callable[..., int], fd: int, names: Sequence[bytes]) -> Found | None:
    desk = _desks.pop() if _desks else _Desk()
    try:
        return desk.look(statx, fd, names)
    finally:
        _desks.append(desk)


@cache
def _statx() -> Callable[..., int] | None:
    """The function, if there is one that says of a file just what `os.stat` says."""
    if sys.platform != "linux" or sys.byteorder != "little":
        return None
    import ctypes

    try:
        statx: Any = ctypes.CDLL(None).statx  # it lets other threads run meanwhile
        fd = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (AttributeError, OSError):
        return None
    try:
        found = _look(statx, fd, [b"."])
        return statx if found and unpacked(found.stats) == [row_of(os.fstat(fd))] else None
    finally:
        os.close(fd)


# -- list a directory

_MAX_RULES: Final = 4 * 1024 * 1024
_END_OF_RULE_FILES: Final = b"ignore"


def join(names: list[str]) -> bytes:
    return os.fsencode("\0".join(names))


def split(names: bytes) -> list[str]:
    return os.fsdecode(names).split("\0") if names else []


class Listing(msgspec.Struct, frozen=True, gc=False):
    """A directory as it is now, packed as a Folder is."""

    names: bytes
    stats: bytes
    directories: bytes

    @property
    def length(self) -> int:
        """How many there are that are no directories."""
        return len(self.stats) // ROW_SIZE


def list_directory(fd: int) -> Listing:
    names = join(os.listdir(fd))
    parts = names.split(b"\0") if names else []
    found = look(fd, parts)
    if found is None:
        return _one_by_one(fd)
    if 1 not in found.are_directories:
        return Listing(names, found.stats, b"")
    directories = b"\0".join(compress(parts, found.are_directories))
    return Listing(b"\0".join(compress(parts, found.are_others)), found.stats_of_others(), directories)


def _one_by_one(fd: int) -> Listing:
    names: list[str] = []
    rows: list[Row] = []
    directories: list[str] = []
    with os.scandir(fd) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
                continue
            try:
                row = row_of(entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue
            except OSError as exc:
                reason_of(exc)
                row = UNKNOWN
            rows.append(row)
            names.append(entry.name)
    return Listing(join(names), packed(rows), join(directories))


def special(mode: int) -> SkipReason:
    """Why something is skipped that is neither a file nor a link nor a directory."""
    if modes.S_ISFIFO(mode):
        return "fifo"
    if modes.S_ISSOCK(mode):
        return "socket"
    return "device" if mode else "unreadable"


def may_have_rules(names: bytes) -> bool:
    """Whether there may be a rule file among names; quick, and right only if it says no."""
    return _END_OF_RULE_FILES in names


def rule_files(fd: int, names: Sequence[str]) -> list[tuple[str, bytes]]:
    """The rule files among the names of a directory, with their content. OSError: one cannot be read;
    then it is not known what is meant to be left out, so nothing of this directory may be taken."""
    return [
        (name, content)
        for name in RULE_FILES
        if name in names and (content := _content(fd, name)) is not None
    ]


def _content(directory: int, name: str) -> bytes | None:
    """None: it is gone, or no regular file; git does not follow a link here either."""
    try:
        fd = os.open(name, FILE_FLAGS, dir_fd=directory)
    except OSError as exc:
        if reason_of(exc) in ("unreadable", "read error"):
            raise
        return None
    with open(fd, "rb", buffering=0) as file:
        stat = os.fstat(fd)
        if not modes.S_ISREG(stat.st_mode):
            return None
        if stat.st_size > _MAX_RULES:
            raise OSError(27, f"a rule file of {stat.st_size} bytes", name)
        return file.read(_MAX_RULES)


assert all(name.encode().endswith(_END_OF_RULE_FILES) for name in RULE_FILES)


# -- whether the times of a file tell of every change to it
#
# A file is stamped with the time of its last change, but clocks tick: a change soon after the file was read
# may leave the same stamp, and would not be seen (racy timestamps). So what was changed shortly before a
# scan began is read again by the next one.
#
# How shortly depends on the clock. The local file systems of Linux are stamped by its coarse clock, which
# ticks every 10 ms at the most and is never ahead of the one that we ask. A change after a scan began at T
# has a stamp after T - 10 ms; a file with an older one was not changed since. TICKS is ten times that.
# Others, and those of these that keep whole seconds only, get two seconds, as much as FAT needs.
#
# What is written through a memory map is stamped when its page is first written to, and not again before
# that was stored on disk: no margin would be enough. It is seen by the scan after that.

MARGIN: Final = 2_000_000_000
TICKS: Final = 100_000_000
"""Nanoseconds, both."""
FINE: Final = frozenset({EXT4, XFS, BTRFS, F2FS, TMPFS, OVERLAY})


class Beginning(msgspec.Struct, frozen=True, gc=False):
    """When a scan began, and how old the stamp of what it may trust has to be."""

    time: int
    margin: int = MARGIN

    @classmethod
    def now(cls, root: str) -> Beginning:
        """Before anything is looked at."""
        began = time.time_ns()
        try:
            fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return cls(began)
        try:
            return cls(began, TICKS if kind_of(fd) in FINE else MARGIN)
        finally:
            os.close(fd)

    def is_racy(self, mtime: int, ctime: int) -> bool:
        """Whether a later change might leave these times as they are. A ctime cannot be set, so one that
        lies in the future says that the clock was set back; an mtime there says nothing."""
        margin = (
            self.margin if ctime % 1_000_000_000 else MARGIN
        )  # ext4 may have been made to keep seconds only
        horizon = self.time - margin
        return ctime >= horizon or horizon <= mtime <= self.time + margin
