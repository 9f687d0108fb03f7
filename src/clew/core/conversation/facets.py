"""What the sessions of a store can be listed by, and how many there are of each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from clew.backends.contract import Reader
from clew.backends.rows import values_of
from clew.core.conversation.sessions import filters
from clew.core.log.ids import check_limit
from clew.core.log.records import STATUS_COUNT
from clew.core.log.rows import SessionColumn, SessionQuery
from clew.errors import CorruptError
from clew.model import STATUSES, Facets, FacetValue, ProjectValue
from clew.model.session import project_of

_Counts: TypeAlias = Mapping[SessionColumn, Mapping[str, int]]
_COLUMNS: Final[tuple[SessionColumn, ...]] = ("workspace", "agent", "model", "tag", "status")


def count(
    reader: Reader,
    *,
    workspace: str | os.PathLike[str] | None,
    tag: str | Sequence[str] | None,
    limit: int,
) -> Facets:
    """The most frequent values, of all sessions or of those in a workspace and with these tags."""
    limit = check_limit(limit)
    place, tags = filters(workspace, tag)
    counts: _Counts
    if place is None and not tags:
        counts = {column: reader.count_by(column) for column in _COLUMNS}
    else:
        counts = _counted(reader, SessionQuery(limit=2**31, workspace=place, tags=tags))
    return Facets(
        projects=_projects(counts["workspace"], limit),
        agents=_values(counts["agent"], limit),
        models=_values(counts["model"], limit),
        tags=_values(counts["tag"], limit),
        statuses=_values(_by_status(counts["status"]), limit),
    )


def _counted(reader: Reader, query: SessionQuery) -> _Counts:
    """The same for some sessions: each is looked at."""
    counts: dict[SessionColumn, Counter[str]] = {column: Counter() for column in _COLUMNS}
    for one in reader.list_sessions(query):
        for column in _COLUMNS:
            try:
                counts[column].update(values_of(one, column))
            except CorruptError:  # of its metadata: it counts where it can
                continue
    return counts


def _projects(workspaces: Mapping[str, int], limit: int) -> tuple[ProjectValue, ...]:
    names: Counter[str] = Counter()
    places: dict[str, str] = {}
    for workspace, sessions in _in_order(workspaces):
        name = project_of(workspace)
        if name:
            names[name] += sessions
            places.setdefault(name, workspace)
    found = _in_order(names)[:limit]
    return tuple(ProjectValue(value=name, sessions=many, workspace=places[name]) for name, many in found)


def _by_status(counts: Mapping[str, int]) -> dict[str, int]:
    known = ((number, many) for number, many in counts.items() if number.isdigit())
    return {STATUSES[int(number)]: many for number, many in known if int(number) < STATUS_COUNT}


def _values(counts: Mapping[str, int], limit: int) -> tuple[FacetValue, ...]:
    return tuple(FacetValue(value=value, sessions=many) for value, many in _in_order(counts)[:limit])


def _in_order(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))
