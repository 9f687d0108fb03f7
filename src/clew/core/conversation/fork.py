"""Forks: a second session that shares everything before a point, the tree of such sessions, and where two
paths part."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.backends.rows import wanted
from clew.core.conversation.annotations import copy_annotations
from clew.core.conversation.checkpoints import copy_checkpoints, list_checkpoints, newest_snapshot
from clew.core.conversation.moves import preview_at, title_at
from clew.core.conversation.points import (
    Point,
    check_branches,
    find,
    head_of,
    path_of,
    resolve,
    tip_at,
    tip_before,
)
from clew.core.conversation.sessions import check_free
from clew.core.log.ids import check_id, entry_id
from clew.core.log.records import PARENT, STARRED
from clew.core.log.rows import NOWHERE, PENDING, ForkOrigin, SessionQuery, SessionRow
from clew.core.log.tree import Segment, locate
from clew.core.runs.access import Access, require_write_beside
from clew.errors import InvalidError
from clew.model import Branch, Checkpoint, CommonPart, ComparedPath, Comparison, ForkPoint, Head, Tree

MOST_CHILDREN: Final = 1000
"""Subagents that a tree names."""

# ── Making a fork ─────────────────────────────────────────────────────────────────────────────────
# A second session that shares everything before a point. Its row, checkpoints and variables are copied, and
# what the base noted at the entries before that point.


def _keeps_title(base: SessionRow, at: Point | None) -> bool:
    """Whether the title of a fork is that of its base, which need not be looked up on its path: it was given,
    or the base has never left the path that it is taken from."""
    return base.has_title or base.title is None or (at is None and not base.moves)


ForkedCheckpoints: TypeAlias = Literal["path", "all"]
"""Which checkpoints a fork takes along: those on the path to where it begins, or all of its base."""


def check_checkpoints(given: ForkedCheckpoints) -> ForkedCheckpoints:
    if given not in get_args(ForkedCheckpoints):
        raise InvalidError(f"checkpoints is 'path' or 'all', not {given!r}")
    return given


def _next_id(reader: Reader, base: SessionRow) -> tuple[int, str]:
    """The number and the id of the next fork that is not named."""
    forks = base.forks + 1
    while find(reader, f"{base.id}#fork-{forks}") is not None:
        forks += 1
    return forks, check_id(f"{base.id}#fork-{forks}")


def new_fork_id(tx: Transaction, access: Access) -> str:
    """Count as if a fork was made."""
    base = require_write_beside(tx, access)
    forks, id = _next_id(tx, base)
    tx.set_session(msgspec.structs.replace(base, forks=forks))
    return id


def fork(
    tx: Transaction,
    access: Access,
    new_id: str | None,
    at: Point | None,
    now: int,
    *,
    checkpoints: ForkedCheckpoints = "path",
) -> SessionRow:
    base = require_write_beside(tx, access)
    tip = base.head if at is None else tip_at(tx, *resolve(tx, base, at))
    forks = base.forks
    if new_id is None:
        forks, new_id = _next_id(tx, base)
    else:
        check_free(tx, new_id)
    details = tx.get_details(base.sid)
    origin = ForkOrigin(base.sid, base.id, tip.branch, head_of(tx, tip).branch, tip.position)
    row = msgspec.structs.replace(
        base,
        id=new_id,
        created=now,
        updated=now,
        head=tip,
        grows=False,
        title=base.title if _keeps_title(base, at) else title_at(tx, tip),
        preview=base.preview if at is None else preview_at(tx, tip),
        moves=0,
        undo=0,
        redo=0,
        forks=0,
        status=PENDING,
        epoch=0,
        fence=0,
        due=0,
    )
    if forks != base.forks:
        tx.set_session(msgspec.structs.replace(base, forks=forks))
    tags = tuple(tag for tag in details.tags if tag != STARRED)
    details = msgspec.structs.replace(details, aliases=(), tags=tags, origin=origin, agent=None)
    new_sid = tx.add_session(row, details)
    for name, value in tx.scan_records(base.sid, "var"):
        tx.put_record(new_sid, "var", name, value)
    copy_annotations(tx, base.sid, new_sid, tip)
    copy_checkpoints(tx, base.sid, new_sid, tip if checkpoints == "path" else None)
    return msgspec.structs.replace(row, sid=new_sid)


# ── The whole tree of a session, for drawing ──────────────────────────────────────────────────────


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
        _children(reader, row.id),
    )


def _children(reader: Reader, id: str) -> dict[str, str]:
    """Subagents, and those that they started, as far as there are not too many."""
    found: dict[str, str] = {}
    waiting = [id]
    while waiting and len(found) < MOST_CHILDREN:
        parent = waiting.pop(0)
        query = SessionQuery(limit=MOST_CHILDREN, where=wanted({PARENT: parent}))
        listed = sorted(reader.list_sessions(query), key=lambda one: (one.row.created, one.row.id))
        fresh = [one.row.id for one in listed if one.row.id not in found and one.row.id != id]
        found |= dict.fromkeys(fresh, parent)
        waiting += fresh
    return found


# ── Where two paths part ──────────────────────────────────────────────────────────────────────────
# The hash of an entry stands for all before it: so copies in other trees are recognised too.


class _Path(NamedTuple):
    row: SessionRow
    """The session as if it stood where the path ends."""
    segments: list[Segment]


def compare(reader: Reader, a: SessionRow, b: SessionRow) -> Comparison:
    """The paths to where two sessions stand. Takes about as many reads as the length of the path has bits."""
    one, other = (_Path(row, path_of(reader, row.head)) for row in (a, b))
    position = _last_shared(reader, one, other)
    return Comparison(
        a=_told(reader, one, position),
        b=_told(reader, other, position),
        common=CommonPart(position=position, id=_id(reader, one, position), entries=position + 1),
        same=a.head.digest == b.head.digest,
    )


def _last_shared(reader: Reader, a: _Path, b: _Path) -> int:
    """The last position at which both paths have the same entry; -1: there is none. Where they have, all
    before it is the same."""
    low, high = -1, min(a.row.head.position, b.row.head.position)
    while low < high:
        middle = (low + high + 1) // 2
        if _digest(reader, a, middle) == _digest(reader, b, middle):
            low = middle
        else:
            high = middle - 1
    return low


def _digest(reader: Reader, path: _Path, position: int) -> bytes:
    return tip_before(reader, path.segments, position + 1).digest


def _told(reader: Reader, path: _Path, position: int) -> ComparedPath:
    row = path.row
    return ComparedPath(
        session=row.id,
        title=row.title,
        head=head_of(reader, row.head),
        shared=_id(reader, path, position),
        entries_after=row.head.position - position,
        snapshot=newest_snapshot(reader, row),
    )


def _id(reader: Reader, path: _Path, position: int) -> str | None:
    if position < 0:
        return None
    return entry_id(reader.get_branch(locate(path.segments, position)).uid, position)
