"""A path through many branches is read with few questions, and damaged rows do not lead round."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest

import clew
from clew.backends.postgres import PostgresBackend, reader
from clew.store import Store
from tests.backends.postgres.servers.queries import traffic
from tests.support.stores import forks_of_forks

DEPTH = 50


def questions_about_branches(url: str, id: str) -> int:
    """How often a store that remembers nothing asks for branches to read a path through all of them."""
    with Store(PostgresBackend(url)) as store, traffic() as seen:
        assert len(store.get(id).messages()) == DEPTH
    return sum(".branches" in sql for sql in seen.statements)


def test_s52_a_lineage_is_read_at_once(emptied_postgres: str) -> None:
    with Store(PostgresBackend(emptied_postgres)) as store:
        id = forks_of_forks(store, DEPTH).id
    assert 0 < questions_about_branches(emptied_postgres, id) <= 3


def test_s52_a_long_lineage_is_read_in_parts(emptied_postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LINEAGE_AT_ONCE", 10)
    with Store(PostgresBackend(emptied_postgres)) as store:
        id = forks_of_forks(store, DEPTH).id
    assert DEPTH / 10 <= questions_about_branches(emptied_postgres, id) <= 2 + DEPTH / 10


def test_s52_rows_that_lead_round_end_a_lineage(emptied_postgres: str) -> None:
    with closing(PostgresBackend(emptied_postgres)) as backend:
        schema = backend.database.schema.quoted
        with Store(backend) as store:
            id = forks_of_forks(store, 4).id
    with psycopg.connect(emptied_postgres.partition("?")[0], autocommit=True) as connection:
        connection.execute(
            f"UPDATE {schema}.branches SET parent = (SELECT branch FROM {schema}.branches WHERE fork = 2)"
            " WHERE fork = 0".encode()
        )
    with Store(PostgresBackend(emptied_postgres)) as store, pytest.raises(clew.CorruptError, match="branch"):
        store.get(id).messages()
