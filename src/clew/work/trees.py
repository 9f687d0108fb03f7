"""The whole tree of a session, for drawing."""

from __future__ import annotations

from clew.backends.contract import Reader
from clew.core.rows import NOWHERE, SessionRow
from clew.model import Branch, Checkpoint, ForkPoint, Head, Tree
from clew.work.checkpoints import list_checkpoints
from clew.work.places import head_of


def tree(reader: Reader, row: SessionRow) -> Tree:
    relatives = [other for other in reader.tree_sessions(row.tree) if other.deleted is None]
    names = {other.sid: other.id for other in relatives}
    branches = []
    for branch in reader.tree_branches(row.tree):
        parent = Head(reader.get_branch(branch.parent).uid, branch.fork) if branch.parent else None
        last = reader.last_position(branch.branch)
        if last != NOWHERE:
            branches.append(Branch(branch.uid, names.get(branch.owner), parent, branch.fork + 1, last))
    forks: dict[str, ForkPoint] = {}
    points: list[Checkpoint] = []
    for other in relatives:
        origin = reader.get_details(other.sid).origin
        if origin is not None:
            forks[other.id] = ForkPoint(origin.session, Head(origin.uid, origin.position))
        points += list_checkpoints(reader, other)
    return Tree(
        row.id,
        tuple(branches),
        {other.id: head_of(reader, other.head) for other in relatives},
        forks,
        tuple(sorted(points, key=lambda c: (c.created_at, c.session, c.name))),
    )
