"""Is this file a store of Clew, of a known schema, and whole?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

import apsw
import msgspec
from blake3 import blake3

from clew.backends.damage import nameless, stray, unknown_kinds
from clew.backends.sqlite import sql
from clew.errors import CorruptError, SchemaTooOldError

# ── Whether a database is whole ───────────────────────────────────────────────────────────────────
# Whether the database file is sound: SQLite looks at every page, and holds each index against its table.

CHECK_STEPS: Final = 10_000
"""Instructions of SQLite between two looks at the clock."""
_TREE: Final = re.compile(r"\bTree (\d+)\b")


@contextmanager
def watching_time(connection: apsw.Connection, go_on: Callable[[], None]) -> Iterator[None]:
    """While statements run, `go_on` is called from time to time; what it raises ends them."""

    def look() -> bool:
        go_on()
        return False

    connection.set_progress_handler(look, CHECK_STEPS)
    try:
        yield
    finally:
        connection.set_progress_handler(None)


def check(
    connection: apsw.Connection, go_on: Callable[[], None], what: str = "the database file"
) -> list[str]:
    """What is wrong, one sentence each. It is the file of one moment; others write meanwhile."""
    lines: list[str] = []
    names: dict[int, str] = {}
    try:
        with watching_time(connection, go_on):
            names = dict(connection.execute(sql.ROOTS))
            for (text,) in connection.execute(sql.CHECK):
                lines += str(text).splitlines()
    except apsw.CorruptError as error:
        lines.append(str(error))

    def named(match: re.Match[str]) -> str:
        return names.get(int(match[1]), match[0])

    return [f"{what} is damaged: {_TREE.sub(named, line)}" for line in lines if line != "ok"]


def strays(connection: apsw.Connection, go_on: Callable[[], None]) -> list[str]:
    """Rows that nothing leads to, because what they are found by is damaged."""
    found = []
    try:
        with watching_time(connection, go_on):
            for what, owner, statement in sql.STRAYS:
                count = connection.execute(statement).get
                if count:
                    found.append(stray(count, what, owner))
            found += unknown_kinds(kind for (kind,) in connection.execute(sql.RECORD_KINDS))
            found += nameless(connection.execute(sql.RECORD_NAMES))
    except (apsw.CorruptError, UnicodeDecodeError) as error:
        found.append(f"not all of the database file can be read: {error}")
    return found


# ── Whether a database has the schema that Clew gave it, and nothing that its author added ────────
# A schema is a program: a view in the place of a table never ends, a trigger or an index on an expression
# runs whenever something is written. So a store is only written if its schema is Clew's to the letter, and
# only read if what is read are tables.

MIGRATIONS: Final[Mapping[int, str]] = {1: "0001_schema.sql", 10: "0010_about.sql"}
"""By the version that each leads to, in order. A released one is never changed: the next change of the schema
is the next file. No version from 2 to 9 is ever given: checkouts before 0.1 used them for other schemas."""
STEPS: Final = 500_000
"""Instructions of SQLite after which Python looks for a signal such as Ctrl-C: some milliseconds."""
LONGEST_SQL: Final = 1_000_000
WORDS: Final = "search_words"
TABLES: Final = ("table", "shadow")
Rows = list[tuple[str, str, str, str | None]]


class Known(NamedTuple):
    """The schemas of one kind of database."""

    fingerprints: Mapping[int, str]
    """By version: of the rows of its sqlite_schema."""
    beside: str = ""
    """Statements that make what it has beside the tables of a store."""


STORE: Final = Known({1: "5d1c7b4a67a6411c7ba08a7853a58d91", 10: "53bddbeee8a9f57278a285b7f6f96a6e"})
UNRELEASED: Final = frozenset(
    {
        "a32921745cb4eee44ef358fa9e0a1daa",
        "dc31ed0687d7fdcfb579bd78afb9efa8",
        "274cd4643fe7fb5f7a7f06cc8d47a7c7",
        "59429368bd3fe7c7319e8623dde43cad",
    }
)
"""Fingerprints of the other schemas that called themselves version 1, in checkouts before 0.1."""


def newest() -> int:
    """The version of the schema that this Clew makes."""
    return max(MIGRATIONS)


def steps(version: int) -> list[str]:
    """The migrations that a database of this version lacks."""
    return [name for number, name in MIGRATIONS.items() if number > version]


class ForeignSchemaError(CorruptError):
    """Not to be written."""


def defend(connection: apsw.Connection) -> None:
    """Before anything is read: nothing in the database is run but what our statements ask for, and Ctrl-C
    ends a statement that takes long."""
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.limit(apsw.SQLITE_LIMIT_SQL_LENGTH, LONGEST_SQL)
    connection.set_progress_handler(_go_on, STEPS, id=defend)


def _go_on() -> bool:
    """Python handles signals when this returns."""
    return False


def check_writable(connection: apsw.Connection, version: int, location: str, known: Known = STORE) -> None:
    """Raises ForeignSchemaError, naming what differs."""
    rows = _rows(connection, location)
    if fingerprint(rows) == known.fingerprints.get(version):
        return
    _refuse_unreleased(rows, version, location)
    expected = {row[1]: row for row in expected_rows(version, known)}
    for row in rows:
        if expected.pop(row[1], None) != row and row[3] not in sql.GUESTS:
            raise ForeignSchemaError(f"{location}: {row[1]!r} in it is not as Clew makes it; it is only read")
    for name in expected:
        raise ForeignSchemaError(f"{location}: {name!r} is missing in it; it is only read")


def check_readable(connection: apsw.Connection, version: int, location: str, known: Known = STORE) -> None:
    """Raises CorruptError unless what Clew reads are tables, and none computes its columns. The names and
    types in sqlite_schema may lie: what SQLite took them for counts."""
    rows = _rows(connection, location)
    if fingerprint(rows) == known.fingerprints.get(version):
        return
    _refuse_unreleased(rows, version, location)
    kinds = {name.lower(): kind for name, kind in connection.execute(sql.FOUND_TABLES)}
    computed = {name.lower() for (name,) in connection.execute(sql.COMPUTED)}
    wrong = {name for name, kind in kinds.items() if kind == "virtual"}
    for kind, name, _, text in expected_rows(version, known):
        if name == WORDS and any(row[3] == text for row in rows):
            wrong.discard(WORDS)
        elif kind == "table" and (kinds.get(name, "table") not in TABLES or name in computed):
            wrong.add(name)
    for name in wrong:
        raise CorruptError(
            f"{location}: {name!r} in it is not a table as Clew makes it, and reading it may run code"
            " of its author; nothing of it is read"
        )


def _refuse_unreleased(rows: Rows, version: int, location: str) -> None:
    if fingerprint([row for row in rows if row[3] not in sql.GUESTS]) in UNRELEASED:
        raise SchemaTooOldError(location, version)


def written_by(connection: apsw.Connection) -> str:
    """Which Clew made the schema, of a database whose version is not known; empty: it does not say.
    Nothing of it is believed: what is read must be a table, and must not compute what it says."""
    kinds = dict(connection.execute(sql.FOUND_TABLES))
    computed = {name for (name,) in connection.execute(sql.COMPUTED)}
    if kinds.get("about") != "table" or "about" in computed:
        return ""
    try:
        said = connection.execute(sql.WRITTEN_BY).get
    except (apsw.SQLError, UnicodeDecodeError):
        return ""
    return said if isinstance(said, str) else ""


def _rows(connection: apsw.Connection, location: str) -> Rows:
    try:
        return list(connection.execute(sql.SCHEMA))
    except UnicodeDecodeError as exc:
        raise CorruptError(f"{location}: its schema is damaged: {exc}") from exc


def fingerprint(rows: Rows) -> str:
    return blake3(msgspec.json.encode(rows)).hexdigest(16)


def expected_rows(version: int, known: Known = STORE) -> Rows:
    """What Clew makes."""
    connection = apsw.Connection(":memory:")
    try:
        for number, name in MIGRATIONS.items():
            if number <= version:
                connection.execute(migration(name))
        connection.execute(known.beside)
        return list(connection.execute(sql.SCHEMA))
    finally:
        connection.close()


def migration(name: str) -> str:
    from importlib import resources  # only a new or an old store needs it

    return resources.files(__package__).joinpath("migrations", name).read_text("utf-8")
