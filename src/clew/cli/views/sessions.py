"""Sessions for lists: which ones, in which order, and what each column shows of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

import click
import msgspec

import clew
from clew.backends.contract import Reader
from clew.cli import text
from clew.cli.app import Refused, Settings
from clew.cli.config import chosen
from clew.cli.names import MANY, short_ids
from clew.cli.output import Output
from clew.cli.table import COMFORTABLE, Cell, Column
from clew.cli.text import ago, clew_command, count, iso, money, size
from clew.cli.views.folding import Family, Folds
from clew.core.conversation.kin import Kin, base_of, kind_of, may_be_base
from clew.core.conversation.points import subagents_of
from clew.core.log import checks
from clew.core.log.records import PARENT, parent_of
from clew.core.log.rows import Listed, SessionQuery
from clew.errors import CorruptError
from clew.model import AgentState

PAGE: Final = 500
MONEY: Final = Decimal(10) ** -12
Order = Literal["active", "created", "messages", "cost", "title"]


class Line(NamedTuple):
    """A session of a list."""

    info: clew.SessionInfo
    agents: int = 0
    """Subagents that are folded into it."""
    cost: Decimal | None = None
    """With that of the folded subagents; None: of no call is it known."""
    is_estimate: bool = False
    is_below: bool = False
    """It stands below the session that it is a subagent, a fork or a copy of."""
    forks: int = 0
    """Forks and copies that are folded into it."""
    newest: datetime | None = None
    """The last activity of these, if it is later than its own."""

    @property
    def active(self) -> datetime:
        return self.newest or self.info.updated_at

    @property
    def project(self) -> str:
        return self.info.project


# -- which sessions


class Wanted(NamedTuple):
    """What a list is to hold, beyond the filters of `Store.list`."""

    limit: int
    """0: all."""
    order: Order = "active"
    reverse: bool = False
    model: str | None = None
    """A part of its name."""
    project: str | None = None
    """The last part of the path of a workspace."""
    subagents: bool = False
    """With subagents, forks and copies, each below the session that it belongs to."""
    state: AgentState | None = None


_PLACES: Final = frozenset({"workspace"})
"""Filters under which forks fold. Each other one may fit a fork and not its base."""


def lines_of(
    store: clew.Store, wanted: Wanted, *, counted: bool = True, priced: bool = True, **filters: Any
) -> tuple[list[Line], bool]:
    """The lines of a list, and whether there are more. `counted`: with the number of their subagents and
    forks; `priced`: with their cost."""
    folds = not wanted.subagents and (counted or priced or wanted.order == "cost")
    is_newest_first = wanted.order == "active" and not wanted.reverse
    most = wanted.limit if wanted.limit and is_newest_first else None
    given = {name for name, value in filters.items() if value}
    folds_forks = not wanted.subagents and wanted.model is None and given <= _PLACES
    families, is_more = _found(store, wanted, most, filters, folds_forks=folds_forks)
    needs_cost = wanted.order == "cost"
    lines = [Line(info, newest=newest) for info, newest in families]
    if is_newest_first or needs_cost:
        lines = _filled(store, lines, folds=folds, priced=priced or needs_cost)
    if not is_newest_first:
        lines.sort(key=_KEYS[wanted.order], reverse=(wanted.order != "title") != wanted.reverse)
        is_more = bool(wanted.limit) and len(lines) > wanted.limit
        lines = lines[: wanted.limit or None]
        if not needs_cost:
            lines = _filled(store, lines, folds=folds, priced=priced)
    elif wanted.subagents:
        lines = _grouped(lines)
    return (_with_forks(store, lines) if counted and folds_forks else lines), is_more


def _filled(store: clew.Store, lines: Sequence[Line], *, folds: bool, priced: bool) -> list[Line]:
    found = told(store, [line.info for line in lines], folds=folds, priced=priced)
    return [new._replace(newest=line.newest) for new, line in zip(found, lines, strict=True)]


def _with_forks(store: clew.Store, lines: Sequence[Line]) -> list[Line]:
    with store._engine.read() as reader:
        kin = Kin(reader, all_at_once=len(lines) > MANY)
        rows = [None if line.info.damaged else reader.find_session(line.info.id) for line in lines]
        return [
            line if row is None else line._replace(forks=len(kin.below(row)))
            for line, row in zip(lines, rows, strict=True)
        ]


def _found(
    store: clew.Store, wanted: Wanted, most: int | None, filters: dict[str, Any], *, folds_forks: bool
) -> tuple[list[Family], bool]:
    is_of_place = bool(filters.get("workspace"))
    folded = Folds(store, lambda info: _fits(info, wanted), same_place=is_of_place, is_on=folds_forks)
    cursor: str | None = None
    is_filtered = any(one is not None for one in (wanted.model, wanted.project, wanted.state))
    while True:
        # One session more than is wanted: there may be nothing behind it but what is folded.
        room = PAGE if most is None or is_filtered else min(PAGE, most - len(folded.families) + 1)
        page = store.list(**filters, subagents=wanted.subagents, limit=room, cursor=cursor)
        folded.add(info for info in page if _fits(info, wanted))
        cursor, found = page.cursor, folded.families
        if most is not None and len(found) > most:
            return found[:most], True
        if cursor is None:
            return found, False


def _fits(info: clew.SessionInfo, wanted: Wanted) -> bool:
    if wanted.model is not None and wanted.model.lower() not in (info.model or "").lower():
        return False
    if wanted.state is not None and info.state(text.now()) != wanted.state:
        return False
    return wanted.project is None or info.project.lower() == wanted.project.lower()


_KEYS: Final[dict[Order, Callable[[Line], Any]]] = {
    "active": lambda line: line.active,
    "created": lambda line: line.info.created_at,
    "messages": lambda line: line.info.messages,
    "cost": lambda line: -1 if line.cost is None else line.cost,
    "title": lambda line: (line.info.title or "\U0010ffff").casefold(),
}


def told(store: clew.Store, infos: Sequence[clew.SessionInfo], *, folds: bool, priced: bool) -> list[Line]:
    """Sessions with their subagents counted, if those fold into them, and with the cost of both."""
    if not folds and not priced:
        return [Line(info) for info in infos]
    lines = []
    with store._engine.read() as reader:
        known = _all_subagents(reader) if folds and len(infos) > MANY else None
        for info in infos:
            agents = [] if not folds else _subagents(reader, info.id, known)
            cost, is_estimate = None, False
            if priced and not info.damaged:
                cost, is_estimate = _cost(reader, [_sid(reader, info.id), *agents])
            lines.append(Line(info, len(agents), cost, is_estimate))
    return lines


def _subagents(reader: Reader, id: str, known: dict[str, list[Listed]] | None) -> list[int]:
    """The numbers of the subagents of a session, and of theirs."""
    if known is None:
        return [one.row.sid for one in subagents_of(reader, id)]
    found: dict[str, int] = {}
    waiting = [id]
    while waiting:
        new = [
            one.row for one in known.get(waiting.pop(), ()) if one.row.id not in found and one.row.id != id
        ]
        found |= {row.id: row.sid for row in new}
        waiting += [row.id for row in new]
    return list(found.values())


def _all_subagents(reader: Reader) -> dict[str, list[Listed]]:
    """All subagents of the store by their parents: one look at each session, not some for each of many."""
    found: dict[str, list[Listed]] = {}
    for one in reader.list_sessions(SessionQuery(limit=2**31)):
        if PARENT.encode() in bytes(one.details.metadata):  # most name none, and need not be decoded
            parent = parent_of(checks.metadata(one.row.id, one.details))
            if parent is not None:
                found.setdefault(parent, []).append(one)
    return found


def _sid(reader: Reader, id: str) -> int:
    row = reader.find_session(id)
    return 0 if row is None else row.sid


def _cost(reader: Reader, sids: Sequence[int]) -> tuple[Decimal | None, bool]:
    """The sum of the costs that are known, by the last call of each session, and whether one is estimated."""
    total: int | None = None
    is_estimate = False
    for sid in sids:
        try:
            last = reader.last_usage(sid)
        except CorruptError:
            continue
        if last is not None and last.number > last.all_unpriced:
            total = (total or 0) + last.all_cost
            is_estimate = is_estimate or last.all_estimated > 0
    return (None if total is None else total * MONEY), is_estimate


def _grouped(lines: Sequence[Line]) -> list[Line]:
    """Subagents below their parent, forks and copies below their base, where that is in the list. A family
    stands where its newest member would."""
    here = {line.info.id: line for line in lines}
    above: dict[str, str] = {}
    below: dict[str, list[Line]] = {}
    for line in lines:
        owner = here.get(line.info.parent or base_of(line.info) or "")
        if owner is None or owner is line:
            continue
        if line.info.parent is not None or may_be_base(owner.info, line.info):
            above[line.info.id] = owner.info.id
            below.setdefault(owner.info.id, []).append(line._replace(is_below=True))
    found: list[Line] = []
    done: set[str] = set()
    for line in lines:
        waiting = [here[_top(line.info.id, above)]]
        while waiting:
            one = waiting.pop()
            if one.info.id not in done:
                done.add(one.info.id)
                found.append(one)
                waiting += reversed(below.get(one.info.id, ()))
    return found


def _top(id: str, above: dict[str, str]) -> str:
    """The root of a family; of a ring, which has none, the one that was asked for."""
    seen, at = {id}, id
    while (owner := above.get(at)) is not None:
        if owner in seen:
            return id
        seen.add(owner)
        at = owner
    return at


# -- what columns show


class Field(NamedTuple):
    """A column of a list of sessions."""

    column: Column
    shown: Callable[[Line], object]
    """On a terminal."""
    plain: Callable[[Line], object]
    """In a pipe."""


def _both(column: Column, shown: Callable[[Line], object]) -> Field:
    return Field(column, shown, shown)


FIELDS: Final[dict[str, Field]] = {
    "active": Field(
        Column("ACTIVE", "bright_black", optional=True, goes=1),
        lambda line: ago(line.active),
        lambda line: iso(line.active),
    ),
    "created": Field(
        Column("CREATED", "bright_black", optional=True, goes=6),
        lambda line: ago(line.info.created_at),
        lambda line: iso(line.info.created_at),
    ),
    "removed": Field(
        Column("REMOVED", "bright_black", optional=True, goes=1),
        lambda line: ago(line.info.deleted_at) if line.info.deleted_at else "",
        lambda line: iso(line.info.deleted_at),
    ),
    "status": _both(
        Column("STATUS", optional=True, goes=6),
        lambda line: "damaged" if line.info.damaged else line.info.status,
    ),
    "state": _both(Column("STATE", optional=True, goes=6), lambda line: line.info.state(text.now()) or ""),
    "agent": _both(Column("AGENT", optional=True, goes=3), lambda line: line.info.agent),
    "model": _both(
        Column("MODEL", flexible=True, least=12, optional=True, goes=6), lambda line: line.info.model
    ),
    "project": _both(
        Column("PROJECT", flexible=True, least=8, optional=True, goes=2), lambda line: line.project
    ),
    "workspace": _both(
        Column("WORKSPACE", flexible=True, least=12, optional=True, goes=6), lambda line: line.info.workspace
    ),
    "tags": _both(
        Column("TAGS", flexible=True, least=8, optional=True, goes=6), lambda line: ",".join(line.info.tags)
    ),
    "messages": Field(
        Column("MSGS", right=True, optional=True, goes=4),
        lambda line: f"{line.info.messages:,}",
        lambda line: line.info.messages,
    ),
    "turns": Field(
        Column("TURNS", right=True, optional=True, goes=6),
        lambda line: f"{line.info.user_turns:,}",
        lambda line: line.info.user_turns,
    ),
    "size": Field(
        Column("SIZE", right=True, optional=True, goes=6),
        lambda line: size(line.info.bytes),
        lambda line: line.info.bytes,
    ),
    "agents": Field(
        Column("AGENTS", right=True, optional=True, goes=6),
        lambda line: line.agents or "",
        lambda line: line.agents,
    ),
    "forks": Field(
        Column("FORKS", right=True, optional=True, goes=6),
        lambda line: line.forks or "",
        lambda line: line.forks,
    ),
    "base": _both(Column("BASE", optional=True, goes=6), lambda line: base_of(line.info)),
    "cost": Field(
        Column("COST", right=True, optional=True, goes=5, leaves=COMFORTABLE),
        lambda line: "" if line.cost is None else money(line.cost),
        lambda line: "" if line.cost is None else f"{line.cost.normalize():f}",
    ),
    "title": Field(
        Column("TITLE", flexible=True), lambda line: title_cell(line), lambda line: line.info.title
    ),
    "id": Field(Column("ID", "cyan", goes_below=True), lambda line: line.info.id, lambda line: line.info.id),
}
USUAL: Final = ("active", "agent", "project", "messages", "cost", "title", "id")
"""On a terminal."""
TOLD: Final = frozenset({"agent", "project", "cost"})
"""These are left out if no session tells: those that a program of one's own writes may have none."""
PIPED: Final = ("id", "status", "messages", "active", "agent", "workspace", "title")
TRASH: Final = ("removed", "agent", "project", "messages", "title", "id")

