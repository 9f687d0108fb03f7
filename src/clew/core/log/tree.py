"""Where entries go, and how a path runs through branches."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from clew.core.log.hashing import entry_digest
from clew.core.log.rows import COMPACTION, MESSAGE, SUMMARY, TRUNCATION, BranchRow, Draft, EntryRow, Tip
from clew.errors import CorruptError

FEW: Final = 8
"""Segments that are looked through one by one; of more the right ones are searched for."""


class Segment(msgspec.Struct, frozen=True, gc=False):
    """Consecutive positions of one branch, both ends included."""

    branch: int
    first: int
    last: int


def chain(
    after: Tip, branch: int, drafts: Sequence[Draft], now: int, epoch: int = 0
) -> tuple[list[EntryRow], Tip]:
    """Give `drafts` their places behind `after`, on `branch`, under the lease with this epoch."""
    position, digest = after.position, after.digest
    messages, turns, size = after.messages, after.turns, after.size
    cut, summary, asked = after.cut, after.summary, after.asked
    rows: list[EntryRow] = []
    for draft in drafts:
        position += 1
        kind = draft.kind
        if kind == MESSAGE:
            messages += 1
            size += len(draft.body)
            if draft.is_turn:
                turns += 1
                asked = position
        elif kind in (COMPACTION, TRUNCATION):
            cut = position
        elif kind == SUMMARY:
            summary = position
        if draft.turns is not None:
            turns = draft.turns
        digest = entry_digest(digest, position, kind, now, draft.flags, draft.body)
        rows.append(
            EntryRow(
                position,
                kind,
                now,
                draft.flags,
                digest,
                messages,
                turns,
                size,
                cut,
                summary,
                asked,
                draft.body,
                epoch,
            )
        )
    return rows, Tip(branch, position, digest, messages, turns, size, cut, summary, asked)


class MisplacedError(CorruptError):
    """A branch cannot continue what its row says that it does."""

    def __init__(self, row: BranchRow) -> None:
        super().__init__(f"branch {row.uid} does not begin behind the place where its parent does")
        self.row = row


def path(branch: int, position: int, get_branch: Callable[[int], BranchRow]) -> list[Segment]:
    """The segments from the root to (branch, position), root first. MisplacedError: damaged rows lead
    elsewhere, or round and round."""
    segments: list[Segment] = []
    child: BranchRow | None = None
    while branch and position >= 0:
        row = get_branch(branch)
        if child is not None and (row.fork >= child.fork or row.tree != child.tree):
            raise MisplacedError(child)
        child = row
        if position > row.fork:
            segments.append(Segment(branch, row.fork + 1, position))
            position = row.fork
        branch = row.parent
    segments.reverse()
    return segments


def clip(segments: Sequence[Segment], first: int, last: int) -> list[Segment]:
    """The part of a path between two positions, both included."""
    return list(clipped(segments, first, last))


def clipped(
    segments: Sequence[Segment], first: int, last: int, *, reverse: bool = False
) -> Iterator[Segment]:
    """The same, as it is asked for."""
    low, high = 0, len(segments)
    if high > FEW:
        low = bisect_left(segments, first, key=lambda segment: segment.last)
        high = bisect_right(segments, last, key=lambda segment: segment.first)
    for at in range(high - 1, low - 1, -1) if reverse else range(low, high):
        s = segments[at]
        if s.last >= first and s.first <= last:
            yield Segment(s.branch, max(s.first, first), min(s.last, last))


def locate(segments: Sequence[Segment], position: int) -> int:
    """The branch that holds `position` on this path; 0 if it is not on it."""
    if len(segments) > FEW:
        after = bisect_right(segments, position, key=lambda segment: segment.first)
        segments = segments[max(0, after - 1) : after]
    for segment in reversed(segments):
        if segment.first <= position <= segment.last:
            return segment.branch
    return 0
