"""Opening a store: who may, what is made, and what is never shown."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import clew
from clew.backends.postgres import PostgresBackend, migrate
from clew.backends.postgres.migrate import MIGRATIONS, SMALL, TABLES
from clew.errors import (
    BackendUnavailableError,
    ClewError,
    InvalidUrlError,
    ReadOnlyError,
    SchemaTooNewError,
    SchemaTooOldError,
    StoreNotFoundError,
)
from clew.testing.backend.base import said, say
from tests.backends.postgres.servers.cluster import drop_schema
from tests.backends.together import in_threads

SECRET = "s3cr3t-p@ss"
ENCODED = "s3cr3t-p%40ss"


def schema_of(place: str) -> str:
    return place.partition("schema=")[2]


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


# -- the address


def test_a_store_is_opened_by_its_address(postgres_place: str) -> None:
    """postgresql:// and postgres://; the schema is in the address or is an option."""
    with clew.open(postgres_place) as store:
        say(store.create("s"), "a")
    plain = postgres_place.partition("?")[0].replace("postgresql://", "postgres://")
    with clew.open(plain, schema=schema_of(postgres_place)) as store:
        assert said(store.get("s")) == ["a"]


def test_a_password_is_in_no_representation(postgres_place: str) -> None:
    """S-33: a store shows where it is, and not how one gets in."""
    with clew.open(postgres_place.replace("clew@", f"clew:{ENCODED}@")) as store:
        shown = repr(store) + repr(store._engine.backend) + store._engine.backend.location
        assert SECRET not in shown
        assert ENCODED not in shown
        assert "clew@127.0.0.1" in shown


def test_a_wrong_password_is_told_without_it(admin: psycopg.Connection[tuple[object, ...]]) -> None:
    with pytest.raises(BackendUnavailableError) as caught:
        clew.open(f"postgresql://nobody_here:{ENCODED}@127.0.0.1:{admin.info.port}/postgres")
    assert "nobody_here" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_an_option_that_there_is_not_is_refused(postgres_place: str) -> None:
    with pytest.raises(InvalidUrlError):
        clew.open(postgres_place, scrub="clean")
    with pytest.raises(InvalidUrlError):
        clew.open(f"{postgres_place}&pool=many")


def test_an_option_that_is_no_option_is_told_without_the_address(postgres_place: str) -> None:
    """S-33: neither is the password that is in it."""
    url = postgres_place.replace("clew@", f"clew:{ENCODED}@")
    with pytest.raises(InvalidUrlError, match="nonsense") as caught:
        clew.open(url, nonsense=1)
    assert ENCODED not in str(caught.value)


