"""Entries that a purge has still to remove: those of trees that no session has any more.

The transaction that takes the last session of a tree away leaves the entries, on branches without an owner,
with a mark that names the tree. Then they go, a few in each transaction, and the mark with the last of them:
so others write in between. Whoever is killed leaves the mark, and the next purge, sweep or vacuum goes on.
Nothing leads to such a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.conversation.annotations import drop_annotations
from clew.core.log.records import number_in
from clew.core.log.rows import EMPTY, NOWHERE, BranchRow, HeadRow, Totals
from clew.core.log.tree import in_order
from clew.errors import ConflictError, CorruptError

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike

AT_ONCE: Final = 1000
"""Most entries that one transaction removes."""
BYTES: Final = 1024 * 1024
"""Most bytes of entries that one transaction removes, unless one entry is larger: SQLite overwrites them."""
_TREE: Final = "tree-"
_LAST: Final = _TREE + "~"


def leave(tx: Transaction, tree: int) -> None:
    """Leave the entries of a tree to `remove_leftovers`: its last session goes with this transaction."""
    branches = tx.tree_branches(tree)
    for branch in branches:
        tx.disown_branch(branch.branch)  # else it would be taken for a branch of a session that lost its row
    if branches:
        tx.put_record(STORE_WIDE, "unscrubbed", f"{_TREE}{tree}", b"")


def leftover_trees(reader: Reader, limit: int | None = None) -> list[int]:
    """The trees of which entries are still to be removed."""
    found = reader.scan_records(STORE_WIDE, "unscrubbed", _TREE, _LAST, limit=limit)
    return [number_in(name.removeprefix(_TREE), "the mark of a purge") for name, _ in found]


def refuse_leftovers(reader: Reader, trees: Collection[int], session: str) -> None:
    """ConflictError: one of these trees is being removed, so nothing can be added to it."""
    for tree in trees:
        if reader.get_record(STORE_WIDE, "unscrubbed", f"{_TREE}{tree}") is not None:
            raise ConflictError(
                f"session {session!r} was purged here, and not all of it is removed yet: try again when the"
                " purge is over; `clew sweep` finishes one that was cut off"
            )


def remove_leftovers(engine: EngineLike, before: Callable[[Transaction], object] | None = None) -> None:
    """Remove what purges left, be it of this process, of another one or of one that was killed. `before` is
    called at the beginning of each transaction."""

    def some(tx: Transaction) -> None:
        if before is not None:
            before(tx)
        _remove_some(tx)

    while True:
        with engine.read() as reader:
            if not leftover_trees(reader, 1):
                return
        engine.run_in_turn(some)


def _remove_some(tx: Transaction) -> None:
    room, size = AT_ONCE, BYTES
    for tree in leftover_trees(tx, AT_ONCE):
        for branch in [] if _has_sessions(tx, tree) else _ends_first(tx, tree):
            if room <= 0 or size <= 0:
                return
            entries, dropped = _cut(tx, tree, branch, room, size)
            room, size = room - max(entries, 1), size - dropped
            if tx.last_position(branch.branch) > branch.fork:
                return
            tx.drop_branch(branch.branch)
        tx.drop_record(STORE_WIDE, "unscrubbed", f"{_TREE}{tree}")
        room -= 1
        if room <= 0:
            return


def _has_sessions(reader: Reader, tree: int) -> bool:
    """Whether a session was given this tree since, by whoever writes rows, or bears its number, which is that
    of the first session of the tree: then the entries stay."""
    try:
        return bool(reader.tree_sessions(tree)) or reader.get_session(tree) is not None
    except CorruptError:
        return True


def _ends_first(reader: Reader, tree: int) -> list[BranchRow]:
    """The branches of a tree, each before the one that it continues."""
    try:
        return in_order(reader.tree_branches(tree))[::-1]
    except CorruptError:  # a damaged row: its entries go all the same
        numbers = sorted(reader.branch_numbers(tree, tree), reverse=True)
        return [BranchRow(number, "", tree, 0, 0, NOWHERE) for number in numbers]


def _cut(tx: Transaction, tree: int, branch: BranchRow, most: int, size: int) -> tuple[int, int]:
    """Remove entries from the end of a branch; how many positions they had, and about how many bytes."""
    last = tx.last_position(branch.branch)
    after = max(last - most, branch.fork)
    while (dropped := _added(tx, branch, after, last).size) > size and after < last - 1:
        after = (after + last) // 2
    if branch.uid:
        drop_annotations(tx, tree, branch.uid, after)
    tx.drop_entries(branch.branch, after)
    return max(last - after, 0), dropped


def _added(reader: Reader, branch: BranchRow, after: int, last: int) -> HeadRow:
    """The counters of an entry of a branch, without those of an entry before it."""
    try:
        tip = reader.get_tip(branch.branch, last) if last > branch.fork else None
        base = reader.get_tip(branch.parent if after <= branch.fork else branch.branch, after)
    except CorruptError:  # then it is not known how large they are
        return EMPTY
    if tip is None or base is None:
        return tip or EMPTY
    return msgspec.structs.replace(tip, messages=tip.messages - base.messages, size=tip.size - base.size)


def without_leftovers(reader: Reader, totals: Totals) -> Totals:
    """What is counted of a store, without what is being removed."""
    entries = messages = size = 0
    for tree in leftover_trees(reader):
        for branch in [] if _has_sessions(reader, tree) else _ends_first(reader, tree):
            last = reader.last_position(branch.branch)
            added = _added(reader, branch, branch.fork, last)
            entries += max(last - branch.fork, 0)
            messages += added.messages
            size += added.size
    return msgspec.structs.replace(
        totals,
        entries=max(totals.entries - entries, 0),
        messages=max(totals.messages - messages, 0),
        size=max(totals.size - size, 0),
    )
