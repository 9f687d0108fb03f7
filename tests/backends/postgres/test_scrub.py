"""P18: no transaction of the same database keeps what was purged, whatever tables it uses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

import clew
from clew.backends.postgres import PostgresBackend, backend
from clew.errors import StoreBusyError
from clew.store import Store
from tests.backends.postgres.test_conformance import TestPostgres as Conformance

WORD = "heron-0b1d9c4e-left-behind"


@contextmanager
def old_transaction(url: str) -> Iterator[psycopg.Connection]:
    """Somebody else's, which sees everything as it is now, and uses no table of the store."""
    with psycopg.connect(url, application_name="somebody") as other:
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1 FROM pg_database")
        yield other


def filled(store: Store) -> None:
    store.session("a").append({"role": "user", "content": WORD})
    store.session("b").append({"role": "user", "content": "stays"})


def is_left(place: str) -> bool:
    with clew.open(place) as store:
        engine = store._scope.outside("a test").backend
        assert isinstance(engine, PostgresBackend)
        files: list[Path] = Conformance().files(engine)
    return any(WORD.encode() in file.read_bytes() for file in files)


def test_a_purge_waits_for_transactions_that_began_before_it(postgres_url: str, postgres_place: str) -> None:
    with clew.open(postgres_place, scrub="full") as store:
        filled(store)
        with old_transaction(postgres_url) as other:
            ends = threading.Timer(0.5, other.rollback)
            ends.start()
            store.delete("a", purge=True)
            ends.join()
    assert not is_left(postgres_place)


def test_a_purge_says_who_keeps_it_and_the_next_one_finishes(
    postgres_url: str, postgres_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with clew.open(postgres_place, scrub="full") as store:
        filled(store)
        with old_transaction(postgres_url) as other:
            with monkeypatch.context() as patch:
                patch.setattr(backend, "OLDER_TRANSACTIONS", 0.0)
                with pytest.raises(StoreBusyError, match=f"{other.info.backend_pid} 'somebody'"):
                    store.delete("a", purge=True)
            assert [info.id for info in store.list()] == ["b"]
        store.delete("b", purge=True)
    assert not is_left(postgres_place)
