"""The records of a damaged store: those that can be read, and lead to what exists."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import msgspec

from clew.backends.contract import STORE_WIDE, RecordKind
from clew.core.check.scan import UNREADABLE, Read, scan_damaged
from clew.core.conversation.history import note_name
from clew.core.conversation.moves import Move, is_before
from clew.core.conversation.references import places_named
from clew.core.log.ids import check_id
from clew.core.log.rows import NOWHERE, SessionRow
from clew.core.retention.rules import checked
from clew.core.transfer.image import KINDS, BranchImage, Records
from clew.core.transfer.untrusted.records import check_note, check_record
from clew.errors import CorruptError
from clew.model import Head, Removal, Retention
from clew.model.transfer import LostRecord

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
        ends = {branch.uid: branch.last for branch in branches}
        found: Records = {}
        for kind in KINDS:
            for name, value in self.scan(row.sid, kind, row.id):
                try:
                    check_record(kind, name, value)
                    heads, _ = places_named(kind, value)
                    missing = next((head for head in heads if not _is_there(head, ends)), None)
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


def _is_there(head: Head, ends: dict[str, int]) -> bool:
    return head == Head("", NOWHERE) or 0 <= head.position <= ends.get(head.branch, NOWHERE)
