"""Whether the database file is sound: SQLite looks at every page, and holds each index against its table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import apsw

from clew.backends.damage import nameless, stray, unknown_kinds

MOST: Final = 100
"""Findings that SQLite lists: a file with more of them needs no longer list."""
STEPS: Final = 10_000
"""Instructions of SQLite between two looks at the clock."""
CHECK: Final = f"PRAGMA integrity_check({MOST})"
ROOTS: Final = "SELECT rootpage, type || ' ' || name FROM sqlite_schema WHERE rootpage > 0"
STRAYS: Final = (
    ("events", "session", "events WHERE key >> 32 NOT IN (SELECT sid FROM sessions)"),
    ("model calls", "session", "usage WHERE key >> 32 NOT IN (SELECT sid FROM sessions)"),
    ("details", "session", "details WHERE sid NOT IN (SELECT sid FROM sessions)"),
    ("tags or metadata", "session", "facets WHERE sid NOT IN (SELECT sid FROM sessions)"),
    ("records", "session", "records WHERE sid <> 0 AND sid NOT IN (SELECT sid FROM sessions)"),
    ("entries", "branch", "entries WHERE key >> 32 NOT IN (SELECT branch FROM branches)"),
)
KINDS: Final = "SELECT DISTINCT kind FROM records"
NAMES: Final = "SELECT CASE typeof(name) WHEN 'text' THEN CAST(name AS BLOB) END FROM records"
_TREE: Final = re.compile(r"\bTree (\d+)\b")


@contextmanager
def watching_time(connection: apsw.Connection, go_on: Callable[[], None]) -> Iterator[None]:
    """While statements run, `go_on` is called from time to time; what it raises ends them."""

    def look() -> bool:
        go_on()
        return False

    connection.set_progress_handler(look, STEPS)
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
            names = dict(connection.execute(ROOTS))
            for (text,) in connection.execute(CHECK):
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
            for what, owner, where in STRAYS:
                count = connection.execute(f"SELECT count(*) FROM {where}").get  # noqa: S608 - of this file
                if count:
                    found.append(stray(count, what, owner))
            found += unknown_kinds(kind for (kind,) in connection.execute(KINDS))
            found += nameless(connection.execute(NAMES))
    except (apsw.CorruptError, UnicodeDecodeError) as error:
        found.append(f"not all of the database file can be read: {error}")
    return found
