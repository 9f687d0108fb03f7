"""Where a place is: which entry a point names, and which entries lie before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import clew
from clew.core.log.ids import parse_entry_id
from clew.errors import CheckpointNotFoundError


def place_of(session: clew.Session, point: clew.Head | str | int) -> clew.Head:
    """The head that a rewind to this point would give."""
    if isinstance(point, clew.Head):
        return point
    tree = session.tree()
    if isinstance(point, int):
        for branch, first, last in path_to(tree, tree.heads[session.id]):
            if first <= point <= last:
                return clew.Head(branch, point)
        raise CheckpointNotFoundError(session.id, point)
    named = next((one for one in session.checkpoints() if one.name == point), None)
    place = named.head if named else parse_entry_id(point)
    if place is not None and any(one.id == place.branch for one in tree.branches):
        branch_of = next(one for one in tree.branches if one.id == place.branch)
        if branch_of.first <= place.position <= branch_of.last:
            return place
    if named and named.head.position < 0:
        return named.head
    raise CheckpointNotFoundError(session.id, point)


def path_to(tree: clew.Tree, head: clew.Head) -> list[tuple[str, int, int]]:
    """The runs of entries that lead to a place: branch, first and last position; oldest first."""
    branches = {branch.id: branch for branch in tree.branches}
    found = []
    place: clew.Head | None = head
    while place is not None and place.branch in branches:  # a tree has no rings: `tree()` leaves them out
        branch = branches[place.branch]
        found.append((branch.id, branch.first, place.position))
        place = branch.parent
    return found[::-1]


def is_on_path(tree: clew.Tree, place: clew.Head) -> bool:
    """Whether the session that was asked stands behind this place, or at it."""
    return any(
        branch == place.branch and first <= place.position <= last
        for branch, first, last in path_to(tree, tree.heads[tree.session])
    )


def reached(heads: Iterable[clew.Head], tree: clew.Tree) -> dict[str, int]:
    """For each branch the last position that lies on the path to one of these heads. Each branch is looked at
    as often as it is left in another place, not once for every head."""
    parents = {branch.id: branch.parent for branch in tree.branches}
    found: dict[str, int] = {}
    for head in heads:
        place: clew.Head | None = head
        while place is not None and place.branch in parents and found.get(place.branch, -1) < place.position:
            is_new = place.branch not in found
            found[place.branch] = place.position
            place = parents[place.branch] if is_new else None
    return found


def path_ids(tree: clew.Tree, place: clew.Head) -> Iterator[str]:
    """The ids of all entries that lead to a place, oldest first."""
    for branch, first, last in path_to(tree, place):
        for position in range(first, last + 1):
            yield f"{branch}.{position}"
