"""Appends rely on what the process remembers, and lose nothing when that is out of date."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import msgspec
import psycopg
import pytest

import clew
from clew.backends.contract import STORE_WIDE, Stale, Transaction
from clew.backends.postgres import PostgresBackend
from clew.backends.postgres.connection import ServerConnection
from clew.core.log.rows import Details
from clew.errors import BackendUnavailableError
from clew.store import Store
from clew.testing.backend.base import said, say, user
from tests.backends.postgres.servers.queries import traffic
from tests.backends.together import in_threads
from tests.support.waiting import until


@pytest.fixture
def store(emptied_postgres: str) -> Iterator[Store]:
    with clew.open(emptied_postgres) as store:
        yield store


@pytest.fixture
def other(emptied_postgres: str) -> Iterator[Store]:
    """As if it were of another process: nothing but the database is shared."""
    with clew.open(emptied_postgres) as other:
        yield other


def test_the_first_append_of_a_session_that_was_opened_asks_nothing(store: Store, other: Store) -> None:
    """What a reader saw is remembered."""
    say(store.create("s"), "a")
    s = other.get("s")
    s.head  # noqa: B018
    with traffic() as seen:
        say(s, "b")

    assert len(seen.trips) <= 2
    assert said(s) == ["a", "b"]


def test_a_crowd_of_appends_is_few_round_trips(store: Store) -> None:
    """64 sessions: what comes in while others commit goes in one go."""
    sessions = [store.create(f"s{number}") for number in range(64)]
    for s in sessions:
        say(s, "first")
    backend = store._engine.backend
    assert isinstance(backend, PostgresBackend)
    with traffic() as seen:
        with backend.database.lock:
            for s in sessions:
                s.append_nowait(user("x"))
        store.flush()

    assert len(seen.trips) <= 3
    assert all(said(s) == ["first", "x"] for s in sessions)


def test_a_row_that_somebody_else_changed_is_read_again(store: Store, other: Store) -> None:
    """P3: two that append in turns, each with a memory of its own, lose nothing and keep the order."""
    mine, theirs = store.create("s"), other.get("s")
    for number in range(10):
        say(mine, f"m{number}")
        say(theirs, f"t{number}")

    expected = [f"{who}{number}" for number in range(10) for who in "mt"]
    assert said(mine) == said(theirs) == expected


def test_a_transaction_on_a_stale_row_writes_nothing(emptied_postgres: str) -> None:
    """The guard fails the whole batch, other sessions included."""
    with clew.open(emptied_postgres) as first, clew.open(emptied_postgres) as second:
        a, b = first.create("a"), first.create("b")
        say(a, "1")
        say(b, "1")
        say(second.get("b"), "2")
        backend = first._engine.backend
        assert isinstance(backend, PostgresBackend)
        writing = backend.write(certain=False)
        tx = writing.__enter__()
        for session in (a, b):
            row = tx.get_session(session._access.sid)
            assert row is not None
            tx.set_head(row.sid, row.head, row.updated, "overwritten", "overwritten")
        assert tx.is_certain is False
        with pytest.raises(Stale):
            writing.__exit__(None, None, None)

        assert (a.info.title, b.info.title) == ("1", "1")


def test_an_error_from_memory_is_not_believed(store: Store, other: Store) -> None:
    """Who was told elsewhere that the head is there may expect it, whatever this process remembers."""
    mine, theirs = store.create("s"), other.get("s")
    say(mine, "a")
    say(theirs, "b")
    mine.append(user("c"), expect=theirs.head)

    assert said(mine) == ["a", "b", "c"]


def test_what_memory_says_is_not_enough_to_refuse(store: Store, other: Store) -> None:
    """A session deleted and brought back elsewhere takes appends here."""
    s = store.create("s")
    say(s, "a")
    other.delete("s")
    with pytest.raises(clew.SessionDeletedError):
        say(s, "b")
    other.restore_deleted("s")
    say(s, "c")

    assert said(s) == ["a", "c"]


def test_storms_from_two_stores_lose_nothing(store: Store, other: Store) -> None:
    """J1: each thread's own messages are all there, in its order, on sessions that all share."""
    ids = ["a", "b"]
    for id in ids:
        store.create(id)
    workers = [(of, f"{index}{name}") for index, of in enumerate((store, other)) for name in "xyz"]

    def work(worker: tuple[Store, str]) -> None:
        of, name = worker
        sessions = [of.get(id) for id in ids]
        for number in range(12):
            say(sessions[number % 2], f"{name}.{number}")

    in_threads(work, workers)

    for parity, id in enumerate(ids):
        texts = [str(text) for text in said(store.get(id))]
        for _, name in workers:
            own = [text for text in texts if text.startswith(f"{name}.")]
            assert own == [f"{name}.{number}" for number in range(parity, 12, 2)]


