"""The SQL statements for events and usage: made of constants only, every value a parameter."""

# ruff: noqa: S608 - the pieces are the constants of this file
from __future__ import annotations

from typing import Final

from clew.model import UsageKey

EVENT: Final = "key, time, stream, type, id, data"
USAGE: Final = (
    "key, time, id, model, vendor, endpoint, source, branch, position, input, output, cache_read,"
    " cache_write, reasoning, cost, priced_by, all_input, all_output, all_cache_read, all_cache_write,"
    " all_reasoning, all_cost, all_unpriced, all_estimated"
)

# Two questions, not one with both: min and max together read every row between.
EVENT_BOUNDS: Final = (
    "SELECT (SELECT min(key) FROM events WHERE key BETWEEN ?1 AND ?2),"
    " (SELECT max(key) FROM events WHERE key BETWEEN ?1 AND ?2)"
)
FIND_EVENT: Final = f"SELECT {EVENT} FROM events WHERE key >> 32 = ? AND id = ?"
READ_EVENTS: Final = f"SELECT {EVENT} FROM events WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?"
READ_UNNAMED: Final = (
    f"SELECT {EVENT} FROM events WHERE key BETWEEN ? AND ? AND stream = '' ORDER BY key LIMIT ?"
)
READ_STREAM: Final = (
    f"SELECT {EVENT} FROM events WHERE key >> 32 = ? AND stream = ? AND stream <> '' AND key > ?"
    " ORDER BY key LIMIT ?"
)
ADD_EVENT: Final = f"INSERT INTO events ({EVENT}) VALUES ({', '.join('?' * len(EVENT.split(',')))})"
DROP_EVENTS: Final = "DELETE FROM events WHERE key BETWEEN ? AND ?"

LAST_USAGE: Final = f"SELECT {USAGE} FROM usage WHERE key BETWEEN ? AND ? ORDER BY key DESC LIMIT 1"
FIND_USAGE: Final = f"SELECT {USAGE} FROM usage WHERE key >> 32 = ? AND id = ?"
READ_USAGE: Final = f"SELECT {USAGE} FROM usage WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?"
ADD_USAGE: Final = f"INSERT INTO usage ({USAGE}) VALUES ({', '.join('?' * len(USAGE.split(',')))})"

DROP_STREAMS: Final = (
    "DELETE FROM events WHERE key BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295",
    "DELETE FROM usage WHERE key BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295",
)

# SQLite divides towards zero and so would put the second before 1970 into 1970: make it a floor.
_SECOND: Final = "(usage.time - 999999 * (usage.time < 0)) / 1000000"
_OF_SESSION: Final = "LEFT JOIN sessions ON sessions.sid = usage.key >> 32"
_OF_BRANCH: Final = "LEFT JOIN branches ON branches.branch = usage.branch AND usage.branch > 0"
# Money in two parts: a sum beyond 64 bits would be an error.
_SUMS: Final = (
    "count(*), sum(input), sum(output), sum(cache_read), sum(cache_write), sum(reasoning),"
    " coalesce(sum(cost / 1000000), 0), coalesce(sum(cost % 1000000), 0),"
    " sum(cost IS NULL), sum(priced_by IS NOT NULL)"
)


_SPAN: Final = " WHERE usage.key BETWEEN ? AND ? AND usage.time >= ? AND usage.time < ?"
_GROUPS: Final[dict[UsageKey | None, tuple[str, str]]] = {
    None: ("NULL", ""),
    "model": ("usage.model", ""),
    "vendor": ("usage.vendor", ""),
    "endpoint": ("usage.endpoint", ""),
    "source": ("usage.source", ""),
    "day": (f"date({_SECOND}, 'unixepoch')", ""),
    "workspace": ("sessions.workspace", _OF_SESSION),
    "session": ("sessions.id", _OF_SESSION),
    "branch": ("branches.uid", _OF_BRANCH),
}
SUM_USAGE: Final = {
    by: f"SELECT {group} AS part, {_SUMS} FROM usage {join}{_SPAN} GROUP BY part ORDER BY part"
    for by, (group, join) in _GROUPS.items()
}
# Call by call, for a store in which SQLite can not add them up.
_COUNTS: Final = ", ".join(
    f"CASE typeof({name}) WHEN 'integer' THEN {name} WHEN 'null' THEN NULL ELSE -1 END"
    for name in ("input", "output", "cache_read", "cache_write", "reasoning", "cost")
)
ADD_UP_USAGE: Final = {
    by: f"SELECT CAST({group} AS BLOB), {_COUNTS}, priced_by IS NOT NULL FROM usage {join}{_SPAN}"
    for by, (group, join) in _GROUPS.items()
}
