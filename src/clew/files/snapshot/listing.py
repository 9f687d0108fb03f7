"""Listing one directory: names, and what the file system says of them."""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Sequence
from itertools import compress
from typing import Final

import msgspec

from clew.core.disk.open import FILE_FLAGS
from clew.files.snapshot import statx
from clew.files.snapshot.drafts import join
from clew.files.snapshot.ignore import RULE_FILES
from clew.files.snapshot.reading import reason_of
from clew.files.snapshot.rows import ROW_SIZE, UNKNOWN, Row, packed, row_of
from clew.model.files import SkipReason

_MAX_RULES: Final = 4 * 1024 * 1024
_END_OF_RULE_FILES: Final = b"ignore"


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
    found = statx.look(fd, parts)
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
