"""P18: no transaction of the same server keeps what was purged, whatever tables it uses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

import clew
from clew.backends.postgres import PostgresBackend, backend
from clew.errors import StoreBusyError
from clew.model import Retention
from clew.store import Store
from tests.backends.postgres.test_conformance import TestPostgres as Conformance

WORD = "heron-0b1d9c4e-left-behind"


@contextmanager
def old_transaction(url: str, kind: str = "a reader") -> Iterator[psycopg.Connection]:
    """Somebody else's, which uses no table of the store: one that sees everything as it is now, or one that
    writes, in whatever database. No later snapshot looks at what comes after the beginning of a writer, not
    even that of the rewrite itself."""
    if kind == "a writer elsewhere":
        url = f"{url.rpartition('/')[0]}/postgres"
    with psycopg.connect(url, application_name="somebody") as other:
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1 FROM pg_database" if kind == "a reader" else "SELECT pg_current_xact_id()")
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


def test_no_word_of_a_message_that_a_rule_removed_stays_in_a_row(emptied_postgres: str) -> None:
    url, _, schema = emptied_postgres.partition("?schema=")
    with clew.open(emptied_postgres) as store:
        store.session("a").append(*({"role": "user", "content": word} for word in ("removed", "kept")))
        assert len(store.search("removed").hits) == 1
        store.set_retention(Retention(max_messages=1))
        store.sweep()
    with psycopg.connect(url) as connection:
        rows = connection.execute(f'SELECT t::text FROM "{schema}".texts t'.encode()).fetchall()
    told = "".join(row for (row,) in rows)
    assert "kept" in told
    assert "removed" not in told


@pytest.mark.parametrize("kind", ["a reader", "a writer", "a writer elsewhere"])
def test_a_purge_waits_for_transactions_that_began_before_it(
    postgres_url: str, postgres_place: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    waits: list[float] = []
    with clew.open(postgres_place, scrub="full") as store:
        filled(store)
        with old_transaction(postgres_url, kind) as other:

            def sleep(seconds: float) -> None:
                waits.append(seconds)
                if len(waits) == 3:
                    other.rollback()

            with monkeypatch.context() as patch:
                patch.setattr(backend, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
                store.delete("a", purge=True)
    assert len(waits) >= 3
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
