"""Every SQL statement of this backend: constants in the order of the contract, every value a parameter.

`{s}` stands for the quoted schema and `{fits}` for a check of the tables' version; `Schema` fills both in.
"""

# ruff: noqa: S608 - statements are made of the constants of this file
from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from clew.backends.postgres.rows import ascii_word, encode, facet_hash
from clew.backends.rows import TAG
from clew.core.log.rows import MESSAGE, NOT_DUE, REMOVED, RUNNING, SessionQuery, UsageColumn

if TYPE_CHECKING:
    from clew.core.messages.search_text import TextQuery
    from clew.core.messages.words import Query, Term

VERSION: Final = 10
"""The version of the tables that these statements are for."""


class Guarded(str):
    """A statement that answers 1, or 0 if it did nothing because the remembered version is out of date."""

    __slots__ = ()


class Schema(dict[str, str]):
    """Statements with the name of a schema filled in: `schema[GET_SESSION]`."""

    def __init__(self, name: str, *, is_sharded: bool = False) -> None:
        super().__init__()
        self.name = name
        self.quoted = '"' + name.replace('"', '""') + '"'
        # A statement about one shard cannot read the table of versions.
        self._fits = "true" if is_sharded else f"(SELECT version FROM {self.quoted}.meta) = {VERSION}"

    def __missing__(self, template: str) -> str:
        filled = template.replace("{s}", self.quoted).replace("{fits}", self._fits)
        self[template] = filled = Guarded(filled) if isinstance(template, Guarded) else filled
        return filled


def marks(columns: str, first: int = 1) -> str:
    """As many numbered parameters as there are columns."""
    return ", ".join(f"${number}" for number in range(first, first + len(columns.split(","))))


def _unnest(columns: str, first: int, texts: tuple[str, ...]) -> str:
    """A table of parameters, a column each."""
    names = columns.split(", ")
    kinds = ("bytea" if name in texts else "bigint" for name in names)
    arrays = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(kinds, first))
    return f"unnest({arrays}) AS given ({columns})"


class _Bindings(list[Any]):
    def mark(self, value: Any) -> str:
        self.append(value)
        return f"${len(self)}"


# ── sessions ────────────────────────────────────────────────────────────────────────────────────────────────

SESSION: Final = (
    "sid, id, tree, created, updated, deleted, branch, position, digest, messages, turns, size,"
    " view_start, summary, last_user_turn, grows, title, has_title, preview, workspace, moves, undo, redo,"
    " forks, status, epoch, fence, due"
)
_WITHOUT_SID: Final = SESSION.removeprefix("sid, ")
BUCKET: Final = 26
"""Sessions are indexed by the time of their last activity without its last bits: see the schema."""

FIND_NAME: Final = "SELECT sid FROM {s}.names WHERE id = $1"
ADD_NAME: Final = "INSERT INTO {s}.names (id, sid) VALUES ($1, $2)"
DROP_NAME: Final = "DELETE FROM {s}.names WHERE id = $1 AND sid = $2"

GET_SESSION: Final = f"SELECT {SESSION}, version FROM {{s}}.sessions WHERE home = $1 AND sid = $2"
LOCK_SESSION: Final = f"{GET_SESSION} FOR UPDATE"
FIND_DELETED: Final = (
    f"SELECT {SESSION}, version FROM {{s}}.sessions WHERE id = $1 AND deleted IS NOT NULL"
    " ORDER BY deleted DESC, made DESC LIMIT 1"
)
IDS: Final = (
    "SELECT id, sid, false FROM {s}.names WHERE id >= $1 ORDER BY id LIMIT $2",
    "SELECT id, sid, true FROM {s}.sessions WHERE deleted IS NOT NULL AND id >= $1 ORDER BY id, sid LIMIT $2",
)
# The expressions are those of sessions_own, to the letter: else the index is not used.
_COLON: Final = """"position"(id, '\\x3a'::bytea)"""
_OWN: Final = f"substr(id, {_COLON} + 1)"
OWN_IDS: Final = (
    f"SELECT id, sid, deleted IS NOT NULL FROM {{s}}.sessions WHERE {_COLON} > 0 AND {_OWN} >= $1"
    f" ORDER BY {_OWN}, sid LIMIT $2"
)
TREE_SESSIONS: Final = (
    f"SELECT {SESSION}, version FROM {{s}}.sessions WHERE home = $1 AND tree = $2 ORDER BY made, sid"
)
LOCK_TREE: Final = f"{TREE_SESSIONS} FOR UPDATE"
DUE_SESSIONS: Final = (
    f"SELECT {SESSION} FROM {{s}}.sessions WHERE due BETWEEN $2 AND $1 AND due < {NOT_DUE}"
    " AND (due, sid) > ($2, $3) ORDER BY due, sid LIMIT $4"
)
ALL_SESSIONS: Final = (
    f"SELECT {SESSION}, (SELECT value FROM {{s}}.details"
    " WHERE details.home = sessions.home AND details.sid = sessions.sid) FROM {s}.sessions ORDER BY sid"
)

GET_DETAILS: Final = "SELECT value FROM {s}.details WHERE home = $1 AND sid = $2"
SET_DETAILS: Final = (
    "INSERT INTO {s}.details (home, sid, value) VALUES ($1, $2, $3)"
    " ON CONFLICT (home, sid) DO UPDATE SET value = excluded.value"
)
DROP_FACETS: Final = "DELETE FROM {s}.facets WHERE home = $1 AND sid = $2"
ADD_FACET: Final = "INSERT INTO {s}.facets (home, sid, hash, name, value) VALUES ($1, $2, $3, $4, $5)"

