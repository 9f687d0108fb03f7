"""What is expected to happen is no error in anybody's log; and a newer Clew is noticed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count

import psycopg
import pytest

import clew
from clew.backends.postgres import migrate
from clew.backends.postgres.connection import connect
from clew.backends.postgres.migrate import MIGRATIONS
from clew.backends.postgres.rows import LANE_BITS, PLACE_BITS, Ids
from clew.backends.postgres.sql import VERSION, Schema
from clew.store import Store
from clew.testing.backend.base import said, say, user
from tests.backends.postgres.servers.cluster import CARELESS, Cluster
from tests.backends.postgres.servers.queries import traffic
from tests.backends.together import in_threads

pytestmark = pytest.mark.needs("PostgreSQL")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A server whose log is nobody else's."""
    cluster = Cluster(**CARELESS)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


LANES, PLACES = count(), count()  # of all tests: they share a server


@pytest.fixture(autouse=True)
def _numbers_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores choose lanes and places at random. Two that choose the same meet an error, and the second takes
    others: that is seldom, and not tested here."""
    chance = Ids._random

    def random(ids: Ids, bits: int) -> int:
        return chance(ids, bits) if bits != PLACE_BITS else next(PLACES) * 1000 % 2**PLACE_BITS

    def change_lane(ids: Ids) -> None:
        ids._lane = next(LANES) % 2**LANE_BITS
        ids._places.clear()

    monkeypatch.setattr(Ids, "_random", random)
    monkeypatch.setattr(Ids, "change_lane", change_lane)


def errors_of(cluster: Cluster) -> list[str]:
    lines = (cluster.home / "log").read_text(errors="replace").splitlines()
    return [line for line in lines if "ERROR:" in line]


ACTS: dict[str, Callable[[Store, int], object]] = {
    "append": lambda store, n: say(store.get("s"), f"{n}"),
    "a batch": lambda store, n: say(store.get("s"), f"{n}", f"{n} again"),
    "with a key": lambda store, n: store.get("s").append(user(f"{n}"), key=f"{n}"),
    "set_var": lambda store, n: store.get("s").set_var("v", n),
    "checkpoint": lambda store, n: store.get("s").checkpoint("c", state=n),
    "set_summary": lambda store, n: store.get("s").set_summary(f"{n}"),
    "add_event": lambda store, n: store.get("s").add_event("t", n),
    "rewind": lambda store, n: store.get("s").rewind(0),
    "fork": lambda store, n: store.get("s").fork(),
    "two sessions": lambda store, n: store.transact(
        lambda tx: [tx.get(id).append(user(f"{n}")) for id in ("s", "t")]
    ),
    "update": lambda store, n: store.get("s").update(title=f"{n}"),
    "session": lambda store, n: say(store.session(f"new {n // 2}"), "x"),
}


@pytest.mark.parametrize("what", ACTS)
def test_two_that_write_in_turns_leave_no_error_in_the_log_of_the_server(cluster: Cluster, what: str) -> None:
    """Each remembers rows that the other has changed meanwhile."""
    url = f"{cluster.url}?schema=turns"
    with clew.open(url) as one, clew.open(url) as other:
        for id in ("s", "t"):
            say(one.session(id), "first")
        for number in range(12):
            say(other.get("t"), "x")
            ACTS[what]((one, other)[number % 2], number)
            say((other, one)[number % 2].get("s"), "between")

    assert errors_of(cluster) == []


def test_a_crowd_that_writes_at_once_leaves_no_error_in_the_log_of_the_server(cluster: Cluster) -> None:
    """Several stores, a few sessions, everything at once: all of it is there, in one order for all."""
    url = f"{cluster.url}?schema=crowd"
    with clew.open(url) as first:
        for id in "abc":
            first.session(id)

    def work(worker: int) -> None:
        with clew.open(url) as store:
            for number in range(25):
                say(store.get("abc"[number % 3]), f"{worker} {number}")
                say(store.get("a"), f"{worker} {number} a", f"{worker} {number} b")
                store.get("b").set_var(f"{worker}", number)

    in_threads(work, range(4))

    with clew.open(url) as store:
        found = [text for id in "abc" for text in said(store.get(id))]
    assert len(found) == len(set(found)) == 4 * 25 * 3
    assert errors_of(cluster) == []


def test_what_is_one_statement_is_one_round_trip(emptied_postgres: str) -> None:
    """An append, of however many messages; to several sessions at once; a variable; a checkpoint."""
    with clew.open(emptied_postgres) as store:
        s, t = store.create("s"), store.create("t")
        for session in (s, t):
            say(session, "a")
        acts: list[Callable[[], object]] = [
            lambda: say(s, "b"),
            lambda: say(s, *"cdefgh"),
            lambda: s.set_var("v", 1),
            lambda: s.checkpoint("c"),
            lambda: s.set_document("d", b"x"),
        ]
        for act in acts:
            with traffic() as seen:
                act()
            assert [len(trip) for trip in seen.trips] == [1]
        assert said(s) == ["a", "b", *"cdefgh"]
        assert (s.get_var("v"), s.get_checkpoint("c").head, s.get_document("d")) == (1, s.head, b"x")


BROKEN = """
import sys, clew, psycopg
url, name = sys.argv[1:]
def kill():
    with psycopg.connect(url.partition("?")[0], autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                      " WHERE application_name = %s", (name,))
