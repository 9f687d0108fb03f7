"""What a misplaced branch costs: itself, and what continues it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from clew.backends.contract import Reader
from clew.core.log.rows import BranchRow
from clew.core.log.tree import Paths, misplaced, sound
from clew.errors import BranchMissingError, CorruptError


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