_RUN: Final = (
    "(SELECT value FROM {s}.records WHERE records.home = sessions.home AND records.sid = sessions.sid"
    " AND kind = 'run' AND name = '')"
)
_DETAILS: Final = (
    "(SELECT value FROM {s}.details WHERE details.home = sessions.home AND details.sid = sessions.sid)"
)
_LISTED: Final = f"{SESSION}, {_DETAILS}, {_RUN}"
_FACET: Final = (
    "EXISTS (SELECT 1 FROM {{s}}.facets WHERE facets.home = sessions.home AND facets.sid = sessions.sid"
    " AND hash = {} AND name = {} AND value = {})"
)


def listing(query: SessionQuery) -> tuple[str, list[Any]]:
    """The statement for a query: made of fixed pieces only, every value a parameter."""
    moment = "deleted" if query.deleted else "updated"
    pieces = ["deleted IS NOT NULL" if query.deleted else "deleted IS NULL"]
    given = _Bindings()
    if query.workspace is not None:
        mark = given.mark(encode(query.workspace))
        pieces.append(f"md5(workspace) = md5({mark}::bytea) AND workspace = {mark}")
    if query.status is not None:
        # The number stands in the text, where the planner sees which partial index holds it.
        behind = " AND status > 1" if query.status > RUNNING else ""
        pieces.append(f"status = {int(query.status)}{behind}")
    if query.nonempty:
        pieces.append("messages > 0")
    for name, value in [*((TAG, tag) for tag in query.tags), *query.where]:
        hashed = facet_hash(name, value)
        pieces.append(_FACET.format(given.mark(hashed), given.mark(encode(name)), given.mark(encode(value))))
    for bound, compared in ((query.since, ">="), (query.until, "<")):
        if bound is not None:
            mark = given.mark(bound)
            pieces.append(f"{moment} {compared} {mark}")
            if not query.deleted:
                pieces.append(f"bucket {compared.rstrip('=')}= {mark}::bigint >> {BUCKET}")
    if query.after is not None:
        last, id = given.mark(query.after[0]), given.mark(encode(query.after[1]))
        up, down = (">", "<") if query.oldest else ("<", ">")
        pieces.append(f"{moment} {up}= {last} AND ({moment} {up} {last} OR id {down} {id})")
        if not query.deleted:
            pieces.append(f"bucket {up}= {last}::bigint >> {BUCKET}")
    limit = given.mark(query.limit)
    where = " AND ".join(pieces)
    order = "deleted DESC, id" if query.deleted else "bucket DESC, updated DESC, id"
    if query.oldest:
        order = "deleted, id DESC" if query.deleted else "bucket, updated, id DESC"
    return f"SELECT {_LISTED} FROM {{s}}.sessions WHERE {where} ORDER BY {order} LIMIT {limit}", given


_KEPT: Final = {False: "deleted IS NULL", True: "deleted IS NOT NULL"}
COUNT_WORKSPACES: Final = {
    deleted: "SELECT workspace, count(*) FROM {s}.sessions"
    f" WHERE {kept} AND workspace IS NOT NULL GROUP BY 1"
    for deleted, kept in _KEPT.items()
}
COUNT_STATUSES: Final = {
    deleted: "SELECT convert_to(status::text, 'UTF8'), count(*) FROM {s}.sessions"
    f" WHERE {kept} GROUP BY status"
    for deleted, kept in _KEPT.items()
}
# Facets stay when a session is put in the trash: those are few, so all are counted, and then those.
COUNT_FACETS: Final = "SELECT value, count(*) FROM {s}.facets WHERE name = $1 GROUP BY 1"
COUNT_TRASHED_FACETS: Final = (
    "SELECT facets.value, count(*) FROM {s}.sessions JOIN {s}.facets ON facets.home = sessions.home"
    " AND facets.sid = sessions.sid WHERE facets.name = $1 AND deleted IS NOT NULL GROUP BY 1"
)
SNAPSHOT: Final = "SELECT pg_current_snapshot()::text"
"""What a question sees: the same text, the same rows."""
# The number says which of the parents it is.
FIND_SUBAGENTS: Final = (
    "SELECT given.number, sessions.id, sessions.sid, sessions.deleted IS NOT NULL"
    f" FROM {_unnest('number, hash, value', 1, ('value',))}"
    " JOIN {s}.facets ON facets.hash = given.hash AND facets.name = $4 AND facets.value = given.value"
    " JOIN {s}.sessions ON sessions.home = facets.home AND sessions.sid = facets.sid"
    " ORDER BY given.number, sessions.sid"
)

# One look at each session.
TOTALS: Final = (
    "SELECT status, deleted IS NULL, count(*), count(*) FILTER (WHERE updated >= $1),"
    " count(*) FILTER (WHERE created >= $1), coalesce(sum(greatest(size, 0)), 0) FROM {s}.sessions"
    " GROUP BY 1, 2"
)

