"""One session of a tree, as a file of its own holds it: its branches, and of those of others what it needs.

The files of a family say the same of what they share. So each finds what the others brought, in whatever
order they come: a fork brings the part of its base that it needs, on branches that nobody owns yet, and the
base then adopts them and brings the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, RecordKind, Transaction
from clew.core.conversation.annotations import decode_label, drop_annotation, place_named, put_annotation
from clew.core.conversation.history import note_name, removed_name
from clew.core.conversation.points import check_branches
from clew.core.conversation.records import points_of
from clew.core.log.digest import ROOT
from clew.core.log.rows import NOWHERE, REMOVED, SessionRow
from clew.core.transfer.source import BranchImage, Records, TreeImage, fingerprint, read_session
from clew.errors import BranchMissingError

if TYPE_CHECKING:
    from clew.core.transfer.reconcile import Fit

# -- reading


def needed_branches(reader: Reader, row: SessionRow) -> Iterator[BranchImage]:
    """Its own branches whole, and those of others as far as it continues them or may come back to them.
    CorruptError: one of them leads to no beginning."""
    stored = reader.tree_branches(row.tree)
    rows = {branch.branch: branch for branch in stored}
    ends: dict[int, int] = {
        number: reader.last_position(number) for number, branch in rows.items() if branch.owner == row.sid
    }
    if row.head.branch and row.head.branch not in rows:
        raise BranchMissingError(row.head.branch)
    if row.grows:
        ends[row.head.branch] = row.head.position
    numbers = {branch.uid: number for number, branch in rows.items()}
    places = [(numbers.get(point.branch, 0), point.position) for point in points_of(reader, row.sid)]
    for number, position in ((row.head.branch, row.head.position), *places):
        if number in rows and rows[number].owner != row.sid:
            ends[number] = max(ends.get(number, -1), position)
    ordered = check_branches(reader, stored, ends)
    for branch in reversed(ordered):
        if branch.branch in ends and branch.parent and rows[branch.parent].owner != row.sid:
            ends[branch.parent] = max(ends.get(branch.parent, -1), branch.fork)
    for branch in ordered:
        if branch.branch in ends:
            parent = rows[branch.parent].uid if branch.parent else ""
            owner = row.sid if branch.owner == row.sid else 0
            last = ends[branch.branch]
            yield BranchImage(branch.branch, branch.uid, owner, parent, branch.fork, last, b"", 0)


def led_to(records: Records, branches: Iterable[BranchImage]) -> Records:
    """The records without what was noted at entries of others that do not go along."""
    ends = {branch.uid: branch.last for branch in branches}

    def goes(kind: RecordKind, name: str) -> bool:
        if kind != "annotation":
            return True
        head = place_named(name)
        return head.position <= ends.get(head.branch, -1)

    return {(kind, name): value for (kind, name), value in records.items() if goes(kind, name)}


def read_part(reader: Reader, row: SessionRow) -> TreeImage:
    """A session of a store, as its file would tell of it."""
    removed = reader.get_record(STORE_WIDE, "retention", removed_name(row.tree)) is not None
    branches = []
    for branch in needed_branches(reader, row):
        tip = reader.get_tip(branch.number, branch.last) if branch.last > NOWHERE else None
        gone = 0
        if removed:
            gone = reader.count_entries(branch.number, branch.fork + 1, branch.last, REMOVED)
        digest = ROOT if tip is None else tip.digest
        branches.append(msgspec.structs.replace(branch, digest=digest, removed=gone))
    session = read_session(reader, row, {branch.number: branch.uid for branch in branches})
    session = msgspec.structs.replace(session, records=led_to(session.records, branches))
    own = [branch for branch in branches if branch.owner]
    notes = {name: value for branch in own for name, value in _notes_of(reader, branch)}
    return TreeImage(row.tree, (session,), tuple(branches), notes, {}, removed, is_part=True)


def _notes_of(reader: Reader, branch: BranchImage) -> Iterator[tuple[str, bytes]]:
    first, last = note_name(branch.uid, 0), note_name(branch.uid, max(branch.last, 0))
    return iter(reader.scan_records(STORE_WIDE, "annotation", first, last))


def fingerprint_of_part(image: TreeImage) -> str:
    """The same for the same session in any store, whatever became of its relatives there."""
    own = {branch.uid for branch in image.branches if branch.owner}
    sessions = tuple(
        msgspec.structs.replace(one, row=msgspec.structs.replace(one.row, grows=False))
        for one in image.sessions
    )
    notes = {name: value for name, value in image.notes.items() if _branch_in(name) in own}
    return fingerprint(msgspec.structs.replace(image, sessions=sessions, notes=notes, removed=False))


def fingerprint_there(reader: Reader, sid: int) -> str:
    row = reader.get_session(sid)
    return "" if row is None else fingerprint_of_part(read_part(reader, row))


def _branch_in(place: str) -> str:
    return place.rpartition(".")[0]


# -- writing


def longer_branches(reader: Reader, image: TreeImage, found: Fit) -> set[int]:
    """Sessions whose branches the file continues: they are older here."""
    sids = {0, *found.sids.values()}
    owners = set()
    for branch in image.branches:
        number, last = found.branches.get(branch.uid, (0, NOWHERE))
        if number and max(last, branch.fork) < branch.last:
            owners.add(reader.get_branch(number).owner)
    return owners - sids


def adopt_branches(tx: Transaction, image: TreeImage, found: Fit, sid: int) -> None:
    """Give the session those of its branches that a relative brought."""
    for branch in image.branches:
        number, _ = found.branches.get(branch.uid, (0, NOWHERE))
        if number and branch.owner and tx.get_branch(number).owner == 0:
            tx.adopt_branch(number, sid)


def base_of(reader: Reader, tree: int, id: str) -> int:
    """The number of the session of this tree that has an id; 0: it is not there."""
    return next((row.sid for row in reader.tree_sessions(tree) if row.id == id), 0)


def link_forks(tx: Transaction, tree: int, sid: int, id: str) -> None:
    """Forks that came before their base learn of it."""
    for row in tx.tree_sessions(tree):
        details = tx.get_details(row.sid)
        origin = details.origin
        if row.sid != sid and origin is not None and not origin.sid and origin.session == id:
            known = msgspec.structs.replace(origin, sid=sid)
            tx.set_details(row.sid, msgspec.structs.replace(details, origin=known))


def put_notes_of_part(tx: Transaction, image: TreeImage, tree: int) -> None:
    """What came with the entries of the session, and with those of a base that is not here. A session that is
    here has its own. What this one noted is among its records."""
    own = [branch for branch in image.branches if branch.owner]
    mine = {branch.uid for branch in own}
    open_to_all = mine | {branch.uid for branch in image.branches if not _has_owner(tx, branch.uid)}
    for name, value in image.notes.items():
        before = tx.get_record(STORE_WIDE, "annotation", name)
        if before != value and _branch_in(name) in (mine if before is not None else open_to_all):
            put_annotation(tx, STORE_WIDE, name, value, before=before)
    for branch in own:
        for name, value in list(_notes_of(tx, branch)):
            if name not in image.notes:
                drop_annotation(tx, STORE_WIDE, name, value)
    for label in _labels(tx, tree, image.labels):
        _put_label(tx, image, tree, label, mine, open_to_all)


def _has_owner(reader: Reader, uid: str) -> bool:
    branch = reader.find_branch(uid)
    return branch is not None and branch.owner != 0


def _labels(tx: Transaction, tree: int, labels: Collection[str]) -> list[str]:
    first = f"{tree}:"
    there = (name for name, _ in tx.scan_records(STORE_WIDE, "label", first, first + "\U0010ffff"))
    return sorted({*labels, *(name.removeprefix(first) for name in there)})


def _put_label(
    tx: Transaction,
    image: TreeImage,
    tree: int,
    label: str,
    mine: Collection[str],
    open_to_all: Collection[str],
) -> None:
    """The places that bear it in the file, and here those that are not the session's own."""
    name = f"{tree}:{label}"
    value, old = image.labels.get(label), tx.get_record(STORE_WIDE, "label", name)
    others = [place for place in decode_label(old or b"[]") if _branch_in(place) not in mine]
    told = (place for place in decode_label(value or b"[]") if _branch_in(place) in open_to_all)
    places = sorted({*others, *told})
    if not places:
        tx.drop_record(STORE_WIDE, "label", name)
    elif (raw := msgspec.json.encode(places)) != old:
        tx.put_record(STORE_WIDE, "label", name, raw)
