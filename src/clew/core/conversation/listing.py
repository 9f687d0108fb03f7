"""Pages of sessions: filters, subagents, and what sessions have used together with their subagents."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeAlias

import msgspec

from clew.backends.contract import Reader
from clew.backends.rows import MODEL, make_cursor, read_cursor, wanted
from clew.core.conversation.sessions import filters, listed_info
from clew.core.log import checks
from clew.core.log.ids import check_id, check_limit, check_time, is_id
from clew.core.log.records import AGENT, PARENT, SOURCE_AGENT, parent_of
from clew.core.log.rows import Listed, SessionQuery
from clew.core.runs.status import status_number
from clew.core.streams.families import Counts, roll_up
from clew.core.streams.usage import Money, amount_of, units_of
from clew.errors import CorruptError, InvalidError, InvalidQueryError
from clew.model import STATUSES, Json, Page
from clew.model.session import project_of

LEAST_PAGE: Final = 64
"""Sessions that are read at once where not all of them fit,"""
MOST_AT_ONCE: Final = 1000
"""and later."""
_Pick: TypeAlias = Callable[[list[Listed]], list[Listed]]
"""Those of some sessions that fit."""


def list_page(
    reader: Reader,
    *,
    status: str | None = None,
    workspace: str | os.PathLike[str] | None = None,
    project: str | None = None,
    tag: str | Sequence[str] | None = None,
    where: Mapping[str, Json] | None = None,
    agent: str | None = None,
    model: str | None = None,
    parent: str | None = None,
    subagents: bool = True,
    min_cost: Money | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int,
    cursor: str | None = None,
    deleted: bool = False,
    usage: bool = False,
    counts: Counts | None = None,
) -> Page:
    """One page of sessions, newest activity first. `counts`: which subagents count; None: all."""
    limit = check_limit(limit)
    number = None if status is None else status_number(status)
    if status is not None and number is None:
        raise InvalidQueryError(f"status is one of {', '.join(STATUSES)}; not {status!r}")
    least = _least(min_cost)
    place, tags = filters(workspace, tag)
    query = SessionQuery(
        limit=limit + 1,
        workspace=place,
        tags=tags,
        where=facets_wanted(where, agent=agent, model=model, parent=parent),
        after=None if cursor is None else read_cursor(cursor),
        deleted=deleted,
        status=number,
        since=None if since is None else check_time(since, "since", InvalidQueryError),
        until=None if until is None else check_time(until, "until", InvalidQueryError),
        damaged=True,
        min_cost=least,
    )
    source = Source(reader, query, project)
    picks: list[_Pick] = []
    if not subagents:
        picks.append(Parents(reader).without_subagents)
    if least is not None:
        picks.append(lambda found: _costly(reader, found, least, counts))
    found = source.fitting(picks) if picks else source.read(query)
    infos = tuple(listed_info(reader, one) for one in found[:limit])
    sums = tuple(roll_up(reader, [one.row for one in found[:limit]], counts)) if usage else ()
    last = None if len(found) <= limit else make_cursor(*_place(found[limit - 1]))
    return Page(infos, last, sums)


_ANY_AGENT: Final = ":agent"
"""The name of no facet: stands for the two that tell of an agent."""


def facets_wanted(
    where: Mapping[str, Json] | None, *, agent: str | None, model: str | None, parent: str | None = None
) -> tuple[tuple[str, str], ...]:
    """What `where=`, `agent=`, `model=` and `parent=` stand for, checked."""
    told = {name: said for name, said in {AGENT: agent, PARENT: parent}.items() if said is not None}
    of_model = () if model is None else ((MODEL, check_id(model, "model")),)
    # A program that keeps sessions of several agents said in `agent` which: an import moved that aside.
    of_metadata = [(_ANY_AGENT if name == AGENT else name, value) for name, value in wanted(where or {})]
    return *of_metadata, *wanted(told), *of_model


def either(facets: tuple[tuple[str, str], ...]) -> list[tuple[tuple[str, str], ...]]:
    """The facets of which a session must have all, in each of the two ways to have the metadata `agent`: as
    they are, or as the program said that it was imported from."""
    if all(name != _ANY_AGENT for name, _ in facets):
        return [facets]
    return [
        tuple((way if name == _ANY_AGENT else name, value) for name, value in facets)
        for way in (AGENT, SOURCE_AGENT)
    ]


def _least(min_cost: Money | None) -> int | None:
    """None: any will do, nothing included."""
    try:
        return None if min_cost is None else units_of(min_cost, "min_cost") or None
    except InvalidError as exc:
        raise InvalidQueryError(str(exc)) from exc


def _costly(reader: Reader, found: list[Listed], least: int, counts: Counts | None) -> list[Listed]:
    amount = amount_of(least)
    sums = roll_up(reader, [one.row for one in found], counts)
    return [one for one, used in zip(found, sums, strict=True) if used.cost >= amount]


class Source:
    """Where pages come from: one list, or one for each workspace of a project, and for each way to have the
    metadata `agent`."""

    def __init__(self, reader: Reader, query: SessionQuery, project: str | None) -> None:
        self._reader = reader
        self._query = query
        self._workspaces: list[str] | None = None
        if project is not None:
            known = (
                [query.workspace] if query.workspace is not None else reader.workspaces(deleted=query.deleted)
            )
            self._workspaces = [one for one in known if project_of(one) == project]

    def read(self, query: SessionQuery) -> list[Listed]:
        queries = [msgspec.structs.replace(query, where=where) for where in either(query.where)]
        if self._workspaces is not None:
            queries = [
                msgspec.structs.replace(one, workspace=workspace)
                for one in queries
                for workspace in self._workspaces
            ]
        found = [listed for one in queries for listed in self._reader.list_sessions(one)]
        if len(queries) > 1:
            found = list({one.row.sid: one for one in found}.values())
            found.sort(key=lambda one: (-_place(one)[0], _place(one)[1]))
        return found[: query.limit]

    def fitting(self, picks: Sequence[_Pick]) -> list[Listed]:
        """A page of those that fit. How many have to be read for it is not known before."""
        found: list[Listed] = []
        wanted = self._query.limit
        page = msgspec.structs.replace(self._query, limit=max(wanted, LEAST_PAGE))
        while len(found) < wanted:
            rows = self.read(page)
            fitting = rows
            for pick in picks:
                fitting = pick(fitting)
            found += fitting
            if len(rows) < page.limit:
                break
            more = min(page.limit * 2, MOST_AT_ONCE)
            page = msgspec.structs.replace(page, after=_place(rows[-1]), limit=more)
        return found[:wanted]


def _place(one: Listed) -> tuple[int, str]:
    """Where the list goes on behind a session."""
    moment = one.row.updated if one.row.deleted is None else one.row.deleted
    return one.behind or (moment, one.row.id)


class Parents:
    """Which sessions are subagents of others that are here. Each parent is looked up once."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[str, str | None] = {}
        """For each session that is here the parent that it names."""

    def without_subagents(self, found: list[Listed]) -> list[Listed]:
        """Those whose parent is not in the store."""
        return [one for one in found if self.of(one) is None]

    def of(self, one: Listed) -> str | None:
        """The id of the session that this one is a subagent of; None: it is not here, or of none. In a ring,
        which only damaged or hostile metadata form, there is no parent: else no list would show it."""
        try:
            parent = None if one.damage else parent_of(checks.metadata(one.row.id, one.details))
        except CorruptError:
            return None
        seen = {one.row.id}
        above = parent
        while above is not None:
            if above in seen:
                return None
            seen.add(above)
            if not self._is_here(above):
                break
            above = self._known[above]
        return parent if parent is not None and self._is_here(parent) else None

    def _is_here(self, id: str) -> bool:
        if id not in self._known:
            try:
                row = self._reader.find_session(id) if is_id(id) else None
                if row is None:
                    return False
                self._known[id] = parent_of(checks.metadata(id, self._reader.get_details(row.sid)))
            except CorruptError:
                self._known[id] = None  # it is listed as damaged
        return True
