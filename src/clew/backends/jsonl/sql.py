"""What the index has beside the tables of the SQLite backend: which log holds what, how far it is read."""

# ruff: noqa: S608 - the pieces are the constants of this file
from __future__ import annotations

from typing import Final

from clew.backends.sqlite.schema import Known
from clew.backends.sqlite.sql import ADD_ENTRY, ADD_EVENT, ADD_USAGE, SESSION, marks

VERSION: Final = 2
SCHEMA: Final = f"""
CREATE TABLE IF NOT EXISTS index_version (version INTEGER PRIMARY KEY) STRICT;
INSERT OR IGNORE INTO index_version VALUES ({VERSION});
CREATE TABLE IF NOT EXISTS logs (
  log     INTEGER PRIMARY KEY AUTOINCREMENT,
  name    TEXT    NOT NULL UNIQUE,
  sid     INTEGER NOT NULL,
  applied INTEGER NOT NULL,  -- bytes of it that are in the index
  lines   INTEGER NOT NULL,
  inode   INTEGER NOT NULL,
  tail_at INTEGER NOT NULL,  -- where its last line begins, and how: to know it again
  tail    BLOB    NOT NULL,
  dirty   INTEGER NOT NULL,  -- it holds what was dropped
  stale   INTEGER NOT NULL,  -- bytes of lines that repeat what others said before
  safe    INTEGER NOT NULL,  -- bytes of it that were acknowledged as durable
  head    BLOB    NOT NULL   -- how its first line begins, if that has a mark
) STRICT;
CREATE INDEX IF NOT EXISTS logs_sid ON logs (sid);
CREATE TABLE IF NOT EXISTS places (branch INTEGER PRIMARY KEY, log INTEGER NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS places_log ON places (log);
CREATE TABLE IF NOT EXISTS damage (
  log INTEGER NOT NULL, line INTEGER NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (log, line)
) STRICT, WITHOUT ROWID;
"""
INDEX: Final = Known({1: "54fefa91ad622fa46a2c9bb2b2b1571c", 10: "2b4a9dd279831ce2cb8c5b15def6ac3c"}, SCHEMA)
TABLES: Final = 4
TABLES_THERE: Final = (
    "SELECT count(*) FROM sqlite_master WHERE type = 'table'"
    " AND name IN ('index_version', 'logs', 'places', 'damage')"
)
INDEX_VERSION: Final = "SELECT version FROM index_version"

