"""Every SQL statement of this backend, in the sections of the contract: made of constants only, every value a
parameter."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from clew.backends.rows import TAG
from clew.core.log.rows import (
    CLOSED,
    MESSAGE,
    NOT_DUE,
    PENDING,
    REMOVED,
    RUNNING,
    SessionQuery,
    UsageColumn,
)

if TYPE_CHECKING:
    from clew.core.messages.search_text import TextQuery
    from clew.core.messages.words import Term


def marks(columns: str) -> str:
    """A parameter for each column."""
    return ", ".join("?" * len(columns.split(",")))


# -- transactions and settings

BEGIN: Final = "BEGIN"
BEGIN_WRITING: Final = "BEGIN IMMEDIATE"
COMMIT: Final = "COMMIT"
ROLLBACK: Final = "ROLLBACK"
SETTINGS: Final = (
    "PRAGMA cell_size_check = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA fullfsync = ON",  # macOS: fsync alone leaves data in the drive's cache
    "PRAGMA checkpoint_fullfsync = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA cache_size = -8192",
)
"""That every connection needs."""
PAGE_SIZE: Final = "PRAGMA page_size = 4096"
USE_LOG: Final = "PRAGMA journal_mode = WAL"
SYNCHRONOUS: Final = "PRAGMA synchronous"
SET_SYNCHRONOUS: Final = {level: f"PRAGMA synchronous = {level}" for level in (1, 2)}
EMPTY_LOG: Final = "PRAGMA wal_checkpoint(TRUNCATE)"
SORT_ON_DISK: Final = "PRAGMA temp_store = FILE"
SORT_IN_MEMORY: Final = "PRAGMA temp_store = MEMORY"
REBUILD: Final = "VACUUM"
COPY_INTO: Final = "VACUUM INTO ?"
DATA_VERSION: Final = "PRAGMA data_version"

# -- the schema

APPLICATION_ID: Final = 0x436C6577  # "Clew"
OWNER: Final = "PRAGMA application_id"
VERSION: Final = "PRAGMA user_version"
SET_OWNER: Final = f"PRAGMA application_id = {APPLICATION_ID}"


WRITTEN_BY: Final = "SELECT clew FROM about LIMIT 1"
FORGET_WRITTEN_BY: Final = "DELETE FROM about"
SET_WRITTEN_BY: Final = "INSERT INTO about (clew) VALUES (?)"


def set_version(version: int) -> str:
    return f"PRAGMA user_version = {version:d}"


SCHEMA: Final = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
SCHEMA_SIZE: Final = "SELECT count(*) FROM sqlite_schema"
FOUND_TABLES: Final = "SELECT name, type FROM pragma_table_list WHERE schema = 'main'"
COMPUTED: Final = (
    "SELECT list.name FROM pragma_table_list AS list JOIN pragma_table_xinfo(list.name) AS field"
    " WHERE list.schema = 'main' AND list.type IN ('table', 'shadow') AND field.hidden > 1"
)
# What Litestream and ANALYZE put into a database.
GUESTS: Final = frozenset(
    {
        "CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)",
        "CREATE TABLE _litestream_lock (id INTEGER)",
        "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
        "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
    }
)

# -- sessions

SESSION: Final = (
    "sid, id, tree, created, updated, deleted, branch, position, digest, messages, turns, size,"
    " view_start, summary, last_user_turn, grows, title, has_title, preview, workspace, moves, undo, redo,"
    " forks, status, epoch, fence, due"
)
_TEXTS: Final = ("id", "title", "preview", "workspace")


def _loose(column: str) -> str:
    """A text as bytes, whatever they are; no number or bytes stands for one."""
    other = "WHEN 'null' THEN NULL ELSE 0 END" if column in _TEXTS else f"ELSE {column} END"
    return f"CASE typeof({column}) WHEN 'text' THEN CAST({column} AS BLOB) {other}"


LOOSE_SESSION: Final = ", ".join(_loose(column) for column in SESSION.split(", "))

# The row is looked up by its number once more: else SQLite takes the id from the index, and nothing shows
# that a damaged index led to the row of another session.
FIND_SESSION: Final = (
    f"SELECT {SESSION} FROM sessions WHERE sid = (SELECT sid FROM sessions WHERE id = ? AND deleted IS NULL)"
)
GET_SESSION: Final = f"SELECT {SESSION} FROM sessions WHERE sid = ?"
GET_LOOSELY: Final = f"SELECT {LOOSE_SESSION} FROM sessions WHERE sid = ?"
ALL_LOOSELY: Final = (
    f"SELECT {LOOSE_SESSION}, (SELECT CAST(value AS BLOB) FROM details WHERE details.sid = sessions.sid)"
    " FROM sessions NOT INDEXED ORDER BY sid"
)
FIND_DELETED: Final = (
    f"SELECT {SESSION} FROM sessions WHERE id = ? AND deleted IS NOT NULL"
    " ORDER BY deleted DESC, sid DESC LIMIT 1"
)
_IDS: Final = "SELECT CAST(id AS BLOB), sid, deleted IS NOT NULL FROM sessions WHERE"
IDS: Final = (
    f"{_IDS} deleted IS NULL AND id >= ? ORDER BY id LIMIT ?",
    f"{_IDS} deleted IS NOT NULL AND id >= ? ORDER BY id, sid LIMIT ?",
)
# The expressions are those of sessions_own, to the letter: else the index is not used.
_OWN: Final = "substr(id, instr(id, ':') + 1)"
OWN_IDS: Final = f"{_IDS} instr(id, ':') > 0 AND {_OWN} >= ? ORDER BY {_OWN}, sid LIMIT ?"
TREE_SESSIONS: Final = f"SELECT {SESSION} FROM sessions WHERE tree = ? ORDER BY sid"
# The first condition says what sessions_due holds; without it the index is not used.
# BETWEEN: of two upper bounds the planner takes the first it meets, and would walk all that is not due.
DUE_SESSIONS: Final = (
    f"SELECT {SESSION} FROM sessions WHERE due BETWEEN ?2 AND ?1 AND due < {NOT_DUE}"
    " AND (due, sid) > (?2, ?3) ORDER BY due, sid LIMIT ?4"
)
SESSION_ID: Final = "SELECT CAST(id AS BLOB) FROM sessions WHERE sid = ?"
GET_DETAILS: Final = "SELECT CAST(value AS BLOB) FROM details WHERE sid = ?"

# The numbers stand in the text, where the planner sees which partial index holds them.
_BY_STATUS: Final = {
    PENDING: f"status = {PENDING}",
    RUNNING: f"status = {RUNNING}",
    **{status: f"status > {RUNNING} AND status = {status}" for status in range(RUNNING + 1, CLOSED + 1)},
}
# The running are few: found by their own index, then sorted. Left alone, the planner walks all sessions.
_RUNNING: Final = f"sid IN (SELECT sid FROM sessions WHERE status = {RUNNING} AND deleted IS NULL)"
_RUN: Final = (
    "(SELECT CAST(value AS BLOB) FROM records"
    " WHERE records.sid = sessions.sid AND kind = 'run' AND name = '')"
)
_DETAILS: Final = "(SELECT CAST(value AS BLOB) FROM details WHERE details.sid = sessions.sid)"
_LISTED: Final = f"{SESSION}, {_DETAILS}, {_RUN}"


# Found by its facets: where few have one, these are looked up and sorted; where many have it, the list is
# walked in its order and each session is asked.
FREQUENT: Final = 2000
IS_FREQUENT: Final = (
    f"SELECT count(*) = {FREQUENT} FROM (SELECT 1 FROM facets WHERE name = ? AND value = ? LIMIT {FREQUENT})"
)
_BY_FACET: Final = "sid IN (SELECT sid FROM facets WHERE name = ? AND value = ?)"
_HAS_FACET: Final = (
    "EXISTS (SELECT 1 FROM facets WHERE facets.name = ? AND facets.value = ? AND facets.sid = sessions.sid)"
)
# A parent's name is JSON. One that JSON writes with escapes is looked at whatever it cost.
_COSTLY: Final = (
    "((SELECT all_cost FROM usage WHERE key BETWEEN sid << 32 AND sid << 32 | 4294967295"
    " ORDER BY key DESC LIMIT 1) >= ? OR EXISTS (SELECT 1 FROM facets WHERE name = 'parent'"
    " AND value = '\"' || id || '\"') OR id GLOB ?)"
)
_ESCAPED: Final = '*["\\\x01-\x1f]*'


def listing(query: SessionQuery, frequent: Collection[tuple[str, str]] = ()) -> tuple[str, list[Any]]:
    """The statement for a query: made of fixed pieces only, every value a parameter. `frequent`: those of its
    facets that many sessions have."""
    moment = "deleted" if query.deleted else "updated"
    pieces = ["deleted IS NOT NULL" if query.deleted else "deleted IS NULL"]
    bindings: list[Any] = []
    if query.workspace is not None:
        pieces.append("workspace = ?")
        bindings.append(query.workspace)
    if query.status is not None:
        is_running = query.status == RUNNING and not query.deleted
        pieces.append(_RUNNING if is_running else _BY_STATUS[query.status])
    if query.nonempty:
        pieces.append("messages > 0")
    for bound, compared in ((query.since, ">="), (query.until, "<")):
        if bound is not None:
            pieces.append(f"{moment} {compared} ?")
            bindings.append(bound)
    is_sorted = False
    for facet in [*((TAG, tag) for tag in query.tags), *query.where]:
        is_walked = facet in frequent
        pieces.append(_HAS_FACET if is_walked else _BY_FACET)
        bindings += facet
        is_sorted = is_sorted or not is_walked
    if query.min_cost is not None:
        pieces.append(_COSTLY)
        bindings += [query.min_cost, _ESCAPED]
    if query.after is not None:
        back = f"{moment} >= ? AND ({moment} > ? OR id < ?)"
        pieces.append(back if query.oldest else f"{moment} <= ? AND ({moment} < ? OR id > ?)")
        bindings += [query.after[0], query.after[0], query.after[1]]
    bindings.append(query.limit)
    order = f"{moment}, id DESC" if query.oldest else f"{moment} DESC, id"
    found = f"FROM sessions WHERE {' AND '.join(pieces)} ORDER BY {order} LIMIT ?"
    if not is_sorted:
        return f"SELECT {_LISTED} {found}", bindings
    # What is sorted is small, and the rest of the rows is read for those of the page only.
    page = f"(SELECT sid AS found {found}) CROSS JOIN sessions ON sid = found"
    return f"SELECT {_LISTED} FROM {page} ORDER BY {order}", bindings


# What sessions have, and how many have it. Facets stay when a session is put in the trash: those are few, so
# all are counted, and then those of the trash. Each question is answered by an index alone.
_LIVE: Final = "deleted IS NULL"
_TRASH: Final = "deleted IS NOT NULL"
COUNT_WORKSPACES: Final = {
    deleted: "SELECT CAST(workspace AS BLOB), count(*) FROM sessions"
    f" WHERE {_TRASH if deleted else _LIVE} AND workspace IS NOT NULL GROUP BY workspace"
    for deleted in (False, True)
}
# From one workspace to the next: as many steps as there are workspaces, not sessions.
_NEXT_WORKSPACE: Final = f"SELECT min(workspace) FROM sessions WHERE {_LIVE} AND workspace IS NOT NULL"
WORKSPACES: Final = (
    f"WITH RECURSIVE found (workspace) AS ({_NEXT_WORKSPACE} UNION ALL"
    f" SELECT ({_NEXT_WORKSPACE} AND workspace > found.workspace) FROM found WHERE found.workspace NOT NULL)"
    " SELECT CAST(workspace AS BLOB), 1 FROM found WHERE workspace NOT NULL"
)
COUNT_FINISHED: Final = (
    f"SELECT status, count(*) FROM sessions WHERE {_LIVE} AND status > {RUNNING} GROUP BY 1"
)
COUNT_RUNNING: Final = f"SELECT count(*) FROM sessions WHERE {_LIVE} AND status = {RUNNING}"
COUNT_TRASHED: Final = f"SELECT status, count(*) FROM sessions WHERE {_TRASH} GROUP BY 1"
COUNT_FACETS: Final = "SELECT CAST(value AS BLOB), count(*) FROM facets WHERE name = ? GROUP BY value"
COUNT_TRASHED_FACETS: Final = (
    "SELECT CAST(facets.value AS BLOB), count(*) FROM sessions CROSS JOIN facets ON facets.sid = sessions.sid"
    " AND facets.name = ? WHERE deleted IS NOT NULL GROUP BY 1"
)
# The number says which of the parents it is.
FIND_SUBAGENTS: Final = (
    "SELECT asked.key, CAST(sessions.id AS BLOB), sessions.sid, sessions.deleted IS NOT NULL"
    " FROM json_each(?) AS asked CROSS JOIN facets ON facets.name = ? AND facets.value = asked.value"
    " CROSS JOIN sessions ON sessions.sid = facets.sid ORDER BY asked.key, sessions.sid"
)

# By the smallest index that holds them all.
COUNT_SESSIONS: Final = "SELECT count(*) FROM sessions WHERE deleted IS NULL"
# A facet is JSON, here the id of the parent.
COUNT_SUBAGENTS: Final = (
    "SELECT count(*) FROM facets JOIN sessions ON sessions.sid = facets.sid"
    " WHERE facets.name = 'parent' AND sessions.deleted IS NULL AND json_valid(facets.value) AND EXISTS"
    " (SELECT 1 FROM sessions AS parent WHERE parent.id = json_extract(facets.value, '$')"
    " AND parent.deleted IS NULL AND parent.sid <> facets.sid)"
)
# One look at each session. total, not sum: one damaged row must not make an overflow of all.
TOTALS: Final = (
    "SELECT iif(typeof(status) = 'integer', status, -1), deleted IS NULL, count(*), sum(updated >= ?1),"
    " sum(created >= ?1), total(iif(typeof(size) = 'integer', max(size, 0), 0))"
    " FROM sessions NOT INDEXED GROUP BY 1, 2"
)
# The newest entry of a branch knows how much lies before it, its parent entry how much of that is shared.
BRANCH_TOTALS: Final = """
    SELECT total(newest.messages - coalesce(parent.messages, 0)),
           total((newest.key & 4294967295) - branches.fork),
           total(newest.size - coalesce(parent.size, 0))
    FROM branches
    JOIN entries AS newest ON newest.key =
         (SELECT max(key) FROM entries WHERE key BETWEEN branch << 32 AND branch << 32 | 4294967295)
    LEFT JOIN entries AS parent ON parent.key = branches.parent << 32 | branches.fork AND branches.parent > 0
