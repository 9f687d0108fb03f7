"""Calls about branches and entries."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from clew.backends.contract import OnDamage, Reader, Transaction
from clew.backends.http.calls.base import Read, Text, Write
from clew.backends.http.wire import (
    MOST_ROWS,
    ROOM,
    DamageTold,
    Entry,
    entry_in,
    entry_out,
)
from clew.backends.rows import MISSING, limited
from clew.core.log import checks
from clew.core.log.records import Count, Integer, Position
from clew.core.log.rows import (
    MESSAGE,
    BranchRow,
    EntryRow,
    HeadRow,
)
from clew.errors import CorruptEntryError, CorruptError, UnreadableEntryError


class GetBranch(Read[BranchRow]):
    branch: Count
    answer: ClassVar[Any] = BranchRow

    def of(self, on: Reader) -> BranchRow:
        return on.get_branch(self.branch)

    def taken(self, answer: Any) -> BranchRow:
        return checks.branch(answer)


class FindBranch(Read[BranchRow | None]):
    uid: Text
    answer: ClassVar[Any] = BranchRow | None

    def of(self, on: Reader) -> BranchRow | None:
        return on.find_branch(self.uid)

    def taken(self, answer: Any) -> BranchRow | None:
        return None if answer is None else checks.branch(answer)


class TreeBranches(Read[list[BranchRow]]):
    tree: Count
    answer: ClassVar[Any] = list[BranchRow]

    def of(self, on: Reader) -> list[BranchRow]:
        return on.tree_branches(self.tree)

    def taken(self, answer: Any) -> list[BranchRow]:
        return [checks.branch(row) for row in answer]


class BranchNumbers(Read[list[int]]):
    sid: Count
    tree: Count
    answer: ClassVar[Any] = list[Count]

    def of(self, on: Reader) -> list[int]:
        return list(on.branch_numbers(self.sid, self.tree))


class LastPosition(Read[int]):
    branch: Count
    answer: ClassVar[Any] = Position

    def of(self, on: Reader) -> int:
        return on.last_position(self.branch)


class GetTip(Read[HeadRow | None]):
    branch: Count
    position: Position
    answer: ClassVar[Any] = HeadRow | None

    def of(self, on: Reader) -> HeadRow | None:
        return on.get_tip(self.branch, self.position)

    def taken(self, answer: Any) -> HeadRow | None:
        return None if answer is None else checks.tip(answer)


class GetEntry(Read[EntryRow | None]):
    branch: Count
    position: Position
    answer: ClassVar[Any] = Entry | None

    def of(self, on: Reader) -> Entry | None:
        row = on.get_entry(self.branch, self.position)
        return None if row is None else entry_out(row)

    def taken(self, answer: Any) -> EntryRow | None:
        return None if answer is None else _entry(self.branch, answer)


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """A part of what was asked for: its rows, the damaged ones, and where to go on; None: that was all."""

    rows: list[Entry]
    damage: list[DamageTold]
    rest: Position | None


class Part(msgspec.Struct, frozen=True):
    """The same in the client."""

    rows: list[EntryRow]
    damage: list[CorruptEntryError]
    rest: int | None


class ReadEntries(Read[Part]):
    """With `is_tolerant` damage is told of, else it is raised. Ends with ROOM, or MOST_ROWS, whatever is
    asked for."""

    branch: Count
    first: Integer
    last: Integer
    reverse: bool
    room: Count | None
    is_tolerant: bool
    messages: bool
    """Only the messages. A missing entry is then no damage."""
    answer: ClassVar[Any] = Stretch

    def of(self, on: Reader) -> Stretch:
        first, last, reverse = self.first, self.last, self.reverse
        if self.messages:
            first, last = max(first, 0), min(last, on.last_position(self.branch))
        begin, end = limited(first, last, MOST_ROWS, reverse=reverse)
        room = ROOM if self.room is None else min(self.room, ROOM)
        damage: list[CorruptEntryError] = []
        on_damage: OnDamage | None = damage.append if self.is_tolerant or self.messages else None
        rows = on.read_entries(self.branch, begin, end, reverse=reverse, room=room, on_damage=on_damage)
        rest = (begin - 1 if begin > first else None) if reverse else (end + 1 if end < last else None)
        if rows and sum(len(row.body) for row in rows) >= room:
            at = rows[-1].position
            rest = (at - 1 if at > first else None) if reverse else (at + 1 if at < last else None)
            damage = [one for one in damage if (one.position > at if reverse else one.position < at)]
        if self.messages:
            rows = [row for row in rows if row.kind == MESSAGE]
            damage = [one for one in damage if not one.reason.startswith(MISSING)]
            if damage and not self.is_tolerant:
                raise min(damage, key=lambda one: -one.position if reverse else one.position)
        return Stretch([entry_out(row) for row in rows], [_told(one) for one in damage], rest)

    def taken(self, answer: Any) -> Part:
        rows = [_entry(self.branch, row) for row in answer.rows]
        if any(not self.first <= row.position <= self.last for row in rows):
            raise CorruptError(f"entries of branch {self.branch} came that were not asked for")
        if answer.rest is not None and not self.first <= answer.rest <= self.last:
            raise CorruptError(f"the answer about branch {self.branch} does not say where to go on")
        return Part(rows, [_damage(one) for one in answer.damage], answer.rest)


class CountEntries(Read[int]):
    branch: Count
    first: Integer
    last: Integer
    kind: Count
    answer: ClassVar[Any] = Count

    def of(self, on: Reader) -> int:
        return on.count_entries(self.branch, self.first, self.last, self.kind)


def _entry(branch: int, wire: Entry) -> EntryRow:
    row = entry_in(wire)
    if not checks.is_entry(row):
        raise CorruptEntryError(str(branch), row.position, checks.entry_flaw(row))
    return row


def _told(error: CorruptEntryError) -> DamageTold:
    return DamageTold(
        error.source, max(error.position, -1), error.reason, isinstance(error, UnreadableEntryError)
    )


def _damage(told: DamageTold) -> CorruptEntryError:
    kind = UnreadableEntryError if told.is_unreadable else CorruptEntryError
    return kind(told.source, told.position, told.reason)


class AddBranch(Write):
    uid: Text
    tree: Count
    owner: Count
    parent: Count
    fork: Position

    def do(self, on: Transaction) -> int:
        return on.add_branch(self.uid, self.tree, self.owner, self.parent, self.fork)


class DisownBranch(Write):
    branch: Count

    def do(self, on: Transaction) -> None:
        on.disown_branch(self.branch)


class AdoptBranch(Write):
    branch: Count
    owner: Count

    def do(self, on: Transaction) -> None:
        on.adopt_branch(self.branch, self.owner)


class DropBranch(Write):
    branch: Count

    def do(self, on: Transaction) -> None:
        on.drop_branch(self.branch)


class AddEntries(Write):
    branch: Count
    rows: list[Entry]

    def do(self, on: Transaction) -> None:
        on.add_entries(self.branch, [entry_in(row) for row in self.rows])


class DropEntries(Write):
    branch: Count
    after: Position

    def do(self, on: Transaction) -> None:
        on.drop_entries(self.branch, self.after)


class EraseEntries(Write):
    branch: Count
    positions: list[Position]

    def do(self, on: Transaction) -> None:
        on.erase_entries(self.branch, self.positions)
