"""A path through many branches is read with few questions, and damaged rows do not lead round."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import Any

import psycopg
import pytest

import clew
from clew.backends.postgres import PostgresBackend, reader
from clew.backends.postgres.sql import GET_BRANCH, LINEAGE
from clew.store import Store
from tests.support.stores import forks_of_forks

DEPTH = 50


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The statements that were sent since."""
    counted: Counter[str] = Counter()
    ask = PostgresBackend.read

    def read(self: PostgresBackend) -> Any:
        opened = ask(self)
        real = opened.__enter__

        def enter() -> Any:
            inside: Any = real()
            answer = inside.ask

            def told(template: str, *given: Any) -> Any:
                counted[template] += 1
                return answer(template, *given)

            inside.ask = told
            return inside

        class Opened:
            def __enter__(self) -> Any:
                return enter()

            def __exit__(self, *error: Any) -> Any:
                return opened.__exit__(*error)

        return Opened()

    monkeypatch.setattr(PostgresBackend, "read", read)
    return counted


def test_s52_a_lineage_is_read_at_once(emptied_postgres: str, asked: Counter[str]) -> None:
    with Store(PostgresBackend(emptied_postgres)) as store:
        id = forks_of_forks(store, DEPTH).id
    with Store(PostgresBackend(emptied_postgres)) as store:  # which remembers nothing
        asked.clear()
        assert len(store.get(id).messages()) == DEPTH
        assert asked[GET_BRANCH] + asked[LINEAGE] <= 3


def test_s52_a_long_lineage_is_read_in_parts(
    emptied_postgres: str,
    asked: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "LINEAGE_AT_ONCE", 10)
    with Store(PostgresBackend(emptied_postgres)) as store:
        id = forks_of_forks(store, DEPTH).id
    with Store(PostgresBackend(emptied_postgres)) as store:
        asked.clear()
        assert len(store.get(id).messages()) == DEPTH
        assert asked[GET_BRANCH] + asked[LINEAGE] <= 2 + DEPTH / 10


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