"""

_WITHOUT_SID: Final = SESSION.removeprefix("sid, ")
ADD_SESSION: Final = f"INSERT INTO sessions ({_WITHOUT_SID}) VALUES ({marks(_WITHOUT_SID)})"
SET_SESSION: Final = f"UPDATE sessions SET ({_WITHOUT_SID}) = ({marks(_WITHOUT_SID)}) WHERE sid = ?"
SET_TREE: Final = "UPDATE sessions SET tree = sid WHERE sid = ?"
SET_HEAD: Final = (
    "UPDATE sessions SET branch = ?, position = ?, digest = ?, messages = ?, turns = ?, size = ?,"
    " view_start = ?, summary = ?, last_user_turn = ?, grows = 1, updated = ?, title = ?,"
    " preview = ? WHERE sid = ?"
)
SET_DUE: Final = "UPDATE sessions SET due = ? WHERE sid = ?"
SET_ALL_DUE: Final = "UPDATE sessions SET due = ?1 WHERE due <> ?1"
SET_DETAILS: Final = "INSERT INTO details VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
DROP_FACETS: Final = "DELETE FROM facets WHERE sid = ?"
ADD_FACET: Final = "INSERT OR IGNORE INTO facets VALUES (?, ?, ?)"
DROP_SESSION: Final = (
    "DELETE FROM sessions WHERE sid = ?",
    "DELETE FROM details WHERE sid = ?",
    DROP_FACETS,
    "DELETE FROM records WHERE sid = ?",
    "DELETE FROM events WHERE key BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295",
    "DELETE FROM usage WHERE key BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295",
)

# -- log

ENTRY: Final = (
    "key, kind, time, flags, codec, checksum, digest, messages, turns, size,"
    " view_start, summary, last_user_turn, epoch, body"
)
BRANCH: Final = "SELECT branch, uid, tree, owner, parent, fork FROM branches"
GET_BRANCH: Final = f"{BRANCH} WHERE branch = ?"
FIND_BRANCH: Final = f"{BRANCH} WHERE branch = (SELECT branch FROM branches WHERE uid = ?)"
BRANCH_NUMBERS: Final = "SELECT branch FROM branches WHERE owner = ? OR tree = ? ORDER BY branch"
TREE_BRANCHES: Final = f"{BRANCH} WHERE tree = ? ORDER BY branch"

GET_ENTRY: Final = f"SELECT {ENTRY} FROM entries WHERE key = ?"
GET_TIP: Final = (
    "SELECT digest, messages, turns, size, view_start, summary, last_user_turn FROM entries WHERE key = ?"
)
LAST_KEY: Final = "SELECT max(key) FROM entries WHERE key BETWEEN ? AND ?"
ENTRIES: Final = f"SELECT {ENTRY} FROM entries WHERE key BETWEEN ? AND ? ORDER BY key"
ENTRIES_BACKWARDS: Final = f"{ENTRIES} DESC"
_MESSAGES: Final = (
    "SELECT key, time, flags, codec, checksum, body FROM entries"
    f" WHERE key BETWEEN ? AND ? AND kind = {MESSAGE} ORDER BY key"
)
MESSAGES: Final = f"{_MESSAGES} LIMIT ?"
MESSAGES_BACKWARDS: Final = f"{_MESSAGES} DESC LIMIT ?"
COUNT_ENTRIES: Final = "SELECT count(*) FROM entries WHERE key BETWEEN ? AND ? AND kind = ?"

ADD_BRANCH: Final = "INSERT INTO branches (uid, tree, owner, parent, fork) VALUES (?, ?, ?, ?, ?)"
OWN_BRANCH: Final = "UPDATE branches SET owner = ? WHERE branch = ?"
DROP_BRANCH: Final = "DELETE FROM branches WHERE branch = ?"
ADD_ENTRY: Final = f"INSERT INTO entries ({ENTRY}) VALUES ({marks(ENTRY)})"
DROP_ENTRIES: Final = "DELETE FROM entries WHERE key BETWEEN ? AND ?"
ENTRY_FRAME: Final = "SELECT time, flags FROM entries WHERE key = ?"
ERASE_ENTRY: Final = f"UPDATE entries SET kind = {REMOVED}, codec = ?, checksum = ?, body = ? WHERE key = ?"

# -- records

GET_RECORD: Final = "SELECT CAST(value AS BLOB) FROM records WHERE sid = ? AND kind = ? AND name = ?"
_SCAN: Final = (
    "SELECT name, coalesce(CAST(value AS BLOB), x'') FROM records WHERE sid = ?1 AND kind = ?2"
    " AND name >= ?3 AND typeof(name) = 'text'"
)
SCAN_RECORDS: Final = f"{_SCAN} ORDER BY name LIMIT ?4"
SCAN_BACKWARDS: Final = f"{_SCAN} ORDER BY name DESC LIMIT ?4"
SCAN_RANGE: Final = f"{_SCAN} AND name <= ?5 ORDER BY name LIMIT ?4"
SCAN_RANGE_BACKWARDS: Final = f"{_SCAN} AND name <= ?5 ORDER BY name DESC LIMIT ?4"
PUT_RECORD: Final = "INSERT INTO records VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
DROP_RECORD: Final = "DELETE FROM records WHERE sid = ? AND kind = ? AND name = ?"

# -- streams

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
ADD_EVENT: Final = f"INSERT INTO events ({EVENT}) VALUES ({marks(EVENT)})"
DROP_EVENTS: Final = "DELETE FROM events WHERE key BETWEEN ? AND ?"

LAST_USAGE: Final = f"SELECT {USAGE} FROM usage WHERE key BETWEEN ? AND ? ORDER BY key DESC LIMIT 1"
FIND_USAGE: Final = f"SELECT {USAGE} FROM usage WHERE key >> 32 = ? AND id = ?"
READ_USAGE: Final = f"SELECT {USAGE} FROM usage WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?"
ADD_USAGE: Final = f"INSERT INTO usage ({USAGE}) VALUES ({marks(USAGE)})"


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
_GROUPS: Final[dict[UsageColumn, tuple[str, str]]] = {
    "model": ("usage.model", ""),
    "vendor": ("usage.vendor", ""),
    "endpoint": ("usage.endpoint", ""),
    "source": ("usage.source", ""),
    "day": (f"date({_SECOND}, 'unixepoch')", ""),
    "quarter": ("CAST((usage.time - 899999999 * (usage.time < 0)) / 900000000 AS TEXT)", ""),
    "workspace": ("sessions.workspace", _OF_SESSION),
    "session": ("sessions.id", _OF_SESSION),
    "branch": ("branches.uid", _OF_BRANCH),
}


@cache
def sum_usage(by: tuple[UsageColumn, ...]) -> str:
    groups = "".join(f"{_GROUPS[column][0]} AS part{number}, " for number, column in enumerate(by))
    parts = ", ".join(f"part{number}" for number in range(len(by)))
    order = f" GROUP BY {parts} ORDER BY {parts}" if by else " HAVING count(*)"
    return f"SELECT {groups}{_SUMS} FROM usage {_joins(by)}{_SPAN}{order}"


def _joins(by: tuple[UsageColumn, ...]) -> str:
    return " ".join(dict.fromkeys(join for column in by if (join := _GROUPS[column][1])))


# Call by call, for a store in which SQLite cannot add them up.
_COUNTS: Final = ", ".join(
    f"CASE typeof({name}) WHEN 'integer' THEN {name} WHEN 'null' THEN NULL ELSE -1 END"
    for name in ("input", "output", "cache_read", "cache_write", "reasoning", "cost")
)


@cache
def add_up_usage(by: tuple[UsageColumn, ...]) -> str:
    groups = "".join(f"CAST({_GROUPS[column][0]} AS BLOB), " for column in by)
    return f"SELECT {groups}{_COUNTS}, priced_by IS NOT NULL FROM usage {_joins(by)}{_SPAN}"


# -- objects

OBJECT: Final = "key, offset, size, name"

# The index holds the first bytes of names; without this condition beside the name it is not used.
_NAMED: Final = "substr(name, 1, 8) = substr(?1, 1, 8) AND name = ?1"

FIND_OBJECT: Final = f"SELECT {OBJECT} FROM objects WHERE {_NAMED}"
AT_ONCE: Final = 100
# Many names in one statement take a third of the time of a statement for each.
FIND_OBJECTS: Final = (
    f"SELECT {OBJECT} FROM objects"
    f" WHERE substr(name, 1, 8) IN ({', '.join(f'substr(?{n}, 1, 8)' for n in range(1, AT_ONCE + 1))})"
    f" AND name IN ({', '.join(f'?{n}' for n in range(1, AT_ONCE + 1))})"
)
SCAN_OBJECTS: Final = (
    f"SELECT {OBJECT} FROM objects WHERE substr(name, 1, 8) >= ?1 AND name > ?2"
    " ORDER BY substr(name, 1, 8), name LIMIT ?3"
)
GET_PACK: Final = "SELECT size, codec, checksum, content FROM packs WHERE pack = ?"
LIST_PACKS: Final = (
    "SELECT pack, size, length(content), (SELECT count(*) FROM objects"
    " WHERE key BETWEEN pack << 32 AND pack << 32 | 4294967295)"
    " FROM packs WHERE pack > ? ORDER BY pack LIMIT ?"
)

ADD_PACK: Final = "INSERT INTO packs (size, codec, checksum, content) VALUES (?, ?, ?, ?)"
ADD_OBJECT: Final = (
    f"INSERT INTO objects ({OBJECT}) SELECT ?2, ?3, ?4, ?1"
    f" WHERE NOT EXISTS (SELECT 1 FROM objects WHERE {_NAMED})"
)
DROP_OBJECT: Final = f"DELETE FROM objects WHERE {_NAMED}"
DROP_PACK: Final = (
    "DELETE FROM objects WHERE key BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295",
    "DELETE FROM packs WHERE pack = ?1",
)

# -- texts

SLOT_BITS: Final = 17
NUMBERS: Final = (1 << SLOT_BITS) - 1
MICROSECONDS: Final = 6
"""A slot is so many bits of the time: 64 microseconds."""
FEW_BRANCHES: Final = 100
"""So many are looked for in the index of words; of more, each hit is asked whether it is on one of them."""
LAST_SLOT: Final = (1 << (63 - SLOT_BITS)) - 1

UNSEARCHED: Final = (
    "SELECT DISTINCT tree FROM sessions LEFT JOIN search_sessions AS seen ON seen.sid = sessions.sid"
    " WHERE seen.sid IS NULL OR seen.updated <> sessions.updated OR seen.position <> sessions.position"
    " OR seen.branch <> sessions.branch OR seen.moves <> sessions.moves"
)
SEARCHED_UPTO: Final = "SELECT position FROM search_branches WHERE branch = ?"
SET_UPTO: Final = (
    "INSERT INTO search_branches VALUES (?, ?) ON CONFLICT DO UPDATE SET position = excluded.position"
)
SET_SEARCHED: Final = (
    "INSERT OR REPLACE INTO search_sessions SELECT ?1, ?2, ?3, ?4, ?5"
    " WHERE EXISTS (SELECT 1 FROM sessions WHERE sid = ?1)"
)
LAST_OF_SLOT: Final = "SELECT max(place) FROM search_entries WHERE place BETWEEN ? AND ?"
PLACE_OF: Final = "SELECT place FROM search_entries WHERE key = ?"
PLACES: Final = "SELECT place FROM search_entries WHERE key BETWEEN ? AND ? ORDER BY place"
ADD_PLACE: Final = "INSERT INTO search_entries VALUES (?, ?)"
ADD_WORDS: Final = "INSERT INTO search_words (rowid, said, tool, home) VALUES (?, ?, ?, ?)"
DROP_PLACE: Final = "DELETE FROM search_entries WHERE place = ?"
DROP_WORDS: Final = "DELETE FROM search_words WHERE rowid = ?"
DROP_UPTO: Final = "DELETE FROM search_branches WHERE branch = ?"
LOWER_UPTO: Final = "UPDATE search_branches SET position = min(position, ?2) WHERE branch = ?1"
DROP_SEARCHED: Final = "DELETE FROM search_sessions WHERE sid = ?"
FORGET_TREE: Final = (
    "DELETE FROM search_sessions WHERE sid IN (SELECT sid FROM sessions WHERE tree ="
    " (SELECT tree FROM branches WHERE branch = ?))"
)
# This merges as many pages of the index as it is told, about.
MERGE_SOME: Final = "INSERT INTO search_words (search_words, rank) VALUES ('merge', ?)"
# Words that were deleted stay in the index until it is merged; this merges all of it.
MERGE: Final = "INSERT INTO search_words (search_words) VALUES ('optimize')"

_FIND: Final = (
    "SELECT time, search_entries.key FROM search_words"
    " CROSS JOIN search_entries ON place = search_words.rowid"
    " CROSS JOIN entries ON entries.key = search_entries.key"
)


def slot_of(time: int) -> int:
    return min(max(time, 0) >> MICROSECONDS, LAST_SLOT)


def finding(wanted: TextQuery, before: int | None) -> tuple[str, list[Any]]:
    """The statement for a query; `before`: only places below this one."""
    pieces = ["search_words MATCH ?"]
    bindings: list[Any] = [expression(wanted)]
    if wanted.since is not None:
        pieces.append("search_words.rowid >= ?")
        bindings.append(slot_of(wanted.since) << SLOT_BITS)
    if wanted.until is not None:
        end = (slot_of(wanted.until) << SLOT_BITS) + NUMBERS + 1
        before = end if before is None else min(end, before)
    if before is not None:
        pieces.append("search_words.rowid < ?")
        bindings.append(min(before, 2**63 - 1))
    if wanted.branches is not None and len(wanted.branches) > FEW_BRANCHES:
        import msgspec

        pieces.append("search_entries.key >> 32 IN (SELECT value FROM json_each(?))")
        bindings.append(msgspec.json.encode(sorted(wanted.branches)).decode())
    bindings.append(wanted.limit)
    return f"{_FIND} WHERE {' AND '.join(pieces)} ORDER BY search_words.rowid DESC LIMIT ?", bindings


def home_words(branch: int, role: int) -> str:
    return f"b{branch} r{role}"


def expression(wanted: TextQuery) -> str:
    """The query in the words of FTS5. A term's words hold neither quotes nor spaces."""
    query = wanted.query
    text = f"({' AND '.join(map(_phrase, query.wanted))})"
    if query.unwanted:
        text = f"({text} NOT ({' OR '.join(map(_phrase, query.unwanted))}))"
    pieces = [f"{'{said tool}' if wanted.tools else 'said'} : {text}"]
    if wanted.role is not None:
        pieces.append(f'home : "r{wanted.role}"')
    if wanted.branches is not None and len(wanted.branches) <= FEW_BRANCHES:
        homes = (f'home : "b{branch}"' for branch in sorted(wanted.branches))
        pieces.append(f"({' OR '.join(homes)})")
    return " AND ".join(pieces)


