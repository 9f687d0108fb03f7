"""A tree of sessions as a value that means the same in every store.

`sid`, `tree` and the numbers of branches are a backend's own. Here sessions know their branches by uid,
so the image of a tree and that of its copy are equal, and so are their fingerprints.

An image holds no entries, events or calls, only where they end: those are read in pages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from blake3 import blake3

from clew.backends.contract import STORE_WIDE, Reader, RecordKind
from clew.core.check.scan import scan
from clew.core.conversation.annotations import decode_label
from clew.core.conversation.history import decode_note, note_name, removed_name
from clew.core.conversation.points import check_branches
from clew.core.conversation.references import places_named
from clew.core.log import checks
from clew.core.log.digest import ROOT
from clew.core.log.records import number_in
from clew.core.log.rows import INTERRUPTED, REMOVED, RUNNING, BranchRow, Details, ForkOrigin, SessionRow
from clew.core.runs.status import Change
from clew.errors import CorruptError, CorruptSessionError

KINDS: Final[tuple[RecordKind, ...]] = (
    "checkpoint", "document", "key", "move", "run", "status", "var",
)  # fmt: skip
"""Records of a session that go with it. A lease does not: no worker works on a copy."""
BY: Final = "clew copy"

Records = dict[tuple[RecordKind, str], bytes]

_pack = msgspec.msgpack.Encoder(order="deterministic").encode
_encode = msgspec.json.Encoder().encode


class BranchImage(msgspec.Struct, frozen=True):
    number: int
    """In the store that it was read from; no part of what is compared."""
    uid: str
    owner: int
    """The sid there; 0: none."""
    parent: str
    """Its uid; empty: the root."""
    fork: int
    last: int
    digest: bytes
    removed: int
    """Entries that lost their content."""


class SessionImage(msgspec.Struct, frozen=True):
    row: SessionRow
    """Without lease. Its head names a branch of the store that it was read from."""
    head: str
    """The uid of that branch; empty: the beginning."""
    details: Details
    aliases: tuple[str, ...]
    """Those that lead to it."""
    records: Records
    events: tuple[int, int]
    calls: int
    """The number of the last call."""


class TreeImage(msgspec.Struct, frozen=True):
    tree: int
    sessions: tuple[SessionImage, ...]
    """Oldest first, those in the trash too."""
    branches: tuple[BranchImage, ...]
    """Each behind the one that it continues, else oldest first."""
    notes: dict[str, bytes]
    labels: dict[str, bytes]
    removed: bool
    """A retention rule took messages away."""


def read_image(reader: Reader, tree: int, wanted: Collection[int] | None = None) -> TreeImage:
    """`wanted`: only these sessions, and the branches that they own, or that have no owner. CorruptError: one
    of these branches leads to no beginning."""
    rows = [row for row in reader.tree_sessions(tree) if wanted is None or row.sid in wanted]
    stored = reader.tree_branches(tree)
    removed = reader.get_record(STORE_WIDE, "retention", removed_name(tree)) is not None
    mine = {branch.branch for branch in stored if wanted is None or branch.owner in (0, *wanted)}
    ordered = check_branches(reader, stored, mine)
    branches = tuple(_read_branches(reader, ordered, mine, removed=removed))
    uids = {branch.number: branch.uid for branch in branches}
    notes = {name: value for branch in branches for name, value in _notes_of(reader, branch)}
    return TreeImage(
        tree,
        tuple(read_session(reader, row, uids) for row in rows),
        branches,
        notes,
        _labels_of(reader, tree, notes),
        removed,
    )


def _read_branches(
    reader: Reader, ordered: Sequence[BranchRow], wanted: Collection[int], *, removed: bool
) -> Iterator[BranchImage]:
    uids: dict[int, str] = {0: ""}
    for branch in ordered:
        uids[branch.branch] = branch.uid
        if branch.branch not in wanted:
            continue
        last = reader.last_position(branch.branch)
        tip = reader.get_tip(branch.branch, last)
        gone = reader.count_entries(branch.branch, branch.fork + 1, last, REMOVED) if removed else 0
        digest = ROOT if tip is None else tip.digest
        yield BranchImage(
            branch.branch, branch.uid, branch.owner, uids[branch.parent], branch.fork, last, digest, gone
        )


def read_session(reader: Reader, row: SessionRow, uids: Mapping[int, str]) -> SessionImage:
    """`uids`: the names of branches by their numbers, that of the head among them."""
    if row.head.branch and row.head.branch not in uids:
        raise CorruptSessionError(row.id, f"it stands in branch {row.head.branch}, which is none of its own")
    details = reader.get_details(row.sid)
    checks.metadata(row.id, details)
    mine = str(row.sid).encode()
    records: Records = {}
    for kind in KINDS:
        for name, value in scan(reader, row.sid, kind):
            try:
                places_named(kind, value)
            except CorruptError as error:
                raise CorruptSessionError(row.id, str(error)) from error
            records[kind, name] = value
    last = reader.last_usage(row.sid)
    return SessionImage(
        at_rest(row, records),
        uids.get(row.head.branch, ""),
        details,
        tuple(name for name in details.aliases if reader.get_record(STORE_WIDE, "alias", name) == mine),
        records,
        reader.event_bounds(row.sid),
        last.number if last else 0,
    )


def at_rest(row: SessionRow, records: Records) -> SessionRow:
    """A session without its lease. Its worker does not work on the copy: there the run was interrupted.
    Adds the change of status to the records."""
    if row.fence and row.status == RUNNING:
        change = Change(RUNNING, INTERRUPTED, row.updated, BY, row.epoch)
        numbers = [number_in(name, "a change of status") for kind, name in records if kind == "status"]
        records["status", f"{max(numbers, default=0) + 1:012d}"] = _encode(change)
        row = msgspec.structs.replace(row, status=INTERRUPTED)
    return msgspec.structs.replace(row, fence=0, due=0)


def _notes_of(reader: Reader, branch: BranchImage) -> Iterator[tuple[str, bytes]]:
    first, last = note_name(branch.uid, 0), note_name(branch.uid, max(branch.last, 0))
    return iter(reader.scan_records(STORE_WIDE, "annotation", first, last))


def _labels_of(reader: Reader, tree: int, notes: dict[str, bytes]) -> dict[str, bytes]:
    """Label by label, the notes that bear it, in the order in which they got it."""
    found: dict[str, bytes] = {}
    for value in notes.values():
        label = decode_note(value).get("label")
        if isinstance(label, str) and label not in found:
            names = reader.get_record(STORE_WIDE, "label", f"{tree}:{label}")
            if names is not None:
                kept = [name for name in decode_label(names) if name in notes]
                found[label] = _encode(kept)
    return found


def fingerprint(image: TreeImage) -> str:
    """The same for the same tree in any store."""
    owners = {session.row.sid: index for index, session in enumerate(image.sessions, 1)}
    hasher = blake3(b"clewtree1")
    for session in image.sessions:
        row, details = _plain(session.row, session.details)
        records = sorted((kind, name, value) for (kind, name), value in session.records.items())
        hasher.update(
            _pack([row, session.head, details, session.aliases, records, session.events[1], session.calls])
        )
    branches = sorted(image.branches, key=lambda branch: branch.uid)
    for branch in branches:
        owner = owners.get(branch.owner, 0)
        hasher.update(
            _pack([branch.uid, owner, branch.parent, branch.fork, branch.last, branch.digest, branch.removed])
        )
    hasher.update(_pack([sorted(image.notes.items()), image.removed]))
    return hasher.hexdigest()


def _plain(row: SessionRow, details: Details) -> tuple[SessionRow, Details]:
    """Without the numbers of one store."""
    head = msgspec.structs.replace(row.head, branch=0)
    origin = details.origin
    if origin is not None:
        origin = ForkOrigin(0, origin.session, 0, origin.uid, origin.position)
    plain = msgspec.structs.replace(row, sid=0, tree=0, head=head, fence=0, due=0)
    return plain, msgspec.structs.replace(details, origin=origin)