# A guarded statement does nothing if a row does not have the remembered version, or if a newer Clew has
# migrated the tables. An error would say the same, but would fill the log of the server.
FITS: Final = Guarded(f"SELECT count(*) FROM {{s}}.meta WHERE version = {VERSION}")
_OF: Final = "WHERE home = $1 AND sid = $2 AND version = $3 AND {fits}"
_HELD: Final = f"SELECT 1 FROM {{s}}.sessions {_OF} FOR UPDATE"
GUARD: Final = Guarded(f"SELECT count(*) FROM ({_HELD}) AS held")
ADD_SESSION: Final = (
    f"INSERT INTO {{s}}.sessions (home, version, made, {SESSION})"
    f" VALUES ({marks('home, version, made, ' + SESSION)})"
)
SET_SESSION: Final = Guarded(
    f"WITH done AS (UPDATE {{s}}.sessions SET (version, {_WITHOUT_SID})"
    f" = ({marks('version, ' + _WITHOUT_SID, 4)}) {_OF} RETURNING 1) SELECT count(*) FROM done"
)
_HEAD: Final = (
    "version, branch, position, digest, messages, turns, size, view_start, summary, last_user_turn, updated,"
    " title, preview"
)
_SET_HEAD: Final = (
    f"WITH done AS (UPDATE {{s}}.sessions SET ({_HEAD}, grows) = ({marks(_HEAD, 4)}, true) {_OF} RETURNING 1)"
)
SET_HEAD: Final = Guarded(f"{_SET_HEAD} SELECT count(*) FROM done")
SET_ALL_DUE: Final = (
    "WITH done AS (UPDATE {s}.sessions SET due = $2, version = greatest(version + 1, $1) WHERE due <> $2"
    " RETURNING 1) SELECT count(*) FROM done"
)
DROP_SESSION: Final = tuple(
    f"DELETE FROM {{s}}.{table} WHERE home = $1 AND sid = $2"
    for table in ("sessions", "details", "facets", "records", "events", "usage")
)


# ── log: branches and entries ───────────────────────────────────────────────────────────────────────────────

BRANCH: Final = "branch, uid, tree, owner, parent, fork"
_BRANCH: Final = f"SELECT {BRANCH} FROM {{s}}.branches"
GET_BRANCH: Final = f"{_BRANCH} WHERE home = $1 AND branch = $2"
FIND_BRANCH: Final = f"{_BRANCH} WHERE uid = $1"
BRANCH_NUMBERS: Final = "SELECT branch FROM {s}.branches WHERE owner = $1 OR tree = $2 ORDER BY branch"
LINEAGE: Final = f"""
    WITH RECURSIVE lineage AS (
        SELECT {BRANCH}, 1 AS depth FROM {{s}}.branches WHERE home = $1 AND branch = $2
        UNION ALL
        SELECT {", ".join("above." + name for name in BRANCH.split(", "))}, lineage.depth + 1
        FROM lineage JOIN {{s}}.branches AS above ON above.home = $1 AND above.branch = lineage.parent
        WHERE above.fork < lineage.fork AND lineage.depth < $3)
    SELECT {BRANCH} FROM lineage ORDER BY depth
"""
"""A branch, its parent, the parent of that, and so on; damaged rows that form a circle end it."""
TREE_BRANCHES: Final = f"{_BRANCH} WHERE home = $1 AND tree = $2 ORDER BY made, branch"
ADD_BRANCH: Final = (
    f"INSERT INTO {{s}}.branches (home, made, {BRANCH}) VALUES ({marks('home, made, ' + BRANCH)})"
)
OWN_BRANCH: Final = "UPDATE {s}.branches SET owner = $3 WHERE home = $1 AND branch = $2"
DROP_BRANCH: Final = "DELETE FROM {s}.branches WHERE home = $1 AND branch = $2"

ENTRY: Final = (
    "home, branch, position, kind, time, flags, codec, checksum, digest, messages, turns, size,"
    " view_start, summary, last_user_turn, epoch, body"
)
_AT: Final = "home = $1 AND branch = $2"
GET_ENTRY: Final = f"SELECT {ENTRY} FROM {{s}}.entries WHERE {_AT} AND position = $3"
GET_TIP: Final = (
    "SELECT digest, messages, turns, size, view_start, summary, last_user_turn FROM {s}.entries"
    f" WHERE {_AT} AND position = $3"
)
LAST_POSITION: Final = f"SELECT max(position) FROM {{s}}.entries WHERE {_AT}"
ENTRIES: Final = (
    f"SELECT {ENTRY} FROM {{s}}.entries WHERE {_AT} AND position BETWEEN $3 AND $4 ORDER BY position"
)
_MESSAGES: Final = (
    "SELECT position, time, flags, codec, checksum, body FROM {s}.entries"
    f" WHERE {_AT} AND position BETWEEN $3 AND $4 AND kind = {MESSAGE} ORDER BY position"
)
MESSAGES: Final = f"{_MESSAGES} LIMIT $5"
MESSAGES_BACKWARDS: Final = f"{_MESSAGES} DESC LIMIT $5"
COUNT_ENTRIES: Final = (
    f"SELECT count(*) FROM {{s}}.entries WHERE {_AT} AND position BETWEEN $3 AND $4 AND kind = $5"
)
# The newest entry of a branch knows how much lies before it, its parent entry how much of that is shared.
BRANCH_TOTALS: Final = """
    SELECT coalesce(sum(newest.messages::numeric - coalesce(parent.messages, 0)), 0),
           coalesce(sum(newest.position::numeric - branches.fork), 0),
           coalesce(sum(newest.size::numeric - coalesce(parent.size, 0)), 0)
    FROM {s}.branches
    CROSS JOIN LATERAL (SELECT messages, position, size FROM {s}.entries
         WHERE entries.home = branches.home AND entries.branch = branches.branch
         ORDER BY position DESC LIMIT 1) AS newest
    LEFT JOIN {s}.entries AS parent ON parent.home = branches.home AND parent.branch = branches.parent
         AND parent.position = branches.fork AND branches.parent > 0
"""