TELLING: Final = {"running": "green", "interrupted": "yellow", "failed": "red", "expired": "bright_black"}
"""The words for a status that says something, and their colours."""
STATES: Final = {"working": "green", "waiting": "yellow", "stale": "bright_black"}
"""The words for how a session stands with its agent, and their colours. That it is idle says nothing."""


def mark_of(info: clew.SessionInfo) -> tuple[str, str]:
    """The word before a title, and its colour; both empty: there is nothing to say."""
    if info.damaged:
        return "damaged", "red"
    if info.status in TELLING:
        return info.status, TELLING[info.status]
    state = info.state(text.now()) or ""
    return (state, STATES[state]) if state in STATES else ("", "")


def new_words(info: clew.SessionInfo) -> str:
    """`2 new on the agent's branch`; empty: there is nothing new."""
    new = 0 if info.agent_branch is None else info.agent_branch.new
    return f"{new:,} new on the agent's branch" if new else ""


def title_cell(line: Line) -> Cell:
    """The title, behind a word that says how it stands or what kind of session it is, and before what is new
    on the branch of its agent and the number of subagents and forks that are folded into it."""
    info = line.info
    before, before_style = mark_of(info)
    if not before:
        before = " ".join(word for word in ("└" if line.is_below else "", kind_of(info) or "") if word)
        before_style = "bright_black" if before else ""
    new = new_words(info)
    folded = [count(line.agents, "agent")] if line.agents else []
    folded += [count(line.forks, "fork")] if line.forks else []
    behind = " ".join(filter(None, (new, f"+{', '.join(folded)}" if folded else "")))
    if not info.title and not before:
        before, before_style = "(no messages)" if not info.messages else "(no title)", "bright_black"
    return Cell(info.title or "", before, before_style, behind, short=new.partition(" on ")[0])


