"""S-33, S-57: the owner of a database has no code run with the rights of whoever opens a store in it.

Mallory owns a database, and with it the schema of a store; the superuser opens that store. Everything that
Mallory can plant there would write `session_user` into a table: it is to stay empty.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg
import pytest

import clew
from clew.errors import BackendError
from clew.testing.backend.base import said, say
from tests.backends.postgres.servers.pooler import pooler

Connection = psycopg.Connection[tuple[object, ...]]


class Trap(NamedTuple):
    """A database of Mallory's, with a store in it."""

    mallory: str
    """The address by which Mallory comes."""
    victim: str
    """And the superuser."""

    def plant(self, *statements: str) -> None:
        with psycopg.connect(self.mallory, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def shadow(self) -> None:
        """Have everything of the server looked for in Mallory's schema first."""
        self.plant(SHADOWS, f"ALTER DATABASE {self.role} SET search_path = evil, pg_catalog")

    @property
    def role(self) -> str:
        """Of Mallory; the database has the same name."""
        return self.mallory.rpartition("/")[2]

    def caught(self) -> list[object]:
        """Under whose rights Mallory's code ran, Mallory's own aside."""
        with psycopg.connect(self.mallory) as connection:
            rows = connection.execute("SELECT who FROM evil.caught WHERE who <> current_user").fetchall()
        return [who for (who,) in rows]


PREPARE = """
CREATE SCHEMA evil;
CREATE TABLE evil.caught (who text);
GRANT ALL ON SCHEMA evil, public TO public;
GRANT ALL ON evil.caught TO public;
CREATE FUNCTION evil.note() RETURNS boolean LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO evil.caught VALUES (current_user); RETURN true; EXCEPTION WHEN OTHERS THEN RETURN true;
  END $$;
CREATE FUNCTION evil.note(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS
  $$ BEGIN PERFORM evil.note(); RETURN $1; END $$;
CREATE FUNCTION evil.on_change() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.note(); RETURN NEW; END $$;
"""


@contextmanager
def database(postgres_url: str) -> Iterator[Trap]:
    role = f"mallory_{uuid.uuid4().hex[:8]}"
    base = postgres_url.partition("?")[0].rpartition("/")[0]
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN".encode())
        admin.execute(f"CREATE DATABASE {role} OWNER {role}".encode())
        try:
            made = Trap(f"{base}/{role}".replace("clew@", f"{role}@"), f"{base}/{role}")
            made.plant(PREPARE)
            with clew.open(made.mallory) as store:
                say(store.create("s"), "a")
            yield made
        finally:
            admin.execute(f"DROP DATABASE {role} WITH (FORCE)".encode())
            admin.execute(f"DROP ROLE {role}".encode())


@pytest.fixture
def trap(postgres_url: str) -> Iterator[Trap]:
    with database(postgres_url) as made:
        yield made


@pytest.fixture(scope="module")
def shared_trap(postgres_url: str) -> Iterator[Trap]:
    """For those that plant in a schema of their own."""
    with database(postgres_url) as made:
        yield made


# The same functions, operators, types and tables as the server's own.
SHADOWS = """
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.note(); RETURN pg_catalog.clock_timestamp(); END $$;
CREATE FUNCTION evil.current_setting(text) RETURNS text LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.note(); RETURN pg_catalog.current_setting($1); END $$;
CREATE FUNCTION evil.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.note(); END $$;
CREATE FUNCTION evil.pg_advisory_xact_lock(bigint) RETURNS void LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.note(); END $$;
CREATE FUNCTION evil.int8eq(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.note(); RETURN pg_catalog.int8eq($1, $2); END $$;
CREATE OPERATOR evil.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.int8eq);
CREATE FUNCTION evil.nameeq(name, name) RETURNS boolean LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.note(); RETURN pg_catalog.nameeq($1, $2); END $$;
CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = name, FUNCTION = evil.nameeq);
CREATE DOMAIN evil.text AS pg_catalog.text CHECK (evil.note());
CREATE VIEW evil.pg_class AS SELECT *, evil.note() FROM pg_catalog.pg_class;
"""


def use(url: str) -> None:
    with clew.open(url) as store:
        assert said(store.get("s"))[0] == "a"
        s = store.session("mine")
        say(s, "b")
        s.checkpoint("c")
        s.rewind(0)
        s.add_event("t", {"a": 1})
        store.search("b")
        store.list(where={"a": "b"})
        store.stats()
        store.flush()


def test_s33_a_search_path_of_the_owner_leads_to_none_of_his_functions(trap: Trap) -> None:
    trap.shadow()
    use(trap.victim)
    assert trap.caught() == []


@pytest.mark.needs("pgbouncer")
@pytest.mark.parametrize("options", ["", "?pgbouncer=1"])
def test_s33_nor_does_it_behind_a_pooler_where_nothing_is_left_for_others(trap: Trap, options: str) -> None:
    """The sessions of the server are other clients' too: the path of theirs is as they find it elsewhere."""
    trap.shadow()
    with pooler(trap.victim) as address:
        use(f"{address}{options}")
        use(f"{address}{options}")
        with psycopg.connect(address, autocommit=True) as other:
            paths = {other.execute("SHOW search_path", prepare=False).fetchone() for _ in range(8)}
    assert paths == {("evil, pg_catalog",)}
    assert trap.caught() == []


def test_s33_a_table_for_a_while_hides_none_of_the_servers(trap: Trap) -> None:
    """Temporary ones come first, unless they are named last."""
    trap.shadow()
    with clew.open(trap.victim) as store, store._engine.backend.read() as reader:
        line = reader.connection  # type: ignore[attr-defined]
        line.run([("CREATE TEMPORARY TABLE pg_class (oid bigint)", ())])
        assert line.ask("SELECT count(*) > 100 FROM pg_class", ()) == [(True,)]


def test_s33_a_store_is_made_and_migrated_with_the_servers_own_types(trap: Trap) -> None:
    trap.shadow()
    with clew.open(f"{trap.victim}?schema=other") as store:
        say(store.create("s"), "a")
    use(f"{trap.victim}?schema=other")
    assert trap.caught() == []


PLANTED = {
    "a view": (
        "ALTER TABLE clew.sessions RENAME TO real_sessions",
        "CREATE VIEW clew.sessions AS SELECT * FROM clew.real_sessions WHERE evil.note()",
    ),
    "view of the version": (
        "ALTER TABLE clew.meta RENAME TO real_meta",
        "CREATE VIEW clew.meta AS SELECT * FROM clew.real_meta WHERE evil.note()",
    ),
    "trigger": ("CREATE TRIGGER t BEFORE INSERT ON clew.names EXECUTE FUNCTION evil.on_change()",),
    "rule": ("CREATE RULE r AS ON INSERT TO clew.entries DO ALSO SELECT evil.note()",),
    "policy": (
        "ALTER TABLE clew.names ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY p ON clew.names USING (evil.note())",
    ),
    "a default": ("ALTER TABLE clew.facets ADD COLUMN more boolean DEFAULT evil.note()",),
    "generated column": (
        "ALTER TABLE clew.names ADD COLUMN more bigint GENERATED ALWAYS AS (evil.note(sid)) STORED",
    ),
    "a check": ("ALTER TABLE clew.names ADD CONSTRAINT c CHECK (evil.note()) NOT VALID",),
    "a type": (
        "CREATE DOMAIN evil.id AS bigint",
        "ALTER TABLE clew.names ALTER COLUMN sid TYPE evil.id",
        "ALTER DOMAIN evil.id ADD CONSTRAINT c CHECK (evil.note()) NOT VALID",
    ),
    "an index": ("CREATE INDEX i ON clew.names (evil.note(sid))",),
    "index of some": ("CREATE INDEX i ON clew.names (sid) WHERE evil.note(sid) > 0",),
    "child": (
        "CREATE TABLE evil.names () INHERITS (clew.names)",
        "CREATE RULE r AS ON UPDATE TO evil.names DO ALSO SELECT evil.note()",
    ),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_s57_what_an_owner_planted_among_the_tables_is_refused_before_it_runs(
    shared_trap: Trap, kind: str
) -> None:
    schema = kind.replace(" ", "_")
    clew.open(f"{shared_trap.mallory}?schema={schema}").close()
    shared_trap.plant(*(statement.replace("clew.", f"{schema}.") for statement in PLANTED[kind]))
    address = f"{shared_trap.victim}?schema={schema}"
    for one in (address, f"{address}&read_only=1", f"{address}&pgbouncer=1"):
        with pytest.raises(
            BackendError, match="was not made by Clew, and would run code of the role 'mallory"
        ):
            clew.open(one)
    assert shared_trap.caught() == []


def test_s57_the_error_names_the_thing_and_the_next_step(trap: Trap) -> None:
    trap.plant('CREATE TRIGGER "au dit" BEFORE INSERT ON clew.names EXECUTE FUNCTION evil.on_change()')
    with pytest.raises(BackendError) as raised:
        clew.open(trap.victim)
    assert 'the trigger "au dit" of "clew".names was not made by Clew' in str(raised.value)
    assert "Drop it, or open the store as the role that made it" in str(raised.value)


def test_s57_a_trigger_of_one_who_may_make_triggers_is_refused_to_the_owner_too(
    trap: Trap, postgres_url: str
) -> None:
    """The right to make them can be granted without ownership."""
    other = f"trudy_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {other} LOGIN".encode())
        try:
            trap.plant(f"GRANT USAGE ON SCHEMA clew TO {other}", f"GRANT TRIGGER ON clew.names TO {other}",
                       f"GRANT ALL ON SCHEMA evil TO {other}")  # fmt: skip
            Trap(trap.mallory.replace(f"{trap.role}@", f"{other}@"), "").plant(
                "CREATE FUNCTION evil.hers() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
                "CREATE TRIGGER t BEFORE INSERT ON clew.names EXECUTE FUNCTION evil.hers()",
            )
            with pytest.raises(BackendError, match="'trudy"):
                clew.open(trap.mallory)
        finally:
            with psycopg.connect(trap.victim, autocommit=True) as there:
                there.execute(f"DROP OWNED BY {other} CASCADE".encode())
            admin.execute(f"DROP ROLE {other}".encode())


def test_who_planted_it_and_who_may_do_everything_anyway_are_trusted(trap: Trap) -> None:
    """An owner may watch the own tables; so may a superuser."""
    trap.plant("CREATE TRIGGER t BEFORE INSERT ON clew.names EXECUTE FUNCTION evil.on_change()")
    use(trap.mallory)
    with psycopg.connect(trap.victim, autocommit=True) as admin:
        admin.execute("ALTER FUNCTION evil.on_change() OWNER TO clew")
    use(trap.victim)


SETTINGS = ("bytea_output = 'escape'", "quote_all_identifiers = on", "standard_conforming_strings = off")


@pytest.mark.parametrize("options", ["", "?partitions=4"])
def test_what_clew_makes_itself_is_let_through(trap: Trap, options: str) -> None:
    """Whoever uses a store need not own it, however the server is set to write things down."""
    for setting in SETTINGS:
        trap.plant(f"ALTER DATABASE {trap.role} SET {setting}")
    schema = f"{options}{'&' if options else '?'}schema=plain"
    with clew.open(f"{trap.mallory}{schema}") as store:
        say(store.create("s"), "a")
    use(f"{trap.victim}{schema}")
