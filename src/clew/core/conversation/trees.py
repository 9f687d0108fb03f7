"""The whole tree of a session, for drawing."""

from __future__ import annotations

from clew.backends.contract import Reader
from clew.core.conversation.branches import check_branches
from clew.core.conversation.checkpoints import list_checkpoints
from clew.core.log.rows import NOWHERE, SessionRow
from clew.model import Branch, Checkpoint, ForkPoint, Head, Tree


def tree(reader: Reader, row: SessionRow) -> Tree:
    """Each branch behind the one that it continues, else oldest first. CorruptError: where this session
    stands, or a branch of its own, leads to no beginning. Of others such are left out."""
    sessions = reader.tree_sessions(row.tree)  # first: the branches on which they stand are there
    stored = reader.tree_branches(row.tree)
    heads = {other.head.branch for other in sessions if other.sid == row.sid}
    own = {branch.branch for branch in stored if branch.owner == row.sid}
    found = check_branches(reader, stored, heads | own)
    uids = {0: "", **{branch.branch: branch.uid for branch in found}}
    relatives = [other for other in sessions if other.deleted is None and other.head.branch in uids]
    names = {other.sid: other.id for other in relatives}
    branches = []
    for branch in found:
        parent = Head(uids[branch.parent], branch.fork) if branch.parent else None
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
        {other.id: Head(uids[other.head.branch], other.head.position) for other in relatives},
        forks,
        tuple(sorted(points, key=lambda c: (c.created_at, c.session, c.name))),
    )
