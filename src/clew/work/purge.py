"""Removing for good what only one session reaches."""

from __future__ import annotations

from typing import Final

import msgspec
from uuid_utils import uuid7

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.rows import BranchRow, SessionQuery, SessionRow
from clew.here import Here
from clew.work.access import refuse_if_held
from clew.work.checking_records import points_of
from clew.work.history import note_name, removed_name
from clew.work.notices import forget
from clew.work.places import find, find_deleted
from clew.work.sessions import refuse_if_any_held

FILES: Final = "files"
"""Under this name it is noted that content of files may be left, of which the records are gone."""


def purge_id(tx: Transaction, id: str, here: Here, *, force: bool) -> bool:
    """Purge the session of this id, and what the trash holds under it; else the session of this alias,
    be it in the trash."""
    found = tx.find_session(id)
    if found is None and tx.find_deleted(id) is None:
        found = find(tx, id)
    if found is None:
        return purge_deleted(tx, id)
    if not force:
        refuse_if_held(tx, found, here)
    purge(tx, found)
    while (row := tx.find_deleted(found.id)) is not None:
        purge(tx, row)
    return True


def unscrubbed(reader: Reader) -> bytes | None:
    """The name of the last purge of which traces may be left, be it by this process or by a killed one."""
    return reader.get_record(STORE_WIDE, "unscrubbed", "")


def may_have_files(reader: Reader) -> bool:
    """Whether there is anything of files in the store, or may be, because a purge of some was cut off."""
    is_noted = reader.get_record(STORE_WIDE, "unscrubbed", FILES) is not None
    return is_noted or any(reader.scan_records(STORE_WIDE, kind, limit=1) for kind in ("snapshot", "restore"))


def scrubbed(tx: Transaction, purge: bytes) -> None:
    """No traces are left, unless somebody purged meanwhile."""
    if unscrubbed(tx) == purge:
        tx.drop_record(STORE_WIDE, "unscrubbed", "")


def purge_deleted(tx: Transaction, id: str) -> bool:
    """Purge what the trash holds under this id or alias, and nothing else; False if there was nothing."""
    row = find_deleted(tx, id)
    if row is None:
        return False
    while row is not None:
        purge(tx, row)
        row = tx.find_deleted(id)
    return True


def purge_everything(tx: Transaction, here: Here, *, force: bool) -> int:
    """Purge every session, those in the trash too; how many."""
    if not force:
        refuse_if_any_held(tx, here)
    count = 0
    for deleted in (False, True):
        while found := tx.list_sessions(SessionQuery(limit=1000, deleted=deleted)):
            for one in found:
                purge(tx, one.row)
            count += len(found)
    return count


def purge(tx: Transaction, row: SessionRow) -> None:
    """Remove a session, and the entries that no other session of its tree can come back to."""
    others = [other for other in tx.tree_sessions(row.tree) if other.sid != row.sid]
    branches = {branch.branch: branch for branch in tx.tree_branches(row.tree)}
    needed = _needed(tx, others, branches)
    for alias in tx.get_details(row.sid).aliases:
        if tx.get_record(STORE_WIDE, "alias", alias) == str(row.sid).encode():
            tx.drop_record(STORE_WIDE, "alias", alias)
    tx.put_record(STORE_WIDE, "unscrubbed", "", uuid7().hex.encode())
    forget(tx, row.sid)
    tx.drop_session(row.sid)
    if not others:
        tx.drop_record(STORE_WIDE, "retention", removed_name(row.tree))
    for branch in branches.values():
        last = needed.get(branch.branch, branch.fork)
        _drop_notes(tx, row.tree, branch.uid, last)
        tx.drop_entries(branch.branch, last)
        if branch.branch not in needed:
            tx.drop_branch(branch.branch)
        elif branch.owner == row.sid:
            tx.disown_branch(branch.branch)


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


def _drop_notes(tx: Transaction, tree: int, uid: str, last: int) -> None:
    """Remove the annotations of the entries of a branch behind a position."""
    from clew.work.notes import unlabel

    for name, value in tx.scan_records(STORE_WIDE, "annotation", note_name(uid, last + 1), f"{uid}/"):
        label = msgspec.json.decode(value).get("label")
        if label is not None:
            unlabel(tx, tree, label, name)
        tx.drop_record(STORE_WIDE, "annotation", name)
