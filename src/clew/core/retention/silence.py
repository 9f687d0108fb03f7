"""Whether a human ever wrote in a session, its own entries and those that it continues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final

from clew.backends.contract import Reader
from clew.core.conversation.points import path_to
from clew.core.log import checks
from clew.core.log.rows import MESSAGE, NOT_HUMAN, REMOVED, SessionRow
from clew.core.log.tree import Segment
from clew.core.retention.rules import may_be_speech
from clew.errors import CorruptError

CHUNK: Final = 256
"""Entries in memory at once, however long the session is."""


class _Doubt(Exception):
    """An entry can not be read: it may have been a human's."""


def no_human_spoke(read: Callable[[], AbstractContextManager[Reader]], row: SessionRow) -> bool:
    """True only if every entry was read, and none of them can have been a human's.

    A view of the newest messages would not do: sessions of hundreds of messages were lost to that.
    """
    try:
        with read() as reader:
            ranges = list(_reach(reader, row))
        for each in ranges:
            for first in range(each.first, each.last + 1, CHUNK):
                with read() as reader:
                    if _speaks(reader, each.branch, first, min(each.last, first + CHUNK - 1)):
                        return False
    except (_Doubt, CorruptError, KeyError):
        return False
    return True


def _reach(reader: Reader, row: SessionRow) -> Iterator[Segment]:
    """The path, the branches of this session that were left behind, and what led to those."""
    ends = [(row.head.branch, row.head.position)]
    own = [branch.branch for branch in reader.tree_branches(row.tree) if branch.owner == row.sid]
    ends += [(branch, reader.last_position(branch)) for branch in own]
    longest: dict[int, Segment] = {}
    for end in ends:
        for part in path_to(reader, *end):
            known = longest.get(part.branch)
            if known is None or part.last > known.last:
                longest[part.branch] = part
    return iter(longest.values())


def _speaks(reader: Reader, branch: int, first: int, last: int) -> bool:
    for entry in reader.read_entries(branch, first, last):
        if entry.kind == REMOVED:
            raise _Doubt
        if entry.kind != MESSAGE or entry.flags & NOT_HUMAN:
            continue
        if may_be_speech(checks.message(str(branch), entry.position, entry.body)):
            return True
    return False
