"""The shape of a session's tree, for exports of all branches: segments, and the paths that they make.

A segment is a run of entries that no branch leaves in between, so a path has all of a segment or nothing.
Branches come parents first; therefore the segments of every path stand in the order of the path.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

MOST_LISTED: Final = 20_000
"""Segments of all paths together: these may be as many as the square of the branches."""


class BranchShape(msgspec.Struct, frozen=True, kw_only=True):
    uid: str
    parent: str | None
    """None at the root."""
    fork: int
    """The position of the entry that it continues; -1 at the root."""
    last: int


class Segment(msgspec.Struct, frozen=True):
    branch: int
    """Index of the branch."""
    first: int
    last: int


class Path(msgspec.Struct, frozen=True):
    leaf: tuple[int, int]
    """Index of the branch, and position; (-1, -1) when the session is empty."""
    segments: tuple[int, ...]
    is_current: bool


class Outline(msgspec.Struct, frozen=True):
    branches: tuple[BranchShape, ...]
    segments: tuple[Segment, ...]
    paths: tuple[Path, ...]
    """The path to the head first, then one to the end of each other branch."""
    unlisted: int = 0
    """How many other paths there are, when together they would be too long to list; then `paths` has none."""

    def segment_of(self, branch: int, position: int) -> int | None:
        """The number of the segment of an entry; None: it was appended later."""
        at = bisect_right(self.segments, (branch, position), key=lambda s: (s.branch, s.first)) - 1
        found = self.segments[at] if at >= 0 else None
        return at if found and found.branch == branch and position <= found.last else None

    @property
    def current(self) -> Path:
        return self.paths[0]


def outline(branches: Sequence[BranchShape], head: tuple[str, int]) -> Outline:
    index = {branch.uid: at for at, branch in enumerate(branches)}
    standing = (index.get(head[0], -1), head[1])
    segments = _segments(branches, index, standing)
    by_branch: dict[int, list[int]] = {}
    for number, segment in enumerate(segments):
        by_branch.setdefault(segment.branch, []).append(number)

    def path(leaf: tuple[int, int]) -> Path:
        found: list[int] = []
        at, position = leaf
        while at >= 0:
            own = [number for number in by_branch.get(at, []) if segments[number].last <= position]
            found += reversed(own)
            branch = branches[at]
            at, position = index.get(branch.parent or "", -1), min(position, branch.fork)
        return Path(leaf, tuple(reversed(found)), leaf == standing)

    leaves = [leaf for leaf in _leaves(branches, index) if leaf != standing]
    paths = [path(standing)]
    listed = 0
    for leaf in leaves:
        paths.append(path(leaf))
        listed += len(paths[-1].segments)
        if listed > MOST_LISTED:
            return Outline(tuple(branches), tuple(segments), (paths[0],), len(leaves))
    return Outline(tuple(branches), tuple(segments), tuple(paths))


def _segments(
    branches: Sequence[BranchShape], index: Mapping[str, int], standing: tuple[int, int]
) -> list[Segment]:
    cuts: list[set[int]] = [{branch.last} for branch in branches]
    for branch in branches:
        if branch.parent is not None:
            cuts[index[branch.parent]].add(branch.fork)
    if standing[0] >= 0:
        cuts[standing[0]].add(standing[1])
    found = []
    for at, branch in enumerate(branches):
        first = branch.fork + 1
        for last in sorted(cut for cut in cuts[at] if branch.fork < cut <= branch.last):
            found.append(Segment(at, first, last))
            first = last + 1
    return found


def _leaves(branches: Sequence[BranchShape], index: Mapping[str, int]) -> list[tuple[int, int]]:
    continued = {(index[b.parent], b.fork) for b in branches if b.parent is not None}
    tips = [(at, branch.last) for at, branch in enumerate(branches) if branch.last > branch.fork]
    return [tip for tip in tips if tip not in continued]
