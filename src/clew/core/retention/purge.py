"""Removing for good what only one session reaches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from uuid_utils import uuid7

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.conversation.annotations import (
    drop_annotation,
    drop_annotations,
    drop_notes,
    place_named,
)
from clew.core.conversation.history import removed_name
from clew.core.conversation.leftovers import leave
from clew.core.conversation.points import find, find_deleted, subagents_of
from clew.core.conversation.records import points_of
from clew.core.conversation.sessions import refuse_if_any_held
from clew.core.engine.host import Host
from clew.core.engine.notices import forget
from clew.core.log.checks import STANDS_FOR_ID
from clew.core.log.records import COPY, PURGED, purged_name
from clew.core.log.rows import NOWHERE, BranchRow, SessionQuery, SessionRow
from clew.core.runs.access import refuse_if_held
from clew.errors import CorruptError, CorruptSessionError

FILES: Final = "files"
"""Under this name it is noted that content of files may be left, of which the records are gone."""
AT_ONCE: Final = 1000


def purge_id(tx: Transaction, id: str, host: Host, *, force: bool) -> bool:
    """Purge the session of this id, and what the trash holds under it; else the session of this alias,
    be it in the trash. Those that are damaged go too, and so do subagents, be they in the trash or not."""
    was_damaged = _purge_damaged(tx, id)
    found = tx.find_session(id)
    if found is None and tx.find_session(id, deleted=True) is None and not was_damaged:
        found = find(tx, id)
    gone = find_deleted(tx, id) if found is None else None
    main = found or gone
    family = subagents_of(tx, id if main is None else main.id, deleted=(False, True))
    for row in [] if force else [*([] if found is None else [found]), *(one.row for one in family)]:
        if row.deleted is None:
            refuse_if_held(tx, row, host)
    if main is None:
        _purge_rows(tx, (one.row.sid for one in family if was_damaged))
        return was_damaged
    if found is not None:
        purge(tx, found)
    _purge_trashed(tx, main.id)
    _purge_rows(tx, (one.row.sid for one in family))
    return True


def _purge_trashed(tx: Transaction, id: str) -> None:
    while (row := tx.find_session(id, deleted=True)) is not None:
        purge(tx, row)


def _purge_rows(tx: Transaction, sids: Iterable[int]) -> None:
    for sid in sids:
        row = tx.get_session(sid)
        if row is not None:
            purge(tx, row)


def unscrubbed(reader: Reader) -> bytes | None:
    """The name of the last purge of which traces may be left, be it by this process or by a killed one."""
    return reader.get_record(STORE_WIDE, "unscrubbed", "")


def may_have_files(reader: Reader) -> bool:
    """Whether there is anything of files in the store, or may be, because a purge of some was cut off."""
    is_noted = reader.get_record(STORE_WIDE, "unscrubbed", FILES) is not None
    return is_noted or any(reader.scan_records(STORE_WIDE, kind, limit=1) for kind in ("snapshot", "restore"))


def scrubbed(tx: Transaction, purge: bytes) -> None:
    """Traces are left only if another process purged meanwhile."""
    if unscrubbed(tx) == purge:
        tx.drop_record(STORE_WIDE, "unscrubbed", "")


def purge_deleted(tx: Transaction, id: str) -> bool:
    """Purge what the trash holds under this id or alias; False if there was nothing. Its subagents in the
    trash go along, unless a session of this id is in use: they may be that one's."""
    row = find_deleted(tx, id)
    if row is None:
        return False
    is_in_use = tx.find_session(row.id) is not None
    family = [] if is_in_use else subagents_of(tx, row.id, deleted=(False, True))
    purge(tx, row)
    _purge_trashed(tx, row.id)
    _purge_rows(tx, (one.row.sid for one in family if one.row.deleted is not None))
    return True


def purge_everything(tx: Transaction, host: Host, *, force: bool) -> int:
    """Purge every session, those in the trash too; how many."""
    if not force:
        refuse_if_any_held(tx, host)
    damaged = tx.damaged_sessions()
    for bad in damaged:
        _remove_damaged(tx, bad.row)
    count = len(damaged)
    trees: dict[int, None] = {}
    for deleted in (False, True):
        while found := tx.list_sessions(SessionQuery(limit=AT_ONCE, deleted=deleted)):
            for one in found:
                _remove(tx, one.row.sid, one.details.aliases, one.row.id)
                trees[one.row.tree] = None
            count += len(found)
    for tree in trees:
        _leave(tx, tree)
    for name, _ in tx.scan_records(STORE_WIDE, "source", PURGED, PURGED + "\U0010ffff"):
        tx.drop_record(STORE_WIDE, "source", name)  # an empty store begins anew
    return count


def purge(tx: Transaction, row: SessionRow) -> None:
    """Remove a session, and the entries that no other session of its tree can come back to. If it is the last
    one of its tree, they are gone when `remove_leftovers` returns."""
    others = [other for other in _relatives(tx, row) if other.sid != row.sid]
    branches = {branch.branch: branch for branch in tx.tree_branches(row.tree)}
    needed = _needed(tx, others, branches)
    _remove(tx, row.sid, tx.get_details(row.sid).aliases, row.id)
    if not others:
        _leave(tx, row.tree)
        return
    _drop_annotations_of(tx, others, branches, needed)
    for branch in branches.values():
        _cut(tx, row, branch, needed)


def _leave(tx: Transaction, tree: int) -> None:
    """No session of a tree is left: so its entries need not all go in this transaction."""
    tx.drop_record(STORE_WIDE, "retention", removed_name(tree))
    leave(tx, tree)


