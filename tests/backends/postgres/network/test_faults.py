"""What goes wrong between here and the server: nothing is lost or done twice, nobody waits for ever."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import psycopg
import pytest

import clew
from clew.backends.postgres import PostgresBackend
from clew.backends.postgres.connection import ServerConnection
from clew.errors import BackendUnavailableError, OutcomeUnknownError, StoreBusyError
from clew.store import Store
from clew.testing.backend.base import Ticking, said, say, user
from tests.backends.postgres.servers.cluster import Cluster
from tests.backends.postgres.servers.proxy import Proxy
from tests.backends.together import in_threads
from tests.support.waiting import until

pytestmark = pytest.mark.needs("PostgreSQL")


@pytest.fixture
def proxy(emptied_postgres: str) -> Iterator[Proxy]:
    proxy = Proxy(emptied_postgres)
    yield proxy
    proxy.close()


def backend_of(store: Store) -> PostgresBackend:
    backend = store._engine.backend
    assert isinstance(backend, PostgresBackend)
    return backend


def terminate_all(url: str) -> int:
    """End every other connection to the server, as an administrator would."""
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = %s AND pid <> pg_backend_pid()",
            (urlsplit(url).query[-24:],),
        ).fetchall()
    return len(rows)


def test_connections_that_were_terminated_are_replaced(emptied_postgres: str) -> None:
    """F-34: the next append and the next read go on, without an error."""
    name = emptied_postgres[-24:]
    with clew.open(f"{emptied_postgres}&application_name={name}") as store:
        s = store.create("s")
        say(s, "a")
        s.messages()
        assert terminate_all(emptied_postgres) >= 1
        say(s, "b")
        assert terminate_all(emptied_postgres) >= 1
        assert said(s) == ["a", "b"]


def test_a_connection_lost_inside_a_transaction_costs_a_second_try(proxy: Proxy) -> None:
    """F-34: nothing was committed, so the operation is run again on a new connection."""
    with clew.open(proxy.url) as store:
        s = store.create("s")
        runs = []

        def work(tx: object) -> None:
            runs.append(1)
            row = tx.find_session("s")  # type: ignore[attr-defined]
            if len(runs) == 1:
                proxy.cut_all()
            tx.find_session("other")  # type: ignore[attr-defined]
            tx.put_record(row.sid, "var", "n", b"1")  # type: ignore[attr-defined]

        store._engine.run(work)

        assert len(runs) >= 2
        assert s.vars() == {"n": 1}


def test_a_connection_that_was_cut_while_it_idled_is_replaced(proxy: Proxy) -> None:
    """F-34: it is looked at before something is sent, so that no outcome is unknown."""
    with clew.open(proxy.url) as store:
        s = store.create("s")
        say(s, "a")
        proxy.cut_all()
        say(s, "b")
        proxy.cut_all()
        assert said(s) == ["a", "b"]


@pytest.mark.parametrize("keyed", [False, True])
def test_an_answer_that_is_lost_is_of_unknown_outcome_without_a_key(proxy: Proxy, keyed: bool) -> None:
    """F-36: the connection is cut when the commit was sent. With a key the append is run again by itself, and
    finds what it wrote."""
    with clew.open(proxy.url) as store:
        s = store.create("s")
        s.append(user("first"), key="first")
        mark = b"COMMIT" if keyed else b"INSERT INTO"
        # Prepared statements are sent by name: forget them, so that the proxy knows what goes by.
        backend_of(store).database.stop_preparing()
        backend_of(store).database.close_writer()
        # The thread that tells others of a commit has transactions of its own, at moments of its own.
        backend_of(store).database.notifier.stop()
        proxy.cut_when = lambda data: mark in data
        if keyed:
            [first] = s.append(user("second"), key="k")
            assert s.append(user("second"), key="k") == [first]
        else:
            with pytest.raises(OutcomeUnknownError):
                s.append(user("second"))
        assert proxy.cuts == 1

        assert said(s) == ["first", "second"]


def test_a_server_that_answers_nothing_is_given_up_in_time(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-36: a black hole in the network ends within the deadline, for reads and for writes. Two seconds: the
    driver gives a new connection no less."""
    with clew.open(proxy.url) as store:
        s = store.create("s")
        say(s, "a")
        s.messages()
        proxy.swallows = True
        monkeypatch.setattr(ServerConnection, "clock", Ticking(step=4))
        backend_of(store).database.timeout = 1.0
        for use in (lambda: say(s, "b"), lambda: s.messages()):
            with pytest.raises((BackendUnavailableError, OutcomeUnknownError, StoreBusyError)):
                use()


