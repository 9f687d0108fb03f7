"""Calls about the objects of snapshots, and about the index of texts."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.backends.http.calls.base import Limit, ObjectName, Read, Write
from clew.backends.http.wire import (
    MOST_ROWS,
    Blob,
    blob,
    unblob,
)
from clew.core.log import checks
from clew.core.log.records import Count, Integer, Position
from clew.core.log.rows import (
    ObjectPlace,
    PackInfo,
    SessionRow,
)
from clew.core.messages.search_text import SearchTerm, Terms, TextPlace, TextQuery, TextRow

# -- objects


class FindObjects(Read[dict[bytes, ObjectPlace]]):
    names: list[ObjectName]
    answer: ClassVar[Any] = list[tuple[bytes, ObjectPlace]]

    def of(self, on: Reader) -> list[tuple[bytes, ObjectPlace]]:
        return list(on.find_objects(self.names).items())

    def taken(self, answer: Any) -> dict[bytes, ObjectPlace]:
        return {name: checks.place(name, place) for name, place in answer}


class ScanObjects(Read[list[tuple[bytes, ObjectPlace]]]):
    after: ObjectName
    limit: Limit
    answer: ClassVar[Any] = list[tuple[bytes, ObjectPlace]]

    def of(self, on: Reader) -> list[tuple[bytes, ObjectPlace]]:
        return on.scan_objects(self.after, self.limit)

    def taken(self, answer: Any) -> list[tuple[bytes, ObjectPlace]]:
        return [(name, checks.place(name, place)) for name, place in answer]


class GetPack(Read[bytes | None]):
    """None: there is none."""

    pack: Count
    answer: ClassVar[Any] = Blob | None

    def of(self, on: Reader) -> Blob | None:
        try:
            return blob(on.get_pack(self.pack))
        except KeyError:
            return None

    def taken(self, answer: Any) -> bytes | None:
        return None if answer is None else unblob(answer)


class ListPacks(Read[list[PackInfo]]):
    after: Integer
    limit: Limit
    answer: ClassVar[Any] = list[PackInfo]

    def of(self, on: Reader) -> list[PackInfo]:
        return on.list_packs(self.after, self.limit)

    def taken(self, answer: Any) -> list[PackInfo]:
        return [checks.pack(found) for found in answer]


class AddPack(Write):
    codec: Count
    blob: bytes
    size: Count
    members: list[tuple[ObjectName, Count, Count]]

    def do(self, on: Transaction) -> int:
        return on.add_pack(self.codec, self.blob, self.size, self.members)


class DropObjects(Write):
    names: list[ObjectName]

    def do(self, on: Transaction) -> None:
        on.drop_objects(self.names)


class DropPack(Write):
    pack: Count

    def do(self, on: Transaction) -> None:
        on.drop_pack(self.pack)


# -- texts


class UnsearchedTrees(Read[list[int]]):
    answer: ClassVar[Any] = list[Count]

    def of(self, on: Reader) -> list[int]:
        return on.unsearched_trees()


class SearchedUpto(Read[int]):
    branch: Count
    answer: ClassVar[Any] = Position

    def of(self, on: Reader) -> int:
        return on.searched_upto(self.branch)


class FindTexts(Read[list[TextPlace]]):
    wanted: Terms
    unwanted: Terms
    limit: Limit
    tools: bool
    role: Count | None
    branches: list[Count] | None
    since: Integer | None
    until: Integer | None
    before: tuple[Integer, Integer, Integer] | None
    answer: ClassVar[Any] = list[tuple[Integer, Count, Count]]

    @classmethod
    def by(cls, query: TextQuery) -> FindTexts:
        wanted, unwanted = (
            tuple(SearchTerm(term.words, term.prefix) for term in terms)
            for terms in (query.query.wanted, query.query.unwanted)
        )
        branches = None if query.branches is None else sorted(query.branches)
        return cls(
            wanted,
            unwanted,
            min(query.limit, MOST_ROWS),
            query.tools,
            query.role,
            branches,
            query.since,
            query.until,
            None if query.before is None else _place(query.before),
        )

    def of(self, on: Reader) -> list[TextPlace]:
        from clew.core.messages.words import Query, Term

        wanted, unwanted = (
            tuple(Term(term.words, term.prefix) for term in terms) for terms in (self.wanted, self.unwanted)
        )
        return on.find_texts(
            TextQuery(
                query=Query(wanted, unwanted),
                limit=self.limit,
                tools=self.tools,
                role=self.role,
                branches=None if self.branches is None else frozenset(self.branches),
                since=self.since,
                until=self.until,
                before=None if self.before is None else TextPlace(*self.before),
            )
        )

    def taken(self, answer: Any) -> list[TextPlace]:
        return [TextPlace(*place) for place in answer]


def _place(place: TextPlace) -> tuple[int, int, int]:
    return place.time, place.branch, place.position


class IndexedText(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A `TextRow`."""

    place: tuple[Integer, Count, Count]
    role: Count
    said: str
    tool: str

    @classmethod
    def by(cls, row: TextRow) -> IndexedText:
        return cls(_place(row.place), row.role, row.said, row.tool)


class AddTexts(Write):
    rows: list[IndexedText]
    upto: list[tuple[Count, Position]]

    def do(self, on: Transaction) -> None:
        rows = [TextRow(TextPlace(*row.place), row.role, row.said, row.tool) for row in self.rows]
        on.add_texts(rows, dict(self.upto))


class SetSearched(Write):
    rows: list[SessionRow]

    def do(self, on: Transaction) -> None:
        on.set_searched(self.rows)
