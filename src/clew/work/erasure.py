"""Removing old messages from a tree of sessions: their content goes, their places and hashes stay."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec
from uuid_utils import uuid7

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.dialects import results_of, role_of
from clew.core.erasure import View, merged, removable, whole_from
from clew.core.retention import DAY, LOOK_AGAIN, is_kept, micros
from clew.core.rows import MESSAGE, NOT_DUE, NOWHERE, RUNNING, BranchRow, Details, SessionRow, Tip
from clew.core.tree import Segment, locate, path
from clew.errors import CorruptEntryError
from clew.here import Here
from clew.model import Json, Retention
from clew.work.access import is_held
from clew.work.history import read_messages, removed_name
from clew.work.places import path_of, tip_at

AT_ONCE: Final = 2000
"""Entries that one transaction takes away."""
CHUNK: Final = 256
SYSTEM_MESSAGES: Final = 8
"""As many leading system messages stay, whatever a rule says about counts and sizes."""


Holds: TypeAlias = Callable[[Tip], bool]


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


def removes_messages(rules: Retention) -> bool:
    return rules.message_age is not None or limits_messages(rules)


def limits_messages(rules: Retention) -> bool:
    return rules.max_messages is not None or rules.max_message_bytes is not None


def is_over_limit(row: SessionRow, rules: Retention) -> bool:
    """Whether a session may have too many messages; it may be that they were removed already."""
    too_many = rules.max_messages is not None and row.head.messages > rules.max_messages
    return too_many or (rules.max_message_bytes is not None and row.head.size > rules.max_message_bytes)


def plan(
    reader: Reader, here: Here, tree: int, rules: Retention, now: int, gone: Collection[int] = ()
) -> Plan:
    """What every session of a tree can spare. `gone`: sessions that count as being in the trash."""
    relatives = reader.tree_sessions(tree)
    wait = objection(reader, here, relatives, rules, gone)
    if wait:
        return Plan(now + wait)
    live = [row for row in relatives if row.deleted is None and row.sid not in gone]
    found: list[Segment] = []
    reasons: list[str] = []
    due = NOT_DUE
    if rules.message_age is not None:
        aged, oldest = _aged(reader, tree, live, now - micros(rules.message_age))
        found += aged
        reasons += [f"older than {rules.message_age}"] if aged else []
        due = min(now, oldest) + micros(rules.message_age)
    if limits_messages(rules):
        extra = removable([_limited(reader, row, rules) for row in live])
        extra = [part for part in extra if _count(reader, [part])]
        found += extra
        reasons += [_limit_reason(rules)] if extra else []
    ranges = _with_their_calls(reader, merged(found))
    return Plan(
        due,
        (live or relatives)[0].id if relatives else "",
        "; ".join(reasons),
        tuple(ranges),
        _count(reader, ranges),
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


def _count(reader: Reader, ranges: Sequence[Segment]) -> int:
    return sum(reader.count_entries(each.branch, each.first, each.last, MESSAGE) for each in ranges)


# -- by age


def _aged(reader: Reader, tree: int, live: Sequence[SessionRow], cutoff: int) -> tuple[list[Segment], int]:
    """What is older than the cutoff on every path, and the time of the oldest message that stays.

    Only what nothing younger precedes: with a clock that went back some entries are out of order, and
    those are kept for a while longer.
    """
    branches = {branch.branch: branch for branch in reader.tree_branches(tree)}
    old: dict[int, int] = {}
    oldest = NOT_DUE
    for branch in sorted(branches.values(), key=lambda branch: branch.branch):
        old[branch.branch], youngest = _old_part(reader, branch, old, cutoff)
        oldest = min(oldest, youngest)
    ends = {(row.head.branch, row.head.position) for row in live if row.head.branch}
    ends |= {(branch, reader.last_position(branch)) for branch in branches}
    views = []
    for end in sorted(ends):
        segments = path(*end, reader.get_branch)
        start = next((old[part.branch] + 1 for part in segments if old[part.branch] < part.last), end[1] + 1)
        if start <= end[1]:
            start = _whole_from(reader, segments, start, end[1])
        views.append(View(tuple(segments), 0, start, end[1]))
    ranges = [part for part in removable(views) if _count(reader, [part])]
    return ranges, oldest


def _old_part(reader: Reader, branch: BranchRow, old: dict[int, int], cutoff: int) -> tuple[int, int]:
    """The last position up to which a branch is old, and the time of the message that ends it."""
    if branch.parent and old.get(branch.parent, NOWHERE) < branch.fork:
        return branch.fork, NOT_DUE  # what it continues is young; so is it, or it waits for that
    last = reader.last_position(branch.branch)
    kept = reader.read_messages(branch.branch, branch.fork + 1, last, limit=1, on_damage=_pass_over)
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
        for row in reader.read_entries(branch, first, upto, on_damage=_pass_over):
            yield row.position, row.kind, row.time
        first = upto + 1


# -- by count and size


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
        reader, segments, 0, SYSTEM_MESSAGES - 1, limit=SYSTEM_MESSAGES, on_damage=_pass_over
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
    after = read_messages(reader, segments, wished, last, limit=CHUNK, on_damage=_pass_over)
    reach = CHUNK
    while True:
        before = read_messages(
            reader, segments, 0, wished - 1, reverse=True, limit=reach, on_damage=_pass_over
        )[::-1]
        is_start = len(before) < reach
        count = whole_from(_bodies(before), _bodies(after), is_start=is_start, is_end=len(after) < CHUNK)
        if count is not None:
            return wished if count >= len(before) else before[count][0]
        reach *= 4


def _bodies(found: Sequence[tuple[int, dict[str, Json]]]) -> list[dict[str, Json]]:
    return [message for _, message in found]


def _pass_over(damage: CorruptEntryError) -> None:
    """What can not be read is kept."""


def _with_their_calls(reader: Reader, ranges: Sequence[Segment]) -> list[Segment]:
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
    found = reader.read_messages(branch, position, position, on_damage=_pass_over)
    return any(results_of(message) for _, message in found)


# -- the removal itself


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
        for row in relatives:
            _forget_preview(tx, row, made.ranges)
    return count


def _messages_in(tx: Transaction, each: Segment, most: int) -> list[int]:
    if most <= 0:
        return []
    found = tx.read_messages(each.branch, each.first, each.last, limit=most, on_damage=_pass_over)
    return [position for position, _ in found]


def _forget_preview(tx: Transaction, row: SessionRow, ranges: Sequence[Segment]) -> None:
    """A preview is what the user said last: when that was removed it must not stay."""
    asked = row.head.asked
    if asked == NOWHERE or not row.preview:
        return
    branch = locate(path_of(tx, row.head), asked)
    if any(each.branch == branch and each.first <= asked <= each.last for each in ranges):
        tx.set_session(msgspec.structs.replace(row, preview=""))
