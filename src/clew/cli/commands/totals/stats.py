"""`clew stats`: totals of a store or of a session."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Final

import click
import msgspec

from clew.cli.app import Settings, command, session_argument
from clew.cli.output import Output
from clew.cli.store import opened, session_of
from clew.cli.text import count, local, money, one_line, size
from clew.core.log.records import origin_of
from clew.model import UsageTotals

if TYPE_CHECKING:
    import clew

QUIET: Final = ("pending", "completed")
"""What a session is that nothing has to be done about."""


@command("stats", "clew stats", "clew stats login")
@session_argument("id", required=False)
@click.pass_obj
def stats_command(settings: Settings, id: str | None) -> None:
    """Piped: name and value, separated by a tab."""
    out = Output(settings)
    with opened(settings) as store:
        if id is not None:
            session = session_of(store, id)
            info, own, whole = session.info, session.usage(), session.usage(subagents=True)
            agents = len(session.usage(by="session", subagents=True)) - bool(own.calls)
            if out.json:
                out.record({**_fields(info), "usage": own, "usage_with_subagents": whole})
            else:
                _print(out, _of_session(info, own, whole, agents))
            return
        stats, usage, place = store.stats(), store.usage(), store.location
    if out.json:
        told = {name: getattr(usage, name) for name in ("cost", "estimated", "unpriced")}
        out.record({"location": place, **_fields(stats), **told})
    else:
        _print(out, _of_store(place, stats, usage))


def _fields(value: msgspec.Struct) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def _of_store(place: str, stats: clew.Stats, usage: UsageTotals) -> list[tuple[str, str]]:
    told = {name: number for name, number in stats.by_status.items() if number and name not in QUIET}
    by_status = ", ".join(f"{number:,} {name}" for name, number in told.items())
    return [
        ("store", place),
        ("sessions", f"{stats.sessions:,}" + (f" ({by_status})" if by_status else "")),
        ("last 24 hours", f"{sum(stats.active_24h.values()):,} active, {stats.created_24h:,} new"),
        ("in the trash", f"{stats.deleted:,}"),
        ("messages", f"{stats.messages:,} ({size(stats.bytes)})"),
        ("entries", f"{stats.entries:,}"),
        ("on disk", size(stats.bytes_on_disk)),
        *_calls(usage),
    ]


def _calls(usage: UsageTotals) -> list[tuple[str, str]]:
    """Calls, tokens and cost, in words."""
    cached = usage.cache_read_tokens
    tokens = f"{usage.input_tokens:,} in ({cached:,} from a cache), {usage.output_tokens:,} out"
    return [
        ("model calls", f"{usage.calls:,}"),
        ("tokens", tokens if cached else f"{usage.input_tokens:,} in, {usage.output_tokens:,} out"),
        ("cost", cost_in_words(usage)),
    ]


def cost_in_words(usage: UsageTotals) -> str:
    """$1.14, estimated from list prices; 3 of 75 calls have no known price."""
    if usage.calls and usage.unpriced == usage.calls:
        return "unknown: no call has a known price"
    words = money(usage.cost)
    if usage.estimated:
        some = usage.estimated < usage.calls - usage.unpriced
        of = f" for {usage.estimated:,} of {count(usage.calls, 'call')}" if some else ""
        words += f", estimated from list prices{of}"
    if usage.unpriced:
        verb = "has" if usage.unpriced == 1 else "have"
        words += f"; {usage.unpriced:,} of {count(usage.calls, 'call')} {verb} no known price"
    return words


def _of_session(
    info: clew.SessionInfo, own: UsageTotals, whole: UsageTotals, agents: int
) -> list[tuple[str, str]]:
    origin, came = info.forked_from, origin_of(info.metadata)
    lines = [
        ("session", info.id),
        ("title", info.title),
        ("agent", info.agent),
        ("subagent of", info.parent),
        ("status", None if info.status in QUIET else info.status),
        ("workspace", info.workspace),
        ("model", info.model),
        ("tags", ", ".join(info.tags)),
        ("aliases", ", ".join(info.aliases)),
        ("created", local(info.created_at)),
        ("active", local(info.updated_at)),
        ("messages", f"{info.messages:,} ({size(info.bytes)}, {count(info.user_turns, 'prompt')})"),
        ("head", str(info.head)),
        ("forked from", f"{origin.session} at entry {origin.head.position}" if origin else None),
        ("imported from", f"{came.path} ({came.format})" if came else None),
        *(_calls(own) if own.calls else []),
    ]
    if whole.calls > own.calls:
        words = f"{count(whole.calls, 'call')}, {cost_in_words(whole)}"
        lines.append((f"with {count(agents, 'subagent')}", words))
    return [(name, value) for name, value in lines if value]


def _print(out: Output, lines: list[tuple[str, str]]) -> None:
    """What is too long for the terminal goes on below its beginning."""
    room = max(len(name) for name, _ in lines) + 2
    width = max(20, shutil.get_terminal_size().columns - room)
    for name, value in lines:
        if not out.is_terminal:
            out.row(name, value)
            continue
        for number, part in enumerate(textwrap.wrap(one_line(value), width, break_on_hyphens=False)):
            out.line(f"{name if number == 0 else '':<{room}}{part}")
