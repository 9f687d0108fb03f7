"""The values of the streams beside a conversation: events and usage."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Literal, TypeAlias

import msgspec

from clew.model.session import Json

UsageKey: TypeAlias = Literal[
    "day", "week", "month", "model", "agent", "project", "session",
    "vendor", "endpoint", "source", "workspace", "branch",
]  # fmt: skip
"""What usage can be grouped by."""

UsageGroup: TypeAlias = str | date | None
"""The value that a group has in common; None where the calls do not say. A `date` by day, by week (its
Monday) and by month (its first day); the project is the last part of the workspace's path."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A small record beside the conversation."""

    cursor: int
    """Its number in the session, from 1 on without a gap: pass it as `after=`."""
    type: str
    data: Json
    stream: str
    id: str | None
    at: datetime


class EventCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many events a session was given, and how many of them a cap has dropped since."""

    added: int
    kept: int
    dropped: int


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and money of one model call."""

    number: int
    """Counts the calls of the session, from 1 on."""
    at: datetime
    model: str | None
    vendor: str | None
    endpoint: str | None
    source: str | None
    """Who called: an agent, a summariser, a tool."""
    entry: str | None
    """The id of the entry that the call made."""
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cost: Decimal | None
    estimated: bool
    """The cost was computed from a price list, which `priced_by` names."""
    priced_by: str | None
    id: str | None


class UsageTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over model calls."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost: Decimal = Decimal(0)
    """Of the calls whose cost is known."""
    unpriced: int = 0
    """Calls whose cost is not known: `cost` lacks them."""
    estimated: int = 0
    """Calls whose cost is estimated."""


class FamilyUsage(UsageTotals, frozen=True, kw_only=True):
    """Sums over the model calls of a session and its subagents, whatever they started in turn."""

    subagents: int = 0
    """How many there are, without those in the trash; what these used counts all the same."""
