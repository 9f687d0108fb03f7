"""What stands beside a conversation, on the wire: events and model calls."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from clew.model import Event, Json, Usage, UsageKey, UsageTotals
from clew.server.wire.times import Moment

Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Tokens = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
Money = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,12}(\.[0-9]{1,12})?$", examples=["0.0125"])]
MOST_OF_STREAM = 1000
StreamLimit = Annotated[int, msgspec.Meta(ge=1, le=MOST_OF_STREAM)]


# -- events


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events to read."""

    after: Number = 0
    """Only those after this cursor."""
    stream: str | None = None
    """Only those of this stream; an empty one: those of none."""
    limit: StreamLimit = 100


class EventPage(msgspec.Struct, frozen=True):
    """Some events, in the order in which they came."""

    data: list[Event]
    cursor: str | None
    """Pass it as `after` for the next page; null: this was the last."""


class NewEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event to be added."""

    type: Annotated[str, msgspec.Meta(min_length=1)]
    data: Json = None
    stream: str = ""
    id: str | None = None
    """Names the event: one of the same id and the same content is not written again."""


class NewEvents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Events to be added: all of them, or none."""

    events: Annotated[list[NewEvent], msgspec.Meta(min_length=1)]


class AddedEvents(msgspec.Struct, frozen=True):
    """The events as they are kept, one for each that was sent."""

    data: list[Event]


# -- model calls


class UsageRecordsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which model calls to read."""

    after: Number = 0
    """Only those after this number."""
    limit: StreamLimit = 100


class UsagePage(msgspec.Struct, frozen=True):
    """Some model calls, in the order in which they were written down."""

    data: list[Usage]
    cursor: str | None
    """Pass it as `after` for the next page; null: this was the last."""


class NewUsage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tokens and the cost of one model call."""

    model: str | None = None
    """Null, as for vendor and endpoint: that of the session."""
    vendor: str | None = None
    endpoint: str | None = None
    source: str | None = None
    """Who called: an agent, a summariser, a tool."""
    input_tokens: Tokens = 0
    """The whole prompt, tokens read from or written to a cache included."""
    output_tokens: Tokens = 0
    """The whole answer, reasoning included."""
    cache_read_tokens: Tokens = 0
    cache_write_tokens: Tokens = 0
    reasoning_tokens: Tokens = 0
    cost: Money | None = None
    """In dollars, as text. Null: it is estimated from list prices, if they have the model."""
    entry: str | None = None
    """The id of the entry that the call made."""
    at: datetime | None = None
    """When, with a time zone; null: now."""
    id: str | None = None
    """Names the call: one of the same id and the same values is not counted again."""


class UsageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to sum over."""

    by: UsageKey | None = None
    """One sum for each of these."""
    since: Moment | None = None
    """Only calls at this time or later."""
    until: Moment | None = None
    """Only calls before this time."""
    tz: str | None = None
    """The time zone of days, weeks and months, as Europe/Berlin; UTC when not given."""
    subagents: bool = False
    """Count the calls of its subagents too."""
    limit: StreamLimit | None = None
    """So many groups at most: those that cost most, and of equal ones those with the most tokens. Not given:
    all, in order."""


class StoreUsageQuery(UsageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to sum over."""

    model: str | None = None
    agent: str | None = None
    project: str | None = None
    """The last part of the workspace's path."""
    workspace: str | None = None
    tag: tuple[str, ...] = ()
    """Only sessions with all of these tags."""
    subagents: bool = False
    """By session: calls of a subagent count for the session that it works for."""


class UsageOfGroup(msgspec.Struct, frozen=True):
    """The sum over the calls of one group."""

    group: str | None
    """A day as 2026-11-01: of a week its Monday, of a month its first day. Null: the calls do not say."""
    totals: UsageTotals


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and money."""

    by: UsageKey | None
    totals: UsageTotals
    """Of all."""
    groups: list[UsageOfGroup]
    """Empty without `by`."""
    left_out: int = 0
    """Groups that `limit` left out; `totals` has them."""
