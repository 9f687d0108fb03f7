"""The words of entries, on one connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

import apsw

from clew.backends.sqlite.objects import ObjectReader, ObjectWriter
from clew.backends.sqlite.rows import MOST_BRANCHES, POSITION_BITS, POSITION_MASK, key
from clew.backends.sqlite.sql import (
    ADD_PLACE,
    ADD_WORDS,
    DATA_VERSION,
    DROP_PLACE,
    DROP_SEARCHED,
    DROP_UPTO,
    DROP_WORDS,
    FORGET_TREE,
    LAST_OF_SLOT,
    LOWER_UPTO,
    NUMBERS,
    PLACE_OF,
    PLACES,
    SEARCHED_UPTO,
    SET_SEARCHED,
    SET_UPTO,
    SLOT_BITS,
    UNSEARCHED,
    finding,
    home_words,
    slot_of,
)
from clew.core.log.rows import NOWHERE, SessionRow
from clew.core.messages.search_text import TextPlace, TextQuery, TextRow

_complete: WeakKeyDictionary[apsw.Connection, int] = WeakKeyDictionary()
"""Connections that have found everything searched, with the version of the file that they saw then."""


class TextReader(ObjectReader):
    def unsearched_trees(self) -> list[int]:
        """A look at every session; none at all if nobody has written since this connection looked last."""
        version = self._execute(DATA_VERSION).get
        if _complete.get(self.connection) == version:
            return []
        trees = [tree for (tree,) in self._execute(UNSEARCHED)]
        # A connection is not told of what it writes itself.
        if not trees and self.connection.readonly("main"):
            _complete[self.connection] = version
        return trees

    def searched_upto(self, branch: int) -> int:
        row = self._one(SEARCHED_UPTO, branch)
        return NOWHERE if row is None else int(row[0])

    def find_texts(self, query: TextQuery) -> list[TextPlace]:
        sql, bindings = finding(query, self._place_of(query.before))
        return [
            TextPlace(time, at >> POSITION_BITS, at & POSITION_MASK)
            for time, at in self._execute(sql, bindings)
        ]

    def _place_of(self, before: TextPlace | None) -> int | None:
        """Of an entry that is gone: the end of the slot that it was in."""
        if before is None:
            return None
        is_ours = before.branch < MOST_BRANCHES
        row = self._one(PLACE_OF, key(before.branch, before.position)) if is_ours else None
        return (slot_of(before.time) + 1) << SLOT_BITS if row is None else int(row[0])


class TextWriter(TextReader, ObjectWriter):
    def add_texts(self, rows: Sequence[TextRow], upto: Mapping[int, int]) -> None:
        from clew.core.messages.words import flat, is_plain

        def indexed(text: str) -> str:
            return text if is_plain(text) else flat(text)

        self.writes += 1
        places = self._places(rows)
        self.connection.executemany(
            ADD_PLACE, [(at, key(row.place.branch, row.place.position)) for at, row in places]
        )
        words = (
            (at, indexed(row.said), indexed(row.tool), home_words(row.place.branch, row.role))
            for at, row in places
        )
        self.connection.executemany(ADD_WORDS, words)
        self.connection.executemany(SET_UPTO, upto.items())

    def _places(self, rows: Sequence[TextRow]) -> list[tuple[int, TextRow]]:
        """A place for each, in order: FTS5 takes words in the order of rowids fastest."""
        last: dict[int, int] = {}
        places = []
        for row in sorted(rows, key=lambda row: row.place):
            slot = slot_of(row.place.time)
            at = self._free_place(slot, last)
            last[at >> SLOT_BITS] = at
            places.append((at, row))
        return places

    def _free_place(self, slot: int, last: dict[int, int]) -> int:
        while True:
            first = slot << SLOT_BITS
            used = last.get(slot)
            if used is None:
                row = self._one(LAST_OF_SLOT, first, first | NUMBERS)
                used = first - 1 if row is None or row[0] is None else int(row[0])
            if used < first | NUMBERS:
                return used + 1
            last[slot] = used
            slot += 1  # full: there are more in one moment than anybody can tell apart

    def set_searched(self, rows: Sequence[SessionRow]) -> None:
        self.writes += 1
        self.connection.executemany(
            SET_SEARCHED,
            [(row.sid, row.updated, row.head.branch, row.head.position, row.moves) for row in rows],
        )

    def _forget_texts(self, first: int, last: int) -> None:
        """Let the texts of the entries with these keys not be found any more."""
        places = self._execute(PLACES, (first, last)).fetchall()
        if places:
            self.connection.executemany(DROP_WORDS, places)
            self.connection.executemany(DROP_PLACE, places)

    def _lower_searched(self, branch: int, position: int) -> None:
        """A branch ends here now; whatever comes behind it is another text."""
        self._execute(LOWER_UPTO, (branch, position))
        if self.connection.changes():
            self._execute(FORGET_TREE, (branch,))

    def _forget_searched(self, *, branch: int = 0, sid: int = 0) -> None:
        if branch:
            self._execute(DROP_UPTO, (branch,))
        if sid:
            self._execute(DROP_SEARCHED, (sid,))
