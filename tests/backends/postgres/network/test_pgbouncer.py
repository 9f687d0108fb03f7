"""Behind pgbouncer in transaction mode: each transaction may meet another session of the server."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import clew
from clew.backends.postgres import PostgresBackend
from clew.testing.backend.base import said, say, user
from tests.backends.postgres.servers.pooler import pooler
from tests.backends.together import in_threads

pytestmark = pytest.mark.needs("pgbouncer")


@pytest.fixture(scope="module")
def through(postgres_url: str) -> Iterator[str]:
    """The address of the same database through a pgbouncer that has three sessions for everybody."""
    with pooler(postgres_url) as url:
        yield url


@pytest.fixture
def pooled(through: str, emptied_postgres: str) -> str:
    return f"{through}?{emptied_postgres.partition('?')[2]}"


def use_much(url: str, **options: object) -> None:
    with clew.open(url, **options) as store:

        def work(number: int) -> None:
            s = store.session(f"s{number}")
            for count in range(8):
                s.append(user(f"{count}"), key=f"{count}" if count % 3 == 0 else None)
                assert len(s.messages()) == count + 1
            s.rewind(3)
            s.undo()
            with s.run() as run:
                run.set_var("v", count)

        in_threads(work, range(6))

        for number in range(6):
            assert said(store.get(f"s{number}")) == [f"{count}" for count in range(8)]


def test_a_store_works_behind_a_pooler(pooled: str) -> None:
    """F-39: no prepared statement, no session state, no lock that outlives its transaction."""
    use_much(pooled, pgbouncer=True)


def test_a_pooler_is_noticed(pooled: str) -> None:
    """F-39: the names of prepared statements of two clients are the same, what they stand for is not: so
    none is prepared, also if nobody said that there is a pooler."""
    use_much(pooled)
    with clew.open(pooled) as store:
        backend = store._engine.backend
        assert isinstance(backend, PostgresBackend)
        assert backend.database.prepares is False


def test_a_pooler_may_end_connections_that_idle(pooled: str) -> None:
    """F-39: the next use connects anew."""
    with clew.open(pooled, pgbouncer=True) as store:
        s = store.create("s")
        say(s, "a")
        backend = store._engine.backend
        assert isinstance(backend, PostgresBackend)
        with psycopg.connect(backend.location.partition("?")[0], autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name <> 'tests' AND pid <> pg_backend_pid()"
                " AND query LIKE '%%' || %s || '%%'",
                (backend.database.schema.name,),
            )
        say(s, "b")
        assert said(s) == ["a", "b"]
