"""Which messages a retention rule may remove from a tree of sessions."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from clew.backends.contract import Reader
from clew.core.conversation.history import read_messages
from clew.core.conversation.points import paths_of, tip_at
from clew.core.conversation.window import SYSTEM_MESSAGES, leading_system
from clew.core.log.rows import MESSAGE, NOT_DUE, NOWHERE, BranchRow, HeadRow, SessionRow
from clew.core.log.tree import Paths, Segment
from clew.core.messages.dialects import results_of
from clew.core.messages.tool_calls import nearest_cut
from clew.errors import CorruptEntryError
from clew.model import Json, Retention

# ── PURE: which entries of a tree may lose their content, when several sessions share them ────────


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


# ── What the sessions of a tree can spare: messages that are too old, or too many ─────────────────

CHUNK: Final = 256

Holds: TypeAlias = Callable[[HeadRow], bool]
Messages: TypeAlias = list[tuple[int, dict[str, Json]]]
"""With their positions."""


def removes_messages(rules: Retention) -> bool:
    return rules.message_age is not None or limits_messages(rules)


def limits_messages(rules: Retention) -> bool:
    return rules.max_messages is not None or rules.max_message_bytes is not None


def is_over_limit(row: SessionRow, rules: Retention) -> bool:
    """Whether a session may have too many messages; it may be that they were removed already."""
    too_many = rules.max_messages is not None and row.head.messages > rules.max_messages
    return too_many or (rules.max_message_bytes is not None and row.head.size > rules.max_message_bytes)


def count_messages(reader: Reader, ranges: Sequence[Segment]) -> int:
    return sum(reader.count_entries(each.branch, each.first, each.last, MESSAGE) for each in ranges)


# -- by age


def aged(reader: Reader, tree: int, live: Sequence[SessionRow], cutoff: int) -> tuple[list[Segment], int]:
    """What is older than the cutoff on every path, and the time of the oldest message that stays.

    Only what nothing younger precedes: with a clock that went back some entries are out of order, and
    those are kept for a while longer.
    """
    paths = paths_of(reader, tree)
    old: dict[int, int] = {}
    oldest = NOT_DUE
    for branch in paths.rows.values():
        old[branch.branch], youngest = _old_part(reader, branch, old, cutoff)
        oldest = min(oldest, youngest)
    ends = {(row.head.branch, row.head.position) for row in live if row.head.branch}
    ends |= {(branch, reader.last_position(branch)) for branch in paths.rows}
    wishes = [View(branch, 0, _first_young(paths, old, branch, last), last) for branch, last in sorted(ends)]
    return _spared(reader, paths, wishes), oldest


def _first_young(paths: Paths, old: dict[int, int], branch: int, last: int) -> int:
    """The first position of a path that is not old; behind its end: all of it is."""
    end = paths.locate(branch, last)
    if not end:
        return last + 1
    found, passed = paths.rise(end, lambda row: bool(row.parent) and old[row.parent] < row.fork)
    top = paths.rows[passed].fork if passed else last
    return old[found] + 1 if old[found] < top else last + 1


def _old_part(reader: Reader, branch: BranchRow, old: dict[int, int], cutoff: int) -> tuple[int, int]:
    """The last position up to which a branch is old, and the time of the message that ends it."""
    if branch.parent and old.get(branch.parent, NOWHERE) < branch.fork:
        return branch.fork, NOT_DUE  # what it continues is young; so is it, or it waits for that
    last = reader.last_position(branch.branch)
    kept = reader.read_messages(branch.branch, branch.fork + 1, last, limit=1, on_damage=pass_over)
    if not kept:
        return last, NOT_DUE
    for entry in _entries(reader, branch.branch, kept[0][0], last):
        if entry[1] == MESSAGE and entry[2] >= cutoff:
            return entry[0] - 1, entry[2]
    return last, NOT_DUE


def _entries(reader: Reader, branch: int, first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Position, kind and time of entries, read as they are asked for."""
    while first <= last:
        upto = min(last, first + CHUNK - 1)
        for row in reader.read_entries(branch, first, upto, on_damage=pass_over):
            yield row.position, row.kind, row.time
        first = upto + 1


# -- by count and size


def over_limits(reader: Reader, tree: int, live: Sequence[SessionRow], rules: Retention) -> list[Segment]:
    """What is more than the limits allow on some path, and needed on none."""
    if not any(is_over_limit(row, rules) for row in live):
        return []
    paths = paths_of(reader, tree, {row.head.branch for row in live})
    counters = Counters(reader, paths)
    return _spared(reader, paths, [_limited(counters, row, rules) for row in live])


def _limited(counters: Counters, row: SessionRow, rules: Retention) -> View:
    """What of a session's path lies before the newest messages that its limits allow.

    The counters that every entry carries make this a binary search: no message is read for it.
    """
    end = row.head
    if not is_over_limit(row, rules):
        return View(end.branch, 0, 0, end.position)
    leading = _leading_system(counters.reader, counters.paths, end)
    start = leading
    if rules.max_messages is not None and end.messages - leading > rules.max_messages:
        most = end.messages - rules.max_messages
        start = max(start, counters.first_where(end, lambda tip: tip.messages > most))
    if rules.max_message_bytes is not None:
        spare = end.size - rules.max_message_bytes
        beyond = counters.first_where(end, lambda tip: tip.size >= spare) + 1 if spare > 0 else 0
        newest = counters.first_where(end, lambda tip: tip.messages == end.messages)
        start = max(start, min(beyond, newest))
    return View(end.branch, leading, start, end.position)


