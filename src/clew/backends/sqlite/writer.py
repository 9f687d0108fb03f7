"""Writes, inside a transaction that the backend opened, in the sections of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from clew.backends.contract import RecordKind, Transaction
from clew.backends.rows import facets_of, pack_checksum
from clew.backends.sqlite import sql
from clew.backends.sqlite.reader import SqliteReader
from clew.backends.sqlite.rows import (
    MOST_BRANCHES,
    POSITION_BITS,
    POSITION_MASK,
    Row,
    details_values,
    entry_values,
    erased_values,
    key,
    session_values,
)
from clew.core.log.rows import Details, EntryRow, EventRow, HeadRow, SessionRow, UsageRow
from clew.core.messages.search_text import TextRow
from clew.errors import CorruptError

FEWEST_MERGED: Final = 64
"""Pages of the index of words that are merged with each addition to it, however little is added."""
CHARACTERS_A_PAGE: Final = 1024
"""So many added characters for one more page. A page of the index takes about 4,000, and is merged about four
times until it lies where it stays: with less the index would fall behind, and merge a lot at once."""


class SqliteTransaction(SqliteReader, Transaction):
    """`Transaction` over the writing connection."""

    writes = 0

    # -- sessions

    def add_session(self, row: SessionRow, details: Details) -> int:
        self.writes += 1
        self._execute(sql.ADD_SESSION, session_values(row))
        sid = self._new_number("session")
        if not row.tree:
            self._execute(sql.SET_TREE, (sid,))
        self.set_details(sid, details)
        return sid

    def set_session(self, row: SessionRow) -> None:
        self.writes += 1
        self._execute(sql.SET_SESSION, (*session_values(row), row.sid))

    def set_head(self, sid: int, head: HeadRow, updated: int, title: str | None, preview: str) -> None:
        self.writes += 1
        values = (
            head.branch, head.position, head.digest, head.messages, head.turns, head.size,
            head.view_start, head.summary, head.last_user_turn, updated, title, preview, sid,
        )  # fmt: skip
        self._execute(sql.SET_HEAD, values)

    def set_details(self, sid: int, details: Details) -> None:
        self.writes += 1
        self._execute(sql.SET_DETAILS, (sid, details_values(details)))
        self._execute(sql.DROP_FACETS, (sid,))
        facets = facets_of(details)
        if facets:
            self.connection.executemany(sql.ADD_FACET, [(name, value, sid) for name, value in facets])

    def set_due(self, sid: int | None, due: int) -> None:
        if sid is None:
            self._execute(sql.SET_ALL_DUE, (due,))
            self.writes += self.connection.changes() > 0
        else:
            self.writes += 1
            self._execute(sql.SET_DUE, (due, sid))

    def drop_session(self, sid: int) -> None:
        self.writes += 1
        for statement in sql.DROP_SESSION:
            self._execute(statement, (sid,))
        self._forget_searched(sid=sid)

    # -- log

    def add_branch(self, uid: str, tree: int, owner: int, parent: int, fork: int) -> int:
        self.writes += 1
        self._execute(sql.ADD_BRANCH, (uid, tree, owner, parent, fork))
        return self._new_number("branch")

    def _new_number(self, what: str) -> int:
        """Numbers are counted from 1, and a key has 31 bits for them."""
        number = self.connection.last_insert_rowid()
        if not 0 < number < MOST_BRANCHES:
            raise CorruptError(f"{self.connection.filename}: its next {what} would be number {number}")
        return number

    def disown_branch(self, branch: int) -> None:
        self._own_branch(branch, 0)

    def adopt_branch(self, branch: int, owner: int) -> None:
        self._own_branch(branch, owner)

    def _own_branch(self, branch: int, owner: int) -> None:
        self.writes += 1
        self._branches.pop(branch, None)
        self._execute(sql.OWN_BRANCH, (owner, branch))

    def drop_branch(self, branch: int) -> None:
        self.writes += 1
        self._branches.pop(branch, None)
        self._execute(sql.DROP_BRANCH, (branch,))
        self._forget_searched(branch=branch)

    def add_entries(self, branch: int, rows: Sequence[EntryRow]) -> None:
        self.writes += 1
        if len(rows) == 1:
            self._execute(sql.ADD_ENTRY, entry_values(branch, rows[0]))
        else:
            self.connection.executemany(sql.ADD_ENTRY, (entry_values(branch, row) for row in rows))

    def drop_entries(self, branch: int, after: int) -> None:
        self.writes += 1
        dropped = key(branch, after + 1), key(branch, POSITION_MASK)
        self._forget_texts(*dropped)
        self._lower_searched(branch, after)
        self._execute(sql.DROP_ENTRIES, dropped)

    def erase_entries(self, branch: int, positions: Sequence[int]) -> None:
        erased = []
        for position in positions:
            frame = self._one(sql.ENTRY_FRAME, key(branch, position))
            if frame is not None:
                erased.append((*erased_values(position, *frame), key(branch, position)))
                self._forget_texts(key(branch, position), key(branch, position))
        if erased:
            self.writes += 1
            self.connection.executemany(sql.ERASE_ENTRY, erased)

    # -- records

    def put_record(self, sid: int, kind: RecordKind, name: str, value: bytes) -> None:
        self.writes += 1
        self._execute(sql.PUT_RECORD, (sid, kind, name, value))

    def drop_record(self, sid: int, kind: RecordKind, name: str) -> bool:
        self._execute(sql.DROP_RECORD, (sid, kind, name))
        dropped = self.connection.changes() > 0
        self.writes += dropped
        return dropped

    # -- streams

    def add_events(self, sid: int, rows: Sequence[EventRow]) -> None:
        if rows:
            self.writes += 1
            self.connection.executemany(sql.ADD_EVENT, [keyed(sid, row) for row in rows])

    def drop_events(self, sid: int, upto: int) -> None:
        self._execute(sql.DROP_EVENTS, (key(sid, 0), key(sid, upto)))
        self.writes += self.connection.changes() > 0

    def add_usage(self, sid: int, row: UsageRow) -> None:
        self.writes += 1
        self._execute(sql.ADD_USAGE, keyed(sid, row))

    # -- objects

    def add_pack(self, codec: int, blob: bytes, size: int, members: Sequence[tuple[bytes, int, int]]) -> int:
        self.writes += 1
        self._execute(sql.ADD_PACK, (size, codec, pack_checksum(size, codec, blob), blob))
        pack = self.connection.last_insert_rowid()
        first = pack << POSITION_BITS
        rows = [(name, first | number, offset, size) for number, (name, offset, size) in enumerate(members)]
        if rows:
            self.connection.executemany(sql.ADD_OBJECT, rows)
        return pack

    def drop_objects(self, names: Sequence[bytes]) -> None:
        before = self.connection.total_changes()
        self.connection.executemany(sql.DROP_OBJECT, [(name,) for name in names])
        self.writes += self.connection.total_changes() > before

    def drop_pack(self, pack: int) -> None:
        before = self.connection.total_changes()
        for statement in sql.DROP_PACK:
            self._execute(statement, (pack,))
        self.writes += self.connection.total_changes() > before

    # -- texts

    def add_texts(self, rows: Sequence[TextRow], upto: Mapping[int, int]) -> None:
        from clew.core.messages.words import flat, is_plain

        def indexed(text: str) -> str:
            return text if is_plain(text) else flat(text)

        self.writes += 1
        places = self._places(rows)
        self.connection.executemany(
            sql.ADD_PLACE, [(at, key(row.place.branch, row.place.position)) for at, row in places]
        )
        words = (
            (at, indexed(row.said), indexed(row.tool), sql.home_words(row.place.branch, row.role))
            for at, row in places
        )
        self.connection.executemany(sql.ADD_WORDS, words)
        self.connection.executemany(sql.SET_UPTO, upto.items())
        characters = sum(len(row.said) + len(row.tool) for row in rows)
        self._execute(sql.MERGE_SOME, (FEWEST_MERGED + characters // CHARACTERS_A_PAGE,))

    def _places(self, rows: Sequence[TextRow]) -> list[tuple[int, TextRow]]:
        """A place for each, in order: FTS5 takes words in the order of rowids fastest."""
        last: dict[int, int] = {}
        places = []
        for row in sorted(rows, key=lambda row: row.place):
            slot = sql.slot_of(row.place.time)
            at = self._free_place(slot, last)
            last[at >> sql.SLOT_BITS] = at
            places.append((at, row))
        return places

    def _free_place(self, slot: int, last: dict[int, int]) -> int:
        while True:
            first = slot << sql.SLOT_BITS
            used = last.get(slot)
            if used is None:
                row = self._one(sql.LAST_OF_SLOT, first, first | sql.NUMBERS)
                used = first - 1 if row is None or row[0] is None else int(row[0])
            if used < first | sql.NUMBERS:
                return used + 1
            last[slot] = used
            slot += 1  # full: more entries than one slot has numbers

    def set_searched(self, rows: Sequence[SessionRow]) -> None:
        self.writes += 1
        self.connection.executemany(
            sql.SET_SEARCHED,
            [(row.sid, row.updated, row.head.branch, row.head.position, row.moves) for row in rows],
        )

    def _forget_texts(self, first: int, last: int) -> None:
        """Let the texts of the entries with these keys not be found any more."""
        places = self._execute(sql.PLACES, (first, last)).fetchall()
        if places:
            self.connection.executemany(sql.DROP_WORDS, places)
            self.connection.executemany(sql.DROP_PLACE, places)

    def _lower_searched(self, branch: int, position: int) -> None:
        """A branch ends here now; whatever comes behind it is another text."""
        self._execute(sql.LOWER_UPTO, (branch, position))
        if self.connection.changes():
            self._execute(sql.FORGET_TREE, (branch,))

    def _forget_searched(self, *, branch: int = 0, sid: int = 0) -> None:
        if branch:
            self._execute(sql.DROP_UPTO, (branch,))
        if sid:
            self._execute(sql.DROP_SEARCHED, (sid,))


def keyed(sid: int, row: EventRow | UsageRow) -> Row:
    """Its columns, with the key in place of the number."""
    return (sid << POSITION_BITS | row.number, *msgspec.structs.astuple(row)[1:])
