"""Events and usage of a store in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

from clew.backends.memory.tables import Journal, Tables
from clew.core.log.rows import EventRow, UsageRow, UsageSum
from clew.model import UsageKey

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class StreamReader:
    _of: Tables

    def event_bounds(self, sid: int) -> tuple[int, int]:
        rows = self._of.events.get(sid)
        return (rows[0].number, rows[-1].number) if rows else (1, 0)

    def find_event(self, sid: int, id: str) -> EventRow | None:
        return self._of.event_ids.get((sid, id))

    def read_events(self, sid: int, after: int, limit: int, stream: str | None = None) -> list[EventRow]:
        rows = self._of.events.get(sid, [])
        start = max(0, after + 1 - rows[0].number) if rows else 0
        behind = (rows[index] for index in range(start, len(rows)))
        return list(islice((row for row in behind if stream is None or row.stream == stream), limit))

    def last_usage(self, sid: int) -> UsageRow | None:
        rows = self._of.usage.get(sid)
        return rows[-1] if rows else None

    def find_usage(self, sid: int, id: str) -> UsageRow | None:
        return self._of.usage_ids.get((sid, id))

    def read_usage(self, sid: int, after: int, limit: int) -> list[UsageRow]:
        rows = self._of.usage.get(sid, [])
        start = max(0, after + 1 - rows[0].number) if rows else 0
        return rows[start : start + limit]

    def sum_usage(
        self, sid: int | None, by: UsageKey | None, since: int | None = None, until: int | None = None
    ) -> list[UsageSum]:
        groups: dict[str | None, list[UsageRow]] = {}
        for owner, rows in self._of.usage.items():
            if sid in (None, owner):
                for row in rows:
                    if (since is None or row.time >= since) and (until is None or row.time < until):
                        groups.setdefault(self._group(owner, row, by), []).append(row)
        order = sorted(groups, key=lambda group: (group is not None, (group or "").encode()))
        return [_sum(group, groups[group]) for group in order]

    def _group(self, sid: int, row: UsageRow, by: UsageKey | None) -> str | None:
        session, branch = self._of.sessions.get(sid), self._of.branches.get(row.branch)
        groups: dict[UsageKey | None, Callable[[], str | None]] = {
            None: lambda: None,
            "model": lambda: row.model,
            "vendor": lambda: row.vendor,
            "endpoint": lambda: row.endpoint,
            "source": lambda: row.source,
            "day": lambda: (EPOCH + timedelta(microseconds=row.time)).date().isoformat(),
            "workspace": lambda: session.workspace if session else None,
            "session": lambda: session.id if session else None,
            "branch": lambda: branch.uid if branch else None,
        }
        return groups[by]()


def _sum(group: str | None, rows: list[UsageRow]) -> UsageSum:
    return UsageSum(
        group,
        len(rows),
        sum(row.input for row in rows),
        sum(row.output for row in rows),
        sum(row.cache_read for row in rows),
        sum(row.cache_write for row in rows),
        sum(row.reasoning for row in rows),
        sum(row.cost or 0 for row in rows),
        sum(row.cost is None for row in rows),
        sum(row.priced_by is not None for row in rows),
    )


class StreamTransaction(StreamReader, Journal):
    def add_events(self, sid: int, rows: Sequence[EventRow]) -> None:
        if not rows:
            return
        if sid not in self._of.events:
            self._set(self._of.events, sid, [])
        self._extend(self._of.events[sid], list(rows))
        for row in rows:
            if row.id is not None:
                self._set(self._of.event_ids, (sid, row.id), row)

    def drop_events(self, sid: int, upto: int) -> None:
        rows = self._of.events.get(sid)
        if not rows or rows[0].number > upto:
            return
        self.writes += 1
        old = rows[: upto + 1 - rows[0].number]
        del rows[: len(old)]
        self._undo.append(lambda: rows.__setitem__(slice(0, 0), old))
        for row in old:
            if row.id is not None:
                self._drop(self._of.event_ids, (sid, row.id))

    def add_usage(self, sid: int, row: UsageRow) -> None:
        if sid not in self._of.usage:
            self._set(self._of.usage, sid, [])
        self._extend(self._of.usage[sid], [row])
        if row.id is not None:
            self._set(self._of.usage_ids, (sid, row.id), row)

    def _drop_streams(self, sid: int) -> None:
        for event in self._of.events.get(sid, ()):
            if event.id is not None:
                self._drop(self._of.event_ids, (sid, event.id))
        for call in self._of.usage.get(sid, ()):
            if call.id is not None:
                self._drop(self._of.usage_ids, (sid, call.id))
        self._drop(self._of.events, sid)
        self._drop(self._of.usage, sid)
