"""Removing old messages from a tree of sessions: their content goes, their places and hashes stay."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import msgspec
from uuid_utils import uuid7

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.conversation.history import removed_name
from clew.core.conversation.points import paths_of
from clew.core.engine.host import Here
from clew.core.log.rows import NOT_DUE, NOWHERE, RUNNING, Details, SessionRow, Tip
from clew.core.log.tree import Paths, Segment
from clew.core.messages.tool_calls import pair, safe_cut
from clew.core.retention.old_messages import (
    aged,
    count_messages,
    limits_messages,
    over_limits,
    pass_over,
    with_their_calls,
)
from clew.core.retention.rules import DAY, LOOK_AGAIN, is_kept, micros
from clew.core.runs.access import is_held
from clew.model import Json, Retention

# ── Which entries of a tree may lose their content, when several sessions share them ──────────────


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


# ── Removing old messages from a tree of sessions: their content goes, their places and hashes stay ───

AT_ONCE: Final = 2000
"""Entries that one transaction takes away."""


class Plan(msgspec.Struct, frozen=True):
    """What may go of a tree, and when to look again."""

    due: int
    session: str = ""
    reason: str = ""
    ranges: tuple[Segment, ...] = ()
    messages: int = 0
    """How many messages there are in these ranges."""
    members: tuple[tuple[int, Tip, int, bool, Details], ...] = ()
    """The tree as it was found: what was planned for another one must not be done."""


def plan(
    reader: Reader, here: Here, tree: int, rules: Retention, now: int, gone: Collection[int] = ()
) -> Plan:
    """What every session of a tree can spare. `gone`: sessions that count as being in the trash."""
    relatives = reader.tree_sessions(tree)
    wait = objection(reader, here, relatives, rules, gone)
    if wait:
        return Plan(now + wait, members=_members(reader, relatives))
    live = [row for row in relatives if row.deleted is None and row.sid not in gone]
    found: list[Segment] = []
    reasons: list[str] = []
    due = NOT_DUE
    if rules.message_age is not None:
        old, oldest = aged(reader, tree, live, now - micros(rules.message_age))
        found += old
        reasons += [f"older than {rules.message_age}"] if old else []
        due = min(now, oldest) + micros(rules.message_age)
    if limits_messages(rules):
        extra = over_limits(reader, tree, live, rules)
        found += extra
        reasons += [_limit_reason(rules)] if extra else []
    ranges = with_their_calls(reader, merged(found))
    return Plan(
        due,
        (live or relatives)[0].id if relatives else "",
        "; ".join(reasons),
        tuple(ranges),
        count_messages(reader, ranges),
        _members(reader, relatives),
    )


def objection(
    reader: Reader, here: Here, relatives: Sequence[SessionRow], rules: Retention, gone: Collection[int]
) -> int:
    """0 if every session of a tree may lose messages; else for how long it is not worth asking again."""
    if any(is_kept(reader.get_details(row.sid), rules) for row in relatives):
        return DAY
    live = [row for row in relatives if row.deleted is None and row.sid not in gone]
    busy = any(row.status == RUNNING or (row.fence and is_held(reader, row, here)) for row in live)
    return LOOK_AGAIN if busy else 0


def _members(reader: Reader, rows: Sequence[SessionRow]) -> tuple[tuple[int, Tip, int, bool, Details], ...]:
    return tuple(
        (row.sid, row.head, row.updated, row.deleted is None, reader.get_details(row.sid)) for row in rows
    )


def _limit_reason(rules: Retention) -> str:
    if rules.max_messages is None:
        return f"more than {rules.max_message_bytes} bytes"
    more = "" if rules.max_message_bytes is None else f", or {rules.max_message_bytes} bytes"
    return f"more than {rules.max_messages} messages{more}"


def erase(tx: Transaction, here: Here, tree: int, rules: Retention, made: Plan) -> int | None:
    """Take away up to AT_ONCE messages of a plan; how many. None: the tree is not as it was."""
    relatives = tx.tree_sessions(tree)
    if _members(tx, relatives) != made.members or objection(tx, here, relatives, rules, ()):
        return None
    count = 0
    for each in made.ranges:
        positions = _messages_in(tx, each, AT_ONCE - count)
        if positions:
            tx.erase_entries(each.branch, positions)
            count += len(positions)
    if count:
        tx.put_record(STORE_WIDE, "retention", removed_name(tree), b"")
        tx.put_record(STORE_WIDE, "unscrubbed", "", uuid7().hex.encode())
        _forget_previews(tx, tree, relatives, made.ranges)
    return count


def _messages_in(tx: Transaction, each: Segment, most: int) -> list[int]:
    if most <= 0:
        return []
    found = tx.read_messages(each.branch, each.first, each.last, limit=most, on_damage=pass_over)
    return [position for position, _ in found]


def _forget_previews(
    tx: Transaction, tree: int, rows: Sequence[SessionRow], ranges: Sequence[Segment]
) -> None:
    """A preview is what the user said last: when that was removed it must not stay."""
    shown = [row for row in rows if row.head.asked != NOWHERE and row.preview]
    if not shown:
        return
    paths, gone = paths_of(tx, tree, {row.head.branch for row in shown}), Ranges(ranges)
    for row in shown:
        if gone.hold(paths.locate(row.head.branch, row.head.asked), row.head.asked):
            tx.set_session(msgspec.structs.replace(row, preview=""))
