"""What is left of the entries, streams and records of a damaged session."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from typing import Final

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, RecordKind
from clew.core.check.branches import COUNTERS, draft_of
from clew.core.check.records import after
from clew.core.check.scan import UNREADABLE, Read, scan_damaged
from clew.core.conversation.history import note_name
from clew.core.conversation.moves import Move, is_before
from clew.core.conversation.records import places_named
from clew.core.engine.redaction import decode_key, decode_policy
from clew.core.log.digest import DIGEST_SIZE, LOST, entry_digest
from clew.core.log.ids import check_id
from clew.core.log.rows import (
    ERASED,
    KIND_NAMES,
    MESSAGE,
    NOWHERE,
    REMOVED,
    Draft,
    EntryRow,
    EventRow,
    HeadRow,
    SessionRow,
    UsageRow,
)
from clew.core.log.tree import chain
from clew.core.retention.rules import checked
from clew.core.transfer.source import KINDS, PAGE, BranchImage, Records, SessionImage
from clew.core.transfer.untrusted.rows import LARGEST, MOST, check_call, check_event, check_note, check_record
from clew.core.transfer.untrusted.rows import draft_of as checked_draft_of
from clew.errors import CorruptEntryError, CorruptError
from clew.model import Head, Removal, Retention
from clew.model.transfer import LostRecord

# ── The records of a damaged store: those that can be read, and lead to what exists ───────────────

_json = msgspec.json.decode
_encode = msgspec.json.Encoder().encode


class RecordSalvage:
    def __init__(self, read: Read, lost: Callable[[LostRecord], object]) -> None:
        self._read = read
        self._lost = lost

    @cached_property
    def aliases(self) -> dict[int, tuple[str, ...]]:
        """By the sid of the session that they lead to."""
        found: dict[int, tuple[str, ...]] = {}
        for name, value in self.scan(STORE_WIDE, "alias", None):
            try:
                sid = int(value)
                check_id(name, "alias")
            except ValueError as error:
                self._tell("alias", name, str(error), None)
                continue
            found[sid] = (*found.get(sid, ()), name)
        return found

    def of_session(self, row: SessionRow, branches: list[BranchImage]) -> Records:
        places = {branch.uid: range(branch.fork + 1, branch.last + 1) for branch in branches}
        found: Records = {}
        for kind in KINDS:
            for name, value in self.scan(row.sid, kind, row.id):
                try:
                    check_record(kind, name, value)
                    heads, _ = places_named(kind, name, value)
                    missing = next((head for head in heads if not _is_there(head, places)), None)
                    if kind == "move" and not is_before(_json(value, type=Move), int(name)):
                        raise CorruptError("it leads to a move that came later")
                except UNREADABLE as error:
                    self._tell(kind, name, f"it cannot be read: {error}", row.id)
                    continue
                if missing is None:
                    found[kind, name] = value
                else:
                    self._tell(kind, name, f"it leads to entry {missing}, which is lost", row.id)
        return found

    def notes(
        self, tree: int, branches: list[BranchImage], session: str
    ) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """Annotations by name, and for each label who bears it."""
        notes: dict[str, bytes] = {}
        labels: dict[str, list[str]] = {}
        for branch in branches:
            first, last = note_name(branch.uid, 0), note_name(branch.uid, max(branch.last, 0))
            for name, value in self.scan(STORE_WIDE, "annotation", session, first, last):
                try:
                    label = check_note(name, value)
                except UNREADABLE as error:
                    self._tell("annotation", name, str(error), session)
                    continue
                notes[name] = value
                if label is not None:
                    labels.setdefault(label, []).append(name)
        return notes, {label: _encode(self._in_order(tree, label, names)) for label, names in labels.items()}

    def _in_order(self, tree: int, label: str, names: list[str]) -> list[str]:
        """In the order in which they got the label, if that can be read."""
        try:
            with self._read() as reader:
                value = reader.get_record(STORE_WIDE, "label", f"{tree}:{label}")
            known = [] if value is None else _json(value, type=list[str])
        except UNREADABLE:
            known = []
        return list(dict.fromkeys((*(name for name in known if name in names), *names)))

    def may_go(self, kind: str, name: str, value: bytes) -> bool:
        """Whether a record of the store can be read, and is one that could have been set."""
        try:
            if kind == "removal":
                _json(value, type=Removal)
            elif kind == "redaction":
                decode_policy(value) if name == "policy" else decode_key(value)
            else:
                checked(_json(value, type=Retention))
        except UNREADABLE as error:
            self._tell(kind, name, str(error), None)
            return False
        return True

    def _tell(self, kind: str, name: str, reason: str, session: str | None) -> None:
        self._lost(LostRecord(kind="record", session=session, name=f"{kind} {name}", reason=reason))

    def scan(
        self, sid: int, kind: RecordKind, session: str | None, first: str = "", last: str | None = None
    ) -> list[tuple[str, bytes]]:
        """All that can be read; what lies between is told as lost."""

        def tell(error: Exception) -> None:
            reason = f"some records of this kind cannot be read: {error}"
            self._lost(LostRecord(kind="record", session=session, name=kind, reason=reason))

        return scan_damaged(self._read, sid, kind, tell, first, last)


def _is_there(head: Head, places: dict[str, range]) -> bool:
    return head == Head("", NOWHERE) or head.position in places.get(head.branch, ())


# ── The entries of a branch that may be damaged: what can be read, and a place for what cannot ────
# An entry that is lost keeps its position and, if that can still be read, its hash: so those behind it keep
# theirs. The counters are made anew, because they can be. So is a hash that does not fit, with those behind
# it: else a repaired store could not be copied.

PAGE_BYTES: Final = 4 * 1024 * 1024

OnLost = Callable[[int, str], object]
"""Takes the position of an entry, and why it is lost."""


class Salvage:
    """A look through one branch, from its first entry on."""

    def __init__(
        self,
        read: Read,
        branch: int,
        base: HeadRow,
        first: int,
        last: int,
        known: Collection[bytes],
        on_lost: OnLost,
    ) -> None:
        """`base`: the place before the first entry; positions up to `first` that it leaves open are lost
        with another branch, and are not told of here. `known`: hashes that heads have."""
        self._read = read
        self._branch = branch
        self._known = known
        self._first = first
        self._last = last
        self._on_lost = on_lost
        self._stored = base.digest
        """The hash that the entry before has in the damaged store."""
        self.tip = base
        self.time = self.epoch = self.removed = 0

    def pages(self) -> Iterator[list[EntryRow]]:
        for low in range(self.tip.position + 1, self._first, PAGE):
            yield [self._place(position, None) for position in range(low, min(low + PAGE, self._first))]
        position = self._first
        while position <= self._last:
            rows, wrong = self._look(position)
            end = min(position + len(rows) + len(wrong) - 1, self._last)
            page: list[EntryRow] = []
            for here in range(position, end + 1):
                row = rows.get(here)
                page.append(
                    self._lost(here, wrong.get(here, "it is missing")) if row is None else self._kept(row)
                )
            yield page
            position = end + 1

    def _look(self, first: int) -> tuple[dict[int, EntryRow], dict[int, str]]:
        """The entries from a position on, and what is wrong with those that cannot be read."""
        wrong: dict[int, str] = {}

        def note(error: CorruptEntryError) -> None:
            wrong[error.position] = error.reason

        last = min(first + PAGE - 1, self._last)
        while True:
            try:
                with self._read() as reader:
                    last = self._page_end(reader, first, last)
                    found = reader.read_entries(self._branch, first, last, room=PAGE_BYTES, on_damage=note)
                if sum(len(row.body) for row in found) >= PAGE_BYTES:
                    last = found[-1].position
                break
            except UNREADABLE as error:
                if last == first:
                    return {}, {first: str(error)}
                wrong.clear()
                last = (first + last) // 2
        rows: dict[int, EntryRow] = {}
        for row in found:
            try:
                rows[row.position] = _checked(row)
            except UNREADABLE as error:
                wrong[row.position] = str(error)
        for position in range(first, last + 1):
            if position not in rows:
                wrong.setdefault(position, "it is missing")
        return rows, wrong

    def _page_end(self, reader: Reader, first: int, last: int) -> int:
        """As that of `Source`, by counters that may be wrong."""
        try:
            base = reader.get_tip(self._branch, first)
            while base is not None and last > first:
                tip = reader.get_tip(self._branch, last)
                if tip is None or abs(tip.size - base.size) <= PAGE_BYTES:
                    break
                last = (first + last) // 2
        except UNREADABLE:
            pass
        return last

    def _kept(self, row: EntryRow) -> EntryRow:
        digest = row.digest
        try:
            draft = _draft(row)
        except UNREADABLE as error:
            return self._lost(row.position, f"its body cannot be understood: {error}")
        if row.kind != REMOVED and self.tip.digest != LOST:
            digest = _digest(self.tip.digest, row)
            if digest != row.digest and not self._is_explained(row, digest):
                reason = "its content is kept, but its hash is not that of what is before it: it is made anew"
                self._on_lost(row.position, reason)
        tip = chain(self.tip, 0, [draft], row.time)[1]
        if row.kind == REMOVED:
            self.removed += 1
            tip = msgspec.structs.replace(
                tip, turns=row.turns, size=row.size, last_user_turn=row.last_user_turn
            )
        return self._placed(row, tip, digest)

    def _is_explained(self, row: EntryRow, digest: bytes) -> bool:
        """Why an entry gets another hash: that of the one before it was made anew; or its own was damaged,
        as a head or the entry behind it tells."""
        if self._stored != self.tip.digest and _digest(self._stored, row) == row.digest:
            return True
        if digest in self._known:
            return True
        try:
            with self._read() as reader:
                following = reader.get_entry(self._branch, row.position + 1)
            return following is not None and _digest(digest, following) == following.digest
        except UNREADABLE:
            return False

    def _lost(self, position: int, reason: str) -> EntryRow:
        self._on_lost(position, reason)
        try:
            with self._read() as reader:
                tip = reader.get_tip(self._branch, position)
            return self._place(position, None if tip is None else _checked_tip(tip))
        except UNREADABLE:
            return self._place(position, None)

    def _place(self, position: int, stored: HeadRow | None) -> EntryRow:
        """An empty place."""
        self.removed += 1
        tip = chain(self.tip, 0, [Draft(MESSAGE, b"")], self.time)[1]
        digest = LOST
        if stored is not None:
            digest = stored.digest
            tip = msgspec.structs.replace(
                tip, turns=stored.turns, size=stored.size, last_user_turn=stored.last_user_turn
            )
        row = EntryRow(position, REMOVED, self.time, 0, digest, 0, 0, 0, -1, -1, -1, ERASED, self.epoch)
        return self._placed(row, tip, digest)

    def _placed(self, row: EntryRow, tip: HeadRow, digest: bytes) -> EntryRow:
        self.tip = msgspec.structs.replace(tip, digest=digest)
        self._stored = row.digest
        self.time, self.epoch = row.time, max(row.epoch, self.epoch)
        counters = {name: getattr(tip, name) for name in COUNTERS}
        return msgspec.structs.replace(row, digest=digest, epoch=self.epoch, **counters)


def _digest(before: bytes, row: EntryRow) -> bytes:
    return entry_digest(before, row.position, row.kind, row.time, row.flags, row.body)


def _draft(row: EntryRow) -> Draft:
    """What was appended. A mark has to be one that a copy of the repaired store takes."""
    return draft_of(row) if row.kind in (MESSAGE, REMOVED) else checked_draft_of(row)


def _checked(row: EntryRow) -> EntryRow:
    """The row, if all of it is of the right types: the checksum covers the body, not the columns."""
    row = msgspec.convert(msgspec.structs.asdict(row), EntryRow)
    if not 0 <= row.kind < len(KIND_NAMES):
        raise ValueError(f"it is of the unknown kind {row.kind}")
    if len(row.digest) != DIGEST_SIZE:
        row = msgspec.structs.replace(row, digest=LOST)
    if row.epoch > MOST:
        row = msgspec.structs.replace(row, epoch=0)
    return row


def _checked_tip(tip: HeadRow) -> HeadRow | None:
    tip = msgspec.convert(msgspec.structs.asdict(tip), HeadRow)
    return tip if len(tip.digest) == DIGEST_SIZE else None


# -- events and calls. Their numbers have no gaps, so a lost one leaves an empty place.

LOST_EVENT: Final = "clew.lost"
"""The type of an event that stands for one that is lost."""

Lost = Callable[[LostRecord], object]


def events_of(read: Read, session: SessionImage, lost: Lost) -> Iterator[list[EventRow]]:
    sid, (first, last) = session.row.sid, session.events
    time = session.row.created
    for low in range(first, last + 1, PAGE):
        rows = []
        found = _read_events(read, sid, low, min(low + PAGE - 1, last))
        for number in range(low, min(low + PAGE, last + 1)):
            row = found.get(number)
            if row is None:
                reason = f"event {number} cannot be read: an event of type {LOST_EVENT!r} is in its place"
                lost(LostRecord(kind="events", session=session.row.id, name=str(number), reason=reason))
                row = EventRow(number, time, "", LOST_EVENT, None, b"null")
            time = row.time
            rows.append(row)
        yield rows


def _read_events(read: Read, sid: int, first: int, last: int) -> dict[int, EventRow]:
    try:
        with read() as reader:
            found = reader.read_events(sid, first - 1, last - first + 1)
        return {row.number: _sound_event(row) for row in found if first <= row.number <= last}
    except UNREADABLE:
        if first == last:
            return {}
    middle = (first + last) // 2
    return _read_events(read, sid, first, middle) | _read_events(read, sid, middle + 1, last)


def _sound_event(row: EventRow) -> EventRow:
    sound = msgspec.convert(msgspec.structs.asdict(row), EventRow)
    check_event(sound)
    return sound


def calls_of(read: Read, session: SessionImage, lost: Lost) -> Iterator[list[UsageRow]]:
    sid, last = session.row.sid, session.calls
    sums: dict[str, int] = {}
    time = session.row.created
    is_told = False

    def note(number: int, reason: str) -> None:
        lost(LostRecord(kind="usage", session=session.row.id, name=str(number), reason=reason))

    for low in range(1, last + 1, PAGE):
        rows = []
        found = _read_usage(read, sid, low, min(low + PAGE - 1, last))
        for number in range(low, min(low + PAGE, last + 1)):
            row = found.get(number)
            if row is None or not _is_countable(after(sums, row)):
                note(number, f"call {number} cannot be read: one without tokens and cost is in its place")
                row = _empty_call(number, time)
                is_told = True  # the sums behind it are others
            sums, time = after(sums, row), row.time
            summed = msgspec.structs.replace(row, **{f"all_{name}": value for name, value in sums.items()})
            if summed != row and not is_told:
                note(number, f"the sums of call {number} were wrong: from there on they are made anew")
                is_told = True
            rows.append(summed)
        yield rows


def _is_countable(sums: dict[str, int]) -> bool:
    return max(sums.values()) <= LARGEST


def _read_usage(read: Read, sid: int, first: int, last: int) -> dict[int, UsageRow]:
    try:
        with read() as reader:
            found = reader.read_usage(sid, first - 1, last - first + 1)
        rows = (_sound_call(row) for row in found)
        return {row.number: row for row in rows if first <= row.number <= last}
    except UNREADABLE:
        if first == last:
            return {}
    middle = (first + last) // 2
    return _read_usage(read, sid, first, middle) | _read_usage(read, sid, middle + 1, last)


def _sound_call(row: UsageRow) -> UsageRow:
    sound = msgspec.convert(msgspec.structs.asdict(row), UsageRow)
    check_call(sound)
    return sound


def _empty_call(number: int, time: int) -> UsageRow:
    """A call of which nothing is known: it costs nothing."""
    return UsageRow(
        number, time, None, None, None, None, None, 0, NOWHERE,
        0, 0, 0, 0, 0, 0, None, 0, 0, 0, 0, 0, 0, 0, 0,
    )  # fmt: skip