with clew.open(f"{url}&application_name={name}") as store:
    s = store.session("s")
    s.append({"role": "user", "content": "a"})
    broken = []
    def work(tx):
        mine = tx.get("s")
        mine.append({"role": "user", "content": "b"}, key="k")
        if len(broken) < 2:
            broken.append(kill())
        for number in range(300):  # more than fits what the system sends without a look at the answers
            mine.set_document(f"d{number}", b"x" * 20000)
        mine.fork(f"f{len(broken)}")
    store.transact(work)
    kill()
    s.append({"role": "user", "content": "c"})
    kill()
    print([message["content"] for message in s.messages()])
"""


def test_a_broken_connection_is_nothing_for_the_screen(emptied_postgres: str) -> None:
    """What can be repeated is repeated; what the driver has to say goes to its log, not to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", BROKEN, emptied_postgres, "breaking"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.stderr == ""
    assert done.stdout == "['a', 'b', 'c']\n"


def test_the_statements_are_those_of_the_newest_tables() -> None:
    assert max(MIGRATIONS) == VERSION


def test_p21_a_process_that_is_open_stops_writing_when_a_newer_clew_migrates_the_store(
    postgres_place: str, postgres_url: str
) -> None:
    """It notices with its next transaction, whatever that is. What is there can be read."""
    schema = postgres_place.rpartition("=")[2]
    with clew.open(postgres_place) as store:
        s, other = store.session("s"), store.session("other")
        for session in (s, other):
            say(session, "before")
        with psycopg.connect(postgres_url, autocommit=True) as newer:
            newer.execute(f'UPDATE "{schema}".meta SET version = 99'.encode())
        for write in (
            lambda: say(s, "never"),
            lambda: say(s, "never", "ever"),
            lambda: s.set_var("v", 1),
            lambda: s.append(user("never"), key="k"),
            lambda: store.create("never"),
            lambda: store.transact(lambda tx: [tx.get(id).append(user("never")) for id in ("s", "other")]),
            lambda: store.delete("s"),
        ):
            with pytest.raises(clew.errors.SchemaTooNewError, match="99"):
                write()

        assert (said(s), said(other)) == (["before"], ["before"])
        assert sorted(info.id for info in store.list()) == ["other", "s"]


def test_p21_a_migration_waits_for_the_transactions_that_are_under_way(
    postgres_place: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: else a transaction that began before it would be committed by halves."""
    schema = Schema(postgres_place.rpartition("=")[2])
    with clew.open(postgres_place) as store:
        say(store.session("s"), "before")
        monkeypatch.setattr(migrate, "MIGRATIONS", {**MIGRATIONS, 11: "0011_next.sql"})
        monkeypatch.setattr(migrate, "_text", lambda _: "")
        monkeypatch.setattr(migrate, "_filled", lambda *_: "SELECT 1")

        def bring_up_to_date() -> None:
            line = connect(postgres_url, 30, prepares=True)
            try:
                line.execute("SET lock_timeout = '300ms'")
                migrate.ensure_schema(line, schema, "here", partitions=0, read_only=False)
            finally:
                line.close()

        def work(tx: Store) -> None:
            s = tx.get("s")
            s.set_var("v", 1)
            assert [change.status for change in s.status_changes()] == []  # asked of the server
            with pytest.raises(psycopg.errors.LockNotAvailable):
                bring_up_to_date()
            say(s, "during")

        store.transact(work)
        assert (said(store.get("s")), store.get("s").get_var("v")) == (["before", "during"], 1)
        bring_up_to_date()
        monkeypatch.undo()
        with pytest.raises(clew.errors.SchemaTooNewError):
            say(store.get("s"), "after")
