"""Whether the entries of a branch are all there, and are what their hashes and counters say.

The counters and the hash of an entry follow from the entry before it. They are made anew from what that
one says of itself, and from what it should say; so one damaged entry is one problem, not one for each
entry behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from clew.backends.contract import Reader
from clew.core.check.scan import Read
from clew.core.log.digest import LOST
from clew.core.log.rows import (
    EMPTY,
    ERASED,
    KIND_NAMES,
    MESSAGE,
    REMOVED,
    TURNS,
    BranchRow,
    Draft,
    EntryRow,
    HeadRow,
)
from clew.core.log.tree import chain
from clew.core.messages.codec import decode_json
from clew.core.messages.dialects import is_human_turn
from clew.errors import CorruptEntryError, CorruptError

PAGE: Final = 64
"""Entries in memory at once: each may be large,"""
PAGE_BYTES: Final = 4 * 1024 * 1024
"""so they are no more than these together, unless a single one is."""

COUNTERS: Final = ("messages", "turns", "size", "view_start", "summary", "last_user_turn")
OF_TIP: Final = ("digest", *COUNTERS)
_FROM_BODY: Final = frozenset({"digest", "turns", "size", "last_user_turn"})
"""What cannot be told of an entry whose body was removed."""

Note: TypeAlias = Callable[[int | None, str], None]
"""Takes the position of an entry, or None for the branch, and what is wrong with it."""


class BranchCheck:
    def __init__(self, read: Read, branch: BranchRow, note: Note, *, continues: bool = True) -> None:
        """`continues`: False: its parent is known to be wrong; its entries are looked at all the same."""
        self._continues = continues
        self._read = read
        self._branch = branch
        self._note = note
        self._ranges: list[tuple[int, int]] = []

    def structure(self) -> int:
        """Look for holes, and whether it continues what exists; how many entries there are."""
        branch = self._branch
        with self._read() as reader:
            last = reader.last_position(branch.branch)
            if self._continues and branch.parent and _tip(reader, branch) is None:
                self._note(None, f"it continues entry {branch.fork} of a branch that does not hold it")
        if last <= branch.fork:
            self._note(None, "it is empty")
            return 0
        try:
            with self._read() as reader:
                self._ranges = _joined(self._present(reader, branch.fork + 1, last))
            self._note_holes()
        except CorruptError as error:
            self._note(None, f"its entries cannot be counted: {error}")
            self._ranges = [(branch.fork + 1, last)]
        return sum(last - first + 1 for first, last in self._ranges)

    def _present(self, reader: Reader, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Positions without a hole, found by counting: however large a hole is, it is one."""
        count, all_of_it = 0, last - first + 1
        for kind in range(len(KIND_NAMES)):
            if count < all_of_it:
                count += reader.count_entries(self._branch.branch, first, last, kind)
        # More than there can be: a damaged index, which reading them will show.
        if count >= all_of_it:
            yield first, last
        elif count:
            middle = (first + last) // 2
            yield from self._present(reader, first, middle)
            yield from self._present(reader, middle + 1, last)

    def _note_holes(self) -> None:
        expected = self._branch.fork + 1
        for first, last in self._ranges:
            if first > expected:
                self._note(expected, _missing(expected, first - 1))
            expected = last + 1

    def contents(self) -> Iterator[tuple[int, int]]:
        """Read all entries, and compare; after every page: how many they were, and their size."""
        for first, last in self._ranges:
            with self._read() as reader:
                stored = rebuilt = self._before(reader, first)
            low = first
            while low <= last:
                end = min(low + PAGE - 1, last)
                with self._read() as reader:
                    rows = reader.read_entries(
                        self._branch.branch, low, end, room=PAGE_BYTES, on_damage=self._damaged
                    )
                    for row in rows:
                        if stored is not None and row.position != stored.position + 1:
                            stored = rebuilt = self._before(reader, row.position)
                        rebuilt = self._check(row, stored, rebuilt)
                        stored = row.tip(self._branch.branch)
                size = sum(len(row.body) for row in rows)
                low = 1 + (rows[-1].position if size >= PAGE_BYTES else end)
                yield len(rows), size

    def _damaged(self, error: CorruptEntryError) -> None:
        self._note(error.position, f"it is damaged: {error.reason}")

    def _before(self, reader: Reader, position: int) -> HeadRow | None:
        """The place before an entry; None: it is not known."""
        branch = self._branch
        if position > branch.fork + 1:
            return reader.get_tip(branch.branch, position - 1)
        return _tip(reader, branch) if self._continues else None

    def _check(self, row: EntryRow, stored: HeadRow | None, rebuilt: HeadRow | None) -> HeadRow:
        """The place that an entry should have; of one that cannot be judged, that it has."""
        actual = row.tip(self._branch.branch)
        bases = [tip for tip in ((stored,) if stored == rebuilt else (stored, rebuilt)) if tip is not None]
        try:
            draft = draft_of(row)
            expected = [chain(base, actual.branch, [draft], row.time)[1] for base in bases]
        except (msgspec.MsgspecError, ValueError, TypeError, KeyError, AttributeError) as error:
            self._note(row.position, f"its body cannot be understood: {error}")
            return actual
        if actual in expected:
            return actual
        wrong = [name for name in OF_TIP if expected and not _is_one_of(actual, name, expected)]
        if any(base.digest == LOST for base in bases):
            wrong = [name for name in wrong if name != "digest"]
        if row.kind == REMOVED:
            wrong = [name for name in wrong if name not in _FROM_BODY]
            if row.body != ERASED:
                self._note(row.position, "its message was removed, and something stands in its place")
        if not wrong:
            return actual
        self._note(row.position, _told(wrong))
        return expected[-1]


def _is_one_of(actual: HeadRow, name: str, expected: list[HeadRow]) -> bool:
    return any(getattr(actual, name) == getattr(one, name) for one in expected)


def _told(wrong: list[str]) -> str:
    counters = [name for name in wrong if name != "digest"]
    said = ["its hash is not that of its content and of what is before it"] if "digest" in wrong else []
    said += [f"its counters are wrong: {', '.join(counters)}"] if counters else []
    return "; ".join(said)


def draft_of(row: EntryRow) -> Draft:
    """What was appended, as far as it can still be told."""
    if row.kind == REMOVED:
        return Draft(MESSAGE, row.body, row.flags)
    value: Any = decode_json(row.body)
    if row.kind != MESSAGE:
        return Draft(row.kind, row.body, row.flags, turns=value["user_turns"] if row.kind == TURNS else None)
    if type(value) is not dict:
        raise ValueError("it is no message")
    return Draft(MESSAGE, row.body, row.flags, is_human_turn(value, row.flags))


def _tip(reader: Reader, branch: BranchRow) -> HeadRow | None:
    """The place that a branch continues."""
    return reader.get_tip(branch.parent, branch.fork) if branch.parent else EMPTY


def _joined(ranges: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and joined[-1][1] == first - 1:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def _missing(first: int, last: int) -> str:
    return "it is missing" if first == last else f"it and all up to {last} are missing"
