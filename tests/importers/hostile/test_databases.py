"""S-34, S-57: of the database of another program only tables are read, whatever else its author put there."""

from __future__ import annotations

import os
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import apsw
import pytest

from clew.importers.contract import Problem
from clew.importers.programs import goose, llm, tingly_box
from clew.importers.programs.opencode import reader as opencode
from clew.importers.reading import sqlite
from tests.importers.programs import test_goose, test_llm, test_opencode, test_tingly_box
from tests.importers.readers import tree_bytes
from tests.support.rows import each_row

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"


class Kind(NamedTuple):
    reader: ModuleType
    schema: str
    file: str
    row: str
    """Of a session: what is read first, and leads to the rest."""
    id: str = "a"


KINDS = {
    "opencode": Kind(
        opencode,
        test_opencode.SCHEMA,
        "opencode.db",
        "INSERT INTO session (id, time_created, directory) VALUES ('a', 1, '/w')",
    ),
    "goose": Kind(
        goose,
        test_goose.SCHEMA,
        "sessions.db",
        "INSERT INTO sessions (id, created_at) VALUES ('a', '2026-04-03 10:00:00')",
    ),
    "llm": Kind(
        llm,
        test_llm.OLD + test_llm.EXTRAS,
        "logs.db",
        "INSERT INTO responses (id, prompt, response, conversation_id, datetime_utc)"
        f" VALUES ('a', 'p', 'r', 'c', '{test_llm.TIME}')",
        "c",
    ),
    "llm threads": Kind(
        llm,
        test_llm.NEW,
        "logs.db",
        "INSERT INTO threads (id, tip_message_hash) VALUES ('a', 'h')",
    ),
    "tingly": Kind(
        tingly_box,
        f"{test_tingly_box.SESSIONS};{test_tingly_box.MESSAGES}",
        "tingly.db",
        f"INSERT INTO remote_cc_sessions VALUES ('a', 'completed', '', '', '', '{test_tingly_box.TIME}',"
        f" '{test_tingly_box.TIME}', '{test_tingly_box.ZERO}', NULL)",
    ),
}
INSTEAD = {
    "an endless view": f"CREATE VIEW {{name}} AS {ENDLESS} SELECT {{values}} FROM n",
    "a virtual table": "CREATE VIRTUAL TABLE {name} USING fts5 ({names})",
    "computed columns": "CREATE TABLE {name} (zero, {computed})",
}


_NAMES = "SELECT name FROM sqlite_schema WHERE rootpage > 0 AND sql > ''"


def tables_of(schema: str) -> dict[str, list[str]]:
    with closing(apsw.Connection(":memory:")) as db:
        db.execute(schema)
        names = [row[0] for row in db.execute(_NAMES)]
        tables = [name for name in names if not name.startswith("sqlite_")]
        return {name: [row[1] for row in db.execute(f"PRAGMA table_info({name})")] for name in tables}


CASES = [(kind, table) for kind, about in KINDS.items() for table in tables_of(about.schema)]


def make(directory: Path, kind: str, *, without: str | None = None, instead: str = "") -> Path:
    about = KINDS[kind]
    path = directory / about.file
    with closing(apsw.Connection(str(path))) as db:
        db.execute(about.schema)
        if f"INTO {without} " not in about.row:
            db.execute(about.row)
        if without is not None:
            columns = [f'"{name}"' for name in tables_of(about.schema)[without]]
            statement = INSTEAD[instead].format(
                name=without,
                values=", ".join(f"x AS {name}" for name in columns),
                names=", ".join(columns),
                computed=", ".join(f"{name} AS (hex(zero))" for name in columns),
            )
            db.execute(f"DROP TABLE {without}")
            db.execute(statement)
            if instead == "computed columns":
                db.execute(f"INSERT INTO {without} (zero) VALUES (0)")
    return path


