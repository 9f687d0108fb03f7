"""Which entries of a tree may lose their content, when several sessions share them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from clew.core.cut import safe_cut
from clew.core.pairing import pair
from clew.core.tree import Segment, clip
from clew.model import Json


class View(msgspec.Struct, frozen=True):
    """A path with what it needs: the entries before `first` and those from `start` on."""

    segments: tuple[Segment, ...]
    first: int
    start: int
    last: int


def removable(views: Iterable[View]) -> list[Segment]:
    """What some view can spare and none needs, in order."""
    spared: dict[int, list[tuple[int, int]]] = {}
    needed: dict[int, list[tuple[int, int]]] = {}
    for view in views:
        for part in clip(view.segments, view.first, view.start - 1):
            spared.setdefault(part.branch, []).append((part.first, part.last))
        for first, last in ((0, view.first - 1), (view.start, view.last)):
            for part in clip(view.segments, first, last):
                needed.setdefault(part.branch, []).append((part.first, part.last))
    return [
        Segment(branch, first, last)
        for branch in sorted(spared)
        for first, last in _without(spared[branch], needed.get(branch, []))
    ]


def merged(ranges: Iterable[Segment]) -> list[Segment]:
    """The same positions, each once, in order."""
    spared: dict[int, list[tuple[int, int]]] = {}
    for each in ranges:
        spared.setdefault(each.branch, []).append((each.first, each.last))
    return [Segment(branch, *part) for branch in sorted(spared) for part in _without(spared[branch], [])]


def _without(ranges: list[tuple[int, int]], holes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The union of some ranges of whole numbers, less the union of others."""
    left: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if left and first <= left[-1][1] + 1:
            left[-1] = (left[-1][0], max(left[-1][1], last))
        else:
            left.append((first, last))
    for low, high in holes:
        if low > high:
            continue
        pieces = ((first, min(last, low - 1), max(first, high + 1), last) for first, last in left)
        left = [
            piece
            for first, before, after, last in pieces
            for piece in ((first, before), (after, last))
            if piece[0] <= piece[1]
        ]
    return left


def whole_from(
    before: Sequence[dict[str, Json]], after: Sequence[dict[str, Json]], *, is_start: bool, is_end: bool
) -> int | None:
    """How many messages of `before` may go so that no call is parted from its result.

    None: that depends on older messages than these.

    Args:
        is_start: There are no messages before these.
        is_end: There are none behind: a call without a result may still get one.
    """
    messages = [*before, *after]
    wished = len(before)
    if is_end:
        wished = min(wished, _first_waiting(messages))
    return safe_cut(messages, wished, complete=is_start)


def _first_waiting(messages: Sequence[dict[str, Json]]) -> int:
    """The index of the first message of the last step whose calls have no results yet."""
    found = pair(messages).found
    first = len(messages)
    for index in range(len(messages) - 1, -1, -1):
        if not found[index]:
            break  # somebody went on without them
        if any(not item.slot.is_result and item.partner is None for item in found[index]):
            first = index
    return first
