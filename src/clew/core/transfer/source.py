"""Read a store tree by tree, as images that mean the same in every store."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from blake3 import blake3

from clew.backends.contract import STORE_WIDE, Reader, RecordKind
from clew.core.check.scan import GoneError, Read, scan
from clew.core.conversation.annotations import decode_label
from clew.core.conversation.history import decode_note, note_name, removed_name
from clew.core.conversation.points import check_branches
from clew.core.conversation.records import places_named
from clew.core.log import checks
from clew.core.log.digest import ROOT
from clew.core.log.records import number_in
from clew.core.log.rows import (
    INTERRUPTED,
    REMOVED,
    RUNNING,
    BranchRow,
    Details,
    EntryRow,
    EventRow,
    ForkOrigin,
    HeadRow,
    SessionQuery,
    SessionRow,
    UsageRow,
)
from clew.core.runs.status import Change
from clew.errors import CorruptError, CorruptSessionError, ReadOnlyError, StoreBusyError

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike

# ── A tree of sessions as a value that means the same in every store ──────────────────────────────
# `sid`, `tree` and the numbers of branches are a backend's own. Here sessions know their branches by uid,
# so the image of a tree and that of its copy are equal, and so are their fingerprints.
#
# An image holds no entries, events or calls, only where they end: those are read in pages.

KINDS: Final[tuple[RecordKind, ...]] = (
    "annotation", "checkpoint", "document", "key", "line", "move", "run", "status", "var",
)  # fmt: skip
"""Records of a session that go with it. A lease does not: no worker works on a copy. Labels are made of the
annotations."""
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
    """What came with entries. What a session noted is among its records."""
    labels: dict[str, bytes]
    """Of these, by versions of Clew before."""
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
                places_named(kind, name, value)
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


# ── Reading a store from end to end, tree by tree, while others write to it ───────────────────────
# Each tree is read as it was at some moment. In memory there are the image of one tree, and a page of its
# entries, events or calls.

SESSIONS: Final = 200
PAGE: Final = 256
"""Entries, events or calls in memory at once,"""
PAGE_BYTES: Final = 4 * 1024 * 1024
"""and how large they may be together, unless a single one is larger."""
TRIES: Final = 50

Where: TypeAlias = tuple[str | int, ...]
"""Which thing: its kind, and what it is known by among those of its kind."""


class UnsoundError(CorruptError):
    """What was read cannot have been written by a store."""

    def __init__(self, where: Where, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}")
        self.where = where
        self.what = what
        self.reason = reason


class Page(msgspec.Struct, frozen=True):
    """Some of what belongs to a branch, or to a session (by its sid in the source)."""

    branch: BranchImage | None = None
    session: int = 0
    entries: tuple[EntryRow, ...] = ()
    base: HeadRow | None = None
    """The place before the first of the entries, if they were checked: a target that holds it compares."""
    events: tuple[EventRow, ...] = ()
    calls: tuple[UsageRow, ...] = ()

    @property
    def size(self) -> int:
        return sum(len(row.body) for row in self.entries) + sum(len(row.data) for row in self.events)

    @property
    def count(self) -> int:
        return len(self.entries) + len(self.events) + len(self.calls)


class Source:
    """The trees of a store. What is damaged raises CorruptError."""

    def __init__(self, read: Read, engine: EngineLike | None = None) -> None:
        """`engine` of the store, if there is one: it keeps writers out, for a tree that never rests."""
        self._read = read
        self._engine = engine

    def rows(self) -> Iterator[SessionRow]:
        """Those in the trash, then the others: what was deleted makes room for what has its id now. One
        that is used meanwhile may come twice, but is not missed."""
        after: tuple[int, str] | None = None
        while True:
            with self._read() as reader:
                trash = reader.list_sessions(SessionQuery(limit=SESSIONS, after=after, deleted=True))
            yield from (one.row for one in trash)
            if len(trash) < SESSIONS:
                break
            after = trash[-1].row.deleted or 0, trash[-1].row.id
        after = None
        while True:
            with self._read() as reader:
                found = reader.list_sessions(SessionQuery(limit=SESSIONS, after=after, oldest=True))
            yield from (one.row for one in found)
            if len(found) < SESSIONS:
                return
            after = found[-1].row.updated, found[-1].row.id

    def trees(self) -> Iterator[int]:
        """Each once: what is appended to meanwhile must not keep this going for ever."""
        seen: set[int] = set()
        for row in self.rows():
            if row.tree not in seen:
                seen.add(row.tree)
                yield row.tree

    def image(self, tree: int) -> TreeImage:
        """A tree as it was at a moment: no row changed while the rest was read."""
        for _ in range(TRIES):
            with self._read() as reader:
                before = reader.tree_sessions(tree)
                image = read_image(reader, tree)
                if before == reader.tree_sessions(tree):
                    return image
        try:
            if self._engine is not None:
                return self._engine.run(lambda tx: read_image(tx, tree))
        except ReadOnlyError:
            pass
        raise StoreBusyError(f"session {before[0].id!r} never rests: it was written to all the time")

    def entries(self, branch: BranchImage, first: int) -> Iterator[Page]:
        while first <= branch.last:
            try:
                with self._read() as reader:
                    end = self._page_end(reader, branch.number, first, min(first + PAGE - 1, branch.last))
                    rows = reader.read_entries(branch.number, first, end, room=PAGE_BYTES)
            except KeyError as error:
                raise GoneError(f"branch {branch.uid} was purged while it was read") from error
            page = Page(branch=branch, entries=tuple(rows))
            if len(rows) <= end - first and page.size < PAGE_BYTES:
                raise GoneError(f"entries of branch {branch.uid} were purged while they were read")
            first = rows[-1].position + 1
            yield page

    @staticmethod
    def _page_end(reader: Reader, branch: int, first: int, last: int) -> int:
        """The last position of a page that is not too large, by the counters of the entries."""
        base = reader.get_tip(branch, first)
        while base is not None and last > first:
            tip = reader.get_tip(branch, last)
            if tip is not None and tip.size - base.size <= PAGE_BYTES:
                break
            last = (first + last) // 2
        return last

    def events(self, session: SessionImage, after: int) -> Iterator[Page]:
        sid, last = session.row.sid, session.events[1]
        while after < last:
            with self._read() as reader:
                found = reader.read_events(sid, after, min(PAGE, last - after))
            rows = tuple(row for row in found if row.number <= last)
            if not rows:
                raise GoneError(f"events of session {session.row.id!r} were removed while they were read")
            yield Page(session=sid, events=rows)
            after = rows[-1].number

    def calls(self, session: SessionImage, after: int) -> Iterator[Page]:
        sid = session.row.sid
        while after < session.calls:
            with self._read() as reader:
                rows = tuple(reader.read_usage(sid, after, min(PAGE, session.calls - after)))
            if not rows:
                raise GoneError(f"calls of session {session.row.id!r} were removed while they were read")
            yield Page(session=sid, calls=rows)
            after = rows[-1].number

    def removed(self, branch: BranchImage, last: int) -> list[int]:
        """Positions up to `last` whose entries lost their content."""
        found: list[int] = []
        for page in self.entries(msgspec.structs.replace(branch, last=last), branch.fork + 1):
            found += [row.position for row in page.entries if row.kind == REMOVED]
        return found