def test_a_lock_that_somebody_else_holds_is_waited_for_no_longer_than_the_deadline(
    emptied_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-39: the server is asked to stop, so that it is certain that nothing was written."""
    clock = Ticking(now=0, step=0)
    monkeypatch.setattr(ServerConnection, "clock", clock)
    address = emptied_postgres.partition("?")[0]
    with (
        ThreadPoolExecutor(1) as thread,
        clew.open(emptied_postgres, timeout=10.0) as store,
        psycopg.connect(address) as holder,
        psycopg.connect(address, autocommit=True) as watcher,
    ):
        s = store.create("s")
        say(s, "a")
        schema = backend_of(store).database.schema.quoted
        holder.execute(f"SELECT 1 FROM {schema}.sessions FOR UPDATE".encode())
        waiting = thread.submit(say, s, "b")
        blocked = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
        until(lambda: watcher.execute(blocked, (holder.info.backend_pid,)).fetchone() == (1,))
        assert not waiting.done()
        clock.now = 9
        with pytest.raises(StoreBusyError):
            waiting.result()
        holder.rollback()

        assert said(s) == ["a"]
        say(s, "c")
        assert said(s) == ["a", "c"]


def test_a_pool_that_is_empty_says_so(emptied_postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-38: a bounded wait, and an error that names the size; the one that writes has its own connection."""
    with clew.open(emptied_postgres, pool=2) as store:
        s = store.create("s")
        backend = backend_of(store)
        monkeypatch.setattr(backend.database.pool, "_timeout", 0.05)  # the server keeps its ten seconds
        with backend.read(), backend.read():
            with pytest.raises(StoreBusyError, match="all 2 connections"):
                s.messages()
            say(s, "a")

        assert said(s) == ["a"]


def test_more_readers_than_connections_wait_their_turn(emptied_postgres: str) -> None:
    """F-38: 20 threads on a pool of 2 all get their answer."""
    with clew.open(emptied_postgres, pool=2) as store:
        say(store.create("s"), "a")
        assert in_threads(lambda id: said(store.get(id)), ["s"] * 20) == [["a"]] * 20


def test_a_server_without_a_free_connection_is_busy() -> None:
    """F-38: "too many clients" is an error that may pass."""
    cluster = Cluster(max_connections="8", superuser_reserved_connections="0", max_wal_senders="0")
    try:
        cluster.start()
        with clew.open(cluster.url) as store:
            store.create("s")
            others = [psycopg.connect(cluster.url) for _ in range(6)]
            with pytest.raises(StoreBusyError, match="no connection left"):
                clew.open(cluster.url)
            for other in others:
                other.close()
            assert store.stats().sessions == 1
    finally:
        cluster.remove()


def test_what_was_acknowledged_survives_a_crash_of_the_server() -> None:
    """P1, F-35: immediate stops and restarts under load; every acknowledged message is there, once."""
    cluster = Cluster()
    acknowledged: list[list[str]] = [[] for _ in range(3)]
    unknown: set[str] = set()
    stopping = threading.Event()
    try:
        cluster.start()
        with clew.open(cluster.url, timeout=5.0) as store:
            assert backend_of(store).capabilities.durability == "full"

            sessions = [store.session(f"s{number}") for number in range(3)]

            def work(number: int) -> None:
                count = 0
                while not stopping.is_set():
                    text = f"{number}.{count}"
                    count += 1
                    try:
                        say(sessions[number], text)
                    except OutcomeUnknownError:
                        unknown.add(text)
                    except (BackendUnavailableError, StoreBusyError):
                        stopping.wait(0.01)
                    else:
                        acknowledged[number].append(text)

            def wait_for_more() -> None:
                goal = sum(map(len, acknowledged)) + 30
                until(lambda: sum(map(len, acknowledged)) >= goal)

            threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
            for thread in threads:
                thread.start()
            for _ in range(3):
                wait_for_more()
                cluster.stop(signal.SIGQUIT)
                cluster.start()
            wait_for_more()
            stopping.set()
            for thread in threads:
                thread.join()

            for number in range(3):
                kept = [str(text) for text in said(store.get(f"s{number}"))]
                assert len(kept) == len(set(kept))
                assert [text for text in kept if text not in unknown] == acknowledged[number]
    finally:
        stopping.set()
        cluster.remove()
