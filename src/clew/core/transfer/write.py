"""Writing a tree of sessions, as a `Source` reads it, into another store.

A tree that is small is written in one transaction. A larger one is staged: its sessions lie in the trash,
with a mark, until all its entries are there; the last transaction brings them out. A copy that is killed
in between leaves what the next copy goes on with.

All is read before a transaction begins: two stores that are copied into each other must not wait for each
other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.check.scan import ChangedError, GoneError
from clew.core.conversation.annotations import decode_label, drop_annotation, put_annotation
from clew.core.conversation.history import removed_name
from clew.core.conversation.leftovers import remove_leftovers
from clew.core.conversation.records import places_named
from clew.core.engine.notices import notice
from clew.core.log.rows import EMPTY, NOWHERE, Details, ForkOrigin, HeadRow, SessionRow, UsageRow
from clew.core.retention.purge import purge
from clew.core.transfer.part import (
    adopt_branches,
    base_of,
    fingerprint_of_part,
    fingerprint_there,
    link_forks,
    longer_branches,
    put_notes_of_part,
)
from clew.core.transfer.reconcile import (
    Fit,
    Mark,
    alias_leads_to,
    check_names,
    encode_mark,
    fit,
    is_as_it_came,
    mark_of,
    renamed,
)
from clew.core.transfer.source import (
    KINDS,
    BranchImage,
    Page,
    SessionImage,
    Source,
    TreeImage,
    UnsoundError,
    fingerprint,
    read_image,
)
from clew.errors import ConflictError, CorruptEntryError
from clew.files.records import CollectedError

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike
    from clew.files.upkeep.transfer import Adopt, FileTransfer

AT_ONCE: Final = 2000
"""Entries, events and calls in one transaction,"""
AT_ONCE_BYTES: Final = 8 * 1024 * 1024
"""and how large they may be together: others wait for it."""
TRIES: Final = 10
PAUSE: Final = 0.02
"""Seconds: a writer that changes what is copied needs some time to end."""

OnPage: TypeAlias = Callable[[TreeImage, Page], object]


class Landed(msgspec.Struct, frozen=True):
    """What became of a tree."""

    verdict: Literal["write", "same", "kept"]
    tree: int
    sids: dict[int, int]
    ids: dict[str, str]
    """Sessions that have another id in the target."""


def transfer(
    source: Source,
    target: EngineLike,
    tree: int,
    *,
    rename: bool,
    on_page: OnPage,
    files: FileTransfer | None = None,
) -> Landed | None:
    """Bring one tree over, or what is new of it; None: there is no such tree any more.

    ConflictError: the target holds something else in its place. Nothing of it was changed.
    """
    for attempt in range(TRIES):
        try:
            ready = prepare(source, target, tree, rename=rename, files=files)
            return ready.run(on_page) if isinstance(ready, Landing) else ready
        except (ChangedError, CorruptEntryError, UnsoundError) as error:
            # What is being purged may look damaged. Of what never can have been written one more look is
            # enough: a store may hold thousands of such.
            if attempt == (1 if isinstance(error, UnsoundError) else TRIES - 1):
                raise
        time.sleep(PAUSE * attempt)
    raise AssertionError("not reached")


def prepare(
    source: Source,
    target: EngineLike,
    tree: int,
    *,
    rename: bool = False,
    files: FileTransfer | None = None,
) -> Landing | Landed | None:
    """Compare a tree with the target: what is to be written, or what became of it already. Its files are in
    the target then, or will be with the tree."""
    image, adopt = _read(source, tree, files)
    if not image.sessions:
        return None
    ids = [session.row.id for session in image.sessions]
    with target.read() as reader:
        if rename:
            image = renamed(reader, image)
        found = fit(reader, image)
    changed = {old: new.row.id for old, new in zip(ids, image.sessions, strict=True) if old != new.row.id}
    if found.verdict != "write":
        if found.verdict == "same" and adopt is not None:
            _adopt_again(target, adopt, found.tree)
        return Landed(found.verdict, found.tree, found.sids, changed)
    return Landing(source, target, image, found, changed, adopt)


def _read(source: Source, tree: int, files: FileTransfer | None) -> tuple[TreeImage, Adopt | None]:
    """A tree as it was at a moment, with the files that it named then."""
    before: TreeImage | None = None
    for attempt in range(TRIES):
        image = source.image(tree)
        if files is None or not image.sessions:
            return image, None
        try:
            return image, files.bring(_named_by(image), image.sessions[0].row.id, is_same=image == before)
        except GoneError:
            if attempt == TRIES - 1:
                raise
        before = image
    raise AssertionError("not reached")


def _named_by(image: TreeImage) -> set[str]:
    """The snapshots that checkpoints name, and moves that can be undone."""
    return {
        id
        for session in image.sessions
        for (kind, name), value in session.records.items()
        if kind in ("checkpoint", "move")
        for id in places_named(kind, name, value)[1]
    }


def _adopt_again(target: EngineLike, adopt: Adopt, tree: int) -> None:
    """Of a tree that is there already."""
    try:
        target.run(lambda tx: adopt(tx, tree))
    except CollectedError as error:
        raise ChangedError(str(error)) from error


class Landing:
    """A tree on its way into the target."""

    def __init__(
        self,
        source: Source,
        target: EngineLike,
        image: TreeImage,
        found: Fit,
        ids: dict[str, str],
        adopt: Adopt | None,
    ) -> None:
        self._source = source
        self._target = target
        self._image = image
        self._fit = found
        self._adopt = adopt
        self.ids = ids
        """Sessions that have another id in the target."""
        self._tree = found.tree
        self._sids = found.sids
        self._branches: dict[str, int] = {}
        self._names = {branch.number: branch.uid for branch in image.branches}
        self._unchanged: dict[int, Mark] = {}
        """Relatives that are as they came, and get more entries with this file."""
        self._removed = self._newly_removed()
        self._batches = _batches(self._pages())
        self._first, self._second = next(self._batches, []), next(self._batches, None)

    @property
    def is_new(self) -> bool:
        """The target has nothing of it."""
        return not self._fit.sids

    @property
    def entries(self) -> int:
        """So many entries does the target lack."""
        ends = self._fit.branches
        return sum(
            max(branch.last - max(ends.get(branch.uid, (0, NOWHERE))[1], branch.fork), 0)
            for branch in self._image.branches
        )

    @property
    def is_small(self) -> bool:
        """One transaction is enough: `write_all`, in which others may have a part, and then `landed`."""
        return self._second is None

    @property
    def size(self) -> int:
        return sum(page.size for page in self._first)

    def write_all(self, tx: Transaction) -> None:
        self._write(tx, pages=self._first, begins=True, ends=True)

    def landed(self, on_page: OnPage) -> Landed:
        self._tell(self._first, on_page)
        return Landed("write", self._tree, self._sids, self.ids)

    def run(self, on_page: OnPage) -> Landed:
        """All of it, in as many transactions as it takes."""
        if self.is_small:
            self._target.run(self.write_all)
            return self.landed(on_page)
        try:
            return self._run_staged(on_page)
        except UnsoundError:
            if self.is_new:
                self._target.run(self._throw_away)
                remove_leftovers(self._target)
            raise

    def _throw_away(self, tx: Transaction) -> None:
        """What was staged of a tree that turned out to be unsound goes again: it could never be finished."""
        for sid in self._sids.values():
            row = tx.get_session(sid)
            if row is not None:
                purge(tx, row)

    def _run_staged(self, on_page: OnPage) -> Landed:
        self._target.run(partial(self._write, pages=self._first, begins=True, ends=False))
        self._tell(self._first, on_page)
        pages = self._second
        while pages is not None:
            following = next(self._batches, None)
            self._target.run(partial(self._write, pages=pages, begins=False, ends=following is None))
            self._tell(pages, on_page)
            pages = following
        return Landed("write", self._tree, self._sids, self.ids)

    def _tell(self, pages: Sequence[Page], on_page: OnPage) -> None:
        for page in pages:
            on_page(self._image, page)

    def _pages(self) -> Iterator[Page]:
        """What the target lacks. Entries last: an event or a call is no use without its session either,
        but a session comes out of the trash with the last page."""
        with self._target.read() as reader:
            ends = {session.row.sid: self._ends(reader, session) for session in self._image.sessions}
        for session in self._image.sessions:
            event, call = ends[session.row.sid]
            yield from self._source.events(session, event)
            yield from self._source.calls(session, call)
        for branch in self._image.branches:
            _, last = self._fit.branches.get(branch.uid, (0, NOWHERE))
            if last <= branch.last:  # else a relative brought more of it
                yield from self._source.entries(branch, max(last, branch.fork) + 1)

    def _ends(self, reader: Reader, session: SessionImage) -> tuple[int, int]:
        sid = self._fit.sids.get(session.row.sid)
        if sid is None:
            return 0, 0
        call = reader.last_usage(sid)
        return reader.event_bounds(sid)[1], call.number if call else 0

    def _newly_removed(self) -> dict[str, list[int]]:
        """Entries that are in the target, and lost their content in the source since."""
        found: dict[str, list[int]] = {}
        if self._image.removed:
            for branch in self._image.branches:
                number, last = self._fit.branches.get(branch.uid, (0, NOWHERE))
                if number and branch.removed:
                    found[branch.uid] = self._source.removed(branch, min(last, branch.last))
        return found

    # -- inside a transaction

    def _write(self, tx: Transaction, *, pages: Sequence[Page], begins: bool, ends: bool) -> None:
        """May run again after a rollback: it keeps nothing of the time before."""
        if begins:
            if fit(tx, self._image) != self._fit:
                raise ChangedError("the target changed while it was compared")
            self._begin(tx, staged=not ends)
        for page in pages:
            self._put(tx, page)
        if ends:
            self._finish(tx)

    def _begin(self, tx: Transaction, *, staged: bool) -> None:
        self._tree, self._sids = self._fit.tree, dict(self._fit.sids)
        self._branches = {uid: number for uid, (number, _) in self._fit.branches.items()}
        mark = encode_mark(Mark(staged=True))
        for session in self._image.sessions:
            sid = self._sids.get(session.row.sid)
            if sid is None:
                sid = self._sids[session.row.sid] = self._add(tx, session, staged=staged)
            elif staged:
                row = tx.get_session(sid)
                if row is not None and row.grows:  # its next append must not go where entries will be
                    tx.set_session(msgspec.structs.replace(row, grows=False))
            if staged:
                tx.put_record(sid, "copy", "", mark)
        for branch in self._image.branches:
            if branch.uid not in self._branches:
                parent = self._branches[branch.parent] if branch.parent else 0
                owner = self._sids.get(branch.owner, 0)
                self._branches[branch.uid] = tx.add_branch(branch.uid, self._tree, owner, parent, branch.fork)
        if self._image.is_part:
            self._join(tx)

    def _join(self, tx: Transaction) -> None:
        """The file of a session among what files of its relatives brought."""
        (sid,) = self._sids.values()
        adopt_branches(tx, self._image, self._fit, sid)
        self._unchanged = {}
        for owner in longer_branches(tx, self._image, self._fit):
            mark = mark_of(tx, owner)
            if mark is not None and is_as_it_came(tx, owner):
                self._unchanged[owner] = mark
            row = tx.get_session(owner)
            if row is not None and row.grows:  # its next append must not go where entries will be
                tx.set_session(msgspec.structs.replace(row, grows=False))

    def _add(self, tx: Transaction, session: SessionImage, *, staged: bool) -> int:
        """A session that stays hidden until it is whole."""
        row = session.row
        hidden = row.updated if staged and row.deleted is None else row.deleted
        new = msgspec.structs.replace(
            row, sid=0, tree=self._tree, head=EMPTY, grows=False, preview="", deleted=hidden
        )
        sid = tx.add_session(new, Details())
        added = tx.get_session(sid)
        assert added is not None
        self._tree = added.tree
        return sid

    def _put(self, tx: Transaction, page: Page) -> None:
        if page.branch is not None and page.entries:
            branch = self._branches[page.branch.uid]
            last = tx.last_position(branch)
            if max(last, page.branch.fork) + 1 != page.entries[0].position:
                raise ChangedError(f"branch {page.branch.uid} changed in the target meanwhile")
            if page.base is not None:
                self._check_base(tx, page.branch, page.base, branch if last > page.branch.fork else 0)
            tx.add_entries(branch, page.entries)
        if page.events:
            sid = self._sids[page.session]
            newest = tx.event_bounds(sid)[1]
            if page.events[0].number != newest + 1:
                tx.drop_events(sid, newest)  # the source has dropped them, and more
            tx.add_events(sid, page.events)
        for call in page.calls:
            tx.add_usage(self._sids[page.session], self._call(call))

    def _check_base(self, tx: Transaction, branch: BranchImage, base: HeadRow, number: int) -> None:
        """What the source says it continues has to be what is in the target."""
        parent = number or self._branches.get(branch.parent, 0)
        there = tx.get_tip(parent, base.position) if parent else EMPTY
        if there is None or msgspec.structs.replace(there, branch=base.branch) != base:
            raise ConflictError(
                f"session {self._image.sessions[0].row.id!r} cannot be copied: branch {branch.uid} "
                "has another history there; nothing of it was changed"
            )

    def _call(self, call: UsageRow) -> UsageRow:
        """A call with the branch that its entry has here."""
        number = self._branches.get(self._names.get(call.branch, ""), 0)
        position = call.position if number else NOWHERE
        return msgspec.structs.replace(call, branch=number, position=position)

    def _finish(self, tx: Transaction) -> None:
        check_names(tx, self._image, self._sids)
        for uid, positions in self._removed.items():
            tx.erase_entries(self._branches[uid], positions)
        for session in self._image.sessions:
            self._settle(tx, session)
        self._adopt_files(tx)
        if self._image.is_part:
            self._finish_part(tx)
            return
        put_notes(tx, self._image, self._tree, set(self._sids.values()))
        if self._image.removed:
            tx.put_record(STORE_WIDE, "retention", removed_name(self._tree), b"")
        there = fingerprint(read_image(tx, self._tree, set(self._sids.values())))
        if there != fingerprint(self._image):
            raise ConflictError(
                f"session {self._image.sessions[0].row.id!r} changed in the target while it was copied"
            )
        mark = encode_mark(Mark(there))
        for sid in self._sids.values():
            tx.put_record(sid, "copy", "", mark)

    def _finish_part(self, tx: Transaction) -> None:
        """Here it may have more than its file: what relatives brought of it."""
        (session,), (sid,) = self._image.sessions, self._sids.values()
        put_notes_of_part(tx, self._image, self._tree)
        if self._image.removed:
            tx.put_record(STORE_WIDE, "retention", removed_name(self._tree), b"")
        told = next((old for old, new in self.ids.items() if new == session.row.id), session.row.id)
        link_forks(tx, self._tree, sid, told)
        marks = {sid: Mark(file=fingerprint_of_part(self._image)), **self._unchanged}
        for number, mark in marks.items():
            mark = msgspec.structs.replace(mark, fingerprint=fingerprint_there(tx, number), staged=False)
            tx.put_record(number, "copy", "", encode_mark(mark))

    def _adopt_files(self, tx: Transaction) -> None:
        """In the transaction in which the tree is seen: no checkpoint is, before its files are there."""
        if self._adopt is not None:
            try:
                self._adopt(tx, self._tree)
            except CollectedError as error:
                raise ChangedError(str(error)) from error

    def _settle(self, tx: Transaction, session: SessionImage) -> None:
        sid = self._sids[session.row.sid]
        before = tx.get_details(sid)
        tx.set_session(self._row(tx, session, sid))
        notice(tx, sid, self._target.host.now())
        tx.set_details(sid, self._details(tx, session))
        for alias in before.aliases:
            if alias not in session.aliases and alias_leads_to(tx, alias, sid):
                tx.drop_record(STORE_WIDE, "alias", alias)
        for alias in session.aliases:
            tx.put_record(STORE_WIDE, "alias", alias, str(sid).encode())
        there = {(kind, name): value for kind in KINDS for name, value in tx.scan_records(sid, kind)}
        for (kind, name), value in session.records.items():
            known = there.pop((kind, name), None)
            if known == value:
                continue
            if kind == "annotation":
                put_annotation(tx, sid, name, value, before=known)
            else:
                tx.put_record(sid, kind, name, value)
        for (kind, name), value in there.items():
            if kind == "annotation":
                drop_annotation(tx, sid, name, value)
            else:
                tx.drop_record(sid, kind, name)
        oldest = session.events[0]
        if tx.event_bounds(sid)[0] < oldest:
            tx.drop_events(sid, oldest - 1)

    def _row(self, tx: Transaction, session: SessionImage, sid: int) -> SessionRow:
        head: HeadRow = session.row.head
        number = self._branches[session.head] if session.head else 0
        head = msgspec.structs.replace(head, branch=number)
        if (tx.get_tip(number, head.position) if number else EMPTY) != head:
            raise UnsoundError(
                ("session", session.row.sid),
                f"session {session.row.id!r}",
                "its head is not what its entries say",
            )
        grows = session.row.grows and (not self._image.is_part or tx.last_position(number) == head.position)
        return msgspec.structs.replace(session.row, sid=sid, tree=self._tree, head=head, grows=grows)

    def _details(self, tx: Transaction, session: SessionImage) -> Details:
        origin = session.details.origin
        if origin is not None:
            # The base may be purged: then its number stands for no session.
            sid, branch = self._sids.get(origin.sid, 0), self._branches.get(origin.uid, 0)
            if self._image.is_part:
                sid = base_of(tx, self._tree, origin.session)
            origin = ForkOrigin(sid, origin.session, branch, origin.uid, origin.position)
        return msgspec.structs.replace(session.details, origin=origin)


def _batches(pages: Iterator[Page]) -> Iterator[list[Page]]:
    """As many pages as one transaction takes."""
    batch, count, size = list[Page](), 0, 0
    for page in pages:
        if batch and (count + page.count > AT_ONCE or size + page.size > AT_ONCE_BYTES):
            yield batch
            batch, count, size = [], 0, 0
        batch.append(page)
        count += page.count
        size += page.size
    if batch:
        yield batch


# -- what came with the entries of a tree


def put_notes(tx: Transaction, image: TreeImage, tree: int, sids: Collection[int]) -> None:
    """Let these sessions, of this tree in the target, have the notes of the image and no others."""
    there = read_image(tx, tree, sids)
    for name, value in image.notes.items():
        before = there.notes.get(name)
        if before != value:
            put_annotation(tx, STORE_WIDE, name, value, before=before)
    for name in there.notes.keys() - image.notes.keys():
        drop_annotation(tx, STORE_WIDE, name, there.notes[name])
    for label in {*image.labels, *there.labels}:
        _put_label(tx, image, tree, label)


def _put_label(tx: Transaction, image: TreeImage, tree: int, label: str) -> None:
    """The places that bear it in the source, and those of sessions that are only here."""
    mine = {branch.uid for branch in image.branches}
    name = f"{tree}:{label}"
    value = image.labels.get(label)
    places: list[str] = [] if value is None else decode_label(value)
    old = tx.get_record(STORE_WIDE, "label", name)
    others = [] if old is None else decode_label(old)
    places += [place for place in others if place.rpartition(".")[0] not in mine]
    if places:
        tx.put_record(STORE_WIDE, "label", name, msgspec.json.encode(places))
    else:
        tx.drop_record(STORE_WIDE, "label", name)
