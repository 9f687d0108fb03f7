"""Calls about sessions."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from clew.backends.contract import Reader, Transaction
from clew.backends.http.calls.base import Limit, Read, Text, Write
from clew.backends.http.wire import MOST_ROWS
from clew.core.log import checks
from clew.core.log.records import Count, Integer, Time
from clew.core.log.rows import (
    Damaged,
    Details,
    HeadRow,
    Listed,
    SessionColumn,
    SessionName,
    SessionQuery,
    SessionRow,
    Totals,
)


class FindSession(Read[SessionRow | None]):
    id: Text
    deleted: bool
    answer: ClassVar[Any] = SessionRow | None

    def of(self, on: Reader) -> SessionRow | None:
        return on.find_session(self.id, deleted=self.deleted)

    def taken(self, answer: Any) -> SessionRow | None:
        return None if answer is None else checks.session(answer)


class GetSession(Read[SessionRow | None]):
    sid: Count
    answer: ClassVar[Any] = SessionRow | None

    def of(self, on: Reader) -> SessionRow | None:
        return on.get_session(self.sid)

    def taken(self, answer: Any) -> SessionRow | None:
        return None if answer is None else checks.session(answer)


class GetDetails(Read[Details]):
    sid: Count
    answer: ClassVar[Any] = Details

    def of(self, on: Reader) -> Details:
        return on.get_details(self.sid)


class ListSessions(Read[list[Listed]]):
    limit: Limit
    oldest: bool
    workspace: str | None
    tags: tuple[Text, ...]
    where: tuple[tuple[Text, str], ...]
    after: tuple[Integer, str] | None
    deleted: bool
    nonempty: bool
    status: Count | None
    since: Integer | None
    until: Integer | None
    damaged: bool
    min_cost: Count | None
    answer: ClassVar[Any] = list[Listed]

    @classmethod
    def by(cls, query: SessionQuery, limit: int, after: tuple[int, str] | None) -> ListSessions:
        values = {name: getattr(query, name) for name in cls.__struct_fields__}
        return cls(**{**values, "limit": limit, "after": after})

    def of(self, on: Reader) -> list[Listed]:
        return on.list_sessions(
            SessionQuery(**{name: getattr(self, name) for name in self.__struct_fields__})
        )

    def taken(self, answer: Any) -> list[Listed]:
        for each in answer:
            if not each.damage:
                checks.session(each.row)
        return answer  # type: ignore[no-any-return]


class ScanIds(Read[list[SessionName]]):
    first: Text
    limit: Limit
    own: bool
    answer: ClassVar[Any] = list[SessionName]

    def of(self, on: Reader) -> list[SessionName]:
        return on.scan_ids(self.first, self.limit, own=self.own)


class DueSessions(Read[list[SessionRow]]):
    before: Integer
    limit: Limit
    after: tuple[Integer, Integer]
    answer: ClassVar[Any] = list[SessionRow]

    def of(self, on: Reader) -> list[SessionRow]:
        return on.due_sessions(self.before, self.limit, after=self.after)

    def taken(self, answer: Any) -> list[SessionRow]:
        return [checks.session(row) for row in answer]


class TreeSessions(Read[list[SessionRow]]):
    tree: Count
    answer: ClassVar[Any] = list[SessionRow]

    def of(self, on: Reader) -> list[SessionRow]:
        return on.tree_sessions(self.tree)

    def taken(self, answer: Any) -> list[SessionRow]:
        return [checks.session(row) for row in answer]


class DamagedSessions(Read[list[Damaged]]):
    answer: ClassVar[Any] = list[Damaged]

    def of(self, on: Reader) -> list[Damaged]:
        return on.damaged_sessions()


class CountSessions(Read[int | None]):
    subagents: bool
    answer: ClassVar[Any] = int | None

    def of(self, on: Reader) -> int | None:
        return on.count_sessions(subagents=self.subagents)


class CountBy(Read[dict[str, int]]):
    column: SessionColumn
    deleted: bool
    answer: ClassVar[Any] = dict[str, Count]

    def of(self, on: Reader) -> dict[str, int]:
        return on.count_by(self.column, deleted=self.deleted)


class Workspaces(Read[list[str]]):
    deleted: bool
    answer: ClassVar[Any] = list[str]

    def of(self, on: Reader) -> list[str]:
        return on.workspaces(deleted=self.deleted)


class FindSubagents(Read[list[tuple[str, SessionName]]]):
    parents: Annotated[tuple[Text, ...], Meta(max_length=MOST_ROWS)]
    answer: ClassVar[Any] = list[tuple[str, SessionName]]

    def of(self, on: Reader) -> list[tuple[str, SessionName]]:
        return on.find_subagents(self.parents)


class StoreTotals(Read[Totals], tag="totals"):
    since: Integer
    log: bool
    answer: ClassVar[Any] = Totals

    def of(self, on: Reader) -> Totals:
        return on.totals(self.since, log=self.log)


class Era(Read[int]):
    answer: ClassVar[Any] = int

    def of(self, on: Reader) -> int:
        return getattr(on, "era", 0)  # outside of a transaction it makes no difference


class AddSession(Write):
    row: SessionRow
    details: Details

    def do(self, on: Transaction) -> int:
        return on.add_session(self.row, self.details)


class SetSession(Write):
    row: SessionRow

    def do(self, on: Transaction) -> None:
        on.set_session(self.row)


class SetHead(Write):
    sid: Count
    head: HeadRow
    updated: Time
    title: str | None
    preview: str

    def do(self, on: Transaction) -> None:
        on.set_head(self.sid, self.head, self.updated, self.title, self.preview)


class SetDetails(Write):
    sid: Count
    details: Details

    def do(self, on: Transaction) -> None:
        on.set_details(self.sid, self.details)


class SetDue(Write):
    sid: Count | None
    due: Integer

    def do(self, on: Transaction) -> None:
        on.set_due(self.sid, self.due)


class DropSession(Write):
    sid: Count

    def do(self, on: Transaction) -> None:
        on.drop_session(self.sid)