ADD_ENTRY: Final = f"INSERT INTO {{s}}.entries ({ENTRY}) VALUES ({marks(ENTRY)})"
DROP_ENTRIES: Final = f"DELETE FROM {{s}}.entries WHERE {_AT} AND position > $3"
ENTRY_FRAMES: Final = f"SELECT position, time, flags FROM {{s}}.entries WHERE {_AT} AND position = ANY($3)"
ERASE_ENTRY: Final = (
    f"UPDATE {{s}}.entries SET kind = {REMOVED}, codec = $4, checksum = $5, body = $6"
    f" WHERE {_AT} AND position = $3"
)
# The append of one message, in one statement.
APPEND: Final = Guarded(
    f"{_SET_HEAD}, added AS (INSERT INTO {{s}}.entries ({ENTRY})"
    f" SELECT {marks(ENTRY, 4 + len(_HEAD.split(',')))} FROM done RETURNING 1) SELECT count(*) FROM added"
)
_KNOWN: Final = f"home, sid, known, {_HEAD}"
_GIVEN: Final = _unnest(_KNOWN, 2, ("digest", "title", "preview"))
_MATCH: Final = (
    "WHERE sessions.home = given.home AND sessions.sid = given.sid AND sessions.version = given.known"
)
_ALL_HELD: Final = "(SELECT count(*) FROM held) = $1"
# Appends to many sessions, or of many messages. All rows are locked before the first is changed. What the
# planner expects of an array is little: it looks rows up one by one.
APPENDS: Final = Guarded(
    f"WITH held AS (SELECT 1 FROM {{s}}.sessions, {_GIVEN} {_MATCH} AND {{fits}} FOR UPDATE OF sessions),"
    f" done AS (UPDATE {{s}}.sessions SET"
    f" {', '.join(f'{name} = given.{name}' for name in _HEAD.split(', '))}, grows = true"
    f" FROM {_GIVEN} {_MATCH} AND {_ALL_HELD} RETURNING 1),"
    f" added AS (INSERT INTO {{s}}.entries ({ENTRY}) SELECT {ENTRY}"
    f" FROM {_unnest(ENTRY, 2 + len(_KNOWN.split(',')), ('digest', 'body'))} WHERE {_ALL_HELD} RETURNING 1)"
    " SELECT ((SELECT count(*) FROM done) = $1)::int"
)


# ── records ─────────────────────────────────────────────────────────────────────────────────────────────────

_RECORD: Final = "home = $1 AND sid = $2 AND kind = $3"
GET_RECORD: Final = f"SELECT value FROM {{s}}.records WHERE {_RECORD} AND name = $4"
_SCAN: Final = f"SELECT name, value FROM {{s}}.records WHERE {_RECORD} AND name >= $4"
SCAN_RECORDS: Final = f"{_SCAN} ORDER BY name LIMIT $5"
SCAN_BACKWARDS: Final = f"{_SCAN} ORDER BY name DESC LIMIT $5"
SCAN_RANGE: Final = f"{_SCAN} AND name <= $6 ORDER BY name LIMIT $5"
SCAN_RANGE_BACKWARDS: Final = f"{_SCAN} AND name <= $6 ORDER BY name DESC LIMIT $5"
RECORD_KINDS: Final = "SELECT DISTINCT kind FROM {s}.records"
ODD_NAMES: Final = "SELECT name FROM {s}.records WHERE encode(name, 'hex') ~ '^(..)*[89a-f]'"
"""Names with a byte that is not ASCII."""
PUT_RECORD: Final = (
    "INSERT INTO {s}.records (home, sid, kind, name, value) VALUES ($1, $2, $3, $4, $5)"
    " ON CONFLICT (home, sid, kind, name) DO UPDATE SET value = excluded.value"
)
# A record of a session, and the guard of its row.
PUT_GUARDED: Final = Guarded(
    f"WITH held AS ({_HELD}), done AS (INSERT INTO {{s}}.records (home, sid, kind, name, value)"
    " SELECT $1, $2, $4, $5, $6 FROM held"
    " ON CONFLICT (home, sid, kind, name) DO UPDATE SET value = excluded.value RETURNING 1)"
    " SELECT count(*) FROM done"
)
DROP_RECORD: Final = (
    f"WITH done AS (DELETE FROM {{s}}.records WHERE {_RECORD} AND name = $4 RETURNING 1)"
    " SELECT count(*) FROM done"
)


# ── streams: events and usage ───────────────────────────────────────────────────────────────────────────────

