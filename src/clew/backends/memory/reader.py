"""Reads of a store in memory."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable

from clew.backends.contract import OnDamage, RecordKind
from clew.backends.damage import within
from clew.backends.listing import TAG, facets_of
from clew.backends.memory.objects import ObjectReader
from clew.backends.memory.streams import StreamReader
from clew.backends.memory.tables import Tables
from clew.backends.text_scan import ScannedTexts
from clew.core.log.rows import (
    EMPTY,
    MESSAGE,
    NOT_DUE,
    BranchRow,
    Damaged,
    Details,
    EntryRow,
    Listed,
    SessionQuery,
    SessionRow,
    Tip,
    Totals,
)
from clew.core.messages.codec import decode_json
from clew.errors import BranchMissingError, CorruptEntryError
from clew.model import Json


class MemoryReader(StreamReader, ObjectReader, ScannedTexts):
    def __init__(self, tables: Tables) -> None:
        self._of = tables

    def find_session(self, id: str) -> SessionRow | None:
        return self._of.sessions.get(self._of.ids.get(id, 0))

    def get_session(self, sid: int) -> SessionRow | None:
        return self._of.sessions.get(sid)

    def find_deleted(self, id: str) -> SessionRow | None:
        found = [row for row in self._of.sessions.values() if row.id == id and row.deleted is not None]
        return max(found, key=lambda row: (row.deleted, row.sid), default=None)

    def get_details(self, sid: int) -> Details:
        return self._of.details.get(sid, Details())

    def list_sessions(self, query: SessionQuery) -> list[Listed]:
        def moment(row: SessionRow) -> int:
            return row.updated if row.deleted is None else row.deleted

        after = (-query.after[0], query.after[1]) if query.after else None
        facets = {*((TAG, tag) for tag in query.tags), *query.where}
        found = [
            row
            for row in self._of.sessions.values()
            if (row.deleted is not None) == query.deleted
            and (query.workspace is None or row.workspace == query.workspace)
            and (row.head.messages or not query.nonempty)
            and query.status in (None, row.status)
            and (after is None or (-moment(row), row.id) > after)
            and facets <= set(facets_of(self.get_details(row.sid)))
        ]
        found.sort(key=lambda row: (-moment(row), row.id.encode()))
        return [self._listed(row) for row in found[: query.limit]]

    def _listed(self, row: SessionRow) -> Listed:
        return Listed(row, self.get_details(row.sid), self.get_record(row.sid, "run", ""))

    def damaged_sessions(self) -> list[Damaged]:
        return []

    def due_sessions(self, before: int, limit: int, *, after: tuple[int, int] = (-1, 0)) -> list[SessionRow]:
        found = [
            row
            for row in self._of.sessions.values()
            if row.due <= before and row.due < NOT_DUE and (row.due, row.sid) > after
        ]
        return sorted(found, key=lambda row: (row.due, row.sid))[:limit]

    def idle_sessions(self, limit: int, *, after: tuple[int, str] | None = None) -> list[SessionRow]:
        found = [row for row in self._of.sessions.values() if row.deleted is None]
        found.sort(key=lambda row: row.id.encode(), reverse=True)
        found.sort(key=lambda row: row.updated)
        if after is not None:
            moment, id = after
            found = [row for row in found if row.updated > moment or (row.updated == moment and row.id < id)]
        return found[:limit]

    def tree_sessions(self, tree: int) -> list[SessionRow]:
        return sorted(
            (row for row in self._of.sessions.values() if row.tree == tree), key=lambda row: row.sid
        )

    def get_branch(self, branch: int) -> BranchRow:
        row = self._of.branches.get(branch)
        if row is None:
            raise BranchMissingError(branch)
        return row

    def find_branch(self, uid: str) -> BranchRow | None:
        return self._of.branches.get(self._of.uids.get(uid, 0))

    def tree_branches(self, tree: int) -> list[BranchRow]:
        return sorted(
            (row for row in self._of.branches.values() if row.tree == tree), key=lambda row: row.branch
        )

    def branch_numbers(self, sid: int, tree: int) -> list[int]:
        return [row.branch for row in self._of.branches.values() if row.owner == sid or row.tree == tree]

    def last_position(self, branch: int) -> int:
        rows = self._of.entries.get(branch)
        return rows[-1].position if rows else -1

    def _between(self, branch: int, first: int, last: int) -> list[EntryRow]:
        rows = self._of.entries.get(branch, [])
        start = self._of.branches[branch].fork + 1
        return rows[max(0, first - start) : max(0, last - start + 1)]

    def get_entry(self, branch: int, position: int) -> EntryRow | None:
        if branch not in self._of.branches:
            return None
        return next(iter(self._between(branch, position, position)), None)

    def get_tip(self, branch: int, position: int) -> Tip | None:
        row = self.get_entry(branch, position)
        return None if row is None else row.tip(branch)

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
        if limit is not None and last - first >= limit:
            first, last = (last - limit + 1, last) if reverse else (first, first + limit - 1)
        found = self._between(branch, first, last)
        missing: set[int] = set()
        if len(found) <= last - first:
            missing = set(range(first, last + 1)).difference(row.position for row in found)
        for position in sorted(missing):
            damage = CorruptEntryError(self.get_branch(branch).uid, position, "it is missing")
            if on_damage is None:
                raise damage
            on_damage(damage)
        return within(room, found[::-1] if reverse else found)

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
        rows = self._between(branch, first, last)
        messages = (row for row in (reversed(rows) if reverse else rows) if row.kind == MESSAGE)
        found = within(room, itertools.islice(messages, limit))
        return [(row.position, decode_json(row.body)) for row in found]

    def count_entries(self, branch: int, first: int, last: int, kind: int) -> int:
        if branch not in self._of.branches:
            return 0
        return sum(row.kind == kind for row in self._between(branch, first, last))

    def get_record(self, sid: int, kind: RecordKind, name: str) -> bytes | None:
        return self._of.records.get((sid, kind, name))

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
        found = [
            (name, value)
            for (owner, of_kind, name), value in self._of.records.items()
            if owner == sid and of_kind == kind and name >= first and (last is None or name <= last)
        ]
        return sorted(found, reverse=reverse)[:limit]

    def volume(self) -> tuple[int, int]:
        rows = [row for row in self._of.sessions.values() if row.deleted is None]
        return len(rows), sum(row.head.size for row in rows)

    def problems(self, *, full: bool, go_on: Callable[[], None]) -> Iterable[str]:
        return ()

    def totals(self, since: int) -> Totals:
        rows = list(self._of.sessions.values())
        kept = [row for row in rows if row.deleted is None]
        tips = [self._added(branch) for branch in self._of.branches.values()]
        return Totals(
            sessions=len(kept),
            deleted=len(rows) - len(kept),
            messages=sum(messages for messages, _ in tips),
            entries=sum(map(len, self._of.entries.values())),
            size=sum(size for _, size in tips),
            by_status=dict(Counter(row.status for row in kept)),
            active=dict(Counter(row.status for row in kept if row.updated >= since)),
            created=sum(row.created >= since for row in rows),
        )

    def _added(self, branch: BranchRow) -> tuple[int, int]:
        """Messages and bytes on a branch, by the counters: those whose bodies were erased count too."""
        last = self.get_tip(branch.branch, self.last_position(branch.branch))
        if last is None:
            return 0, 0
        base = self.get_tip(branch.parent, branch.fork) or EMPTY
        return last.messages - base.messages, last.size - base.size