class Counters:
    """The counters of entries in a tree. Those at the beginnings of branches are asked for once."""

    def __init__(self, reader: Reader, paths: Paths) -> None:
        self.reader = reader
        self.paths = paths
        self._before: dict[int, HeadRow] = {}

    def first_where(self, end: HeadRow, holds: Holds) -> int:
        """The first position of a path at which something holds that holds from there on."""
        branch = self.paths.locate(end.branch, end.position)
        branch, passed = self.paths.rise(branch, lambda row: holds(self._tip_before(row)))
        if not branch:
            return 0
        low = self.paths.rows[branch].fork + 1
        high = self.paths.rows[passed].fork if passed else end.position
        while low < high:
            middle = (low + high) // 2
            if holds(tip_at(self.reader, branch, middle)):
                high = middle
            else:
                low = middle + 1
        return low

    def _tip_before(self, row: BranchRow) -> HeadRow:
        found = self._before.get(row.branch)
        if found is None:
            found = self._before[row.branch] = tip_at(self.reader, row.parent, row.fork)
        return found


def _leading_system(reader: Reader, paths: Paths, end: HeadRow) -> int:
    """How many system messages a path begins with."""
    segments = paths.between(end.branch, 0, min(end.position, SYSTEM_MESSAGES - 1))
    found = read_messages(
        reader, segments, 0, SYSTEM_MESSAGES - 1, limit=SYSTEM_MESSAGES, on_damage=pass_over
    )
    return sum(position == count for count, (position, _) in enumerate(leading_system(found)))


# -- whole steps


def _spared(reader: Reader, paths: Paths, wishes: Sequence[View]) -> list[Segment]:
    """What may go by these wishes, with no tool call parted from its result.

    To look for calls and results costs most. It can only make a view spare less, so it is done for those that
    wish to spare what goes by all wishes together: whatever the others say, that stays as it is.
    """
    going = _with_messages(reader, removable(paths, wishes))
    if not going:
        return []
    asked = those_that_spare(paths, wishes, going)
    return _with_messages(
        reader,
        removable(paths, [_made_whole(reader, paths, wish) if wish in asked else wish for wish in wishes]),
    )


def _with_messages(reader: Reader, ranges: Iterable[Segment]) -> list[Segment]:
    return [part for part in ranges if count_messages(reader, [part])]


def _made_whole(reader: Reader, paths: Paths, wish: View) -> View:
    if not wish.first < wish.start <= wish.last:
        return wish
    start = max(wish.first, _whole_from(reader, paths, wish))
    return View(wish.branch, wish.first, start, wish.last)


def _whole_from(reader: Reader, paths: Paths, wish: View) -> int:
    """The nearest position at or before the wished start where no tool call is parted from its result.

    A result is looked for in the next few hundred messages, not in all that follow.
    """
    after = _messages_from(reader, paths, wish)
    return nearest_cut(
        lambda most: _messages_before(reader, paths, wish, most),
        after,
        wish.start,
        goes_on=len(after) < CHUNK,
        reach=CHUNK,
    )


def _messages_from(reader: Reader, paths: Paths, wish: View) -> Messages:
    """The next messages from the wished start on. Only as much of the path is listed as they need."""
    found: Messages = []
    first, step = wish.start, CHUNK
    while first <= wish.last and len(found) < CHUNK:
        upto = min(wish.last, first + step - 1)
        segments = paths.between(wish.branch, first, upto)
        found += read_messages(reader, segments, first, upto, limit=CHUNK - len(found), on_damage=pass_over)
        first, step = upto + 1, 2 * step
    return found


def _messages_before(reader: Reader, paths: Paths, wish: View, most: int) -> Messages:
    """The last messages before the wished start, oldest first."""
    found: Messages = []
    for part in paths.upwards(wish.branch, wish.start - 1):
        found += reader.read_messages(
            part.branch, part.first, part.last, reverse=True, limit=most - len(found), on_damage=pass_over
        )
        if len(found) >= most:
            break
    return found[::-1]


def pass_over(damage: CorruptEntryError) -> None:
    """What cannot be read is kept."""


def with_their_calls(reader: Reader, ranges: Sequence[Segment]) -> list[Segment]:
    """The ranges, less the results with which one begins: another session may need the call before it."""
    kept: list[Segment] = []
    going = Ranges(ranges)
    for each in ranges:
        first = each.first
        if _is_kept_message(reader, going, each):
            while first <= each.last and _is_result(reader, each.branch, first):
                first += 1
        if first <= each.last:
            kept.append(Segment(each.branch, first, each.last))
    return kept


def _is_kept_message(reader: Reader, going: Ranges, each: Segment) -> bool:
    """Whether a message stays directly before a range."""
    branch, position = each.branch, each.first - 1
    row = reader.get_branch(branch)
    if position == row.fork:
        branch = row.parent
    if not branch or going.hold(branch, position):
        return False
    return reader.count_entries(branch, position, position, MESSAGE) == 1


def _is_result(reader: Reader, branch: int, position: int) -> bool:
    found = reader.read_messages(branch, position, position, on_damage=pass_over)
    return any(results_of(message) for _, message in found)
