"""Forks that another program made: what a copy has in common with its base is stored once.

A program that forks a session copies all that was said before. Such a session becomes a fork here, of the
base that it names, at the last entry that is the same in both. So it is when the base comes after its copy:
then the base shares what the copy brought.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.backends.rows import wanted
from clew.core.conversation.history import note_name
from clew.core.conversation.moves import preview_at, title_at
from clew.core.conversation.points import head_of, tip_at
from clew.core.conversation.sessions import check_free
from clew.core.load.entries import Item, Run, packed
from clew.core.log.records import COPIED_FROM
from clew.core.log.rows import (
    COMPACTION,
    NOWHERE,
    BranchRow,
    Details,
    EntryRow,
    ForkOrigin,
    SessionQuery,
    SessionRow,
)
from clew.errors import ClewError, CorruptError
from clew.model.source import SourceSession

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike

_PAGE: Final = 256
_MOST_COPIES: Final = 8
"""Copies of one base that are looked at, those of the last activity."""
_OF_COPIES: Final = frozenset({"inherited", "ordinal", "forkedFrom"})
"""Notes that only say that an entry was copied, from where, and which line it is."""


_encode = msgspec.json.Encoder().encode


class Sharing:
    """What a new session has in common with another one, entry by entry, from its beginning on."""

    def __init__(self, engine: EngineLike, other: SessionRow, branches: list[BranchRow], *, is_base: bool):
        self._engine = engine
        self.other = other
        self.is_base = is_base
        """The other one is the base; else it is a copy of the new one."""
        self._after: dict[tuple[int, int], list[BranchRow]] = {}
        self._uids = {branch.branch: branch.uid for branch in branches}
        for branch in branches:
            self._after.setdefault((branch.parent, branch.fork), []).append(branch)
        self._place = 0, NOWHERE
        self._page: tuple[int, list[EntryRow]] = 0, []
        self._name: str | None = None
        self._runs: list[tuple[int, int, list[str]]] = []
        self.is_over = False

    @property
    def is_empty(self) -> bool:
        return not self._runs

    def take(self, item: Item) -> int | None:
        """The place of an entry that is there already, behind the one before it; None: from here on they
        differ."""
        found = None
        if not self.is_over and item.parent == self._name:
            with self._engine.read() as reader, suppress(CorruptError):  # what is damaged is not shared
                found = self._next(reader, item)
        if found is None:
            self.is_over = True
            return None
        branch, position = self._place = found
        self._name = item.name
        if self._runs and self._runs[-1][0] == branch:
            self._runs[-1][2].append(item.name)
        else:
            self._runs.append((branch, position, [item.name]))
        return packed(branch, position)

    def _next(self, reader: Reader, item: Item) -> tuple[int, int] | None:
        branch, position = self._place
        for number in (branch, *(one.branch for one in self._after.get(self._place, ()))):
            entry = self._entry(reader, number, position + 1) if number else None
            if entry is not None and self._is_same(reader, number, entry, item):
                return number, position + 1
        return None

    def _entry(self, reader: Reader, branch: int, position: int) -> EntryRow | None:
        at, rows = self._page
        if at != branch or not rows or not rows[0].position <= position <= rows[-1].position:
            last = min(reader.last_position(branch), position + _PAGE - 1)
            if last < position:
                return None
            rows = list(reader.read_entries(branch, position, last))
            self._page = branch, rows
        return rows[position - rows[0].position]

    def _is_same(self, reader: Reader, branch: int, entry: EntryRow, item: Item) -> bool:
        body = entry.body.partition(b",")[2] if item.kind == COMPACTION else entry.body
        if entry.kind != item.kind or body != item.body:
            return False
        name = note_name(self._uids[branch], entry.position)
        there = _notes(reader.get_record(STORE_WIDE, "annotation", name))
        return _notes(item.note).items() <= there.items()

    def runs(self) -> list[Run]:
        """Where the entries lie, for the memory of the load."""
        return [
            Run(self._uids[branch], first, len(names), "", tuple(names))
            for branch, first, names in self._runs
        ]

    def create(self, tx: Transaction, id: str, time: int) -> SessionRow | None:
        """The new session, which stands behind the last entry that both have. None: the other one is not
        there any more."""
        check_free(tx, id)
        known = tx.get_session(self.other.sid)
        if known is None or known.tree != self.other.tree:
            return None
        tip = tip_at(tx, *self._place)
        place = head_of(tx, tip)
        origin = None
        if self.is_base:
            origin = ForkOrigin(known.sid, known.id, tip.branch, place.branch, tip.position)
        row = SessionRow(0, id, known.tree, time, time, None, tip, False, None, False, "", None)
        row = msgspec.structs.replace(row, title=title_at(tx, tip), preview=preview_at(tx, tip))
        sid = tx.add_session(row, Details(origin=origin))
        if not self.is_base:
            details = tx.get_details(known.sid)
            if details.origin is None:
                origin = ForkOrigin(sid, id, tip.branch, place.branch, tip.position)
                tx.set_details(known.sid, msgspec.structs.replace(details, origin=origin))
        return msgspec.structs.replace(row, sid=sid)


def sharing_of(engine: EngineLike, source: SourceSession, id: str) -> Sharing | None:
    """The session that a new one may have its beginning in common with: its base, or a copy of it."""
    with engine.read() as reader:
        if source.is_copy and source.parent is not None:
            base = reader.find_session(source.parent)
            if base is not None:
                return _with(engine, reader, base, is_base=True)
        query = SessionQuery(limit=_MOST_COPIES, where=wanted({COPIED_FROM: id}))
        for listed in reader.list_sessions(query):
            if listed.row.tree == listed.row.sid:
                return _with(engine, reader, listed.row, is_base=False)
    return None


def _with(engine: EngineLike, reader: Reader, other: SessionRow, *, is_base: bool) -> Sharing | None:
    try:
        return Sharing(engine, other, reader.tree_branches(other.tree), is_base=is_base)
    except ClewError:
        return None  # damaged: then nothing is shared


def _notes(note: bytes | None) -> dict[str, bytes]:
    """What must not be lost when an entry is shared: each note as JSON text."""
    found = msgspec.json.decode(note) if note is not None else {}
    return {name: _encode(value) for name, value in found.items() if name not in _OF_COPIES}
