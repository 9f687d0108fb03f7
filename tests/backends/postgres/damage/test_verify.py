"""P6, P7: `verify(full=True)` reads every table, and names what cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
from psycopg import sql

import clew
from tests.support.effort import spread

GARBAGE = b"\xff\xfe\x00garbage\xc3"


def fill(store: clew.Store, work: Path) -> None:
    work.mkdir()
    for number in range(5):
        (work / f"file-{number}").write_bytes(os.urandom(200))
    for n in range(3):
        session = store.session(
            f"s{n}", workspace="/w", title=f"title {n}", tags=["t"], metadata={"chat": str(n)}
        )
        for number in range(6):
            session.append({"role": "user", "content": f"message {number}"}, key=f"k{number}")
            session.add_event("tool", {"n": number}, stream="ui", id=f"e{number}")
            session.add_usage(
                model="m", vendor="v", endpoint="e", source="x", input_tokens=number, output_tokens=1,
                id=f"u{number}",
            )  # fmt: skip
        session.set_var("mood", n)
        session.annotate(2, label="gold")
        session.add_alias(f"alias-{n}")
        session.checkpoint("here", files=work, state={"n": n})
    store.session("trash").append({"role": "user", "content": "bye"})
    store.delete("trash")
    assert store.search("message").hits


def test_garbage_in_each_column_is_named(postgres_place: str, tmp_path: Path) -> None:
    """One row of each table at a time, and everything else is looked at still."""
    schema = postgres_place.partition("schema=")[2]
    server = postgres_place.partition("?")[0]
    with clew.open(postgres_place) as store:
        fill(store, tmp_path / "work")
        assert store.verify(full=True).problems == ()
        silent = []
        with psycopg.connect(server) as connection:
            connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(schema)))
            columns = connection.execute(
                "SELECT table_name, column_name, data_type FROM information_schema.columns"
                " WHERE table_schema = %s AND data_type IN ('bytea', 'text') ORDER BY 1, 2",
                (schema,),
            ).fetchall()
            connection.commit()
            for table, column, kind in spread(columns, len(columns), quick=9):
                names = {"t": sql.Identifier(table), "c": sql.Identifier(column)}
                row = connection.execute(
                    sql.SQL("SELECT ctid, {c} FROM {t} WHERE {c} IS NOT NULL ORDER BY ctid LIMIT 1").format(
                        **names
                    )
                ).fetchone()
                if row is None or table == "meta":
                    continue
                change = sql.SQL(
                    "UPDATE {t} SET {c} = %s WHERE {c} = %s AND ctid = %s RETURNING ctid"
                ).format(**names)
                garbage = GARBAGE if kind == "bytea" else "garbage"
                placed = connection.execute(change, (garbage, row[1], row[0])).fetchone()
                connection.commit()
                assert placed is not None
                if store.verify(full=True).ok:
                    silent.append(f"{table}.{column}")
                connection.execute(change, (row[1], garbage, placed[0]))
                connection.commit()
        assert store.verify(full=True).problems == ()
    assert silent == []
