"""Events, model calls, tokens and money."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import tzinfo
from decimal import Decimal
from functools import partial
from heapq import nlargest
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import msgspec

from clew.core.log.ids import is_id
from clew.errors import InvalidQueryError
from clew.model import EventCounts, Usage, UsageGroup, UsageTotals
from clew.server.access.keys import check_own_id
from clew.server.access.principal import bound
from clew.server.call import Answer, Call
from clew.server.problems import Problem
from clew.server.routing import Routes
from clew.server.wire.streams import (
    AddedEvents,
    EventPage,
    EventsQuery,
    NewEvents,
    NewUsage,
    StoreUsageQuery,
    UsageOfGroup,
    UsagePage,
    UsageQuery,
    UsageRecordsQuery,
    UsageReport,
)
from clew.server.wire.times import moment_of

if TYPE_CHECKING:
    from clew.backends.contract import Reader

routes = Routes()


# -- events


@routes.get("/sessions/{id}/events", answer=EventPage)
def list_events(call: Call, id: str, query: EventsQuery) -> Answer:
    """Read the events of a session, in the order in which they came."""
    found = call.session(id).events(after=query.after, stream=query.stream, limit=query.limit)
    cursor = str(found[-1].cursor) if len(found) == query.limit else None
    return Answer(value=EventPage(found, cursor), headers=call.next_page(cursor, "after"))


@routes.post("/sessions/{id}/events", answer=AddedEvents, status=201)
def add_events(call: Call, id: str, body: NewEvents) -> AddedEvents:
    """Add events to a session: all of them, or none.

    An event with an `id` can be sent again safely: it is kept once. With an `Idempotency-Key`, events without
    an id of their own are kept once too.
    """
    most = call.server.settings.max_batch
    if len(body.events) > most:
        raise Problem(
            413,
            "too_many",
            "The batch is too large",
            f"a request may add {most} events, not {len(body.events)}",
            next="send them in several requests",
        )
    events = [msgspec.structs.asdict(one) for one in body.events]
    session = call.session(id)
    unnamed = [number for number, event in enumerate(events) if event["id"] is None]
    for event in events:
        check_own_id(event["id"], "the id of an event")
    if call.key is not None and unnamed:
        # The newest event of a session always stays.
        key = call.key_in(session, lambda reader, sid, key: _has_event(reader, sid, f"{key}/{unnamed[-1]}"))
        for number in unnamed:
            events[number]["id"] = f"{key}/{number}"
    return AddedEvents(session.add_events(events))


def _has_event(reader: Reader, sid: int, id: str) -> bool:
    return is_id(id) and reader.find_event(sid, id) is not None


def _has_call(reader: Reader, sid: int, id: str) -> bool:
    return is_id(id) and reader.find_usage(sid, id) is not None


@routes.get("/sessions/{id}/events/count", answer=EventCounts)
def count_events(call: Call, id: str) -> EventCounts:
    """Count the events of a session, without reading them."""
    return call.session(id).count_events()


# -- model calls


@routes.get("/sessions/{id}/usage", answer=UsageReport)
def session_usage(call: Call, id: str, query: UsageQuery) -> UsageReport:
    """Sum up what a session has used: tokens and money.

    Money is in dollars, as decimal text. The calls of the session that it was forked from are not its own.
    """
    _check_subagents(call, query)
    sums = partial(
        call.session(id).usage,
        since=moment_of(query.since, "since"),
        until=moment_of(query.until, "until"),
        tz=_zone(query.tz),
        subagents=query.subagents,
    )
    return _report(query, sums)


@routes.get("/sessions/{id}/usage/records", answer=UsagePage)
def list_usage(call: Call, id: str, query: UsageRecordsQuery) -> Answer:
    """Read the model calls of a session, in the order in which they were written down."""
    found = call.session(id).usage_records(after=query.after, limit=query.limit)
    cursor = str(found[-1].number) if len(found) == query.limit else None
    return Answer(value=UsagePage(found, cursor), headers=call.next_page(cursor, "after"))


@routes.post("/sessions/{id}/usage", answer=Usage, status=201)
def add_usage(call: Call, id: str, body: NewUsage) -> Usage:
    """Write down the tokens and the cost of one model call.

    With an `id`, or an `Idempotency-Key`, it can be sent again safely: it is counted once.
    """
    given = msgspec.structs.asdict(body)
    session = call.session(id)
    check_own_id(given["id"], "the id of a model call")
    if given["id"] is None:
        given["id"] = call.key_in(session, _has_call)
    return session.add_usage(**given)


@routes.get("/usage", answer=UsageReport)
def store_usage(call: Call, query: StoreUsageQuery) -> UsageReport:
    """Sum up what all sessions have used: tokens and money.

    Money is in dollars, as decimal text. Sessions in the trash count too; a call that two forks share counts
    once. A token that is bound to some sessions gets the sums of these.
    """
    _check_subagents(call, query)
    filters = call.principal.within(query.workspace, query.tag)
    if filters is None:
        return UsageReport(by=query.by, totals=UsageTotals(), groups=[])
    sums = partial(
        call.store.usage,
        since=moment_of(query.since, "since"),
        until=moment_of(query.until, "until"),
        tz=_zone(query.tz),
        model=query.model,
        agent=query.agent,
        project=query.project,
        workspace=filters[0],
        tag=filters[1],
        subagents=query.subagents,
    )
    return _report(query, sums)


def _check_subagents(call: Call, query: UsageQuery) -> None:
    if query.subagents and call.principal.is_bound:
        raise bound("subagents, and those whom they work for, may be another's", "leave out `subagents`")


def _report(query: UsageQuery, sums: Callable[..., Any]) -> UsageReport:
    if query.by is None:
        return UsageReport(by=None, totals=sums(), groups=[])
    found: dict[UsageGroup, UsageTotals] = sums(by=query.by)
    shown = list(found.items())
    if query.limit is not None:
        shown = nlargest(query.limit, shown, key=lambda one: _weight(one[1]))
    groups = [UsageOfGroup(None if group is None else str(group), totals) for group, totals in shown]
    left_out = len(found) - len(groups)
    return UsageReport(by=query.by, totals=_sum(found.values()), groups=groups, left_out=left_out)


def _weight(totals: UsageTotals) -> tuple[Decimal, int]:
    return totals.cost, totals.input_tokens + totals.output_tokens


def _sum(totals: Iterable[UsageTotals]) -> UsageTotals:
    rows = [msgspec.structs.asdict(one) for one in totals]
    # sum() of nothing is the number 0: the cost stays a Decimal.
    return UsageTotals(**{name: sum((row[name] for row in rows), zero) for name, zero in _ZEROS.items()})


_ZEROS: Final[dict[str, Any]] = msgspec.structs.asdict(UsageTotals())


def _zone(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as exc:
        raise InvalidQueryError(f"tz is the name of a time zone as Europe/Berlin, not {name[:40]!r}") from exc