# -- for programs

EXTRA: Final = ("short_id", "project", "subagents", "forks", "base", "cost", "cost_is_estimate", "state")
JSON_FIELDS: Final = (*clew.SessionInfo.__struct_fields__, *EXTRA)


def record_of(line: Line, short: str) -> dict[str, Any]:
    """A line as JSON."""
    found: dict[str, Any] = msgspec.to_builtins(line.info)
    cost = None if line.cost is None else f"{line.cost.normalize():f}"
    of_base = (line.forks, base_of(line.info))
    told = (short, line.project, line.agents, *of_base, cost, line.is_estimate, line.info.state(text.now()))
    return found | dict(zip(EXTRA, told, strict=True))


# -- printing


def print_lines(
    out: Output,
    store: clew.Store,
    lines: Sequence[Line],
    columns: Sequence[str] | None = None,
    *,
    usual: Sequence[str] = USUAL,
    piped: Sequence[str] = PIPED,
) -> None:
    """A table on a terminal, tab-separated fields in a pipe, or JSON; `columns`: only these."""
    ids = short_ids(store, [line.info.id for line in lines]) if out.json or out.is_terminal else {}
    if out.json:
        for line in lines:
            record = record_of(line, ids[line.info.id])
            out.record(record if columns is None else {name: record.get(name) for name in columns})
    elif not out.is_terminal:
        for line in lines:
            out.row(*(FIELDS[name].plain(line) for name in columns or piped))
    elif lines:
        if columns is None:
            columns = [
                name for name in usual if name not in TOLD or any(FIELDS[name].shown(line) for line in lines)
            ]
        rows = [
            [ids[line.info.id] if name == "id" else FIELDS[name].shown(line) for name in columns]
            for line in lines
        ]
        out.rows([FIELDS[name].column for name in columns], rows)
        for line in lines:
            if line.info.damaged:
                out.line(f"{line.info.id} is damaged: {line.info.damaged}; clew verify says more")


def chosen_columns(text: str | None, settings: Settings) -> Sequence[str] | None:
    """The columns that --columns names, or on a terminal the file of settings; None: the usual ones."""
    known = JSON_FIELDS if settings.json else tuple(FIELDS)
    names = [one.strip().lower() for one in text.split(",")] if text is not None else None
    if names is None and not settings.json and Output(settings).is_terminal:
        names = list(settings.columns) if settings.columns else None
    for name in names or ():
        if name not in known:
            what = "field" if settings.json else "column"
            wrong = f"no {what} {name!r}; there are {', '.join(known)}"
            if text is None:
                raise Refused(f"{chosen('columns').source}: {wrong}")
            raise click.UsageError(wrong)
    return names


def say_more(settings: Settings, shown: int, total: int | None, again: Sequence[str]) -> None:
    """On standard error, behind a table that does not hold all; `again` are the words that list all."""
    some = f"{count(shown, 'session')} shown, there are more"
    if total is not None:
        some = f"{shown:,} of {count(total, 'session')}"
    every = clew_command(settings, *again) if again[0] == "ls" else " ".join(again)
    click.echo(f"{some}; {every} shows all", err=True)
