"""Sums over model calls: of a session or of all, by day, model, agent and so on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Final, NamedTuple, get_args

import msgspec

from clew.backends.contract import Reader
from clew.core.log import checks
from clew.core.log.ids import check_time, shown
from clew.core.log.records import agent_of, parent_of
from clew.core.log.rows import Details, SessionQuery, UsageColumn, UsageRow, UsageSum
from clew.core.streams.families import subagents_below
from clew.core.streams.usage import amount_of
from clew.errors import CorruptError, InvalidQueryError
from clew.model import UsageGroup, UsageKey, UsageTotals, utc
from clew.model.session import project_of


class Wanted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What to sum over, and how to group it. None: everything."""

    by: UsageKey | None = None
    since: int | None = None
    until: int | None = None
    tz: tzinfo | None = None
    """Whose days, weeks and months; None: those of UTC."""
    model: str | None = None
    agent: str | None = None
    project: str | None = None
    subagents: bool = False
    """Of a session: those of its subagents too. Of a store, by session: they count for the session that they
    work for."""


def wanted(
    by: UsageKey | None, since: datetime | None, until: datetime | None, tz: tzinfo | None, **more: Any
) -> Wanted:
    """Check what to sum over."""
    if by is not None and by not in get_args(UsageKey):
        raise InvalidQueryError(f"by must be one of {', '.join(get_args(UsageKey))}, not {by!r}")
    if tz is not None and not isinstance(tz, tzinfo):
        raise InvalidQueryError(f"tz must be a tzinfo such as zoneinfo.ZoneInfo, not {shown(tz)}")
    return Wanted(
        by=by,
        since=None if since is None else check_time(since, "since", InvalidQueryError),
        until=None if until is None else check_time(until, "until", InvalidQueryError),
        tz=tz,
        **more,
    )


def session_totals(
    reader: Reader, sid: int, id: str, asked: Wanted
) -> UsageTotals | dict[UsageGroup, UsageTotals]:
    """Sums over the calls of a session; those over all of them are kept with the last one."""
    if asked == _ALL:
        last = reader.last_usage(sid)
        return UsageTotals() if last is None else _totals_up_to(last)
    below = subagents_below(reader, sid, id) if asked.subagents else []
    each = msgspec.structs.replace(asked, subagents=False)
    return _totals(reader, [sid, *below], each)


def store_totals(
    reader: Reader, asked: Wanted, workspace: str | None = None, tags: tuple[str, ...] = ()
) -> UsageTotals | dict[UsageGroup, UsageTotals]:
    """Sums over the calls of all sessions, or of those that work in a workspace and have these tags."""
    if workspace is None and not tags:
        return _totals(reader, [None], asked)
    fitting = SessionQuery(limit=_MOST_SESSIONS, workspace=workspace, tags=tags)
    sids = [
        one.row.sid
        for deleted in (False, True)
        for one in reader.list_sessions(msgspec.structs.replace(fitting, deleted=deleted))
    ]
    return _totals(reader, sids, asked)


_ALL: Final = Wanted()
_MOST_SESSIONS: Final = 2**31 - 1
_FEW: Final = 300
"""Sessions that are looked up one by one."""
_COLUMNS: Final[dict[UsageKey, UsageColumn]] = {
    "day": "day", "week": "day", "month": "day", "model": "model", "agent": "session", "project": "workspace",
    "session": "session", "vendor": "vendor", "endpoint": "endpoint", "source": "source",
    "workspace": "workspace", "branch": "branch",
}  # fmt: skip
_DATES: Final = frozenset({"day", "week", "month"})


def _totals(
    reader: Reader, sids: Sequence[int | None], asked: Wanted
) -> UsageTotals | dict[UsageGroup, UsageTotals]:
    """Storage groups by columns; what is made of their values is put together here."""
    columns: list[UsageColumn] = []
    if asked.by is not None:
        is_elsewhere = asked.by in _DATES and asked.tz not in (None, UTC)
        columns.append("quarter" if is_elsewhere else _COLUMNS[asked.by])
    filters: list[tuple[UsageColumn, str | None]] = [
        ("model", asked.model), ("session", asked.agent), ("workspace", asked.project)
    ]  # fmt: skip
    columns += [column for column, value in filters if value is not None and column not in columns]
    told = _Sessions(reader)
    sums: dict[UsageGroup, UsageSum] = {}
    for sid in sids:
        for found in reader.sum_usage(sid, columns, asked.since, asked.until):
            parts = dict(zip(columns, found.group, strict=True))
            if _is_wanted(parts, asked, told):
                group = None if asked.by is None else _group(found.group[0], asked, told)
                sums[group] = _added(sums.get(group), found)
    if asked.by is None:
        return _totals_of(sums[None]) if sums else UsageTotals()
    return {group: _totals_of(sums[group]) for group in sorted(sums, key=_in_order)}


