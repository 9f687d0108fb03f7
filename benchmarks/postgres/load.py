"""A store of any size: one session made through the public door, and any number of copies made by the server.

A copy differs in what has to be different (numbers, ids, times); bodies, checksums and digests stay valid.
"""

# ruff: noqa: S608, ISC004 - the pieces are the constants of this file
from __future__ import annotations

import psycopg

import clew

AT_ONCE = 50_000
PLACE = "1048575"
_PLAIN = {
    "sessions": (
        "moves, undo, redo, forks, epoch, fence, due, status, grows, has_title, digest, title, preview,"
        " workspace, version, position, messages, turns, size, view_start, summary, last_user_turn, deleted"
    ),
    "details": "value",
    "branches": "parent, fork",
    "entries": (
        "position, time, flags, checksum, messages, turns, size, view_start, summary, last_user_turn, epoch,"
        " kind, codec, digest, body"
    ),
}


def _moved(column: str) -> str:
    """The number of the copy: another home, to the past of all others; the same place."""
    return f"((home - n) << 20) | ({column} & {PLACE}) AS {column}"


_EARLIER = "created - n * 1000000, updated - n * 1000000"
_CHANGED = {
    "sessions": (
        "home, sid, tree, branch, made, created, updated, id",
        f"home - n, {_moved('sid')}, {_moved('tree')}, {_moved('branch')}, made - n, {_EARLIER},"
        f" id || convert_to('-' || n, 'UTF8')",
    ),
    "details": ("home, sid", f"home - n, {_moved('sid')}"),
    "branches": (
        "home, branch, tree, owner, made, uid",
        f"home - n, {_moved('branch')}, {_moved('tree')}, {_moved('owner')}, made - n, md5(uid || n)",
    ),
    "entries": ("home, branch", f"home - n, {_moved('branch')}"),
}


class Loader:
    """Makes a store grow."""

    def __init__(self, url: str, schema: str, messages: int, message: dict[str, object]) -> None:
        self._url = url
        self._schema = schema
        with clew.open(url, schema=schema) as store:
            first = store.create("first", title="A chat", workspace="/work")
            for number in range(messages):
                first.append({**message, "content": f"{number} {message['content']}"})
        with psycopg.connect(url) as connection:
            row = connection.execute(f"SELECT home FROM {schema}.sessions".encode()).fetchone()
        assert row is not None
        self._home = int(row[0])
        self.count = 1

    def id_of(self, number: int) -> str:
        return f"first-{number}" if number else "first"

    def grow(self, sessions: int) -> None:
        """To so many sessions."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("SET synchronous_commit = off")
            while self.count < sessions:
                last = min(self.count + AT_ONCE, sessions)
                for table in _PLAIN:
                    connection.execute(self._copies(table, self.count, last - 1).encode())
                connection.execute(
                    f"INSERT INTO {self._schema}.names SELECT id, sid FROM {self._schema}.sessions"
                    f" WHERE home BETWEEN {self._home - last + 1} AND {self._home - self.count}".encode()
                )
                self.count = last
            connection.execute("SET synchronous_commit = on")
            for table in (*_PLAIN, "names"):
                connection.execute(f"VACUUM (ANALYZE) {self._schema}.{table}".encode())
            connection.execute("CHECKPOINT")

    def _copies(self, table: str, first: int, last: int) -> str:
        columns, values = _CHANGED[table]
        return (
            f"INSERT INTO {self._schema}.{table} ({columns}, {_PLAIN[table]})"
            f" SELECT {values}, {_PLAIN[table]} FROM {self._schema}.{table},"
            f" generate_series({first}::bigint, {last}) AS n WHERE home = {self._home}"
        )
