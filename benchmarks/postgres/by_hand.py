"""What one would write by hand: two tables, one connection, one prepared statement for an append.

The columns are those that an application has who lists its sessions by their last activity, with a title and
a preview; so there is an index by activity, which every append moves.
"""

from __future__ import annotations

import time

import msgspec
import psycopg
from psycopg.types.numeric import Int8BinaryDumper

TABLES = """
    DROP SCHEMA IF EXISTS bare CASCADE;
    CREATE SCHEMA bare;
    CREATE TABLE bare.sessions (
      id bigint PRIMARY KEY, name text NOT NULL UNIQUE, created bigint NOT NULL, updated bigint NOT NULL,
      head bigint NOT NULL, messages bigint NOT NULL, size bigint NOT NULL, title text, preview text NOT NULL,
      workspace text, status smallint NOT NULL);
    CREATE INDEX ON bare.sessions (updated DESC, id);
    CREATE TABLE bare.messages (
      session bigint, position bigint, time bigint NOT NULL, role text NOT NULL, body bytea NOT NULL,
      PRIMARY KEY (session, position));
"""
_MAKE = b"INSERT INTO bare.sessions VALUES ($1, $2, $3, $3, -1, 0, 0, 'a title', '', '/work', 0)"
_APPEND = (
    b"WITH s AS (UPDATE bare.sessions SET updated = $3, head = head + 1, messages = messages + 1,"
    b" size = size + $5, preview = $4 WHERE id = $1 RETURNING head)"
    b" INSERT INTO bare.messages SELECT $1, s.head, $3, 'assistant', $2 FROM s"
)
_READ = b"SELECT position, body FROM bare.messages WHERE session = $1 ORDER BY position"


def make_tables(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute(TABLES.encode())


class ByHand:
    """One session, one connection."""

    def __init__(self, url: str, session: int, body: bytes) -> None:
        self._connection = psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor)
        self._connection.adapters.register_dumper(int, Int8BinaryDumper)
        self._session = session
        self._body = body
        self._preview = body[:100].decode()
        self._connection.execute(_MAKE, (session, f"session-{session}", time.time_ns() // 1000))

    def append(self) -> None:
        given = (self._session, self._body, time.time_ns() // 1000, self._preview, len(self._body))
        self._connection.execute(_APPEND, given, prepare=True)

    def read(self) -> list[dict[str, object]]:
        """The bare binary SELECT and decode."""
        cursor = self._connection.cursor(binary=True)
        rows = cursor.execute(_READ, (self._session,), prepare=True).fetchall()
        decode = msgspec.json.decode
        return [decode(body) for _, body in rows]

    def close(self) -> None:
        self._connection.close()
