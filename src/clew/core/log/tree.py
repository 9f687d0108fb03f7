"""Where entries go, how a path runs through branches, and in which order branches follow each other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

import msgspec

from clew.core.log.digest import entry_digest
from clew.core.log.rows import COMPACTION, MESSAGE, SUMMARY, TRUNCATION, BranchRow, Draft, EntryRow, HeadRow
from clew.errors import CorruptError

# ── Where entries go, and how a path runs through branches ────────────────────────────────────────

FEW: Final = 8
"""Segments that are looked through one by one; of more the right ones are searched for."""


class Segment(msgspec.Struct, frozen=True, gc=False):
    """Consecutive positions of one branch, both ends included."""

    branch: int
    first: int
    last: int


def chain(
    after: HeadRow, branch: int, drafts: Sequence[Draft], now: int, epoch: int = 0
) -> tuple[list[EntryRow], HeadRow]:
    """Give `drafts` their places behind `after`, on `branch`, under the lease with this epoch."""
    position, digest = after.position, after.digest
    messages, turns, size = after.messages, after.turns, after.size
    view_start, summary, last_user_turn = after.view_start, after.summary, after.last_user_turn
    rows: list[EntryRow] = []
    for draft in drafts:
        position += 1
        kind = draft.kind
        if kind == MESSAGE:
            messages += 1
            size += len(draft.body)
            if draft.is_turn:
                turns += 1
                last_user_turn = position
        elif kind in (COMPACTION, TRUNCATION):
            view_start = position
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
                view_start,
                summary,
                last_user_turn,
                draft.body,
                epoch,
            )
        )
    return rows, HeadRow(branch, position, digest, messages, turns, size, view_start, summary, last_user_turn)


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


# ── How the branches of a tree continue each other, and in which order they are listed ────────────
# A branch begins behind an entry of the branch that it continues. So positions fall on the way to the root,
# and one look at each branch and its parent is enough: where every one of these is right, there is no ring.


def misplaced(row: BranchRow, parent: BranchRow | None) -> str | None:
    """Why a branch cannot continue what its row says that it does; None: it can. `parent`: the row of the
    branch that it continues, if there is one."""
    if not row.parent:
        return None
    if parent is None:
        return "the branch that it continues is missing"
    if parent.branch == row.branch:
        return "it continues itself"
    if parent.tree != row.tree:
        return f"it continues branch {parent.uid} of another tree"
    if parent.fork >= row.fork:
        return f"it continues entry {row.fork} of branch {parent.uid}, which begins behind that"
    return None


def in_order(branches: Iterable[BranchRow]) -> list[BranchRow]:
    """Each behind the one that it continues, else oldest first: the same in whatever store they are.

    The numbers of branches tell nothing: of two, that of the younger one may be lower. Their names begin with
    the time at which they were made. One that is misplaced comes as if it continued nothing.
    """
    rows = {row.branch: row for row in branches}
    following: dict[int, list[tuple[str, int]]] = {}
    ready: list[tuple[str, int]] = []
    for row in rows.values():
        parent = rows.get(row.parent)
        if parent is None or misplaced(row, parent) is not None:
            ready.append((row.uid, row.branch))
        else:
            following.setdefault(row.parent, []).append((row.uid, row.branch))
    heapify(ready)
    ordered: list[BranchRow] = []
    while ready:
        _, number = heappop(ready)
        ordered.append(rows[number])
        for one in following.get(number, ()):
            heappush(ready, one)
    return ordered


def sound(branches: Iterable[BranchRow]) -> list[BranchRow]:
    """Those that lead to a beginning, in order: neither they nor what they continue is misplaced."""
    found: dict[int, BranchRow] = {}
    for row in in_order(branches):
        if misplaced(row, found.get(row.parent)) is None:
            found[row.branch] = row
    return list(found.values())


# ── All paths of a tree at once: places on them are found without listing any path from end to end ───
# Each branch knows the one that it continues, and one that is further away. So the way to the root is gone in
# large and small steps, about as many as the logarithm of the depth, however many sessions ask.


class Paths:
    """The branches of a tree. A path is named by where it ends: a branch, and a position."""

    def __init__(self, branches: Iterable[BranchRow]) -> None:
        """Each branch comes behind the one that it continues, and none is misplaced."""
        self.rows: dict[int, BranchRow] = {}
        """In the order in which they were given."""
        self._far: dict[int, int] = {}
        self._depth: dict[int, int] = {0: 0}
        for row in branches:
            self.rows[row.branch] = row
            self._depth[row.branch] = self._depth[row.parent] + 1
            far = self._far.get(row.parent, 0)
            further = self._far.get(far, 0)
            is_even = self._depth[row.parent] - self._depth[far] == self._depth[far] - self._depth[further]
            self._far[row.branch] = further if is_even and row.parent else row.parent

    def rise(self, branch: int, is_beyond: Callable[[BranchRow], bool]) -> tuple[int, int]:
        """The first branch on the way to the root that is not beyond something, and the one passed before it;
        0: there is none. What continues a branch that is beyond, must be so too."""
        passed = 0
        while branch and is_beyond(self.rows[branch]):
            passed, far = branch, self._far[branch]
            branch = far if far and is_beyond(self.rows[far]) else self.rows[branch].parent
        return branch, passed

    def locate(self, branch: int, position: int) -> int:
        """The branch that holds a position of the path that ends there or behind it; 0: none does."""
        return self.rise(branch, lambda row: row.fork >= position)[0] if position >= 0 else 0

    def between(self, branch: int, first: int, last: int) -> list[Segment]:
        """The part of a path between two positions, both included, root first. Takes as many steps as there
        are segments in it."""
        found: list[Segment] = []
        for part in self.upwards(branch, last):
            if part.last < first:
                break
            found.append(Segment(part.branch, max(first, part.first), part.last))
        found.reverse()
        return found

    def upwards(self, branch: int, last: int) -> Iterator[Segment]:
        """The segments of a path from a position on, the root last, as they are asked for."""
        branch = self.locate(branch, last)
        while branch:
            row = self.rows[branch]
            yield Segment(branch, row.fork + 1, last)
            branch, last = row.parent, row.fork

    def spread(self, wished: Iterable[Segment]) -> dict[int, list[tuple[int, int]]]:
        """What is asked of paths, as ranges of each branch: `wished` are positions of the path that ends with
        this branch. What several ask for further up is handed on once."""
        ranges: dict[int, list[tuple[int, int]]] = {}
        for each in wished:
            branch = self.locate(each.branch, each.last) if each.first <= each.last else 0
            if branch:
                ranges.setdefault(branch, []).append((max(each.first, 0), each.last))
        for row in reversed(self.rows.values()):
            asked = ranges.get(row.branch)
            if asked is None:
                continue
            lowest = min(first for first, _ in asked)
            ranges[row.branch] = [(max(first, row.fork + 1), last) for first, last in asked]
            if lowest <= row.fork:
                ranges.setdefault(row.parent, []).append((lowest, row.fork))
        return ranges
