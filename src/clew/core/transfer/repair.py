"""A new store out of a damaged one, read as far as it can be."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import msgspec

from clew.backends.contract import STORE_WIDE, Reader
from clew.core.check.records import is_time
from clew.core.check.scan import MISSES, UNREADABLE, Read, rows_by_number
from clew.core.conversation.append import PREVIEW_KEPT
from clew.core.conversation.history import removed_name
from clew.core.engine.engine import Engine
from clew.core.log import checks
from clew.core.log.ids import check_id
from clew.core.log.records import MAX_TITLE
from clew.core.log.rows import (
    CLOSED,
    EMPTY,
    KIND_NAMES,
    NOWHERE,
    PENDING,
    BranchRow,
    Damaged,
    Details,
    HeadRow,
    SessionRow,
    UsageRow,
)
from clew.core.transfer.copy import Copying
from clew.core.transfer.new_store import new_store
from clew.core.transfer.salvage import RecordSalvage, Salvage, calls_of, events_of
from clew.core.transfer.source import BranchImage, Page, Records, SessionImage, Source, TreeImage, at_rest
from clew.core.transfer.untrusted.rows import MOST, check_details, check_uid
from clew.errors import InvalidError
from clew.model.transfer import CopyReport, LostRecord, OnCopyProgress, RepairReport

# ── Reading a damaged store: all that can be read, and an account of what cannot ──────────────────
# The images that come out of this are whole: every head stands at an entry, every record leads to what
# exists, every hole has its place.

MOST_TRIED: Final = 10_000_000
SPARSE: Final = 100_000
"""A branch with so many more places than entries has a damaged key: so many entries are not lost."""

T = TypeVar("T")
Lost = Callable[[LostRecord], object]


class SalvageSource(Source):
    """The trees of a damaged store. No program should write to it meanwhile."""

    def __init__(self, read: Read, lost: Lost) -> None:
        super().__init__(read)
        self._lost = lost
        self._records = RecordSalvage(read, lost)
        self._rows: dict[int, SessionRow] = {}
        self._branch_rows: dict[int, BranchRow] | None = None
        self._heads: set[bytes] = set()
        self._headless: set[int] = set()
        """Sessions whose head cannot be read."""
        self._parts: dict[str, tuple[int, HeadRow, int]] = {}
        """Of the branches of the tree that was read last: where they are read, from what base and first
        position on."""

    def _ask(self, call: Callable[[Reader], T]) -> T | None:
        """None: it cannot be read."""
        try:
            with self._read() as reader:
                return call(reader)
        except (*UNREADABLE, KeyError):
            return None

    # -- sessions

    def trees(self) -> Iterator[int]:
        self._find_sessions()
        yield from dict.fromkeys(row.tree for row in self._rows.values())

    def _find_sessions(self) -> None:
        for bad in self._ask(lambda reader: reader.damaged_sessions()) or ():
            self._add_damaged(bad)
        try:
            for row in super().rows():
                self._add_row(row)
            return
        except UNREADABLE as error:
            self._lost(LostRecord(kind="session", reason=f"not all sessions can be listed: {error}"))
        for row in rows_by_number(self._read):
            self._add_row(row)

    def _add_damaged(self, bad: Damaged) -> None:
        """What can be believed of a session whose row, or settings, cannot be read."""
        self._lost(LostRecord(kind="session", session=bad.row.id, reason=bad.reason))
        row = bad.row
        if not row.tree:
            mine = [branch.tree for branch in self._all_branches().values() if branch.owner == row.sid]
            row = msgspec.structs.replace(row, tree=mine[-1] if mine else row.sid)
        if row.head == EMPTY:
            self._headless.add(row.sid)
        self._rows[row.sid] = _in_range(row)

    def _add_row(self, row: SessionRow) -> None:
        try:
            values = msgspec.structs.asdict(row) | {"head": msgspec.structs.asdict(row.head)}
            sound = msgspec.convert(values, SessionRow)
            check_id(sound.id)
            self._rows[row.sid] = whole = _in_range(sound)
            if whole != sound:
                reason = "its times, or its status, cannot be: they were put right"
                self._lost(LostRecord(kind="session", session=sound.id, reason=reason))
        except UNREADABLE as error:
            id = row.id if isinstance(row.id, str) else None
            self._lost(LostRecord(kind="session", session=id, reason=f"its row is damaged: {error}"))

    # -- a tree

    def image(self, tree: int) -> TreeImage:
        rows = sorted((row for row in self._rows.values() if row.tree == tree), key=lambda row: row.sid)
        self._parts = {}
        self._heads = {row.head.digest for row in rows}
        tips: dict[tuple[str, int], HeadRow] = {}
        branches = self._branches(tree, rows, tips)
        notes, labels = self._records.notes(tree, branches, rows[0].id)
        removed = self._ask(lambda reader: reader.get_record(STORE_WIDE, "retention", removed_name(tree)))
        return TreeImage(
            tree,
            tuple(self._session(row, branches, tips) for row in rows),
            tuple(branches),
            notes,
            labels,
            removed is not None or any(branch.removed for branch in branches),
        )

    def _branches(
        self, tree: int, rows: list[SessionRow], tips: dict[tuple[str, int], HeadRow]
    ) -> list[BranchImage]:
        """Look through all entries once: what counters and hashes they end with is known only then."""
        found = self._rows_of_branches(tree, rows)
        uids = {row.branch: row.uid for row in found}
        wanted = {(uids.get(row.parent, ""), row.fork) for row in found}
        wanted |= {(uids.get(row.head.branch, ""), row.head.position) for row in rows}
        images: dict[str, BranchImage] = {}
        for row in found:
            parent = images.get(uids.get(row.parent, ""))
            base, fork = EMPTY, NOWHERE
            before = tips.get((parent.uid, row.fork)) if parent is not None else None
            if before is not None:
                base, fork = before, row.fork
            elif row.parent or row.fork != NOWHERE:
                parent = None
                self._lost(self._orphan(row, rows[0].id))
            last = self._last(row, rows)
            if last <= row.fork:
                reason = "its entries are lost: nothing is left of it"
                self._lost(LostRecord(kind="branch", session=rows[0].id, branch=row.uid, reason=reason))
                continue
            self._parts[row.uid] = row.branch, base, row.fork + 1
            salvage = self._salvage(row.uid, last, self._teller(row.uid, rows[0].id))
            for page in salvage.pages():
                for entry in page:
                    if (row.uid, entry.position) in wanted:
                        tips[row.uid, entry.position] = entry.tip(row.branch)
            end = salvage.tip if last > row.fork else base
            tips[row.uid, last] = msgspec.structs.replace(end, branch=row.branch)
            owner = row.owner if row.owner in self._rows else 0
            images[row.uid] = BranchImage(
                row.branch,
                row.uid,
                owner,
                parent.uid if parent else "",
                fork,
                last,
                end.digest,
                salvage.removed,
            )
        return list(images.values())

    def _rows_of_branches(self, tree: int, rows: list[SessionRow]) -> list[BranchRow]:
        found = self._ask(lambda reader: reader.tree_branches(tree))
        known = {row.branch: row for row in found or ()}
        if found is None:
            reason = "the branches of its tree cannot be listed: they were looked for one by one"
            self._lost(LostRecord(kind="branch", session=rows[0].id, reason=reason))
            known |= {row.branch: row for row in self._all_branches().values() if row.tree == tree}
        for row in rows:
            branch = row.head.branch
            if branch and branch not in known:
                there = self._ask(lambda reader, branch=branch: reader.get_branch(branch))  # type: ignore[misc]
                if there is not None:
                    known[branch] = there
        sound = (_sound(row) for row in known.values())
        # Parents first: each begins behind the place where its parent did. Numbers need not grow with age.
        return sorted((row for row in sound if row is not None), key=lambda row: row.fork)

    def _all_branches(self) -> dict[int, BranchRow]:
        if self._branch_rows is None:
            self._branch_rows = {}
            newest = max((row.head.branch for row in self._rows.values()), default=0)
            number = misses = 0
            while misses < MISSES or number < min(newest, MOST_TRIED):  # some backends have huge numbers
                number += 1
                row = self._ask(lambda reader, number=number: reader.get_branch(number))  # type: ignore[misc]
                misses = 0 if row is not None else misses + 1
                if row is not None:
                    self._branch_rows[number] = row
        return self._branch_rows

    def _last(self, row: BranchRow, rows: list[SessionRow]) -> int:
        last = self._ask(lambda reader: reader.last_position(row.branch))
        heads = [one.head.position for one in rows if one.head.branch == row.branch]
        known = max((*heads, row.fork))
        if last is None:
            return known
        if last - known > SPARSE:
            reason = f"its last entry claims to be number {last}: what is behind {known} is left out"
            count = self._ask(
                lambda reader: sum(
                    reader.count_entries(row.branch, row.fork + 1, last, kind)
                    for kind in range(len(KIND_NAMES))
                )
            )
            if count is None or count < (last - row.fork) // 2:
                self._lost(LostRecord(kind="branch", session=rows[0].id, branch=row.uid, reason=reason))
                return known
        return max(last, row.fork)

    def _salvage(self, uid: str, last: int, on_lost: Callable[[int, str], object]) -> Salvage:
        number, base, first = self._parts[uid]
        return Salvage(self._read, number, base, first, last, self._heads, on_lost)

    def _teller(self, uid: str, session: str) -> Callable[[int, str], object]:
        return lambda position, reason: self._lost(
            LostRecord(kind="entry", session=session, branch=uid, position=position, reason=reason)
        )

    @staticmethod
    def _orphan(row: BranchRow, session: str) -> LostRecord:
        reason = f"entries 0 to {row.fork} before it are lost with the branch that held them"
        return LostRecord(kind="branch", session=session, branch=row.uid, reason=reason)

    # -- a session

    def _session(
        self, row: SessionRow, branches: list[BranchImage], tips: dict[tuple[str, int], HeadRow]
    ) -> SessionImage:
        details = self._ask(lambda reader: _sound_details(reader, row))
        if details is None:
            self._lost(LostRecord(kind="session", session=row.id, reason="its settings cannot be read"))
            details = Details()
        records = self._records.of_session(row, branches)
        row, head = self._stand(row, branches, tips)
        row = self._whole_moves(row, records)
        aliases = tuple(dict.fromkeys((*details.aliases, *self._records.aliases.get(row.sid, ()))))
        mine = tuple(name for name in aliases if name in self._records.aliases.get(row.sid, ()))
        bounds = self._ask(lambda reader: reader.event_bounds(row.sid))
        call = self._ask(lambda reader: _number(reader.last_usage(row.sid)))
        if bounds is None:
            self._lost(LostRecord(kind="events", session=row.id, reason="its events cannot be read"))
        if call is None:
            self._lost(LostRecord(kind="usage", session=row.id, reason="its calls cannot be read"))
        return SessionImage(
            at_rest(row, records),
            head,
            msgspec.structs.replace(details, aliases=aliases),
            mine,
            records,
            bounds or (1, 0),
            call or 0,
        )

    def _stand(
        self, row: SessionRow, branches: list[BranchImage], tips: dict[tuple[str, int], HeadRow]
    ) -> tuple[SessionRow, str]:
        """Let the head stand at an entry: its own, or else the last one that the session wrote."""
        by_number = {branch.number: branch for branch in branches}
        branch = by_number.get(row.head.branch)
        position = row.head.position
        is_lost = row.head.branch and (branch is None or (branch.uid, position) not in tips)
        if is_lost or row.sid in self._headless:
            mine = [one for one in branches if one.owner == row.sid and one.last > one.fork]
            branch = mine[-1] if mine else None
            position = branch.last if branch else NOWHERE
            where = f"entry {position} of branch {branch.uid}" if branch else "the beginning"
            reason = f"the entry at its head is lost: it stands at {where} now"
            self._lost(LostRecord(kind="session", session=row.id, reason=reason))
        if branch is None:
            return msgspec.structs.replace(row, head=EMPTY, grows=False), ""
        tip = tips[branch.uid, position]
        grows = branch.owner == row.sid and position == branch.last
        return msgspec.structs.replace(row, head=tip, grows=grows), branch.uid

    def _whole_moves(self, row: SessionRow, records: Records) -> SessionRow:
        """Each move leads to the one before it: with a gap among them there is no undo."""
        moves = [key for key in records if key[0] == "move"]
        is_whole = {int(name) for _, name in moves} == set(range(1, len(moves) + 1))
        if is_whole and len(moves) >= row.moves:
            if len(moves) == row.moves and max(row.undo, row.redo) <= row.moves:
                return row
            reason = f"it has {len(moves)} moves, and says {row.moves}: what can be undone is not known"
            self._lost(LostRecord(kind="record", session=row.id, name="move", reason=reason))
            return msgspec.structs.replace(row, moves=len(moves), undo=0, redo=0)
        reason = f"of its {max(row.moves, len(moves))} moves some are lost, and undo with them"
        self._lost(LostRecord(kind="record", session=row.id, name="move", reason=reason))
        for key in moves:
            del records[key]
        return msgspec.structs.replace(row, moves=0, undo=0, redo=0)

    # -- pages

    def entries(self, branch: BranchImage, first: int) -> Iterator[Page]:
        """Once more, and this time for the new store; `first` is the first that there is."""
        for rows in self._salvage(branch.uid, branch.last, lambda *_: None).pages():
            yield Page(branch=branch, entries=tuple(rows))

    def events(self, session: SessionImage, after: int) -> Iterator[Page]:
        for rows in events_of(self._read, session, self._lost):
            yield Page(session=session.row.sid, events=tuple(rows))

    def calls(self, session: SessionImage, after: int) -> Iterator[Page]:
        for rows in calls_of(self._read, session, self._lost):
            yield Page(session=session.row.sid, calls=tuple(rows))

    def removed(self, branch: BranchImage, last: int) -> list[int]:
        return []


def _in_range(row: SessionRow) -> SessionRow:
    """No column of a row has a checksum."""
    created = row.created if is_time(row.created) else row.updated if is_time(row.updated) else 0
    updated = row.updated if is_time(row.updated) else created
    deleted = row.deleted if row.deleted is None or is_time(row.deleted) else updated
    status = row.status if PENDING <= row.status <= CLOSED else PENDING
    counts = {name: getattr(row, name) for name in ("moves", "undo", "redo", "forks", "epoch")}
    return msgspec.structs.replace(
        row,
        created=created,
        updated=updated,
        deleted=deleted,
        status=status,
        preview=row.preview[:PREVIEW_KEPT],
        title=None if row.title is None else row.title[:MAX_TITLE],
        **{name: count if 0 <= count <= MOST else 0 for name, count in counts.items()},
    )


def _sound_details(reader: Reader, row: SessionRow) -> Details:
    details = reader.get_details(row.sid)
    checks.metadata(row.id, details)
    check_details(details)
    return details


def _number(call: UsageRow | None) -> int:
    return 0 if call is None else int(call.number)


def _sound(row: BranchRow) -> BranchRow | None:
    try:
        row = msgspec.convert(msgspec.structs.asdict(row), BranchRow)
    except UNREADABLE:
        return None
    try:
        check_uid(row.uid)
    except InvalidError:  # what leads to it by its name is lost, its entries are not
        row = msgspec.structs.replace(row, uid=f"lost-{row.branch}")
    return row


# ── Making a whole store of a damaged one: a new one, beside it ───────────────────────────────────


def repair(
    engine: Engine, to: str | os.PathLike[str], on_progress: OnCopyProgress | None = None
) -> RepairReport:
    """Bring all that can be read into a new store, which is there when it is whole."""
    lost: dict[LostRecord, None] = {}

    def note(record: LostRecord) -> None:
        lost[record] = None

    with new_store(to, engine) as target:
        reading = SalvageSource(engine.read, note)
        report = Copying(engine, target.engine, "rename", on_progress, reading, note).run()
    for id in report.skipped:
        note(LostRecord(kind="session", session=id, reason="it contradicts another session"))
    return _report(target.location, report, tuple(lost))


def _report(location: str, report: CopyReport, lost: tuple[LostRecord, ...]) -> RepairReport:
    empty = sum(one.kind == "entry" and "is kept" not in one.reason for one in lost)
    return RepairReport(
        location=location,
        sessions=report.sessions,
        entries=report.entries - empty,
        snapshots=report.snapshots,
        objects=report.objects,
        lost=lost,
    )
