"""`pause` ends when another process has written: a hint, told outside of every append.

Who hears nothing looks only every 1000 seconds here: such a test ends by its time-out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

import clew
from clew.backends.postgres import PostgresBackend
from clew.backends.postgres.connection import ServerConnection
from clew.backends.postgres.notify import channel_of
from clew.core.log.rows import EMPTY, Details, SessionRow
from clew.store import Store
from clew.testing.backend.base import say
from tests.backends.postgres.servers.queries import traffic
from tests.support.waiting import until

LONG = 1000.0


@pytest.fixture
def store(emptied_postgres: str) -> Iterator[Store]:
    with clew.open(emptied_postgres) as store:
        yield store


@pytest.fixture
def backend(emptied_postgres: str) -> Iterator[PostgresBackend]:
    with closing(PostgresBackend(emptied_postgres)) as backend:
        yield backend


def write(backend: PostgresBackend, id: str = "x") -> None:
    row = SessionRow(0, id, 0, 1, 1, None, EMPTY, False, None, False, "", None)
    with backend.write() as tx:
        tx.add_session(row, Details())


def test_all_who_pause_are_woken(backend: PostgresBackend, emptied_postgres: str) -> None:
    backend.pause(LONG)
    done = [threading.Thread(target=backend.pause, args=(LONG,)) for _ in range(4)]
    for thread in done:
        thread.start()
    with closing(PostgresBackend(emptied_postgres)) as other:
        number = 0
        while any(thread.is_alive() for thread in done):
            write(other, f"x{number}")
            number += 1
            done[0].join(0.05)

    assert number > 0


def test_an_append_sends_what_it_sent_before(store: Store) -> None:
    """The notice goes by another connection, and the append does not wait for it."""
    s = store.create("s")
    say(s, "a")
    writer = store._engine.backend.database._writer  # type: ignore[attr-defined]
    sent: list[tuple[object, str]] = []
    execute: Any = ServerConnection.execute

    def watched(self: ServerConnection, sql: object, *args: object, **options: object) -> object:
        sent.append((self, str(sql)))
        return execute(self, sql, *args, **options)

    with traffic() as seen, pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServerConnection, "execute", watched)
        for number in range(20):
            say(s, str(number))
        store.close()

    assert [len(trip) for trip in seen.trips] == [1] * 20
    assert not [sql for line, sql in sent if line is writer]
    notices = [sql for _, sql in sent if "pg_notify" in sql]
    assert 1 <= len(notices) <= 20


def test_a_store_that_reads_tells_nobody(store: Store, emptied_postgres: str) -> None:
    store.create("s")
    with clew.open(emptied_postgres, read_only=True) as reading:
        reading.get("s").messages()
        threads = {thread.name for thread in threading.enumerate()}
        assert reading._engine.backend.database.notifier._thread is None  # type: ignore[attr-defined]
    assert "clew-notify" in threads  # that of the one who wrote


def test_closing_ends_a_pause_and_the_threads(emptied_postgres: str) -> None:
    backend = PostgresBackend(emptied_postgres)
    write(backend)
    backend.pause(LONG)

    def wait() -> None:
        while not backend.database.is_closed:
            backend.pause(LONG)  # the notice of that write may come late, and ends one

    waiting = threading.Thread(target=wait)
    waiting.start()
    until(lambda: backend._listener._is_taken)
    backend.close()
    waiting.join()
    thread = backend.database.notifier._thread
    assert thread is not None
    thread.join()

    with psycopg.connect(emptied_postgres.partition("?")[0]) as connection:
        connection.autocommit = True
        question = "SELECT count(*) FROM pg_stat_activity WHERE query = %s"
        listens = f'LISTEN "{channel_of(backend.database.schema)}"'
        # The server ends a session a moment after its connection.
        until(lambda: connection.execute(question, (listens,)).fetchone() == (0,))


def test_a_lost_connection_is_replaced(backend: PostgresBackend, emptied_postgres: str) -> None:
    """F-36: the pause ends, as if something had been heard, and the next one listens again."""
    backend.pause(LONG)
    line = backend._listener._connection
    assert line is not None
    with psycopg.connect(emptied_postgres.partition("?")[0], autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", (line.info.backend_pid,))
    backend.pause(LONG)  # hears the end
    backend.pause(LONG)  # listens anew
    with closing(PostgresBackend(emptied_postgres)) as other:
        write(other)
    backend.pause(LONG)

    assert backend._listener._connection is not line


def test_behind_a_pooler_a_pause_is_a_pause(emptied_postgres: str) -> None:
    with closing(PostgresBackend(emptied_postgres, pgbouncer=True)) as backend:
        backend.pause(0.001)
        assert backend._listener._connection is None