def test_without_the_driver_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("clew.backends.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(BackendUnavailableError, match=re.escape("pip install 'psycopg[binary]>=3.2'")):
        clew.open("postgresql://h/d")


def test_a_schema_of_any_name_is_just_a_name(postgres_url: str) -> None:
    """S-33: SQL in the name of a schema is a name, not SQL."""
    name = f'x"; DROP SCHEMA public; --{uuid.uuid4().hex[:6]}'
    try:
        with clew.open(postgres_url, schema=name) as store:
            say(store.create("s"), "a")
            assert said(store.get("s")) == ["a"]
    finally:
        drop_schema(postgres_url, name.replace('"', '""'))
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT to_regnamespace('public') IS NOT NULL").fetchone() == (True,)


# -- the schema


def test_those_that_find_no_tables_at_the_same_moment_make_them_once(
    postgres_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-45: eight that all saw that there is nothing, and all begin now."""
    together, whole = threading.Barrier(8), migrate._migrate

    def at_once(*given: Any) -> None:
        together.wait()
        whole(*given)

    monkeypatch.setattr(migrate, "_migrate", at_once)
    for backend in in_threads(PostgresBackend, [postgres_place] * 8):
        backend.close()


def test_one_that_is_killed_half_way_leaves_nothing(
    postgres_place: str, admin: psycopg.Connection[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-45: the tables are there as a whole or not at all; the next one makes them."""

    def die(*_: object) -> list[Any]:
        ended = admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'doomed'"
        )
        assert ended.fetchall() == [(True,)]
        return []

    with monkeypatch.context() as patch:
        patch.setattr(migrate, "_room", die)
        with pytest.raises(ClewError):
            PostgresBackend(f"{postgres_place}&application_name=doomed", partitions=4)
    found = "SELECT to_regclass(%s) IS NULL"
    assert admin.execute(found, (f"{schema_of(postgres_place)}.sessions",)).fetchone() == (True,)

    with clew.open(postgres_place) as store:
        say(store.create("s"), "a")
        assert said(store.get("s")) == ["a"]


def test_a_store_that_is_not_there_can_not_be_read(postgres_place: str) -> None:
    with pytest.raises(StoreNotFoundError):
        clew.open(postgres_place, read_only=True)


def test_a_store_that_is_open_for_reading_takes_no_write(postgres_place: str) -> None:
    with clew.open(postgres_place) as store:
        say(store.create("s"), "a")
    with clew.open(postgres_place, read_only=True) as store:
        assert said(store.get("s")) == ["a"]
        with pytest.raises(ReadOnlyError):
            say(store.get("s"), "b")


def test_a_partitioned_store_is_as_any_other(
    postgres_place: str, admin: psycopg.Connection[tuple[object, ...]]
) -> None:
    """Every table is spread by its key, and says how."""
    with clew.open(postgres_place, partitions=4) as store:
        sessions = [store.create(f"s{number}") for number in range(8)]
        for session in sessions:
            say(session, "a", "b")
        sessions[0].fork("f")
        store.delete("s1", purge=True)
        assert [said(session) for session in sessions[2:]] == [["a", "b"]] * 6
        assert store.stats().sessions == 8
        assert store.stats().messages == 14
    parts = admin.execute(
        "SELECT count(*) FROM pg_inherits JOIN pg_class ON oid = inhparent"
        " WHERE relkind = 'p' AND relnamespace = to_regnamespace(%s)::oid",
        (schema_of(postgres_place),),
    ).fetchone()
    assert parts == (4 * (len(TABLES) - len(SMALL)),)


def test_a_role_that_may_only_use_the_tables_opens_the_store(
    postgres_place: str, admin: psycopg.Connection[tuple[object, ...]]
) -> None:
    """S-33: roles.sql gives an application what it needs, and no right to change the schema."""
    from importlib import resources

    role, schema = f"app_{uuid.uuid4().hex[:8]}", schema_of(postgres_place)
    with clew.open(postgres_place) as store:
        say(store.create("s"), "a")
    script = resources.files("clew.backends.postgres").joinpath("roles.sql").read_text("utf-8")
    admin.execute(f"CREATE ROLE {role} LOGIN".encode())
    try:
        admin.execute(script.replace("clew_app", role).replace("SCHEMA clew", f"SCHEMA {schema}").encode())
        with clew.open(postgres_place.replace("clew@", f"{role}@")) as store:
            say(store.get("s"), "b")
            store.delete("s", purge=True)
            assert store.find("s") is None
        with pytest.raises(ReadOnlyError):
            clew.open(postgres_place.replace("clew@", f"{role}@").replace(schema, f"{schema}_other"))
    finally:
        admin.execute(f"DROP OWNED BY {role}".encode())
        admin.execute(f"DROP ROLE {role}".encode())


# -- the server


def test_the_clock_is_that_of_the_server(postgres_place: str) -> None:
    with clew.open(postgres_place) as store:
        backend = store._engine.backend
        first = backend.clock()
        assert first is not None
        assert abs(first - time.time_ns() // 1000) < 60_000_000
        assert (backend.clock() or 0) >= first


def test_durability_is_what_the_server_promises(postgres_place: str) -> None:
    """Without `fsync` an acknowledged write survives the process, and no more is promised."""
    backend = PostgresBackend(postgres_place)
    with psycopg.connect(postgres_place.partition("?")[0]) as connection:
        (fsync,) = connection.execute("SHOW fsync").fetchone() or ("",)
    assert backend.capabilities.durability == ("full" if fsync == "on" else "process")
    backend.close()


NEXT_STEP = """
ALTER TABLE {s}.sessions ADD COLUMN colour text NOT NULL DEFAULT 'blue';
CREATE TABLE {s}.palette (home bigint NOT NULL PRIMARY KEY) {by home};
"""


@pytest.fixture
def one_migration_more(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """This process is a Clew of tomorrow, as far as making tables goes."""
    text = migrate._text
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "MIGRATIONS", {**MIGRATIONS, 11: "0011_next.sql"})
        patch.setattr(migrate, "_text", lambda name: NEXT_STEP if name == "0011_next.sql" else text(name))
        yield patch


@pytest.mark.parametrize("partitions", [0, 3])
def test_p21_a_store_of_today_is_brought_up_to_date_by_a_clew_of_tomorrow(
    postgres_place: str,
    admin: psycopg.Connection[tuple[object, ...]],
    one_migration_more: pytest.MonkeyPatch,
    partitions: int,
) -> None:
    """Nothing is lost, new tables are spread as those of the store are, and the Clew of today keeps away."""
    schema = schema_of(postgres_place)
    meta = f'SELECT version, partitions, store FROM "{schema}".meta'.encode()
    with one_migration_more.context() as today:
        today.setattr(migrate, "MIGRATIONS", MIGRATIONS)
        with clew.open(postgres_place, partitions=partitions) as store:
            say(store.create("s"), "a")
    ((version, spread, name),) = admin.execute(meta).fetchall()
    assert (version, spread) == (10, partitions)
    with pytest.raises(ReadOnlyError, match="older version"):
        clew.open(postgres_place, read_only=True)

    with clew.open(postgres_place) as store:
        assert said(store.get("s")) == ["a"]

    assert admin.execute(meta).fetchall() == [(11, partitions, name)]
    assert admin.execute(f'SELECT colour FROM "{schema}".sessions'.encode()).fetchall() == [("blue",)]
    kind = "SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass(%s)"
    assert admin.execute(kind, (f'"{schema}".palette',)).fetchone() == (partitions > 0,)
    one_migration_more.undo()
    with pytest.raises(SchemaTooNewError):
        clew.open(postgres_place)


def test_p21_a_store_of_the_format_before_is_brought_to_today(
    postgres_place: str, admin: psycopg.Connection[tuple[object, ...]]
) -> None:
    """Its tables only lack which Clew made them."""
    meta = f'"{schema_of(postgres_place)}".meta'
    with clew.open(postgres_place) as store:
        say(store.create("s"), "a")
    admin.execute(f"ALTER TABLE {meta} DROP COLUMN clew".encode())
    admin.execute(f"UPDATE {meta} SET version = 1".encode())

    with clew.open(postgres_place) as store:
        say(store.get("s"), "b")
        assert said(store.get("s")) == ["a", "b"]

    assert admin.execute(f"SELECT version, clew FROM {meta}".encode()).fetchall() == [(10, clew.__version__)]


@pytest.mark.parametrize(
    ("version", "change"),
    [
        (3, "SELECT 1"),
        (1, 'ALTER TABLE "{s}".sessions RENAME COLUMN last_user_turn TO asked'),
        (1, 'DROP INDEX "{s}".sessions_own'),
    ],
)
def test_a_store_of_an_earlier_checkout_is_refused_with_what_to_do(
    postgres_place: str, admin: psycopg.Connection[tuple[object, ...]], version: int, change: str
) -> None:
    schema = schema_of(postgres_place)
    clew.open(postgres_place).close()
    admin.execute(f'UPDATE "{schema}".meta SET version = {version}'.encode())
    admin.execute(change.replace("{s}", schema).encode())

    for read_only in (False, True):
        with pytest.raises(SchemaTooOldError, match=f"version {version} .*clew export --all.*clew import"):
            clew.open(postgres_place, read_only=read_only)


def test_a_newer_store_says_which_clew_wrote_it(
    postgres_place: str, admin: psycopg.Connection[tuple[object, ...]]
) -> None:
    schema = schema_of(postgres_place)
    clew.open(postgres_place).close()
    admin.execute(f"UPDATE \"{schema}\".meta SET version = 11, clew = '7.8.9'".encode())

    with pytest.raises(SchemaTooNewError, match=r"Clew 7\.8\.9.*upgrade Clew"):
        clew.open(postgres_place)


def test_every_migration_is_a_file() -> None:
    from importlib import resources

    folder = resources.files("clew.backends.postgres").joinpath("migrations")
    assert sorted(file.name for file in folder.iterdir()) == sorted(MIGRATIONS.values())


def test_a_forked_child_has_connections_of_its_own(postgres_place: str) -> None:
    """The parent's go on working, whatever the child does with its copies."""
    with clew.open(postgres_place) as store:
        s = store.create("s")
        say(s, "parent")
        s.messages()
        backend = store._engine.backend
        assert isinstance(backend, PostgresBackend)
        before = backend.database.writer()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                say(s, "child")
                status = 0 if said(s) == ["parent", "child"] else 2
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert backend.database.writer() is before, "the child ended the conversation of its parent"
        say(s, "parent again")

        assert said(s) == ["parent", "child", "parent again"]
