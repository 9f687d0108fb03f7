"""Every SQL statement of this backend: made of constants only, every value a parameter."""

from __future__ import annotations

from typing import Any, Final

from clew.backends.listing import TAG
from clew.backends.sqlite.statements_streams import DROP_STREAMS
from clew.core.log.rows import CLOSED, MESSAGE, NOT_DUE, PENDING, REMOVED, RUNNING, SessionQuery

SESSION: Final = (
    "sid, id, tree, created, updated, deleted, branch, position, digest, messages, turns, size,"
    " cut, summary, asked, grows, title, titled, preview, workspace, moves, undo, redo, forks,"
    " status, epoch, fence, due"
)
_TEXTS: Final = ("id", "title", "preview", "workspace")


def _loose(column: str) -> str:
    """A text as bytes, whatever they are; no number or bytes stands for one."""
    other = "WHEN 'null' THEN NULL ELSE 0 END" if column in _TEXTS else f"ELSE {column} END"
    return f"CASE typeof({column}) WHEN 'text' THEN CAST({column} AS BLOB) {other}"


LOOSE_SESSION: Final = ", ".join(_loose(column) for column in SESSION.split(", "))
ENTRY: Final = (
    "key, kind, time, flags, codec, checksum, digest, messages, turns, size, cut, summary, asked, epoch, body"
)

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
TREE_SESSIONS: Final = f"SELECT {SESSION} FROM sessions WHERE tree = ? ORDER BY sid"
# The first condition says what sessions_due holds; without it the index is not used.
# BETWEEN: of two upper bounds the planner takes the first it meets, and would walk all that is not due.
DUE_SESSIONS: Final = (
    f"SELECT {SESSION} FROM sessions WHERE due BETWEEN ?2 AND ?1 AND due < {NOT_DUE}"
    " AND (due, sid) > (?2, ?3) ORDER BY due, sid LIMIT ?4"
)
IDLE_SESSIONS: Final = (
    f"SELECT {SESSION} FROM sessions WHERE deleted IS NULL AND updated >= ?1 AND (updated > ?1 OR id < ?2)"
    " ORDER BY updated, id DESC LIMIT ?3"
)
GET_DETAILS: Final = "SELECT CAST(value AS BLOB) FROM details WHERE sid = ?"

BRANCH: Final = "SELECT branch, uid, tree, owner, parent, fork FROM branches"
GET_BRANCH: Final = f"{BRANCH} WHERE branch = ?"
FIND_BRANCH: Final = f"{BRANCH} WHERE branch = (SELECT branch FROM branches WHERE uid = ?)"
BRANCH_NUMBERS: Final = "SELECT branch FROM branches WHERE owner = ? OR tree = ? ORDER BY branch"
TREE_BRANCHES: Final = f"{BRANCH} WHERE tree = ? ORDER BY branch"

GET_ENTRY: Final = f"SELECT {ENTRY} FROM entries WHERE key = ?"
GET_TIP: Final = "SELECT digest, messages, turns, size, cut, summary, asked FROM entries WHERE key = ?"
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

GET_RECORD: Final = "SELECT CAST(value AS BLOB) FROM records WHERE sid = ? AND kind = ? AND name = ?"
_SCAN: Final = (
    "SELECT name, coalesce(CAST(value AS BLOB), x'') FROM records WHERE sid = ?1 AND kind = ?2"
    " AND name >= ?3 AND typeof(name) = 'text'"
)
SCAN_RECORDS: Final = f"{_SCAN} ORDER BY name LIMIT ?4"
SCAN_BACKWARDS: Final = f"{_SCAN} ORDER BY name DESC LIMIT ?4"
SCAN_RANGE: Final = f"{_SCAN} AND name <= ?5 ORDER BY name LIMIT ?4"
SCAN_RANGE_BACKWARDS: Final = f"{_SCAN} AND name <= ?5 ORDER BY name DESC LIMIT ?4"
STATUS_TOTALS: Final = (
    "SELECT iif(typeof(status) = 'integer', status, -1), count(*), sum(updated >= ?)"
    " FROM sessions NOT INDEXED WHERE deleted IS NULL GROUP BY 1"
)
TOTALS: Final = (
    "SELECT (SELECT count(*) FROM sessions WHERE deleted IS NOT NULL),"
    " (SELECT count(*) FROM sessions WHERE created >= ?)"
)
VOLUME: Final = (
    "SELECT count(*), total(size) FROM sessions"
    " WHERE deleted IS NULL AND typeof(size) = 'integer' AND size >= 0"
)
# total, not sum: one damaged row must not make an overflow of all.
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


