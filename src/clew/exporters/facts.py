"""What one wants to know of a session first, in a few words each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from clew.exporters.agents import Subagents
from clew.exporters.transcript import Transcript

if TYPE_CHECKING:
    from clew.core.redact.redactor import RedactionReport
    from clew.model import UsageTotals


LEAST: Final = Decimal("0.0001")
"""Dollars: what is less is not told exactly."""


def facts(transcript: Transcript, agents: Subagents) -> Iterator[str]:
    """When, with which model, how much, and what it cost."""
    info = transcript.info
    yield period(info.created_at, info.updated_at)
    if info.model:
        yield info.model
    yield many(info.messages, "message")
    if info.user_turns:
        yield many(info.user_turns, "prompt")
    if agents.count:
        yield many(agents.count, "subagent")
    usage = transcript.session.usage()
    if usage.calls:
        yield f"{amount(usage.input_tokens)} tokens in, {amount(usage.output_tokens)} out"
    if cost := money(usage):
        yield cost
    if agents.count and (more := agents.cost()) > 0:
        yield f"{dollars(usage.cost + more)} with subagents"


def period(start: datetime, end: datetime) -> str:
    if start.date() == end.date():
        return f"{start:%Y-%m-%d}, {start:%H:%M} to {end:%H:%M} UTC"
    return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"


def many(count: int, unit: str) -> str:
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


def secrets_in(report: RedactionReport) -> str:
    """Return how many secrets a report has, for people: `2 secrets and 1 possible secret`."""
    sure = report.total - report.possible
    parts = [many(sure, "secret")] if sure or not report.possible else []
    if report.possible:
        parts.append(many(report.possible, "possible secret"))
    return " and ".join(parts)


def amount(number: int) -> str:
    """A number of tokens, in short."""
    if number >= 999_500:
        return f"{number / 1_000_000:.1f} M"
    return f"{number / 1000:.1f} k" if number >= 1000 else str(number)


def money(usage: UsageTotals) -> str:
    """What the calls cost, and how sure that is; empty: nothing is known."""
    if usage.cost <= 0:
        return ""
    notes = ["estimated"] if usage.estimated else []
    notes += ["not all calls are priced"] if usage.unpriced else []
    cost = dollars(usage.cost)
    return f"{cost} ({', '.join(notes)})" if notes else cost


def dollars(amount: Decimal) -> str:
    """Return an amount in dollars as all of Clew tells it: cents, and below one up to four places."""
    if not amount or amount >= 1:
        return f"${amount:,.2f}"
    whole = f"{amount:.4f}"
    return f"${whole[:4]}{whole[4:].rstrip('0')}" if amount >= LEAST else f"<${LEAST}"
