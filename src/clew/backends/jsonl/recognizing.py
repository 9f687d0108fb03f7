"""Whether a file is the log that the index has read, or another one in its place.

Length and last line do not tell: a scrub may write a log anew with the same ones. Nor does an inode: that
of a file that is gone is used again, and a copy has another. So the first line of a log has a mark, which
is made at random each time the file is written anew. A log without one, of an older version or from an
export, is known by its inode.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from clew.backends.jsonl import disk
from clew.backends.jsonl.layout import STORE_LOG, Layout
from clew.backends.jsonl.log_row import LogRow

OF_THE_PROCESS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR)
"""Errors that say nothing about the file that was to be read."""


class UnreadableLogError(Exception):
    """The system does not let a log be read. That is no proof of damage: nothing is given up for it."""

    def __init__(self, name: str, reason: OSError) -> None:
        super().__init__(f"{whose(name)} can not be read: {reason}")
        self.name = name
        self.reason = reason


def whose(name: str) -> str:
    """A log as people know it. The id is that in the name of the file, as far as it can be told."""
    if name == STORE_LOG:
        return f"{name}, the log of the store itself,"
    return f"{name}, the log of session {id_of(name)!r},"


def id_of(name: str) -> str:
    """The id that a file's name was made of, as far as it can be told."""
    from urllib.parse import unquote  # seldom needed, and takes as long to import as opening takes

    return unquote(name.rpartition("/")[2].removesuffix(".jsonl"), errors="replace")


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Errors of the system inside are about this log, unless they are about the process."""
    try:
        yield
    except OSError as exc:
        if exc.errno in OF_THE_PROCESS:
            raise
        raise UnreadableLogError(name, exc) from exc


def new_mark() -> str:
    return os.urandom(8).hex()


def changed(layout: Layout, known: Mapping[str, LogRow]) -> set[str]:
    """The logs that are there and have something that the index has not read, or are others than it knows.

    Each scrub changes the store's log before it writes another one anew. So as long as the index knows that
    one, a look at the inode of the others will do.
    """
    names = layout.log_names()
    store = known.get(STORE_LOG)
    if store is None:
        is_scrubbed = STORE_LOG in names
    else:
        is_scrubbed = STORE_LOG not in names or _differs(layout, store, closely=True)
    return {name for name in names if name not in known or _differs(layout, known[name], closely=is_scrubbed)}


def _differs(layout: Layout, row: LogRow, *, closely: bool) -> bool:
    """A log that can not be read is known by its length and inode."""
    file = layout.file(row.name)
    found = disk.status(file)
    if found is None:  # it was removed meanwhile
        return True
    if found.st_size != row.applied:
        return True
    if found.st_ino == row.inode and not closely:
        return False
    try:
        handle = disk.open_for_reading(file)
        try:
            return not is_marked_alike(handle, row)
        finally:
            disk.close(handle)
    except OSError as exc:
        if exc.errno in OF_THE_PROCESS:
            raise
        return found.st_ino != row.inode


def is_same(handle: int, row: LogRow) -> bool:
    """Whether this is the log of the row, unchanged as far as the index has read it."""
    return (
        0 <= row.tail_at < row.applied <= disk.size(handle)
        and is_marked_alike(handle, row)
        and disk.read_at(handle, len(row.tail), row.tail_at) == row.tail
    )


def is_marked_alike(handle: int, row: LogRow) -> bool:
    """Whether this is the file of the row, whatever became of what is in it."""
    if row.head:
        return disk.read_at(handle, len(row.head), 0) == row.head
    return disk.inode(handle) == row.inode