def _marks(columns: str) -> str:
    return ", ".join("?" * len(columns.split(",")))


_WITHOUT_SID: Final = SESSION.removeprefix("sid, ")
ADD_SESSION: Final = f"INSERT INTO sessions ({_WITHOUT_SID}) VALUES ({_marks(_WITHOUT_SID)})"
SET_SESSION: Final = f"UPDATE sessions SET ({_WITHOUT_SID}) = ({_marks(_WITHOUT_SID)}) WHERE sid = ?"
SET_TREE: Final = "UPDATE sessions SET tree = sid WHERE sid = ?"
SET_HEAD: Final = (
    "UPDATE sessions SET branch = ?, position = ?, digest = ?, messages = ?, turns = ?, size = ?, cut = ?,"
    " summary = ?, asked = ?, grows = 1, updated = ?, title = ?, preview = ? WHERE sid = ?"
)
SET_DUE: Final = "UPDATE sessions SET due = ? WHERE sid = ?"
REEXAMINE: Final = "UPDATE sessions SET due = 0 WHERE due <> 0"
SET_DETAILS: Final = "INSERT INTO details VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
DROP_FACETS: Final = "DELETE FROM facets WHERE sid = ?"
ADD_FACET: Final = "INSERT OR IGNORE INTO facets VALUES (?, ?, ?)"
DROP_SESSION: Final = (
    "DELETE FROM sessions WHERE sid = ?",
    "DELETE FROM details WHERE sid = ?",
    DROP_FACETS,
    "DELETE FROM records WHERE sid = ?",
    *DROP_STREAMS,
)
ADD_BRANCH: Final = "INSERT INTO branches (uid, tree, owner, parent, fork) VALUES (?, ?, ?, ?, ?)"
DISOWN_BRANCH: Final = "UPDATE branches SET owner = 0 WHERE branch = ?"
DROP_BRANCH: Final = "DELETE FROM branches WHERE branch = ?"
ADD_ENTRY: Final = f"INSERT INTO entries ({ENTRY}) VALUES ({_marks(ENTRY)})"
DROP_ENTRIES: Final = "DELETE FROM entries WHERE key BETWEEN ? AND ?"
ENTRY_FRAME: Final = "SELECT time, flags FROM entries WHERE key = ?"
ERASE_ENTRY: Final = f"UPDATE entries SET kind = {REMOVED}, codec = ?, checksum = ?, body = ? WHERE key = ?"
PUT_RECORD: Final = "INSERT INTO records VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
DROP_RECORD: Final = "DELETE FROM records WHERE sid = ? AND kind = ? AND name = ?"


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


def listing(query: SessionQuery) -> tuple[str, list[Any]]:
    """The statement for a query: made of fixed pieces only, every value a parameter."""
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
    for name, value in [*((TAG, tag) for tag in query.tags), *query.where]:
        pieces.append("sid IN (SELECT sid FROM facets WHERE name = ? AND value = ?)")
        bindings += [name, value]
    if query.after is not None:
        pieces.append(f"{moment} <= ? AND ({moment} < ? OR id > ?)")
        bindings += [query.after[0], query.after[0], query.after[1]]
    bindings.append(query.limit)
    sql = f"SELECT {_LISTED} FROM sessions WHERE {' AND '.join(pieces)} ORDER BY {moment} DESC, id LIMIT ?"
    return sql, bindings
