"""Reads of a remote store, in the sections of the contract. Each is a request, or a few if it is long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from clew.backends.contract import OnDamage, Reader, RecordKind
from clew.backends.http.calls.base import Read
from clew.backends.http.calls.beside import (
    EventBounds,
    FindEvent,
    FindUsage,
    GetRecord,
    LastUsage,
    LastUsages,
    ReadEvents,
    ReadUsage,
    ScanRecords,
    SumUsage,
)
from clew.backends.http.calls.log import (
    BranchNumbers,
    CountEntries,
    FindBranch,
    GetBranch,
    GetEntry,
    GetTip,
    LastPosition,
    ReadEntries,
    TreeBranches,
)
from clew.backends.http.calls.objects import (
    FindObjects,
    FindTexts,
    GetPack,
    ListPacks,
    ScanObjects,
    SearchedUpto,
    UnsearchedTrees,
)
from clew.backends.http.calls.sessions import (
    CountBy,
    CountSessions,
    DamagedSessions,
    DueSessions,
    FindSession,
    FindSubagents,
    GetDetails,
    GetSession,
    ListSessions,
    ScanIds,
    StoreTotals,
    TreeSessions,
    Workspaces,
)
from clew.backends.http.wire import MOST_ROWS
from clew.backends.rows import limited
from clew.core.log import checks
from clew.core.log.rows import (
    BranchRow,
    Damaged,
    Details,
    EntryRow,
    EventRow,
    HeadRow,
    Listed,
    ObjectPlace,
    PackInfo,
    SessionColumn,
    SessionName,
    SessionQuery,
    SessionRow,
    Totals,
    UsageColumn,
    UsageRow,
    UsageSum,
)
from clew.core.messages.search_text import TextPlace, TextQuery
from clew.errors import CorruptEntryError
from clew.model import Json

T = TypeVar("T")


class HttpReader(Reader):
    """A subclass says how a call is asked."""

    def ask(self, call: Read[T]) -> T:
        raise NotImplementedError

    # -- sessions

    def find_session(self, id: str, *, deleted: bool = False) -> SessionRow | None:
        return self.ask(FindSession(id, deleted))

    def get_session(self, sid: int) -> SessionRow | None:
        return self.ask(GetSession(sid))

    def get_details(self, sid: int) -> Details:
        return self.ask(GetDetails(sid))

    def list_sessions(self, query: SessionQuery) -> list[Listed]:
        found: list[Listed] = []
        after = query.after
        while len(found) < query.limit:
            size = min(query.limit - len(found), MOST_ROWS)
            page = self.ask(ListSessions.by(query, size, after))
            found += page
            if len(page) < size:
                break
            last = page[-1]
            moment = last.row.updated if last.row.deleted is None else last.row.deleted
            after = last.behind or (moment, last.row.id)
        return found

    def scan_ids(self, first: str, limit: int, *, own: bool = False) -> list[SessionName]:
        if limit <= MOST_ROWS:
            return self.ask(ScanIds(first, limit, own))
        found: dict[int, SessionName] = {}
        while len(found) < limit:
            # Those of one name come in the order of their numbers: the last name is asked for again.
            page = self.ask(ScanIds(first, MOST_ROWS, own))
            before = len(found)
            found.update((name.sid, name) for name in page)
            if len(page) < MOST_ROWS or len(found) == before:
                break
            first = page[-1].own if own else page[-1].id
        return list(found.values())[:limit]

    def due_sessions(self, before: int, limit: int, *, after: tuple[int, int] = (-1, 0)) -> list[SessionRow]:
        found: list[SessionRow] = []
        while len(found) < limit:
            size = min(limit - len(found), MOST_ROWS)
            page = self.ask(DueSessions(before, size, after))
            found += page
            if len(page) < size:
                break
            after = page[-1].due, page[-1].sid
        return found

    def tree_sessions(self, tree: int) -> list[SessionRow]:
        return self.ask(TreeSessions(tree))

    def damaged_sessions(self) -> list[Damaged]:
        return self.ask(DamagedSessions())

    def count_sessions(self, *, subagents: bool = True) -> int | None:
        return self.ask(CountSessions(subagents))

    def count_by(self, column: SessionColumn, *, deleted: bool = False) -> dict[str, int]:
        return self.ask(CountBy(column, deleted))

    def workspaces(self, *, deleted: bool = False) -> list[str]:
        return self.ask(Workspaces(deleted))

    def find_subagents(self, parents: Sequence[str]) -> list[tuple[str, SessionName]]:
        some = [tuple(parents[at : at + MOST_ROWS]) for at in range(0, len(parents), MOST_ROWS)]
        return [each for part in some for each in self.ask(FindSubagents(part))]

    def totals(self, since: int, *, log: bool = True) -> Totals:
        return self.ask(StoreTotals(since, log))

    # -- log

    def get_branch(self, branch: int) -> BranchRow:
        return self.ask(GetBranch(branch))

    def find_branch(self, uid: str) -> BranchRow | None:
        return self.ask(FindBranch(uid))

    def tree_branches(self, tree: int) -> list[BranchRow]:
        return self.ask(TreeBranches(tree))

    def branch_numbers(self, sid: int, tree: int) -> Sequence[int]:
        return self.ask(BranchNumbers(sid, tree))

    def last_position(self, branch: int) -> int:
        return self.ask(LastPosition(branch))

    def get_tip(self, branch: int, position: int) -> HeadRow | None:
        return self.ask(GetTip(branch, position)) if position >= 0 else None

    def get_entry(self, branch: int, position: int) -> EntryRow | None:
        return self.ask(GetEntry(branch, position)) if position >= 0 else None

    def read_entries(
        self,
        branch: int,
        first: int,
        last: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
        room: int | None = None,
        on_damage: OnDamage | None = None,
    ) -> list[EntryRow]:
        first, last = limited(first, last, limit, reverse=reverse)
        found: list[EntryRow] = []
        while first <= last:
            part = self.ask(ReadEntries(branch, first, last, reverse, room, on_damage is not None, False))
            found += part.rows
            for damage in part.damage:
                if on_damage is not None:
                    on_damage(damage)
            if room is not None:
                room -= sum(len(row.body) for row in part.rows)
            if part.rest is None or (room is not None and room <= 0):
                break
            first, last = (first, part.rest) if reverse else (part.rest, last)
        return found

    def read_messages(
        self,
        branch: int,
        first: int,
        last: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
        room: int | None = None,
        on_damage: OnDamage | None = None,
    ) -> list[tuple[int, dict[str, Json]]]:
        found: list[tuple[int, dict[str, Json]]] = []
        first = max(first, 0)
        while first <= last and (limit is None or len(found) < limit):
            wanted = None if limit is None else limit - len(found)
            begin, end = limited(first, last, wanted, reverse=reverse)
            part = self.ask(ReadEntries(branch, begin, end, reverse, room, on_damage is not None, True))
            for damage in part.damage:
                if on_damage is not None:
                    on_damage(damage)
            for row in part.rows:
                try:
                    found.append((row.position, checks.message(str(branch), row.position, row.body)))
                except CorruptEntryError as damage:
                    if on_damage is None:
                        raise
                    on_damage(damage)
            if room is not None:
                room -= sum(len(row.body) for row in part.rows)
                if room <= 0:
                    break
            if part.rest is None:
                # The end of what was asked for; with a limit there may be more behind it.
                rest = begin - 1 if reverse else end + 1
                if (begin, end) == (first, last):
                    break
            else:
                rest = part.rest
            first, last = (first, rest) if reverse else (rest, last)
        return found

    def count_entries(self, branch: int, first: int, last: int, kind: int) -> int:
        return self.ask(CountEntries(branch, first, last, kind))

    # -- records

    def get_record(self, sid: int, kind: RecordKind, name: str) -> bytes | None:
        return self.ask(GetRecord(sid, kind, name))

    def scan_records(
        self,
        sid: int,
        kind: RecordKind,
        first: str = "",
        last: str | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> list[tuple[str, bytes]]:
        found: dict[str, bytes] = {}
        while limit is None or len(found) < limit:
            again = bool(found)
            size = MOST_ROWS if limit is None else min(limit - len(found) + again, MOST_ROWS)
            page, has_more = self.ask(ScanRecords(sid, kind, first, last, reverse, size))
            before = len(found)
            found.update(page)
            if not page or (not has_more and len(page) < size) or len(found) == before:
                break
            # Names have a next one, but none before: the last one is asked for once more.
            if reverse:
                last = page[-1][0]
            else:
                first = page[-1][0]
        return list(found.items())[:limit]

    # -- streams

    def event_bounds(self, sid: int) -> tuple[int, int]:
        return self.ask(EventBounds(sid))

    def find_event(self, sid: int, id: str) -> EventRow | None:
        return self.ask(FindEvent(sid, id))

    def read_events(self, sid: int, after: int, limit: int, stream: str | None = None) -> list[EventRow]:
        found: list[EventRow] = []
        while len(found) < limit:
            size = min(limit - len(found), MOST_ROWS)
            page, has_more = self.ask(ReadEvents(sid, after, size, stream))
            found += page
            if not page or (not has_more and len(page) < size):
                break
            after = page[-1].number
        return found

    def last_usage(self, sid: int) -> UsageRow | None:
        return self.ask(LastUsage(sid))

    def last_usages(self, sids: Sequence[int]) -> dict[int, UsageRow]:
        found: dict[int, UsageRow] = {}
        for at in range(0, len(sids), MOST_ROWS):
            some: dict[int, UsageRow] = self.ask(LastUsages(tuple(sids[at : at + MOST_ROWS])))
            found |= some
        return found

    def find_usage(self, sid: int, id: str) -> UsageRow | None:
        return self.ask(FindUsage(sid, id))

    def read_usage(self, sid: int, after: int, limit: int) -> list[UsageRow]:
        found: list[UsageRow] = []
        while len(found) < limit:
            size = min(limit - len(found), MOST_ROWS)
            page = self.ask(ReadUsage(sid, after, size))
            found += page
            if len(page) < size:
                break
            after = page[-1].number
        return found

    def sum_usage(
        self,
        sid: int | None,
        by: Sequence[UsageColumn] = (),
        since: int | None = None,
        until: int | None = None,
    ) -> list[UsageSum]:
        return self.ask(SumUsage(sid, tuple(by), since, until))

    # -- objects

    def find_objects(self, names: Sequence[bytes]) -> dict[bytes, ObjectPlace]:
        found: dict[bytes, ObjectPlace] = {}
        for start in range(0, len(names), MOST_ROWS):
            page: dict[bytes, ObjectPlace] = self.ask(FindObjects(list(names[start : start + MOST_ROWS])))
            found.update(page)
        return found

    def scan_objects(self, after: bytes, limit: int) -> list[tuple[bytes, ObjectPlace]]:
        found: list[tuple[bytes, ObjectPlace]] = []
        while len(found) < limit:
            size = min(limit - len(found), MOST_ROWS)
            page = self.ask(ScanObjects(after, size))
            found += page
            if len(page) < size:
                break
            after = page[-1][0]
        return found

    def get_pack(self, pack: int) -> bytes:
        content = self.ask(GetPack(pack))
        if content is None:
            raise KeyError(pack)
        return content

    def list_packs(self, after: int, limit: int) -> list[PackInfo]:
        found: list[PackInfo] = []
        while len(found) < limit:
            size = min(limit - len(found), MOST_ROWS)
            page = self.ask(ListPacks(after, size))
            found += page
            if len(page) < size:
                break
            after = page[-1].pack
        return found

    # -- texts

    def unsearched_trees(self) -> list[int]:
        return self.ask(UnsearchedTrees())

    def searched_upto(self, branch: int) -> int:
        return self.ask(SearchedUpto(branch))

    def find_texts(self, query: TextQuery) -> list[TextPlace]:
        return self.ask(FindTexts.by(query))

    def damage(self, *, full: bool, go_on: Callable[[], None]) -> Iterable[str]:
        return ()
