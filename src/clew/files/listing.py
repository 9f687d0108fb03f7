"""Listing one directory: names, and what the file system says of them."""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Sequence
from typing import Final

import msgspec

from clew.files.ignore import RULE_FILES
from clew.files.reading import FILE_FLAGS, reason_of
from clew.files.statcache import STAT
from clew.model.files import SkipReason

_FIELDS: Final = 5
_MAX_RULES: Final = 4 * 1024 * 1024


class Listing(msgspec.Struct):
    names: list[str]
    """Of all that is no directory."""
    stats: bytearray
    """For each name a STAT."""
    directories: list[str]


def list_directory(fd: int) -> Listing:
    names: list[str] = []
    flat: list[int] = []
    directories: list[str] = []
    with os.scandir(fd) as entries:
        for entry in entries:  # the hottest loop of all: nothing is here that can be done elsewhere
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
                continue
            try:
                stat = entry.stat(follow_symlinks=False)
                flat += (stat.st_mode, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
            except FileNotFoundError:
                continue
            except OSError as exc:
                reason_of(exc)
                flat += (0, 0, 0, 0, 0)
            names.append(entry.name)
    return Listing(names, _packed(flat), directories)


def special(mode: int) -> SkipReason:
    """Why something is skipped that is neither a file nor a link nor a directory."""
    if modes.S_ISFIFO(mode):
        return "fifo"
    if modes.S_ISSOCK(mode):
        return "socket"
    return "device" if mode else "unreadable"


def rule_files(fd: int, names: Sequence[str]) -> list[tuple[str, bytes]]:
    """The rule files among the names of a directory, with their content. OSError: one can not be read;
    then nobody knows what is meant to be left out, so nothing of this directory may be taken."""
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
        if reason_of(exc) == "unreadable":
            raise
        return None
    with open(fd, "rb", buffering=0) as file:
        stat = os.fstat(fd)
        if not modes.S_ISREG(stat.st_mode):
            return None
        if stat.st_size > _MAX_RULES:
            raise OSError(27, f"a rule file of {stat.st_size} bytes", name)
        return file.read(_MAX_RULES)


def _packed(flat: list[int]) -> bytearray:
    from struct import error, pack

    try:
        return bytearray(pack(f"<{len(flat)}q", *flat))
    except error:  # some network file systems have inodes of 64 bits
        flat[1::_FIELDS] = [inode - (1 << 64) if inode >> 63 else inode for inode in flat[1::_FIELDS]]
        return bytearray(pack(f"<{len(flat)}q", *flat))


assert STAT.size == 8 * _FIELDS
