"""The SQL statements for events, usage and the objects of snapshots: constants, every value a parameter."""

# ruff: noqa: S608 - the pieces are the constants of this file
from __future__ import annotations

from typing import Final

from clew.model import UsageKey

EVENT: Final = "number, time, stream, type, id, data"
USAGE: Final = (
    "number, time, id, model, vendor, endpoint, source, branch, position, input, output, cache_read,"
    " cache_write, reasoning, cost, priced_by, all_input, all_output, all_cache_read, all_cache_write,"
    " all_reasoning, all_cost, all_unpriced, all_estimated"
)
_OF: Final = "home = $1 AND sid = $2"


def _marks(columns: str) -> str:
    return ", ".join(f"${number + 1}" for number in range(len(columns.split(","))))


EVENT_BOUNDS: Final = (
    f"SELECT (SELECT min(number) FROM {{s}}.events WHERE {_OF}),"
    f" (SELECT max(number) FROM {{s}}.events WHERE {_OF})"
)
FIND_EVENT: Final = f"SELECT {EVENT} FROM {{s}}.events WHERE {_OF} AND id = $3"
READ_EVENTS: Final = f"SELECT {EVENT} FROM {{s}}.events WHERE {_OF} AND number > $3 ORDER BY number LIMIT $4"
READ_UNNAMED: Final = (
    f"SELECT {EVENT} FROM {{s}}.events WHERE {_OF} AND number > $3 AND stream = '' ORDER BY number LIMIT $4"
)
READ_STREAM: Final = (
    f"SELECT {EVENT} FROM {{s}}.events WHERE {_OF} AND number > $3 AND stream = $5 AND stream <> ''"
    " ORDER BY number LIMIT $4"
)
ADD_EVENT: Final = f"INSERT INTO {{s}}.events (home, sid, {EVENT}) VALUES ({_marks('home, sid, ' + EVENT)})"
DROP_EVENTS: Final = (
    f"WITH done AS (DELETE FROM {{s}}.events WHERE {_OF} AND number <= $3 RETURNING 1)"
    " SELECT count(*) FROM done"
)

LAST_USAGE: Final = f"SELECT {USAGE} FROM {{s}}.usage WHERE {_OF} ORDER BY number DESC LIMIT 1"
FIND_USAGE: Final = f"SELECT {USAGE} FROM {{s}}.usage WHERE {_OF} AND id = $3"
READ_USAGE: Final = f"SELECT {USAGE} FROM {{s}}.usage WHERE {_OF} AND number > $3 ORDER BY number LIMIT $4"
ADD_USAGE: Final = f"INSERT INTO {{s}}.usage (home, sid, {USAGE}) VALUES ({_marks('home, sid, ' + USAGE)})"

_DAY: Final = (
    "convert_to(to_char(timestamp '1970-01-01'"
    " + floor(usage.time / 1000000.0)::bigint * interval '1 second', 'YYYY-MM-DD'), 'UTF8')"
)
_OF_SESSION: Final = "LEFT JOIN {s}.sessions ON sessions.home = usage.home AND sessions.sid = usage.sid"
_OF_BRANCH: Final = (
    "LEFT JOIN {s}.branches ON branches.home = usage.branch >> 20 AND branches.branch = usage.branch"
)
_SUMS: Final = (
    "count(*), sum(input), sum(output), sum(cache_read), sum(cache_write), sum(reasoning),"
    " coalesce(sum(cost), 0), count(*) FILTER (WHERE cost IS NULL), count(priced_by)"
)
_TIMES: Final = (
    "usage.time >= $1 AND usage.time < $2 AND usage.time BETWEEN -62135596800000000 AND 253402300799999999"
)
_GROUPS: Final[dict[UsageKey | None, tuple[str, str]]] = {
    None: ("NULL::bytea", ""),
    "model": ("usage.model", ""),
    "vendor": ("usage.vendor", ""),
    "endpoint": ("usage.endpoint", ""),
    "source": ("usage.source", ""),
    "day": (_DAY, ""),
    "workspace": ("sessions.workspace", _OF_SESSION),
    "session": ("sessions.id", _OF_SESSION),
    "branch": ("convert_to(branches.uid, 'UTF8')", _OF_BRANCH),
}


def _grouped(by: UsageKey | None, where: str) -> str:
    group, join = _GROUPS[by]
    return (
        f"SELECT {group} AS part, {_SUMS} FROM {{s}}.usage {join} WHERE {where}"
        " GROUP BY part ORDER BY part NULLS FIRST"
    )


SUM_ALL: Final = {by: _grouped(by, _TIMES) for by in _GROUPS}
SUM_OF_SESSION: Final = {
    by: _grouped(by, f"{_TIMES} AND usage.home = $3 AND usage.sid = $4") for by in _GROUPS
}

OBJECT: Final = "name, pack, start, size"
FIND_OBJECTS: Final = f"SELECT {OBJECT} FROM {{s}}.objects WHERE name = ANY($1)"
SCAN_OBJECTS: Final = f"SELECT {OBJECT} FROM {{s}}.objects WHERE name > $1 ORDER BY name LIMIT $2"
GET_PACK: Final = "SELECT size, codec, checksum, content, blob FROM {s}.packs WHERE pack = $1"
PACK_BLOB: Final = "SELECT blob FROM {s}.packs WHERE pack = $1 AND blob IS NOT NULL"
LIST_PACKS: Final = (
    "SELECT pack, size, coalesce(stored, length(content)),"
    " (SELECT count(*) FROM {s}.objects WHERE objects.pack = packs.pack)"
    " FROM {s}.packs WHERE pack > $1 ORDER BY pack LIMIT $2"
)
ADD_PACK: Final = "INSERT INTO {s}.packs (pack, size, codec, checksum, content) VALUES ($1, $2, $3, $4, $5)"
ADD_PACK_OUTSIDE: Final = (
    "INSERT INTO {s}.packs (pack, size, codec, checksum, stored, blob) VALUES ($1, $2, $3, $4, $5, $6)"
)
SIZE_OUTSIDE: Final = (
    "SELECT coalesce(sum(stored), 0)::bigint FROM"
    " (SELECT DISTINCT blob, stored FROM {s}.packs WHERE blob IS NOT NULL) AS outside"
)
ADD_OBJECT: Final = (
    f"INSERT INTO {{s}}.objects ({OBJECT}) VALUES ($1, $2, $3, $4) ON CONFLICT (name) DO NOTHING"
)
DROP_OBJECTS: Final = (
    "WITH done AS (DELETE FROM {s}.objects WHERE name = ANY($1) RETURNING 1) SELECT count(*) FROM done"
)
DROP_PACK: Final = (
    "WITH places AS (DELETE FROM {s}.objects WHERE pack = $1 RETURNING 1),"
    " done AS (DELETE FROM {s}.packs WHERE pack = $1 RETURNING 1)"
    " SELECT (SELECT count(*) FROM places) + (SELECT count(*) FROM done)"
)