_OF_STREAM: Final = "home = $1 AND sid = $2"
EVENT: Final = "number, time, stream, type, id, data"
EVENT_BOUNDS: Final = (
    f"SELECT (SELECT min(number) FROM {{s}}.events WHERE {_OF_STREAM}),"
    f" (SELECT max(number) FROM {{s}}.events WHERE {_OF_STREAM})"
)
FIND_EVENT: Final = f"SELECT {EVENT} FROM {{s}}.events WHERE {_OF_STREAM} AND id = $3"
READ_EVENTS: Final = (
    f"SELECT {EVENT} FROM {{s}}.events WHERE {_OF_STREAM} AND number > $3 ORDER BY number LIMIT $4"
)
READ_UNNAMED: Final = (
    f"SELECT {EVENT} FROM {{s}}.events WHERE {_OF_STREAM} AND number > $3 AND stream = ''"
    " ORDER BY number LIMIT $4"
)
READ_STREAM: Final = (
    f"SELECT {EVENT} FROM {{s}}.events WHERE {_OF_STREAM} AND number > $3 AND stream = $5 AND stream <> ''"
    " ORDER BY number LIMIT $4"
)
ADD_EVENT: Final = f"INSERT INTO {{s}}.events (home, sid, {EVENT}) VALUES ({marks('home, sid, ' + EVENT)})"
DROP_EVENTS: Final = (
    f"WITH done AS (DELETE FROM {{s}}.events WHERE {_OF_STREAM} AND number <= $3 RETURNING 1)"
    " SELECT count(*) FROM done"
)

USAGE: Final = (
    "number, time, id, model, vendor, endpoint, source, branch, position, input, output, cache_read,"
    " cache_write, reasoning, cost, priced_by, all_input, all_output, all_cache_read, all_cache_write,"
    " all_reasoning, all_cost, all_unpriced, all_estimated"
)
LAST_USAGE: Final = f"SELECT {USAGE} FROM {{s}}.usage WHERE {_OF_STREAM} ORDER BY number DESC LIMIT 1"
LAST_USAGES: Final = (
    f"SELECT given.sid, last.* FROM {_unnest('home, sid', 1, ())} CROSS JOIN LATERAL"
    f" (SELECT {USAGE} FROM {{s}}.usage WHERE usage.home = given.home AND usage.sid = given.sid"
    " ORDER BY number DESC LIMIT 1) AS last"
)
FIND_USAGE: Final = f"SELECT {USAGE} FROM {{s}}.usage WHERE {_OF_STREAM} AND id = $3"
READ_USAGE: Final = (
    f"SELECT {USAGE} FROM {{s}}.usage WHERE {_OF_STREAM} AND number > $3 ORDER BY number LIMIT $4"
)
ADD_USAGE: Final = f"INSERT INTO {{s}}.usage (home, sid, {USAGE}) VALUES ({marks('home, sid, ' + USAGE)})"

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
_GROUPS: Final[dict[UsageColumn, tuple[str, str]]] = {
    "model": ("usage.model", ""),
    "vendor": ("usage.vendor", ""),
    "endpoint": ("usage.endpoint", ""),
    "source": ("usage.source", ""),
    "day": (_DAY, ""),
    "quarter": ("convert_to(floor(usage.time / 900000000.0)::bigint::text, 'UTF8')", ""),
    "workspace": ("sessions.workspace", _OF_SESSION),
    "session": ("sessions.id", _OF_SESSION),
    "branch": ("convert_to(branches.uid, 'UTF8')", _OF_BRANCH),
}


@cache
def sum_usage(by: tuple[UsageColumn, ...], *, of_session: bool) -> str:
    groups = "".join(f"{_GROUPS[column][0]} AS part{number}, " for number, column in enumerate(by))
    joins = " ".join(dict.fromkeys(join for column in by if (join := _GROUPS[column][1])))
    where = f"{_TIMES} AND usage.home = $3 AND usage.sid = $4" if of_session else _TIMES
    numbers = range(1, len(by) + 1)
    order = ", ".join(f"{number} NULLS FIRST" for number in numbers)
    grouped = f" GROUP BY {', '.join(map(str, numbers))} ORDER BY {order}" if by else " HAVING count(*) > 0"
    return f"SELECT {groups}{_SUMS} FROM {{s}}.usage {joins} WHERE {where}{grouped}"


# ── objects of snapshots, and the packs that hold them ──────────────────────────────────────────────────────

OBJECT: Final = "name, pack, start, size"
FIND_OBJECTS: Final = f"SELECT {OBJECT} FROM {{s}}.objects WHERE name = ANY($1)"
SCAN_OBJECTS: Final = f"SELECT {OBJECT} FROM {{s}}.objects WHERE name > $1 ORDER BY name LIMIT $2"
ADD_OBJECT: Final = (
    f"INSERT INTO {{s}}.objects ({OBJECT}) VALUES ($1, $2, $3, $4) ON CONFLICT (name) DO NOTHING"
)
DROP_OBJECTS: Final = (
    "WITH done AS (DELETE FROM {s}.objects WHERE name = ANY($1) RETURNING 1) SELECT count(*) FROM done"
)

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
DROP_PACK: Final = (
    "WITH places AS (DELETE FROM {s}.objects WHERE pack = $1 RETURNING 1),"
    " done AS (DELETE FROM {s}.packs WHERE pack = $1 RETURNING 1)"
    " SELECT (SELECT count(*) FROM places) + (SELECT count(*) FROM done)"
)
SIZE_OUTSIDE: Final = (
    "SELECT coalesce(sum(stored), 0)::bigint FROM"
    " (SELECT DISTINCT blob, stored FROM {s}.packs WHERE blob IS NOT NULL) AS outside"
)

