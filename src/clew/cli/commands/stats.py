"""`clew stats` and `clew usage`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, get_args

import click

from clew.cli.app import Settings, command, session_argument
from clew.cli.output import Output
from clew.cli.store import opened, session_of
from clew.cli.text import Moment, count, local, money, size
from clew.core.log.records import origin_of
from clew.model import UsageKey, UsageTotals

if TYPE_CHECKING:
    import clew


@command("stats", "clew stats", "clew stats login")
@session_argument("id", required=False)
@click.pass_obj
def stats_command(settings: Settings, id: str | None) -> None:
    """Piped: name and value, separated by a tab."""
    out = Output(settings)
    with opened(settings) as store:
        if id is not None:
            info, usage = session_of(store, id).info, session_of(store, id).usage()
            if out.json:
                out.record(info)
            else:
                _print(out, _of_session(info, usage))
            return
        stats, place = store.stats(), store.location
    if out.json:
        out.record({"location": place, **_fields(stats)})
    else:
        _print(out, _of_store(place, stats))


def _fields(stats: clew.Stats) -> dict[str, object]:
    return {name: getattr(stats, name) for name in stats.__struct_fields__}


def _of_store(place: str, stats: clew.Stats) -> list[tuple[str, str]]:
    by_status = ", ".join(f"{number:,} {name}" for name, number in stats.by_status.items() if number)
    return [
        ("store", place),
        ("sessions", f"{stats.sessions:,}" + (f" ({by_status})" if by_status else "")),
        ("active today", f"{sum(stats.active_24h.values()):,} ({stats.created_24h:,} new)"),
        ("trash", f"{stats.deleted:,}"),
        ("messages", f"{stats.messages:,} ({size(stats.bytes)})"),
        ("entries", f"{stats.entries:,}"),
        ("on disk", size(stats.bytes_on_disk)),
        ("model calls", f"{stats.calls:,} ({stats.input_tokens:,} tokens in, {stats.output_tokens:,} out)"),
    ]


def _of_session(info: clew.SessionInfo, usage: UsageTotals) -> list[tuple[str, str]]:
    origin, came = info.forked_from, origin_of(info.metadata)
    lines = [
        ("session", info.id),
        ("title", info.title),
        ("status", info.status),
        ("workspace", info.workspace),
        ("model", info.model),
        ("tags", ", ".join(info.tags)),
        ("aliases", ", ".join(info.aliases)),
        ("created", local(info.created_at)),
        ("active", local(info.updated_at)),
        ("messages", f"{info.messages:,} ({size(info.bytes)}, {count(info.user_turns, 'turn')} of the user)"),
        ("head", str(info.head)),
        ("forked from", f"{origin.session} at entry {origin.head.position}" if origin else None),
        ("imported from", f"{came.path} ({came.format})" if came else None),
        ("model calls", f"{usage.calls:,} ({money(usage.cost)})" if usage.calls else None),
    ]
    return [(name, value) for name, value in lines if value]


def _print(out: Output, lines: list[tuple[str, str]]) -> None:
    for name, value in lines:
        if out.is_terminal:
            out.line(f"{name:<13} {value}".replace("\n", " "))
        else:
            out.row(name, value)


@command(
    "usage",
    "clew usage                            show the whole store",
    "clew usage --by day --since 7d        show the last week, day by day",
    "clew usage login --by model",
)
@session_argument("id", required=False)
@click.option("--by", type=click.Choice(get_args(UsageKey)), help="Print one line for each")
@click.option("--since", type=Moment(), help="Count only what is newer: 2026-11-01, 12h, 7d")
@click.option("--until", type=Moment(), help="Count only what is older")
@click.pass_obj
def usage_command(
    settings: Settings, id: str | None, by: UsageKey | None, since: datetime | None, until: datetime | None
) -> None:
    """Calls of sessions in the trash count too.
    Piped: group, calls, input, output, cache read, cache written and reasoning tokens, cost in dollars,
    calls without a known cost; separated by tabs.
    """
    out = Output(settings)
    with opened(settings) as store:
        source = store if id is None else session_of(store, id)
        if by is None:
            groups = {"total": source.usage(since=since, until=until)}
        else:
            found = source.usage(by=by, since=since, until=until)
            groups = {"" if key is None else str(key): sums for key, sums in found.items()}
    if out.json:
        for name, sums in groups.items():
            out.record({"by": by, "group": name, **{f: getattr(sums, f) for f in sums.__struct_fields__}})
    elif not out.is_terminal:
        for name, sums in groups.items():
            tokens = (sums.input_tokens, sums.output_tokens, sums.cache_read_tokens, sums.cache_write_tokens)
            out.row(name, sums.calls, *tokens, sums.reasoning_tokens, sums.cost, sums.unpriced)
    else:
        _print_groups(out, by or "", groups)


def _print_groups(out: Output, by: str, groups: dict[str, UsageTotals]) -> None:
    from clew.cli.output import Column

    titles = ("CALLS", "IN", "OUT", "CACHE READ", "CACHE WRITE", "COST")
    columns = (Column(by.upper(), "cyan", flexible=True), *(Column(title, right=True) for title in titles))
    rows = []
    for name, sums in groups.items():
        cost = money(sums.cost) + ("+?" if sums.unpriced else "") + ("≈" if sums.estimated else "")
        tokens = (sums.input_tokens, sums.output_tokens, sums.cache_read_tokens, sums.cache_write_tokens)
        rows.append((name or "(none)", f"{sums.calls:,}", *(f"{number:,}" for number in tokens), cost))
    out.rows(columns, rows)
