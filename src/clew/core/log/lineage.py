"""How the branches of a tree follow from each other, and the order in which they are told of.

A branch begins behind an entry of the branch that it continues. So positions fall on the way to the root,
and one look at each branch and its parent is enough: where every one of these is right, there is no ring.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from clew.core.log.rows import BranchRow


def misplaced(row: BranchRow, parent: BranchRow | None) -> str | None:
    """Why a branch cannot continue what its row says that it does; None: it can. `parent`: the row of the
    branch that it continues, if there is one."""
    if not row.parent:
        return None
    if parent is None:
        return "the branch that it continues is missing"
    if parent.branch == row.branch:
        return "it continues itself"
    if parent.tree != row.tree:
        return f"it continues branch {parent.uid} of another tree"
    if parent.fork >= row.fork:
        return f"it continues entry {row.fork} of branch {parent.uid}, which begins behind that"
    return None


def in_order(branches: Iterable[BranchRow]) -> list[BranchRow]:
    """Each behind the one that it continues, else oldest first: the same in whatever store they are.

    The numbers of branches tell nothing: of two, that of the younger one may be lower. Their names begin with
    the time at which they were made. One that is misplaced comes as if it continued nothing.
    """
    rows = {row.branch: row for row in branches}
    following: dict[int, list[tuple[str, int]]] = {}
    ready: list[tuple[str, int]] = []
    for row in rows.values():
        parent = rows.get(row.parent)
        if parent is None or misplaced(row, parent) is not None:
            ready.append((row.uid, row.branch))
        else:
            following.setdefault(row.parent, []).append((row.uid, row.branch))
    heapify(ready)
    ordered: list[BranchRow] = []
    while ready:
        _, number = heappop(ready)
        ordered.append(rows[number])
        for one in following.get(number, ()):
            heappush(ready, one)
    return ordered


def sound(branches: Iterable[BranchRow]) -> list[BranchRow]:
    """Those that lead to a beginning, in order: neither they nor what they continue is misplaced."""
    found: dict[int, BranchRow] = {}
    for row in in_order(branches):
        if misplaced(row, found.get(row.parent)) is None:
            found[row.branch] = row
    return list(found.values())
