"""Putting values into the rows of a database that its schema would not take, as a hostile owner can."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw

SIDE_FILES = ("-wal", "-shm", "-journal")
VALUES: dict[str, Any] = {
    "NULL": None,
    "-1": -1,
    "0": 0,
    "most": 2**63 - 1,
    "least": -(2**63),
    "real": 1.5,
    "no text": "",
    "text": "x\u00e9\n\x1b[31m\x00y",
    "huge text": "h" * 100_000,
    "no bytes": b"",
    "bytes": bytes(range(128, 168)),
    "JSON": b'{"a":[1,null,{"b":-1}]}',
    "bad UTF-8": "CAST(x'ff41fe' AS TEXT)",
}
FLIP, DROP = "one bit", "lost row"


class Harm(NamedTuple):
    table: str
    column: str
    row: tuple[Any, ...]
    """The primary key."""
    value: str
    """A name of VALUES, FLIP or DROP."""

    def __str__(self) -> str:
        return f"{self.table}.{self.column} of {self.row}: {self.value}"


def loosened(store: Path, place: Path) -> dict[str, str]:
    """A copy of a store whose schema takes any value; the schema as it was."""
    copy(store, place)
    connection = apsw.Connection(str(place))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    schema = dict(connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql > ''"))
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    connection.execute("PRAGMA writable_schema = ON")
    for name, sql in schema.items():
        if sql.endswith("STRICT") or "STRICT, WITHOUT ROWID" in sql:
            loose = sql.replace("STRICT, WITHOUT ROWID", "WITHOUT ROWID").removesuffix("STRICT")
            for kind in (
                "INTEGER NOT NULL",
                "TEXT    NOT NULL",
                "TEXT NOT NULL",
                "BLOB    NOT NULL",
                "BLOB NOT NULL",
            ):
                loose = loose.replace(kind, "")
            for kind in (" TEXT", " INTEGER,"):
                loose = loose.replace(kind, "," if kind.endswith(",") else "")
            connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (loose, name))
    connection.close()
    return schema


def copy(source: Path, place: Path) -> None:
    for tail in ("", *SIDE_FILES):
        there = source.with_name(source.name + tail)
        place.with_name(place.name + tail).unlink(missing_ok=True)
        if there.exists():
            shutil.copyfile(there, place.with_name(place.name + tail))


def harms(store: Path, pick: str) -> Iterator[Harm]:
    """Everything that can be done to the rows of the session with a name, and to those of the store."""
    connection = apsw.Connection(str(store))
    tables = [
        name
        for (name,) in connection.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
            " AND name NOT LIKE 'sqlite_%'"
        )
    ]
    sid = connection.execute("SELECT sid FROM sessions WHERE id = ?", (pick,)).get
    branches = [
        branch for (branch,) in connection.execute("SELECT branch FROM branches WHERE owner = ?", (sid,))
    ]
    seen: set[tuple[Any, ...]] = set()
    for table in sorted(tables):
        columns = list(connection.execute(f"SELECT name, pk FROM pragma_table_info('{table}') ORDER BY cid"))
        keys = [name for name, pk in columns if pk]
        if not keys:
            continue
        names = [name for name, _ in columns]
        for found in connection.execute(f'SELECT * FROM "{table}"').fetchall():
            row = dict(zip(names, found, strict=True))
            if not _is_of(table, row, sid, branches):
                continue
            at = tuple(row[key] for key in keys)
            if (table, row.get("kind")) in seen:
                continue  # one of each kind will do
            seen.add((table, row.get("kind")))
            yield Harm(table, keys[0], at, DROP)
            for column in names:
                if row[column] is not None:
                    yield Harm(table, column, at, FLIP)
                for value in VALUES:
                    yield Harm(table, column, at, value)
    connection.close()


def _is_of(table: str, row: dict[str, Any], sid: int, branches: list[int]) -> bool:
    """Not the rows of the other sessions: what is done to those is theirs to bear."""
    if "sid" in row:
        return row["sid"] in (sid, 0)
    if table == "branches":
        return row["branch"] in branches
    if table in ("events", "usage"):
        return int(row["key"]) >> 32 == sid
    if table == "entries":
        return int(row["key"]) >> 32 in branches
    return True


def put(loose: Path, schema: dict[str, str], place: Path, harm: Harm) -> bool:
    """The store at `place`, harmed, with the schema as it was. False: SQLite itself does not take it."""
    copy(loose, place)
    connection = apsw.Connection(str(place))
    try:
        keys = [
            name
            for name, pk in connection.execute(f"SELECT name, pk FROM pragma_table_info('{harm.table}')")
            if pk
        ]
        where = " AND ".join(f"{key} IS ?" for key in keys)
        if harm.value == DROP:
            connection.execute(f'DELETE FROM "{harm.table}" WHERE {where}', harm.row)
        else:
            sql, given = "?", [VALUES.get(harm.value)]
            if harm.value == FLIP:
                ((old,),) = connection.execute(
                    f'SELECT {harm.column} FROM "{harm.table}" WHERE {where}', harm.row
                ).fetchall()
                given = [_flipped(old)]
            elif harm.value == "bad UTF-8":
                sql, given = VALUES["bad UTF-8"], []
            connection.execute(
                f'UPDATE "{harm.table}" SET {harm.column} = {sql} WHERE {where}', (*given, *harm.row)
            )
    except (apsw.MismatchError, apsw.ConstraintError):
        return False
    finally:
        connection.close()
    connection = apsw.Connection(str(place))
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    connection.execute("PRAGMA writable_schema = ON")
    for name, sql in schema.items():
        connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ? AND sql <> ?", (sql, name, sql))
    connection.close()
    return True


def _flipped(old: Any) -> Any:
    if isinstance(old, int):
        return old ^ 1 << 40 if old else 1 << 5
    raw = bytearray(old.encode() if isinstance(old, str) else old)
    if not raw:
        return old
    raw[len(raw) // 2] ^= 4
    return raw.decode(errors="replace") if isinstance(old, str) else bytes(raw)
