"""S-51: a value that nobody wrote, in any column of any table on a server, costs the session of its row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import sql

import clew
from clew.backends.postgres.migrate import TABLES
from tests.support.effort import spread, usually
from tests.support.everything import HARMED, build, harm_done, look

PARTS = usually(1, thorough=40)
"""All cases at once take longer than a test may."""
VALUES: dict[str, tuple[Any, ...]] = {
    "bigint": (None, -1, 0, 2**63 - 1, -(2**63)),
    "smallint": (None, -1, 99, 2**15 - 1),
    "integer": (None, -1, 0, 2**31 - 1),
    "bytea": (None, b"", b"\xff\xfe", b"h" * 100_000, b'{"a":[1,null]}'),
    "text": (None, "", "x\u00e9\n\x1b[31my", "h" * 100_000),
    "boolean": (None, True, False),
}
LOST = "lost row"


class Harm(NamedTuple):
    table: str
    column: str
    own: str
    """Which row: one of the harmed session; empty: the table has none that are of a session."""
    is_shared: bool
    value: Any

    def __str__(self) -> str:
        return f"{self.table}.{self.column}: {self.value!r:.40}"


def _harms(connection: psycopg.Connection[Any], schema: str, sid: int) -> Iterator[Harm]:
    columns = connection.execute(
        "SELECT c.table_name, c.column_name, c.data_type FROM information_schema.columns c"
        " JOIN pg_class t ON t.oid = format('%%I.%%I', c.table_schema, c.table_name)::regclass"
        " WHERE c.table_schema = %s AND NOT t.relispartition AND c.table_name <> 'meta'"
        " ORDER BY c.table_name, c.ordinal_position",
        (schema,),
    ).fetchall()
    tables: dict[str, dict[str, str]] = {}
    for table, column, kind in columns:
        tables.setdefault(table, {})[column] = kind
    for table, kinds in tables.items():
        owner = "owner" if table == "branches" else "sid"
        own = f"WHERE {owner} = {sid}" if owner in kinds else ""
        if not own and "branch" in kinds:
            own = f'WHERE branch IN (SELECT branch FROM "{schema}".branches WHERE owner = {sid})'
        yield Harm(table, "", own, not own, LOST)
        for column, kind in kinds.items():
            for value in VALUES.get(kind, (None,)):
                yield Harm(table, column, own, not own, value)


def _columns(connection: psycopg.Connection[Any], schema: str, table: str) -> sql.Composed:
    """Those that are written: others the server makes of them."""
    found = connection.execute(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = %s AND is_generated = 'NEVER'",
        (schema, table),
    )
    return sql.SQL(", ").join(sql.Identifier(name) for (name,) in found)


def _put(connection: psycopg.Connection[Any], schema: str, harm: Harm) -> bool:
    """False: the server does not take it, or there is no such row."""
    name = sql.Identifier(schema, harm.table)
    one = f"(SELECT tableoid, ctid FROM {{}} {harm.own} LIMIT 1)"
    where = sql.SQL("WHERE (tableoid, ctid) = " + one).format(name)
    try:
        if harm.value == LOST:
            done = connection.execute(sql.SQL("DELETE FROM {} {}").format(name, where))
        else:
            column = sql.Identifier(harm.column)
            change = sql.SQL("UPDATE {} SET {} = %s {}").format(name, column, where)
            done = connection.execute(change, (harm.value,))
    except psycopg.Error:
        return False
    return done.rowcount == 1


@pytest.mark.parametrize("part", range(PARTS))
def test_s51_a_bad_value_in_any_column_costs_its_session_and_no_other(
    emptied_postgres: str, tmp_path: Path, part: int
) -> None:
    (tmp_path / "files").mkdir()
    with clew.open(emptied_postgres) as store:
        build(store, tmp_path / "files")
        said = look(store, tmp_path / "out")
    plain, _, rest = emptied_postgres.partition("?schema=")
    schema = rest.partition("&")[0]
    wrong = []
    with psycopg.connect(plain, autocommit=True) as connection:
        names = {table: _columns(connection, schema, table) for table in TABLES}
        for table in TABLES:
            there, saved = sql.Identifier(schema, table), sql.Identifier(f"saved_{table}")
            make = sql.SQL("CREATE TEMP TABLE {} AS SELECT {} FROM {}")
            connection.execute(make.format(saved, names[table], there))
        ((sid,),) = connection.execute(
            sql.SQL("SELECT sid FROM {} WHERE id = %s").format(sql.Identifier(schema, "sessions")),
            (HARMED.encode(),),
        ).fetchall()
        for harm in spread(list(_harms(connection, schema, sid)), 6, quick=2)[part::PARTS]:
            if _put(connection, schema, harm):
                with clew.open(emptied_postgres) as store:
                    now = look(store, tmp_path / "out")
                found = harm_done(said, now, is_shared=harm.is_shared)
                if harm.table.startswith("texts"):  # it is made of the entries: nothing is lost with it
                    found = [one for one in found if not one.startswith("search ")]
                wrong += [f"{harm}: {told}" for told in found]
            for table in TABLES:
                there, saved = sql.Identifier(schema, table), sql.Identifier(f"saved_{table}")
                connection.execute(sql.SQL("DELETE FROM {}").format(there))
                again = sql.SQL("INSERT INTO {} ({}) SELECT * FROM {}")
                connection.execute(again.format(there, names[table], saved))
    assert said.leaks == []
    assert wrong == []