def read(kind: str, path: Path) -> tuple[list[str], list[Problem]]:
    """The ids of its sessions, as the program calls them, and what is told."""
    ids, problems = [], list[Problem]()
    for session in KINDS[kind].reader.read(path, problems.append, lambda _: None):
        list(session.entries)
        list(session.usage())
        ids.append(session.id.partition(":")[2])
    return ids, problems


@each_row("kind", KINDS)
def test_what_is_only_in_the_log_of_a_running_program_is_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / KINDS[kind].file
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(KINDS[kind].schema)
        db.execute(KINDS[kind].row)
        before = tree_bytes(tmp_path)
        assert before[f"{path.name}-wal"]

        assert sqlite.tables(path) == tables_of(KINDS[kind].schema).keys()
        assert read(kind, path) == ([KINDS[kind].id], [])
        assert tree_bytes(tmp_path) == before


@each_row("kind", KINDS)
def test_a_database_at_rest_is_read_without_a_file_beside_it(tmp_path: Path, kind: str) -> None:
    path = make(tmp_path, kind)
    with closing(apsw.Connection(str(path))) as db:
        db.execute("PRAGMA journal_mode = WAL")
    before = tree_bytes(tmp_path)
    assert list(before) == [path.name]
    assert read(kind, path) == ([KINDS[kind].id], [])
    assert tree_bytes(tmp_path) == before


@each_row("kind", KINDS)
def test_a_damaged_database_is_a_problem_and_no_error(tmp_path: Path, kind: str) -> None:
    path = make(tmp_path, kind)
    raw = path.read_bytes()
    path.write_bytes(raw[:4096] + b"\xff" * (len(raw) - 4096))
    sessions, problems = read(kind, path)
    assert (sessions, len(problems)) == ([], 1)


@each_row(("kind", "table"), CASES)
@each_row("instead", INSTEAD)
def test_s34_what_stands_in_the_place_of_a_table_is_not_read(
    tmp_path: Path, kind: str, table: str, instead: str
) -> None:
    path = make(tmp_path, kind, without=table, instead=instead)
    before = tree_bytes(tmp_path)

    read(kind, path)

    assert table not in sqlite.tables(path)
    with sqlite.opened(path) as db, pytest.raises((apsw.AuthError, apsw.SQLError)):
        list(db.execute(f"SELECT * FROM {table} LIMIT 1"))
    assert tree_bytes(tmp_path) == before


@each_row("statement", ["ATTACH 'x' AS y", "PRAGMA table_list", "CREATE TABLE t (x)", "DELETE FROM session"])
def test_s34_nothing_but_reading_is_done_to_a_copy(tmp_path: Path, statement: str) -> None:
    path = make(tmp_path, "opencode")

    with sqlite.opened(path) as db, pytest.raises(apsw.AuthError):
        db.execute(statement)


def test_s49_a_file_that_a_journal_names_is_not_removed(tmp_path: Path) -> None:
    """SQLite would do so when it undoes, in a copy, what the journal says."""
    path = make(tmp_path, "opencode")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    name = os.fsencode(victim)
    magic = bytes.fromhex("d9d505f920a163d7")
    header = magic + struct.pack(">5I", 0, 0, path.stat().st_size // 4096, 512, 4096)
    end = struct.pack(">I", 2**30 // 4096 + 1) + name + struct.pack(">2I", len(name), sum(name)) + magic
    Path(f"{path}-journal").write_bytes(header.ljust(512, b"\0") + end)
    before = tree_bytes(tmp_path)

    _, (problem,) = read("opencode", path)

    assert "names another file" in problem.reason
    assert tree_bytes(tmp_path) == before


def test_s06_a_log_that_is_a_link_is_not_copied(tmp_path: Path) -> None:
    path = make(tmp_path, "opencode")
    (tmp_path / "secret").write_text("secret")
    Path(f"{path}-wal").symlink_to(tmp_path / "secret")

    _, (problem,) = read("opencode", path)

    assert "opencode.db-wal is a link" in problem.reason