def _cut(tx: Transaction, row: SessionRow, branch: BranchRow, needed: dict[int, int]) -> None:
    """Remove the entries of a branch that no session needs, now that one session is gone."""
    last = needed.get(branch.branch, branch.fork)
    drop_annotations(tx, row.tree, branch.uid, last)
    tx.drop_entries(branch.branch, last)
    if branch.branch not in needed:
        tx.drop_branch(branch.branch)
    elif branch.owner == row.sid:
        tx.disown_branch(branch.branch)


def _drop_annotations_of(
    tx: Transaction, others: list[SessionRow], branches: dict[int, BranchRow], needed: dict[int, int]
) -> None:
    """Remove what the others noted at entries that none of them needs."""
    ends = {branch.uid: needed.get(branch.branch, branch.fork) for branch in branches.values()}
    for other in others:
        for name, value in tx.scan_records(other.sid, "annotation"):
            try:
                head = place_named(name)
            except CorruptError:
                continue
            if head.position > ends.get(head.branch, head.position):
                drop_annotation(tx, other.sid, name, value)


def _relatives(tx: Transaction, row: SessionRow) -> list[SessionRow]:
    try:
        return tx.tree_sessions(row.tree)
    except CorruptSessionError as error:
        if error.session == row.id:
            raise
        raise CorruptError(
            f"session {row.id!r} cannot be purged: it shares a history with session {error.session!r}, "
            f"which is damaged ({error.reason}), so it is unknown which entries that session needs. "
            f"Purge {error.session!r} first, or save both by `clew repair`"
        ) from error


def _remove(tx: Transaction, sid: int, aliases: Iterable[str], id: str | None) -> None:
    for alias in aliases:
        if tx.get_record(STORE_WIDE, "alias", alias) == str(sid).encode():
            tx.drop_record(STORE_WIDE, "alias", alias)
    _forget_sources(tx, sid, id)
    tx.put_record(STORE_WIDE, "unscrubbed", "", uuid7().hex.encode())
    forget(tx, sid)
    drop_notes(tx, sid)
    tx.drop_session(sid)


def _forget_sources(tx: Transaction, sid: int, id: str | None) -> None:
    """The records of the files that it was imported from name it. Without one, a file is read again: so a
    mark, from which the id cannot be read, says that it is not to come back unasked."""
    found = tx.scan_records(sid, "source")
    for name, _ in found:
        tx.drop_record(STORE_WIDE, "source", name)
    if id is not None and any(not name.startswith(COPY) for name, _ in found):
        tx.put_record(STORE_WIDE, "source", purged_name(id), b"")


def _needed(tx: Transaction, others: list[SessionRow], branches: dict[int, BranchRow]) -> dict[int, int]:
    """For each branch that the others need: the last position that they need of it."""
    by_uid = {branch.uid: branch.branch for branch in branches.values()}
    needed: dict[int, int] = {}

    def need(branch: int, position: int) -> None:
        while branch in branches and position >= 0 and needed.get(branch, -1) < position:
            needed[branch] = position
            branch, position = branches[branch].parent, branches[branch].fork

    sids = {other.sid for other in others}
    for branch in branches.values():
        if branch.owner in sids:
            need(branch.branch, tx.last_position(branch.branch))
    for other in others:
        need(other.head.branch, other.head.position)
        for head in points_of(tx, other.sid):
            need(by_uid.get(head.branch, 0), head.position)
    return needed


# -- what is damaged


def _purge_damaged(tx: Transaction, id: str) -> bool:
    """Purge the sessions of this id that cannot be read; False if there were none."""
    if not _is_damaged(tx, id):
        return False
    damaged = [bad.row for bad in tx.damaged_sessions() if bad.row.id == id]
    for row in damaged:
        _remove_damaged(tx, row)
    return bool(damaged)


def _is_damaged(tx: Transaction, id: str) -> bool:
    """Whether it is worth a look at every session."""
    try:
        for row in (tx.find_session(id), tx.find_session(id, deleted=True)):
            if row is not None:
                tx.get_details(row.sid)
                tx.tree_sessions(row.tree)
                tx.tree_branches(row.tree)
    except CorruptError:
        return True
    return id.startswith(STANDS_FOR_ID)


def _remove_damaged(tx: Transaction, row: SessionRow) -> None:
    """Remove a session whose row is damaged. Entries that other sessions of its tree may need stay,
    without an owner: else they would be taken for a session that lost its row."""
    mine = str(row.sid).encode()
    own = tx.branch_numbers(row.sid, 0)
    of_tree = tx.branch_numbers(row.sid, row.tree)
    aliases = [name for name, value in tx.scan_records(STORE_WIDE, "alias") if value == mine]
    _remove(tx, row.sid, aliases, None)  # its file may bring it back whole
    try:
        others = tx.tree_sessions(row.tree)
        branches = {branch.branch: branch for branch in tx.tree_branches(row.tree)}
        needed = _needed(tx, others, branches)
    except CorruptError:
        for branch in own:
            tx.disown_branch(branch)
        return
    if not others:
        leave(tx, row.tree)
        for branch in set(of_tree).difference(branches):
            tx.drop_entries(branch, NOWHERE)
            tx.drop_branch(branch)
        return
    _drop_annotations_of(tx, others, branches, needed)
    for branch in own:
        if branch not in branches:
            tx.disown_branch(branch)
        else:
            _cut(tx, row, branches[branch], needed)