NOTE_STRAY: Final = "INSERT INTO {s}.strays (blob) VALUES ($1) ON CONFLICT DO NOTHING RETURNING 1"
LIST_STRAYS: Final = "SELECT blob FROM {s}.strays WHERE blob > $1 ORDER BY blob LIMIT $2"
DROP_STRAY: Final = "DELETE FROM {s}.strays WHERE blob = $1"
IS_NAMED: Final = "SELECT count(*) > 0 FROM {s}.packs WHERE blob = $1"
"""Whether a pack needs an object of the object store."""


# ── texts ───────────────────────────────────────────────────────────────────────────────────────────────────

UNSEARCHED: Final = (
    "SELECT DISTINCT tree FROM {s}.sessions LEFT JOIN {s}.texts_sessions AS seen USING (home, sid)"
    " WHERE (seen.updated, seen.branch, seen.position, seen.moves) IS DISTINCT FROM"
    " (sessions.updated, sessions.branch, sessions.position, sessions.moves)"
)
SEARCHED_UPTO: Final = "SELECT position FROM {s}.texts_branches WHERE home = $1 AND branch = $2"
SET_UPTO: Final = (
    "INSERT INTO {s}.texts_branches (home, branch, position) VALUES ($1, $2, $3)"
    " ON CONFLICT (home, branch) DO UPDATE SET position = excluded.position"
)
LOWER_UPTO: Final = (
    "UPDATE {s}.texts_branches SET position = least(position, $3) WHERE home = $1 AND branch = $2"
)
DROP_UPTO: Final = "DELETE FROM {s}.texts_branches WHERE home = $1 AND branch = $2"
SET_SEARCHED: Final = (
    "INSERT INTO {s}.texts_sessions (home, sid, updated, branch, position, moves)"
    " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (home, sid) DO UPDATE SET"
    " (updated, branch, position, moves)"
    " = (excluded.updated, excluded.branch, excluded.position, excluded.moves)"
)
DROP_SEARCHED: Final = "DELETE FROM {s}.texts_sessions WHERE home = $1 AND sid = $2"
FORGET_TREE: Final = (
    "DELETE FROM {s}.texts_sessions WHERE home = $1 AND sid IN (SELECT sid FROM {s}.sessions"
    " WHERE home = $1 AND tree = (SELECT tree FROM {s}.branches WHERE home = $1 AND branch = $2))"
)
ADD_TEXT: Final = (
    "INSERT INTO {s}.texts (home, branch, position, slice, slices, time, role, words)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, array_to_tsvector($8::text[])) ON CONFLICT DO NOTHING"
)
DROP_TEXTS: Final = "DELETE FROM {s}.texts WHERE home = $1 AND branch = $2 AND position > $3"
ERASE_TEXTS: Final = "DELETE FROM {s}.texts WHERE home = $1 AND branch = $2 AND position = ANY($3)"


def finding(wanted: TextQuery) -> tuple[str, list[Any]]:
    """The statement for a query. A text that it finds may still not match: see `is_sure`."""
    given: list[Any] = [
        expression(wanted.query, tools=wanted.tools),
        any_of(wanted.query, tools=wanted.tools),
    ]
    pieces: list[str] = []

    def piece(text: str, *values: Any) -> None:
        marks = []
        for value in values:
            given.append(value)
            marks.append(f"${len(given)}")
        pieces.append(text.format(*marks))

    if wanted.since is not None:
        piece("time >= {}", wanted.since)
    if wanted.until is not None:
        piece("time < {}", wanted.until)
    if wanted.before is not None:
        piece("(time, branch, position) < ({}, {}, {})", *wanted.before)
    if wanted.role is not None:
        piece("role = {}", wanted.role)
    if wanted.branches is not None:
        piece("branch = ANY({}::bigint[])", sorted(wanted.branches))
    also = "".join(f" AND {each}" for each in pieces)
    given.append(wanted.limit)
    columns = "SELECT time, branch, position, slices FROM {s}.texts"
    sql = (
        f"{columns} WHERE slices = 1 AND words @@ $1::text::tsquery{also}"
        f" UNION {columns} WHERE slices > 1 AND words @@ $2::text::tsquery{also}"
        f" ORDER BY time DESC, branch DESC, position DESC LIMIT ${len(given)}"
    )
    return sql, given


def is_sure(query: Query) -> bool:
    """Whether the words alone decide, and not their order."""
    return all(len(term.words) == 1 for term in (*query.wanted, *query.unwanted))


def expression(query: Query, *, tools: bool) -> str:
    """A tsquery that every matching text fulfils."""
    pieces = [_words(term, tools) for term in query.wanted]
    pieces += [f"!({_words(term, tools)})" for term in query.unwanted if len(term.words) == 1]
    return " & ".join(pieces)


def any_of(query: Query, *, tools: bool) -> str:
    """A tsquery that at least one slice of a matching text fulfils."""
    return " | ".join(f"({_words(term, tools)})" for term in _single_words(query))


def _single_words(query: Query) -> Iterator[Term]:
    from clew.core.messages.words import Term

    for term in query.wanted:
        yield Term(term.words[-1:], term.prefix)