LOG: Final = "log, name, sid, applied, lines, inode, tail_at, tail, dirty, stale, safe, head"
LOG_BY_NAME: Final = f"SELECT {LOG} FROM logs WHERE name = ?"
LOG_BY_NUMBER: Final = f"SELECT {LOG} FROM logs WHERE log = ?"
LOG_OF_SESSION: Final = "SELECT log FROM logs WHERE sid = ?"
LOG_OF_BRANCH: Final = "SELECT log FROM places WHERE branch = ?"
LOG_AND_SESSION: Final = "SELECT name, sid FROM logs WHERE log = ?"
LOG_NAME: Final = "SELECT name FROM logs WHERE log = ?"
ALL_LOGS: Final = f"SELECT {LOG} FROM logs ORDER BY log"
DIRTY_LOGS: Final = f"SELECT {LOG} FROM logs WHERE dirty OR stale * 4 > applied ORDER BY log"
ADD_LOG: Final = (
    "INSERT INTO logs (name, sid, applied, lines, inode, tail_at, tail, dirty, stale, safe, head)"
    " VALUES (?, ?, 0, 0, 0, 0, x'', 0, 0, 0, x'')"
)
ADD_PLAIN_LOG: Final = (
    "INSERT INTO logs (log, name, sid, applied, lines, inode, tail_at, tail, dirty, stale, safe, head)"
    " VALUES (?, ?, 0, 0, 0, 0, 0, x'', 0, 0, 0, x'')"
)
SET_LOG: Final = (
    "UPDATE logs SET sid = ?2, applied = ?3, lines = ?4, inode = ?5, tail_at = ?6, tail = ?7,"
    " dirty = dirty OR ?8, stale = ?9, safe = ?10, head = ?11 WHERE log = ?1"
)
RESET_LOG: Final = (
    "UPDATE logs SET sid = 0, applied = 0, lines = 0, tail_at = 0, tail = x'', dirty = 0, stale = 0,"
    " safe = ?2, head = x'' WHERE log = ?1"
)
SET_INODE: Final = "UPDATE logs SET inode = ? WHERE log = ?"
OTHER_LOG: Final = "SELECT name FROM logs WHERE sid = ? AND log <> ?"
CLEAN_LOG: Final = "UPDATE logs SET dirty = 0, stale = 0, safe = applied WHERE log = ?"
DROP_LOG: Final = "DELETE FROM logs WHERE log = ?"
ADD_BRANCH_PLACE: Final = "INSERT OR REPLACE INTO places VALUES (?, ?)"
DROP_BRANCH_PLACE: Final = "DELETE FROM places WHERE branch = ?"
BRANCHES_OF_LOG: Final = (
    "SELECT branches.branch, uid, tree, owner, parent, fork FROM branches"
    " JOIN places ON places.branch = branches.branch WHERE log = ? ORDER BY branches.branch"
)
PLACES_OF_LOG: Final = "SELECT branch FROM places WHERE log = ?"
ADD_DAMAGE: Final = "INSERT OR REPLACE INTO damage VALUES (?, ?, ?)"
DAMAGE_OF_LOG: Final = "SELECT line, reason FROM damage WHERE log = ? ORDER BY line"
ALL_DAMAGE: Final = "SELECT name, line, reason FROM damage JOIN logs USING (log) ORDER BY name, line"
DROP_DAMAGE: Final = "DELETE FROM damage WHERE log = ?"
# Line 0 is the whole log: it cannot be read.
DROP_UNREADABLE: Final = "DELETE FROM damage WHERE log = ? AND line = 0"
UNREADABLE: Final = "SELECT log FROM damage WHERE line = 0"
UNREADABLE_STRANGERS: Final = (
    "SELECT name, reason FROM damage JOIN logs USING (log) WHERE line = 0 AND applied = 0 ORDER BY name"
)

PUT_SESSION: Final = f"INSERT OR REPLACE INTO sessions ({SESSION}) VALUES ({marks(SESSION)})"
USUAL_DETAILS: Final = "INSERT OR IGNORE INTO details (sid, value) VALUES (?, ?)"
PUT_BRANCH: Final = (
    "INSERT OR REPLACE INTO branches (branch, uid, tree, owner, parent, fork) VALUES (?, ?, ?, ?, ?, ?)"
)
RAISE_NUMBER: Final = "UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1"
SKIP_NUMBERS: Final = "UPDATE sqlite_sequence SET seq = seq + ?2 WHERE name = ?1"
START_NUMBER: Final = (
    "INSERT INTO sqlite_sequence SELECT ?1, 0"
    " WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)"
)
LAST_NUMBER: Final = "SELECT seq FROM sqlite_sequence WHERE name = ?"
# Two sessions of one id, one in the trash: their logs may be read in either order.
LOOSEN: Final = "DROP INDEX IF EXISTS sessions_id"
TIGHTEN: Final = "CREATE UNIQUE INDEX IF NOT EXISTS sessions_id ON sessions (id) WHERE deleted IS NULL"
TWINS: Final = (
    "SELECT sid, id FROM sessions AS one WHERE deleted IS NULL AND EXISTS"
    " (SELECT 1 FROM sessions AS other WHERE other.id = one.id AND deleted IS NULL AND other.sid < one.sid)"
)
RENAME: Final = "UPDATE sessions SET id = ? WHERE sid = ?"

