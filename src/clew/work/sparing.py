"""What the sessions of a tree can spare: messages that are too old, or too many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from clew.backends.contract import Reader
from clew.core.dialects import results_of, role_of
from clew.core.erasure import View, removable, whole_from
from clew.core.rows import MESSAGE, NOT_DUE, NOWHERE, BranchRow, SessionRow, Tip
from clew.core.tree import Segment, locate
from clew.errors import CorruptEntryError
from clew.model import Json, Retention
from clew.work.history import read_messages
from clew.work.lineage import check_branches
from clew.work.places import path_of, path_to, tip_at

CHUNK: Final = 256
SYSTEM_MESSAGES: Final = 8
"""As many leading system messages stay, whatever a rule says about counts and sizes."""

Holds: TypeAlias = Callable[[Tip], bool]


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
    branches = check_branches(reader, reader.tree_branches(tree))
    old: dict[int, int] = {}
    oldest = NOT_DUE
    for branch in branches:
        old[branch.branch], youngest = _old_part(reader, branch, old, cutoff)
        oldest = min(oldest, youngest)
    ends = {(row.head.branch, row.head.position) for row in live if row.head.branch}
    ends |= {(branch.branch, reader.last_position(branch.branch)) for branch in branches}
    views = []
    for end in sorted(ends):
        segments = path_to(reader, *end)
        start = next((old[part.branch] + 1 for part in segments if old[part.branch] < part.last), end[1] + 1)
        if start <= end[1]:
            start = _whole_from(reader, segments, start, end[1])
        views.append(View(tuple(segments), 0, start, end[1]))
    ranges = [part for part in removable(views) if count_messages(reader, [part])]
    return ranges, oldest


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


def over_limits(reader: Reader, live: Sequence[SessionRow], rules: Retention) -> list[Segment]:
    """What is more than the limits allow on some path, and needed on none."""
    ranges = removable([_limited(reader, row, rules) for row in live])
    return [part for part in ranges if count_messages(reader, [part])]


def _limited(reader: Reader, row: SessionRow, rules: Retention) -> View:
    """What of a session's path lies before the newest messages that its limits allow.

    The counters that every entry carries make this a binary search: no message is read for it.
    """
    segments = path_of(reader, row.head)
    if not is_over_limit(row, rules):
        return View(tuple(segments), 0, 0, row.head.position)
    leading = _leading_system(reader, segments)
    end = row.head
    start = leading
    if rules.max_messages is not None and end.messages - leading > rules.max_messages:
        most = end.messages - rules.max_messages
        start = max(start, _first_where(reader, segments, end, lambda tip: tip.messages > most))
    if rules.max_message_bytes is not None:
        spare = end.size - rules.max_message_bytes
        beyond = _first_where(reader, segments, end, lambda tip: tip.size >= spare) + 1 if spare > 0 else 0
        newest = _first_where(reader, segments, end, lambda tip: tip.messages == end.messages)
        start = max(start, min(beyond, newest))
    if start > leading:
        start = max(leading, _whole_from(reader, segments, start, end.position))
    return View(tuple(segments), leading, start, end.position)


def _first_where(reader: Reader, segments: Sequence[Segment], end: Tip, holds: Holds) -> int:
    """The first position of a path at which something holds that holds from there on."""
    low, high = 0, end.position
    while low < high:
        middle = (low + high) // 2
        if holds(tip_at(reader, locate(segments, middle), middle)):
            high = middle
        else:
            low = middle + 1
    return low


def _leading_system(reader: Reader, segments: Sequence[Segment]) -> int:
    """How many system messages a path begins with."""
    found = read_messages(
        reader, segments, 0, SYSTEM_MESSAGES - 1, limit=SYSTEM_MESSAGES, on_damage=pass_over
    )
    count = 0
    for position, message in found:
        if position != count or role_of(message) != "system":
            break
        count += 1
    return count


# -- whole steps


def _whole_from(reader: Reader, segments: Sequence[Segment], wished: int, last: int) -> int:
    """The nearest position at or before `wished` where no tool call is parted from its result.

    A result is looked for in the next few hundred messages, not in all that follow.
    """
    after = read_messages(reader, segments, wished, last, limit=CHUNK, on_damage=pass_over)
    reach = CHUNK
    while True:
        before = read_messages(
            reader, segments, 0, wished - 1, reverse=True, limit=reach, on_damage=pass_over
        )[::-1]
        is_start = len(before) < reach
        count = whole_from(_bodies(before), _bodies(after), is_start=is_start, is_end=len(after) < CHUNK)
        if count is not None:
            return wished if count >= len(before) else before[count][0]
        reach *= 4


def _bodies(found: Sequence[tuple[int, dict[str, Json]]]) -> list[dict[str, Json]]:
    return [message for _, message in found]


def pass_over(damage: CorruptEntryError) -> None:
    """What can not be read is kept."""


def with_their_calls(reader: Reader, ranges: Sequence[Segment]) -> list[Segment]:
    """The ranges, less the results with which one begins: another session may need the call before it."""
    kept: list[Segment] = []
    for each in ranges:
        first = each.first
        if _is_kept_message(reader, ranges, each):
            while first <= each.last and _is_result(reader, each.branch, first):
                first += 1
        if first <= each.last:
            kept.append(Segment(each.branch, first, each.last))
    return kept


def _is_kept_message(reader: Reader, ranges: Sequence[Segment], each: Segment) -> bool:
    """Whether a message stays directly before a range."""
    branch, position = each.branch, each.first - 1
    row = reader.get_branch(branch)
    if position == row.fork:
        branch = row.parent
    if not branch or any(r.branch == branch and r.first <= position <= r.last for r in ranges):
        return False
    return reader.count_entries(branch, position, position, MESSAGE) == 1


def _is_result(reader: Reader, branch: int, position: int) -> bool:
    found = reader.read_messages(branch, position, position, on_damage=pass_over)
    return any(results_of(message) for _, message in found)