def _words(term: Term, tools: bool) -> str:
    found = []
    for number, word in enumerate(term.words, 1):
        star = ":*" if term.prefix and number == len(term.words) else ""
        said, tool = f"'s{ascii_word(word)}'{star}", f"'t{ascii_word(word)}'{star}"
        found.append(f"({said} | {tool})" if tools else said)
    return " & ".join(found)


# ── the whole store: damage, size, version ──────────────────────────────────────────────────────────────────


def _count_without(table: str, owner: str, *columns: str, unless: str = "") -> str:
    """How many rows have no owner in another table, found by these columns."""
    same = " AND ".join(f"owner.{column} = own.{column}" for column in columns)
    return (
        f"SELECT count(*) FROM {{s}}.{table} AS own WHERE {unless}"
        f"NOT EXISTS (SELECT 1 FROM {{s}}.{owner} AS owner WHERE {same})"
    )


STRAYS: Final = (
    ("events", "session", _count_without("events", "sessions", "home", "sid")),
    ("model calls", "session", _count_without("usage", "sessions", "home", "sid")),
    ("details", "session", _count_without("details", "sessions", "home", "sid")),
    ("tags or metadata", "session", _count_without("facets", "sessions", "home", "sid")),
    ("records", "session", _count_without("records", "sessions", "home", "sid", unless="sid <> 0 AND ")),
    ("ids", "session", _count_without("names", "sessions", "sid")),
    ("entries", "branch", _count_without("entries", "branches", "home", "branch")),
    ("texts to search", "entry", _count_without("texts", "entries", "home", "branch", "position")),
)
"""(what, whose, how many have no owner)"""

STORE_SIZE: Final = (
    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class"
    " WHERE relnamespace = to_regnamespace($1)::oid AND relkind IN ('r', 'm')"
)
# Of a store of another version it is not known whether it has the column.
STORE_VERSION: Final = "SELECT version, coalesce(to_jsonb(meta.*) ->> 'clew', '') FROM {s}.meta"
# The tables of checkouts before 0.1 lack the column, or the index.
IS_RELEASED: Final = (
    "SELECT count(*) > 0 FROM pg_catalog.pg_attribute"
    " JOIN pg_catalog.pg_class AS held ON held.oid = attrelid"
    " JOIN pg_catalog.pg_class AS own ON own.relnamespace = held.relnamespace"
    " JOIN pg_catalog.pg_namespace ON pg_namespace.oid = held.relnamespace"
    " WHERE nspname = $1 AND held.relname = 'sessions' AND attname = 'last_user_turn'"
    " AND own.relname = 'sessions_own'"
)
STORE_PARTITIONS: Final = "SELECT partitions FROM {s}.meta"
STORE_ID: Final = "SELECT store FROM {s}.meta"
HORIZON: Final = "SELECT pg_snapshot_xmax(pg_current_snapshot())::xid::text"
OLDER_TRANSACTIONS: Final = (
    "SELECT pid, application_name FROM pg_stat_activity"
    " WHERE pid <> pg_backend_pid()"
    " AND greatest(age(backend_xid), CASE WHEN datname = current_database() THEN age(backend_xmin) END)"
    " > age($1::text::xid)"
    " AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)"
)
"""What was removed before the horizon, snapshots of this database see still. Every new one, that of a rewrite
too, goes back to the oldest transaction that writes in any database. A vacuum looks at no other row."""
VACUUM: Final = "VACUUM {s}."
VACUUM_FULL: Final = "VACUUM (FULL) {s}."


# ── schema: make and migrate ────────────────────────────────────────────────────────────────────────────────

# These ask the catalog itself: functions such as to_regclass may answer from what the session remembers.
SCHEMA_EXISTS: Final = "SELECT count(*) > 0 FROM pg_catalog.pg_namespace WHERE nspname = $1"
STORE_EXISTS: Final = (
    "SELECT count(*) > 0 FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace"
    " ON pg_namespace.oid = relnamespace WHERE nspname = $1 AND relname = 'meta'"
)
MAY_CREATE: Final = (
    "SELECT coalesce(has_schema_privilege(to_regnamespace($1)::oid, 'CREATE'),"
    " has_database_privilege(current_database(), 'CREATE'))"
)
CREATE_SCHEMA: Final = "CREATE SCHEMA {s}"
ADD_META: Final = "INSERT INTO {s}.meta (version, partitions, clew) VALUES ($1, $2, $3)"
LOCK_META: Final = "LOCK TABLE {s}.meta IN ACCESS EXCLUSIVE MODE"
SET_VERSION: Final = "UPDATE {s}.meta SET version = $1, clew = $2"


def create_partition(table: str, number: int, partitions: int) -> str:
    return (
        f"CREATE TABLE {{s}}.{table}_{number} PARTITION OF {{s}}.{table}"
        f" FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number})"
    )


def leave_room(table: str) -> str:
    """Leave room in the pages of rows that are rewritten all the time, for their next versions."""
    return f"ALTER TABLE {{s}}.{table} SET (fillfactor = 70)"