# A line that says once more what is there changes nothing.
PUT_ENTRY: Final = ADD_ENTRY.replace("INSERT", "INSERT OR IGNORE", 1)
PUT_EVENT: Final = ADD_EVENT.replace("INSERT", "INSERT OR IGNORE", 1)
PUT_USAGE: Final = ADD_USAGE.replace("INSERT", "INSERT OR IGNORE", 1)
KEYS: Final = "SELECT key FROM entries WHERE key > ? AND key <= ? ORDER BY key LIMIT ?"
BODY_PLACE: Final = "SELECT codec, body FROM entries WHERE key = ?"
TIMES: Final = "SELECT coalesce(min(time), 0), coalesce(max(time), 0) FROM entries WHERE key BETWEEN ? AND ?"
HAS_DETAILS: Final = "SELECT 1 FROM details WHERE sid = ?"
# Entries whose branch has no line: only a bad one can be the cause.
ORPHANS: Final = (
    "SELECT key >> 32 AS branch, min(key & 4294967295) FROM entries"
    " WHERE key >> 32 NOT IN (SELECT branch FROM branches) GROUP BY key >> 32"
)

LOST_HEADS: Final = (
    "SELECT sid, branch, tree, grows, (SELECT min(log) FROM logs WHERE logs.sid = sessions.sid)"
    " FROM sessions WHERE branch > 0 AND branch NOT IN (SELECT branch FROM branches)"
)
DUE_OF: Final = "SELECT due FROM sessions WHERE sid = ?"
TIME_OF: Final = "SELECT time FROM entries WHERE key = ?"

RECORDS_OF: Final = "SELECT kind, name, value FROM records WHERE sid = ? ORDER BY kind, name"
UNHOUSED: Final = "sid NOT IN (SELECT sid FROM logs WHERE sid > 0)"
HOMELESS_RECORDS: Final = (
    f"SELECT sid, kind, name, value FROM records WHERE {UNHOUSED} ORDER BY sid, kind, name"
)
DROP_HOMELESS: Final = (
    f"DELETE FROM records WHERE {UNHOUSED}",
    "DELETE FROM events WHERE key >> 32 NOT IN (SELECT sid FROM logs WHERE sid > 0)",
    "DELETE FROM usage WHERE key >> 32 NOT IN (SELECT sid FROM logs WHERE sid > 0)",
    "DELETE FROM objects",
    "DELETE FROM packs",
)
HOMELESS_SIDS: Final = (
    "SELECT DISTINCT key >> 32 FROM events WHERE key >> 32 NOT IN (SELECT sid FROM logs WHERE sid > 0)"
    " UNION SELECT DISTINCT key >> 32 FROM usage WHERE key >> 32 NOT IN (SELECT sid FROM logs WHERE sid > 0)"
)

PUT_PACK: Final = "INSERT OR REPLACE INTO packs (pack, size, codec, checksum, content) VALUES (?, ?, ?, ?, ?)"
PACK_FILES: Final = "SELECT pack, size, codec, checksum, content FROM packs ORDER BY pack"
PACK_FILE: Final = "SELECT size, codec, checksum, content FROM packs WHERE pack = ?"
LIST_PACKS: Final = (
    "SELECT pack, size, content, (SELECT count(*) FROM objects"
    " WHERE key BETWEEN pack << 32 AND pack << 32 | 4294967295)"
    " FROM packs WHERE pack > ? ORDER BY pack LIMIT ?"
)
OBJECTS_OF_PACK: Final = (
    "SELECT name, offset, size FROM objects WHERE key BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295 ORDER BY key"
)

# Of each table that an index has of the logs. When a session is due is in no log.
CONTENTS: Final = {
    table: f"SELECT {columns} FROM {table} ORDER BY {order}"
    for table, columns, order in (
        ("sessions", SESSION.removesuffix(", due"), "sid"),
        ("details", "sid, value", "sid"),
        ("facets", "name, value, sid", "name, value, sid"),
        ("branches", "branch, uid, tree, owner, parent, fork", "branch"),
        ("places", "branch, log", "branch"),
        ("entries", "*", "key"),
        ("records", "sid, kind, name, value", "sid, kind, name"),
        ("events", "*", "key"),
        ("usage", "*", "key"),
        ("packs", "*", "pack"),
        ("objects", "*", "key"),
    )
}

# One log, and one batch of it, inside the transaction of all.
BEGIN_LOG: Final = "SAVEPOINT log"
UNDO_LOG: Final = "ROLLBACK TO log"
END_LOG: Final = "RELEASE log"
BEGIN_BATCH: Final = "SAVEPOINT batch"
UNDO_BATCH: Final = "ROLLBACK TO batch"
END_BATCH: Final = "RELEASE batch"
