"""Removing old messages from a tree of sessions: their content goes, their places and hashes stay."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec
from uuid_utils import uuid7

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.conversation.history import removed_name
from clew.core.conversation.points import paths_of
from clew.core.engine.host import Host
from clew.core.log.rows import NOT_DUE, NOWHERE, RUNNING, Details, HeadRow, SessionRow
from clew.core.log.tree import Segment
from clew.core.retention.old_messages import (
    Ranges,
    aged,
    count_messages,
    limits_messages,
    merged,
    over_limits,
    pass_over,
    with_their_calls,
)
from clew.core.retention.rules import DAY, LOOK_AGAIN, is_kept, micros
from clew.core.runs.access import is_held
from clew.model import Retention

AT_ONCE: Final = 500
"""Entries that one transaction takes away: others write in between."""


class Plan(msgspec.Struct, frozen=True):
    """What may go of a tree, and when to look again."""

    due: int
    session: str = ""
    reason: str = ""
    ranges: tuple[Segment, ...] = ()
    messages: int = 0
    """How many messages there are in these ranges."""
    members: tuple[tuple[int, HeadRow, int, bool, Details], ...] = ()
    """The tree as it was found: what was planned for another one must not be done."""


def plan(
    reader: Reader, host: Host, tree: int, rules: Retention, now: int, gone: Collection[int] = ()
) -> Plan:
    """What every session of a tree can spare. `gone`: sessions that count as being in the trash."""
    relatives = reader.tree_sessions(tree)
    wait = objection(reader, host, relatives, rules, gone)
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
    reader: Reader, host: Host, relatives: Sequence[SessionRow], rules: Retention, gone: Collection[int]
) -> int:
    """0 if every session of a tree may lose messages; else for how long it is not worth asking again."""
    if any(is_kept(reader.get_details(row.sid), rules) for row in relatives):
        return DAY
    live = [row for row in relatives if row.deleted is None and row.sid not in gone]
    busy = any(row.status == RUNNING or (row.fence and is_held(reader, row, host)) for row in live)
    return LOOK_AGAIN if busy else 0


def _members(
    reader: Reader, rows: Sequence[SessionRow]
) -> tuple[tuple[int, HeadRow, int, bool, Details], ...]:
    return tuple(
        (row.sid, row.head, row.updated, row.deleted is None, reader.get_details(row.sid)) for row in rows
    )


def _limit_reason(rules: Retention) -> str:
    if rules.max_messages is None:
        return f"more than {rules.max_message_bytes} bytes"
    more = "" if rules.max_message_bytes is None else f", or {rules.max_message_bytes} bytes"
    return f"more than {rules.max_messages} messages{more}"


def erase(tx: Transaction, host: Host, tree: int, rules: Retention, made: Plan) -> int | None:
    """Take away up to AT_ONCE messages of a plan; how many. None: the tree is not as it was."""
    relatives = tx.tree_sessions(tree)
    if _members(tx, relatives) != made.members or objection(tx, host, relatives, rules, ()):
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
        _forget_lines(tx, relatives)
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
    shown = [row for row in rows if row.head.last_user_turn != NOWHERE and row.preview]
    if not shown:
        return
    paths, gone = paths_of(tx, tree, {row.head.branch for row in shown}), Ranges(ranges)
    for row in shown:
        if gone.hold(paths.locate(row.head.branch, row.head.last_user_turn), row.head.last_user_turn):
            tx.set_session(msgspec.structs.replace(row, preview=""))


def _forget_lines(tx: Transaction, rows: Sequence[SessionRow]) -> None:
    """Lines of the files that sessions came from hold what was removed, or need it to be made again."""
    for row in rows:
        for name, _ in tx.scan_records(row.sid, "line"):
            tx.drop_record(row.sid, "line", name)