@pytest.mark.parametrize("beside", ["a session", "the store"])
def test_who_reads_and_then_writes_excludes_the_others(store: Store, other: Store, beside: str) -> None:
    """Of records too, which have no version: the row of the session is locked, or else the name."""
    sid = store.create("s")._access.sid
    owner = sid if beside == "a session" else STORE_WIDE

    def count(tx: Transaction) -> None:
        if owner == sid:
            tx.get_session(sid)
        value = tx.get_record(owner, "var", "n") or b"0"
        tx.put_record(owner, "var", "n", b"%d" % (int(value) + 1))

    def work(of: Store) -> None:
        for _ in range(25):
            of._engine.run(count)

    in_threads(work, (store, other))

    with store._engine.read() as reader:
        assert reader.get_record(owner, "var", "n") == b"50"


def test_a_question_that_failed_lets_nothing_be_committed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: what others of the batch wrote before it went with it: nobody may be told that it is there."""
    s = store.create("s")
    say(s, "a")
    backend = store._engine.backend
    assert isinstance(backend, PostgresBackend)

    def unreachable() -> ServerConnection:
        raise BackendUnavailableError("no")

    writing = backend.write(certain=False)
    tx = writing.__enter__()
    tx.put_record(s._access.sid, "var", "n", b"1")
    monkeypatch.setattr(backend.database, "writer", unreachable)
    with pytest.raises(BackendUnavailableError):
        tx.find_session("s")
    monkeypatch.undo()
    with pytest.raises(BackendUnavailableError):
        writing.__exit__(None, None, None)

    assert s.vars() == {}


def test_two_that_create_the_same_session_get_one(store: Store, other: Store) -> None:
    """P5: whoever is second opens the one that is there."""
    barrier = threading.Barrier(2)

    def make(of: Store) -> list[int]:
        found = []
        for number in range(10):
            barrier.wait()
            found.append(of.session(f"s{number}")._access.sid)
        return found

    mine, theirs = in_threads(make, (store, other))

    assert mine == theirs
    assert len(set(mine)) == 10
    assert store.stats().sessions == 10


def test_a_crowd_of_which_one_is_stale_is_done_one_by_one(store: Store, other: Store) -> None:
    """J1: many appends in one statement, one of them to a row that somebody else changed."""
    names = [f"s{number}" for number in range(8)]
    mine = [store.create(name) for name in names]
    for session in mine:
        say(session, "first")
    say(other.get("s3"), "theirs")
    for session in mine:
        session.append_nowait(user("second"))
    store.flush()

    for session in mine:
        theirs = ["theirs"] if session.id == "s3" else []
        assert said(session) == ["first", *theirs, "second"]


def test_a_store_of_shards_sends_a_statement_for_each_tree(emptied_postgres: str) -> None:
    """Citus: no statement of an append is about two trees."""
    with clew.open(emptied_postgres, sharded=True) as store:
        sessions = [store.create(f"s{number}") for number in range(8)]
        for session in sessions:
            say(session, "first")
        with traffic() as seen:
            for session in sessions:
                session.append_nowait(user("second"))
            store.flush()

        assert not any("unnest" in sql for sql in seen.statements)
        assert [said(session) for session in sessions] == [["first", "second"]] * 8


def test_a_tree_is_seen_with_those_who_came_while_this_waited(
    store: Store, other: Store, emptied_postgres: str
) -> None:
    """P18: a purge that waits for a fork to be made must not miss what the fork needs."""
    base = store.create("base")
    say(base, "a")
    first, second = store._engine.backend, other._engine.backend
    found: list[str] = []
    with first.write() as tx:
        row = tx.get_session(base._access.sid)
        assert row is not None

        def look() -> None:
            with second.write() as waiting:
                found.extend(one.id for one in waiting.tree_sessions(row.tree))

        thread = threading.Thread(target=look)
        thread.start()
        with psycopg.connect(emptied_postgres.partition("?")[0], autocommit=True) as watching:
            until(lambda: watching.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall())
        tx.add_session(msgspec.structs.replace(row, id="fork"), Details())
    thread.join()

    assert found == ["base", "fork"]


def test_most_appends_touch_no_index_of_sessions(postgres_place: str) -> None:
    """P16: a row that is rewritten in place does not make indexes grow."""
    with clew.open(postgres_place) as store:
        s = store.create("s")
        for number in range(50):
            say(s, f"{number}")
    question = (
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
        " WHERE relname = 'sessions' AND schemaname = %s"
    )
    url, _, schema = postgres_place.partition("?schema=")
    with psycopg.connect(url, autocommit=True) as connection:

        def updates() -> tuple[int, int]:
            ((total, hot),) = connection.execute(question, (schema,)).fetchall()
            return total, hot

        until(lambda: updates()[0] >= 50)  # a session of the server tells of its numbers when it ends
        total, hot = updates()

    assert hot >= 0.8 * total
