"""Whether the database file is sound: SQLite looks at every page, and holds each index against its table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import apsw

from clew.backends.damage import nameless, stray, unknown_kinds
from clew.backends.sqlite import sql

STEPS: Final = 10_000
"""Instructions of SQLite between two looks at the clock."""
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
