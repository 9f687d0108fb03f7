"""From the name of a session or a point to a place in the tree of branches."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from clew.backends.contract import STORE_WIDE, Reader
from clew.backends.rows import wanted
from clew.core.log.ids import MAX_POSITION, is_id, parse_entry_id
from clew.core.log.records import PARENT, number_in
from clew.core.log.rows import EMPTY, NOWHERE, BranchRow, HeadRow, Listed, SessionQuery, SessionRow
from clew.core.log.tree import MisplacedError, Paths, Segment, locate, misplaced, path, sound
from clew.errors import BranchMissingError, CheckpointNotFoundError, CorruptError, EntryNotFoundError
from clew.model import Checkpoint, Entry, Head

# ── What a misplaced branch costs: itself, and what continues it ──────────────────────────────────


def check_branches(
    reader: Reader, branches: Collection[BranchRow], needed: Iterable[int] | None = None
) -> list[BranchRow]:
    """All branches of a tree that lead to a beginning, each behind the one that it continues, else oldest
    first. CorruptError: one of those that are needed does not; `needed` None: all are."""
    found = sound(branches)
    rows = {0: None, **{row.branch: row for row in branches}}
    lost = (rows.keys() if needed is None else set(needed)) - {0, *(row.branch for row in found)}
    if lost:
        row = rows.get(min(lost))
        raise BranchMissingError(min(lost)) if row is None else misplaced_error(reader, row)
    return found


def paths_of(reader: Reader, tree: int, needed: Iterable[int] | None = None) -> Paths:
    """All paths of a tree, but those through misplaced branches. CorruptError: as above."""
    return Paths(check_branches(reader, reader.tree_branches(tree), needed))


def misplaced_error(reader: Reader, row: BranchRow) -> CorruptError:
    """Names the branch that is misplaced: this one, or one that it continues."""
    seen: set[int] = set()
    wrong: str | None = None
    while wrong is None and row.branch not in seen:
        seen.add(row.branch)
        parent = find_row(reader, row.parent)
        wrong = misplaced(row, parent)
        row = row if wrong is not None or parent is None else parent
    owner = reader.get_session(row.owner) if row.owner else None
    whose = f" of session {owner.id!r}" if owner is not None else ""
    return CorruptError(
        f"branch {row.uid}{whose} is damaged: {wrong}; clew verify lists what is wrong, "
        "clew repair saves what can be read"
    )


def find_row(reader: Reader, branch: int) -> BranchRow | None:
    try:
        return reader.get_branch(branch) if branch else None
    except BranchMissingError:
        return None


# ── Finding sessions, and places in their trees ───────────────────────────────────────────────────

Point: TypeAlias = Checkpoint | Entry | Head | str | int
"""A place on a path: a checkpoint or its name, an entry or its id, a head, or a position."""


def find(reader: Reader, id: str) -> SessionRow | None:
    """The session of this id, or else of this alias."""
    row = reader.find_session(id)
    if row is None:
        sid = reader.get_record(STORE_WIDE, "alias", id)
        row = reader.get_session(number_in(sid, f"the alias {id!r}")) if sid else None
        if row is not None and row.deleted is not None:
            return None
    return row


def find_deleted(reader: Reader, id: str) -> SessionRow | None:
    """The session in the trash of this id, the one deleted last; or else of this alias."""
    row = reader.find_session(id, deleted=True)
    if row is None and reader.find_session(id) is None:
        sid = reader.get_record(STORE_WIDE, "alias", id)
        row = reader.get_session(number_in(sid, f"the alias {id!r}")) if sid else None
        if row is not None and row.deleted is None:
            return None
    return row


def subagents_of(reader: Reader, id: str, *, deleted: Sequence[bool] = (False,)) -> list[Listed]:
    """The subagents of a session, and theirs, parents first; newest activity first in each. `deleted`: False
    for those in use, True for those in the trash, or both."""
    found: dict[int, Listed] = {}
    seen = {id}
    waiting = [id]
    while waiting:
        where = wanted({PARENT: waiting.pop(0)})
        for is_deleted in deleted:
            for one in reader.list_sessions(SessionQuery(limit=2**31, where=where, deleted=is_deleted)):
                if one.row.id != id:
                    found.setdefault(one.row.sid, one)
                if one.row.id not in seen:
                    seen.add(one.row.id)
                    waiting.append(one.row.id)
    return list(found.values())


def head_of(reader: Reader, tip: HeadRow) -> Head:
    return Head(reader.get_branch(tip.branch).uid if tip.branch else "", tip.position)


def path_of(reader: Reader, tip: HeadRow) -> list[Segment]:
    """The path to a place, root first. CorruptError names a branch that is missing or misplaced."""
    return path_to(reader, tip.branch, tip.position)


def path_to(reader: Reader, branch: int, position: int) -> list[Segment]:
    try:
        return path(branch, position, reader.get_branch)
    except MisplacedError as exc:
        raise misplaced_error(reader, exc.row) from exc


def tip_at(reader: Reader, branch: int, position: int) -> HeadRow:
    """The place of an entry, with its counters."""
    if not branch:
        return EMPTY
    tip = reader.get_tip(branch, position)
    if tip is None:
        raise CorruptError(f"entry {position} of branch {reader.get_branch(branch).uid} is missing")
    return tip


def tip_before(reader: Reader, segments: Sequence[Segment], position: int) -> HeadRow:
    """The place just before a position of a path."""
    return tip_at(reader, locate(segments, position - 1), position - 1)


def resolve(reader: Reader, row: SessionRow, point: Point) -> tuple[int, int]:
    """(branch, position) of a point in the tree of a session; (0, -1) is the empty beginning."""
    from clew.core.conversation.checkpoints import find_checkpoint  # the two need each other

    place: Head | None = None
    match point:
        case bool():
            pass
        case int():
            branch = locate(path_of(reader, row.head), point) if point >= 0 else 0
            if branch:
                return branch, point
        case Checkpoint() | Head():
            place = point.head if isinstance(point, Checkpoint) else point
        case Entry():
            place = parse_entry_id(point.id)
        case str() if is_id(point):
            checkpoint = find_checkpoint(reader, row, point)
            place = checkpoint.head if checkpoint else parse_entry_id(point)
    if place == Head("", NOWHERE):
        return 0, NOWHERE
    if place is not None and is_id(place.branch) and 0 <= place.position <= MAX_POSITION:
        found = reader.find_branch(place.branch)
        if found is not None and found.tree == row.tree and reader.get_tip(found.branch, place.position):
            return found.branch, place.position
    raise CheckpointNotFoundError(row.id, point)


def position_on_path(reader: Reader, row: SessionRow, point: Point) -> int:
    """The position of a point that must lie on the session's path."""
    try:
        branch, position = resolve(reader, row, point)
    except CheckpointNotFoundError as exc:
        raise EntryNotFoundError(row.id, point) from exc
    if branch and locate(path_of(reader, row.head), position) != branch:
        raise EntryNotFoundError(row.id, point)
    return position
