"""Stores of each kind, and rows of branches in them that Clew would never write."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import msgspec
import psycopg
import pytest

from clew.backends.contract import Backend
from clew.backends.jsonl import JsonlBackend
from clew.backends.memory import MemoryBackend
from clew.backends.postgres import PostgresBackend
from clew.backends.sqlite import SqliteBackend
from clew.core.log import jsonl
from clew.core.log.rows import BranchRow

KINDS = ("memory", "sqlite", "jsonl", "postgres")

Change = Callable[[BranchRow], BranchRow]


def make(kind: str, place: Path, request: pytest.FixtureRequest) -> Backend:
    match kind:
        case "memory":
            return MemoryBackend()
        case "sqlite":
            return SqliteBackend(place / "store.db")
        case "jsonl":
            return JsonlBackend(place / "store")
        case _:
            return PostgresBackend(request.getfixturevalue("emptied_postgres"))


def forged(backend: Backend, change: Change) -> Backend:
    """The same store, opened again, with other rows of branches: behind the back of Clew."""
    match backend:
        case MemoryBackend():
            branches = backend._tables.branches
            branches.update({number: change(row) for number, row in branches.items()})
            return backend
        case JsonlBackend():  # first: it is an SqliteBackend too
            root = Path(backend.location)
            backend.close()
            _forge_jsonl(root, change)
            return JsonlBackend(root)
        case SqliteBackend():
            path = Path(backend.location)
            backend.close()
            _forge_sqlite(path, change)
            return SqliteBackend(path)
        case PostgresBackend():
            backend.close()
            _forge_postgres(backend, change)
            return PostgresBackend(backend.location)
        case _:
            raise AssertionError(backend)


def _changed(rows: list[Any], change: Change) -> list[tuple[Any, ...]]:
    """What to write for these rows, the number of the branch last."""
    found = [change(BranchRow(*row)) for row in rows]
    return [(row.tree, row.owner, row.parent, row.fork, row.branch) for row in found]


def _forge_sqlite(path: Path, change: Change) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        rows = list(connection.execute("SELECT branch, uid, tree, owner, parent, fork FROM branches"))
        statement = "UPDATE branches SET tree = ?, owner = ?, parent = ?, fork = ? WHERE branch = ?"
        connection.executemany(statement, _changed(rows, change))


def _forge_postgres(backend: PostgresBackend, change: Change) -> None:
    with psycopg.connect(backend.location.partition("?")[0], autocommit=True) as connection:
        table = f"{backend.database.schema.quoted}.branches"
        rows = connection.execute(
            f"SELECT branch, uid, tree, owner, parent, fork FROM {table}".encode()
        ).fetchall()
        statement = f"UPDATE {table} SET tree = %s, owner = %s, parent = %s, fork = %s WHERE branch = %s"
        connection.cursor().executemany(statement.encode(), _changed(rows, change))


def _forge_jsonl(root: Path, change: Change) -> None:
    for log in (root / "sessions").rglob("*.jsonl"):
        log.write_bytes(forged_lines(log.read_bytes(), change))
    for index in root.glob("index*"):
        index.unlink() if index.is_file() else shutil.rmtree(index)


def forged_lines(content: bytes, change: Change) -> bytes:
    """A log, or an exported session, with other rows of branches and right checksums."""
    made = []
    for text in content.splitlines():
        is_last, rest = jsonl.open_line(text)
        line = jsonl.decode(rest)
        if isinstance(line, jsonl.BranchLine):
            rest = jsonl.encode(msgspec.structs.replace(line, row=change(line.row)))
        made.append(jsonl.finish(rest, is_last=is_last))
    return b"".join(made)