def _phrase(term: Term) -> str:
    return f'"{" ".join(term.words)}"{" *" if term.prefix else ""}'


# -- damage

MOST_FINDINGS: Final = 100
"""That SQLite lists: a file with more of them needs no longer list."""
CHECK: Final = f"PRAGMA integrity_check({MOST_FINDINGS})"
ROOTS: Final = "SELECT rootpage, type || ' ' || name FROM sqlite_schema WHERE rootpage > 0"
STRAYS: Final = tuple(
    (what, owner, f"SELECT count(*) FROM {where}")
    for what, owner, where in (
        ("events", "session", "events WHERE key >> 32 NOT IN (SELECT sid FROM sessions)"),
        ("model calls", "session", "usage WHERE key >> 32 NOT IN (SELECT sid FROM sessions)"),
        ("details", "session", "details WHERE sid NOT IN (SELECT sid FROM sessions)"),
        ("tags or metadata", "session", "facets WHERE sid NOT IN (SELECT sid FROM sessions)"),
        ("records", "session", "records WHERE sid <> 0 AND sid NOT IN (SELECT sid FROM sessions)"),
        ("entries", "branch", "entries WHERE key >> 32 NOT IN (SELECT branch FROM branches)"),
    )
)
RECORD_KINDS: Final = "SELECT DISTINCT kind FROM records"
RECORD_NAMES: Final = "SELECT CASE typeof(name) WHEN 'text' THEN CAST(name AS BLOB) END FROM records"
