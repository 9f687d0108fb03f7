"""All paths of a tree at once: places on them are found without listing any path from end to end.

Each branch knows the one that it continues, and one that is further away. So the way to the root is gone in
large and small steps, about as many as the logarithm of the depth, however many sessions ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from clew.core.log.rows import BranchRow
from clew.core.log.tree import Segment


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
