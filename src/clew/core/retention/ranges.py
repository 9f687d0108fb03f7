"""PURE: which entries of a tree may lose their content, when several sessions share them."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from clew.core.log.rows import NOWHERE
from clew.core.log.tree import Paths, Segment


class View(msgspec.Struct, frozen=True):
    """The path to the position `last` of a branch, with what it needs: the entries before `first` and those
    from `start` on."""

    branch: int
    first: int
    start: int
    last: int


def removable(paths: Paths, views: Sequence[View]) -> list[Segment]:
    """What some view can spare and none needs, in order."""
    spared = paths.spread(Segment(view.branch, view.first, view.start - 1) for view in views)
    needed = paths.spread(
        Segment(view.branch, first, last)
        for view in views
        for first, last in ((0, view.first - 1), (view.start, view.last))
    )
    return [
        Segment(branch, first, last)
        for branch in sorted(spared)
        for first, last in _without(spared[branch], needed.get(branch, []))
    ]


def those_that_spare(paths: Paths, views: Iterable[View], ranges: Iterable[Segment]) -> set[View]:
    """The views that can spare something of these ranges."""
    looked_up = Ranges(ranges)
    above = {0: NOWHERE}
    """The last position of the ranges on the way to the beginning of a branch."""
    for row in paths.rows.values():
        above[row.branch] = max(above[row.parent], looked_up.last(row.parent, row.fork))

    def last(view: View) -> int:
        branch = paths.locate(view.branch, view.start - 1)
        return max(above[branch], looked_up.last(branch, view.start - 1))

    return {view for view in views if last(view) >= view.first}


class Ranges:
    """Ranges of branches that are apart from each other, to be looked up by position."""

    def __init__(self, ranges: Iterable[Segment]) -> None:
        self._ranges: dict[int, list[Segment]] = {}
        for each in sorted(ranges, key=lambda each: each.first):
            self._ranges.setdefault(each.branch, []).append(each)

    def last(self, branch: int, position: int) -> int:
        """The last position of the ranges of a branch up to this one; NOWHERE: there is none."""
        ranges = self._ranges.get(branch, [])
        found = bisect_right(ranges, position, key=lambda each: each.first)
        return min(ranges[found - 1].last, position) if found else NOWHERE

    def hold(self, branch: int, position: int) -> bool:
        return position >= 0 and self.last(branch, position) == position


def merged(ranges: Iterable[Segment]) -> list[Segment]:
    """The same positions, each once, in order."""
    spared: dict[int, list[tuple[int, int]]] = {}
    for each in ranges:
        spared.setdefault(each.branch, []).append((each.first, each.last))
    return [Segment(branch, *part) for branch in sorted(spared) for part in _union(spared[branch])]


def _union(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of whole numbers, in order and apart from each other."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def _without(ranges: list[tuple[int, int]], holes: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The union of some ranges, less the union of others."""
    apart = deque(_union(holes))
    for first, last in _union(ranges):
        while apart and apart[0][0] <= last:
            low, high = apart[0]
            if first < low:
                yield first, low - 1
            first = max(first, high + 1)
            if high > last:
                break
            apart.popleft()
        if first <= last:
            yield first, last