def _is_wanted(parts: Mapping[UsageColumn, str | None], asked: Wanted, told: _Sessions) -> bool:
    if asked.model is not None and parts["model"] != asked.model:
        return False
    if asked.project is not None and (project_of(parts["workspace"]) or parts["workspace"]) != asked.project:
        return False
    return asked.agent is None or told.agent(parts["session"]) == asked.agent


def _group(value: str | None, asked: Wanted, told: _Sessions) -> UsageGroup:
    match asked.by:
        case "day" | "week" | "month":
            return None if value is None else _date(value, asked)
        case "project":
            return project_of(value) or value
        case "agent":
            return told.agent(value)
        case "session" if asked.subagents:
            return told.above(value)
        case _:
            return value


def _date(value: str, asked: Wanted) -> date | None:
    try:
        day = date.fromisoformat(value) if asked.tz in (None, UTC) else _local_day(value, asked.tz)
    except (ValueError, OverflowError):  # a time that is none
        return None
    if asked.by == "week":
        return day - timedelta(days=min(day.weekday(), day.toordinal() - 1))
    return day.replace(day=1) if asked.by == "month" else day


def _local_day(quarter: str, tz: tzinfo | None) -> date:
    return utc(int(quarter) * 900_000_000).astimezone(tz).date()


def _in_order(group: UsageGroup) -> tuple[bool, bytes]:
    return group is not None, str(group).encode()


def _added(sums: UsageSum | None, more: UsageSum) -> UsageSum:
    if sums is None:
        return more
    names = UsageSum.__struct_fields__[1:]
    return UsageSum((), *(getattr(sums, name) + getattr(more, name) for name in names))


class _Sessions:
    """What sessions say of themselves. Each is looked up once; if there are many, all are read at once."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[str, _Said | None] = {}
        self._has_all = False

    def agent(self, id: str | None) -> str | None:
        said = None if id is None else self._of(id)
        return None if said is None else said.agent

    def above(self, id: str | None) -> str | None:
        """The session that a subagent works for in the end; of others it is the same."""
        seen = {id}  # what is read back may run in a circle
        while True:
            said = None if id is None else self._of(id)
            parent = None if said is None else said.parent
            if parent is None or parent in seen or self._of(parent) is None:
                return id
            id = parent
            seen.add(id)

    def _of(self, id: str) -> _Said | None:
        """None: there is no such session."""
        if id not in self._known:
            if len(self._known) >= _FEW and not self._has_all:
                self._read_all()
            if id not in self._known:
                self._known[id] = self._looked_up(id)
        return self._known[id]

    def _read_all(self) -> None:
        self._has_all = True
        for deleted in (True, False):  # an id may be that of both: the one that is not in the trash is meant
            for one in self._reader.list_sessions(SessionQuery(limit=_MOST_SESSIONS, deleted=deleted)):
                self._known[one.row.id] = _said(one.row.id, one.details)

    def _looked_up(self, id: str) -> _Said | None:
        row = self._reader.find_session(id) or self._reader.find_session(id, deleted=True)
        try:
            return None if row is None else _said(id, self._reader.get_details(row.sid))
        except CorruptError:  # its calls are counted all the same
            return _Said(None, None)


class _Said(NamedTuple):
    agent: str | None
    parent: str | None


def _said(id: str, details: Details) -> _Said:
    metadata = checks.metadata(id, details)
    return _Said(agent_of(metadata), parent_of(metadata))


def _totals_of(found: UsageSum) -> UsageTotals:
    return UsageTotals(
        calls=found.calls,
        input_tokens=found.input,
        output_tokens=found.output,
        cache_read_tokens=found.cache_read,
        cache_write_tokens=found.cache_write,
        reasoning_tokens=found.reasoning,
        cost=amount_of(found.cost),
        unpriced=found.unpriced,
        estimated=found.estimated,
    )


def _totals_up_to(row: UsageRow) -> UsageTotals:
    return UsageTotals(
        calls=row.number,
        input_tokens=row.all_input,
        output_tokens=row.all_output,
        cache_read_tokens=row.all_cache_read,
        cache_write_tokens=row.all_cache_write,
        reasoning_tokens=row.all_reasoning,
        cost=amount_of(row.all_cost),
        unpriced=row.all_unpriced,
        estimated=row.all_estimated,
    )