PLAIN_EXPRESSIONS: Final = (
    "SELECT set_config('bytea_output', 'hex', true), set_config('quote_all_identifiers', 'off', true),"
    " set_config('standard_conforming_strings', 'on', true)"
)
"""How the server writes down expressions. It names the schema of all that is not its own."""
# Only the owner of a table and superusers can give it rules, policies, constraints, defaults and indexes.
# Triggers can also be created by a role that was granted the right to. Superusers make operator classes.
PLANTED: Final = """
WITH RECURSIVE trusted AS (
  SELECT oid FROM pg_roles WHERE rolsuper OR rolname = current_user
), tables AS (
  SELECT pg_class.oid FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
  WHERE nspname = $1 AND relname = ANY ($2::text[])
  UNION
  SELECT inhrelid FROM pg_inherits JOIN tables ON inhparent = tables.oid
), others AS (
  SELECT oid, relname::text AS name, relkind, relowner, relrowsecurity FROM pg_class
  WHERE oid IN (SELECT oid FROM tables) AND relowner NOT IN (SELECT oid FROM trusted)
), planted AS (
  SELECT 1 AS rank, 'the view or foreign table' AS what, name, relowner AS owner FROM others
  WHERE relkind NOT IN ('r', 'p')
  UNION ALL
  SELECT 2, 'the trigger ' || quote_ident(tgname), relname::text, proowner FROM pg_trigger
  JOIN pg_class ON pg_class.oid = tgrelid JOIN pg_proc ON pg_proc.oid = tgfoid
  WHERE tgrelid IN (SELECT oid FROM tables) AND NOT tgisinternal AND tgenabled <> 'D'
    AND proowner NOT IN (SELECT oid FROM trusted)
  UNION ALL
  SELECT 3, 'the rule ' || quote_ident(rulename), name, relowner FROM pg_rewrite
  JOIN others ON others.oid = ev_class WHERE ev_enabled <> 'D'
  UNION ALL
  SELECT 4, 'the policy ' || quote_ident(polname), name, relowner FROM pg_policy
  JOIN others ON others.oid = polrelid WHERE relrowsecurity
  UNION ALL
  SELECT 5, 'the value of the column ' || quote_ident(attname), name, relowner FROM pg_attrdef
  JOIN others ON others.oid = adrelid
  JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
  WHERE attname || ' = ' || pg_get_expr(adbin, adrelid) <> ALL ($3::text[])
  UNION ALL
  SELECT 6, 'the type of the column ' || quote_ident(attname), name, relowner FROM pg_attribute
  JOIN others ON others.oid = attrelid JOIN pg_type ON pg_type.oid = atttypid
  WHERE attnum > 0 AND NOT attisdropped
    AND (typnamespace <> 'pg_catalog'::regnamespace OR typtype <> 'b')
  UNION ALL
  SELECT 7, 'the constraint ' || quote_ident(conname), name, relowner FROM pg_constraint
  JOIN others ON others.oid = conrelid WHERE contype NOT IN ('p', 'n')
  UNION ALL
  SELECT 8, 'the index ' || quote_ident(relname), name, others.relowner FROM pg_index
  JOIN others ON others.oid = indrelid JOIN pg_class ON pg_class.oid = indexrelid
  WHERE pg_get_expr(indexprs, indrelid) <> ALL ($4::text[])
    OR pg_get_expr(indpred, indrelid) <> ALL ($5::text[])
  UNION ALL
  SELECT 9, 'the expression by which it is spread', name, relowner FROM pg_partitioned_table
  JOIN others ON others.oid = partrelid WHERE partexprs IS NOT NULL
)
SELECT what, name, rolname::text FROM planted LEFT JOIN pg_roles ON pg_roles.oid = owner
ORDER BY rank, name, what LIMIT 1
"""


# ── connections, transactions and locks ─────────────────────────────────────────────────────────────────────

BEGIN: Final = "BEGIN"
COMMIT: Final = "COMMIT"
ROLLBACK: Final = "ROLLBACK"
BEGIN_SNAPSHOT: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
NO_IDLE_TIMEOUT: Final = "SET LOCAL idle_in_transaction_session_timeout = 0"
PING: Final = "SELECT 1"

# Store-wide records have no row of a session to lock.
LOCK: Final = "SELECT pg_advisory_xact_lock($1)"
LOCK_SHARED: Final = "SELECT pg_advisory_xact_lock_shared($1)"
TRY_LOCK: Final = "SELECT pg_try_advisory_xact_lock($1)"
TIMELINE: Final = "SELECT pg_walfile_name(pg_current_wal_lsn())"

PATH: Final = "pg_catalog, pg_temp"
"""Where the server looks for names without a schema. All of ours have one. Temporary objects would come first
if `pg_temp` were not named."""
SET_PATH: Final = (
    "SELECT CASE WHEN pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) $1"
    f" THEN pg_catalog.set_config('search_path', '{PATH}', false) END"
)
"""For the whole session of the server, if it is ours alone: a pooler reports another process id than the
server."""
SET_PATH_ONCE: Final = f"SELECT pg_catalog.set_config('search_path', '{PATH}', true)"
SET_PATH_WITHIN: Final = f"SET LOCAL search_path = {PATH}"
DURABILITY: Final = "SELECT current_setting('fsync'), current_setting('synchronous_commit')"
ROLE: Final = "SELECT rolname::text, rolsuper FROM pg_roles WHERE rolname = current_user"
NOW: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

COMMIT_WITHOUT_WAITING: Final = "SET LOCAL synchronous_commit = off"
"""For notices: there is nothing to lose."""
NOTIFY: Final = "SELECT pg_catalog.pg_notify($1, '')"


def listen(channel: str) -> str:
    return f'LISTEN "{channel}"'
