"""`clew usage`: tokens and money."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import click

from clew.cli.agents import agent_in
from clew.cli.app import Settings, command, session_argument
from clew.cli.names import short_ids
from clew.cli.output import Output
from clew.cli.store import opened, session_of
from clew.cli.table import GAP, Column, table_lines
from clew.cli.text import Moment, count, one_line
from clew.model import UsageGroup, UsageKey, UsageTotals

if TYPE_CHECKING:
    import clew

DATES: Final = ("day", "week", "month")
MODELS_NAMED: Final = 5
"""Of those without a known price."""
READABLE: Final = 30
"""Letters of a title, or of a name, before other columns are left out."""


@command(
    "usage",
    "clew usage                            show tokens and cost, day by day",
    "clew usage --by project --since 7d    show the last week, by project",
    "clew usage --by session --agent codex",
    "clew usage 4be70e2a                   show a session with its subagents",
    "clew usage --total --json",
)
@session_argument("id", required=False)
@click.option("--by", type=click.Choice(get_args(UsageKey)), help="Print one line for each; by default: day")
@click.option("--total", is_flag=True, help="Print the total only")
@click.option("--since", type=Moment(), help="Count only what is newer: 2026-11-01, 12h, 7d")
@click.option("--until", type=Moment(is_end=True), help="Count only what is older, or of this day and before")
@click.option("--agent", help="Count only calls of this agent, such as claude-code")
@click.option("--project", help="Count only calls in this project")
@click.option("--model", help="Count only calls of this model")
@click.pass_obj
def usage_command(
    settings: Settings, /, id: str | None, by: UsageKey | None, total: bool, **options: Any
) -> None:
    """Input is the whole prompt; what a cache had of it, or was given, is told beside it.
    A project is the last part of a directory's path; of one session the default is to print by model.
    Costs that an agent did not write down are estimated from list prices at the time of each call.
    Days, weeks (from Monday on) and months are those of your time zone; set TZ=UTC for those of UTC.
    By session, subagents count for the session that they work for.
    Calls of sessions in the trash count too.

    Piped: group, calls, input, output, cache read, cache written and reasoning tokens, cost in dollars, calls
    without a known cost, calls with an estimated cost; separated by tabs, without a total.
    """
    if total and by:
        raise click.UsageError("--total is one line: leave out --by")
    out = Output(settings)
    with opened(settings) as store:
        asked = _asked(store, id, options)
        by = by or (None if total else "model" if id else "day")
        whole = asked.sums(None)[None]
        rows = (
            _rows(store if out.is_terminal else None, by, asked.sums(by)) if by else [Row("total", "", whole)]
        )
        unknown = asked.unpriced() if whole.unpriced and out.is_terminal else []
    if out.json:
        for row in rows:
            fields = {name: getattr(row.sums, name) for name in row.sums.__struct_fields__}
            out.record({"by": by, "group": row.name, **fields})
    elif not out.is_terminal:
        for row in rows:
            out.row(row.name, *_numbers(row.sums))
    elif not whole.calls:
        is_chosen = id or any(options.values())
        out.line(
            f"no such model calls in {store.location}" if is_chosen else f"no model calls in {store.location}"
        )
    else:
        _print(out, by, rows, whole, _notes(whole, unknown))


class Row(NamedTuple):
    name: str
    title: str
    """Of a session."""
    sums: UsageTotals
    shown: str = ""
    """The name as it is shown on a terminal, if that is another one."""


class Asked(NamedTuple):
    """The calls that are asked for: of a store or of a session, all or some."""

    source: clew.Store | clew.Session
    options: dict[str, Any]

    def sums(self, by: UsageKey | None) -> Mapping[UsageGroup, UsageTotals]:
        if by is None:
            return {None: self.source.usage(**self.options)}
        return self.source.usage(by=by, tz=Local(), **self.options)

    def unpriced(self) -> list[str]:
        """The models whose price is not known, the most used first."""
        found = [
            (sums.unpriced, str(name or "")) for name, sums in self.sums("model").items() if sums.unpriced
        ]
        return [name for _, name in sorted(found, reverse=True)]


def _asked(store: clew.Store, id: str | None, options: dict[str, Any]) -> Asked:
    given = {name: value for name, value in options.items() if value is not None}
    if id is None:
        if "agent" in given:
            given["agent"] = agent_in(store, given["agent"])
        return Asked(store, {**given, "subagents": True})
    for name in ("agent", "project", "model"):
        if name in given:
            raise click.UsageError(f"--{name} chooses among sessions: leave it out, or leave out {id}")
    return Asked(session_of(store, id), {**given, "subagents": True})


class Local(tzinfo):
    """The time zone of this machine, with its summer times."""

    def fromutc(self, moment: datetime) -> datetime:
        seconds = (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
        return moment + timedelta(seconds=time.localtime(seconds).tm_gmtoff)

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return None if moment is None else moment.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, moment: datetime | None) -> timedelta | None:
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        return "local"


# -- rows


def _rows(store: clew.Store | None, by: UsageKey, groups: Mapping[UsageGroup, UsageTotals]) -> list[Row]:
    """Days in order; of all else what costs most comes first. `store`: tells the short ids and titles of
    sessions, for people."""
    if by in DATES:
        return [Row(_date(by, group), "", sums) for group, sums in groups.items()]
    found = sorted(groups.items(), key=lambda one: (-one[1].cost, -one[1].input_tokens, str(one[0])))
    names = {str(group): "" for group, _ in found if group is not None}
    titles: dict[str, str] = {}
    if by == "session" and store is not None:
        names, titles = short_ids(store, names), _titles(store, names)
    return [
        Row("", "", sums, f"(no {by})")
        if group is None
        else Row(str(group), titles.get(str(group), ""), sums, names[str(group)])
        for group, sums in found
    ]


def _date(by: UsageKey, group: UsageGroup) -> str:
    return str(group)[:7] if by == "month" and isinstance(group, date) else str(group or "")


def _titles(store: clew.Store, ids: Iterable[str]) -> dict[str, str]:
    with store._engine.read() as reader:
        found = {id: reader.find_session(id) or reader.find_session(id, deleted=True) for id in ids}
    return {id: row.title or "" for id, row in found.items() if row is not None}


def _numbers(sums: UsageTotals) -> tuple[object, ...]:
    tokens = (sums.input_tokens, sums.output_tokens, sums.cache_read_tokens, sums.cache_write_tokens)
    return (sums.calls, *tokens, sums.reasoning_tokens, sums.cost, sums.unpriced, sums.estimated)


# -- the table


def _print(out: Output, by: UsageKey | None, rows: list[Row], whole: UsageTotals, notes: list[str]) -> None:
    from clew.cli.output import has_colours, print_line

    places = 2 if all(not row.sums.cost or row.sums.cost >= Decimal("0.01") for row in rows) else 4
    titles = [Column("TITLE", flexible=True)] if by == "session" else []
    names = ("CALLS", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "COST")
    columns = [
        Column((by or "").upper(), "cyan", flexible=by != "session"),
        *titles,
        *(Column(name, right=True) for name in names),
    ]
    shown = [Row("Total", "", whole)] if by is None else [*rows, Row("Total", "", whole)]
    cells = [_cells(row, places, with_title=bool(titles)) for row in shown]
    with out.paged() as console:
        kept = _kept(columns, cells, console.width)
        chosen = [[row[at] for at in kept] for row in cells]
        lines = table_lines(
            [columns[at] for at in kept], chosen, console.width, has_colours=has_colours(), has_total=True
        )
        console.file.writelines(f"{line}\n" for line in lines)
        for note in ["", *notes] if notes else []:
            print_line(console, note)


def _kept(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """The columns for which there is room: those of the cache are left out first, then the number of calls.
    What is flexible may be cut, but not to less than can be read."""
    kept = list(range(len(columns)))

    def needed(at: int) -> int:
        wide = max(len(columns[at].title), *(len(row[at]) for row in cells))
        return min(wide, READABLE) if columns[at].flexible else wide

    for dropped in (("CACHE READ", "CACHE WRITE"), ("CALLS",)):
        if sum(map(needed, kept)) + GAP * (len(kept) - 1) > width:
            kept = [at for at in kept if columns[at].title not in dropped]
    return kept


def _cells(row: Row, places: int, *, with_title: bool) -> tuple[str, ...]:
    sums = row.sums
    tokens = (sums.input_tokens, sums.output_tokens, sums.cache_read_tokens, sums.cache_write_tokens)
    titles = (row.title,) if with_title else ()
    return (
        row.shown or row.name,
        *titles,
        f"{sums.calls:,}",
        *(f"{number:,}" for number in tokens),
        "unknown" if sums.unpriced == sums.calls else _dollars(sums.cost, places),
    )


def _dollars(cost: Decimal, places: int) -> str:
    smallest = Decimal((0, (1,), -places))
    return f"<${smallest}" if 0 < cost < smallest else f"${cost:,.{places}f}"


def _notes(whole: UsageTotals, unknown: list[str]) -> list[str]:
    """What the numbers do not say: which costs are estimated, and which are missing."""
    notes = []
    told = whole.calls - whole.estimated - whole.unpriced
    if whole.estimated:
        which = f"Costs of {count(whole.estimated, 'call')} are" if told else "Costs are"
        others = f"; {count(told, 'call')} had a cost written down" if told else ""
        notes.append(f"{which} estimated from list prices at the time of each call{others}.")
    if whole.unpriced:
        named = [one_line(name) or "no model named" for name in unknown[:MODELS_NAMED]]
        more = len(unknown) - len(named)
        which = ", ".join(named) + (f" and {count(more, 'other model')}" if more else "")
        verb = "has" if whole.unpriced == 1 else "have"
        notes.append(f"{count(whole.unpriced, 'call')} {verb} no known price: {which}.")
    return notes
