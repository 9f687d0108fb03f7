"""S-34, S-57: a schema is a program; a store runs none but Clew's."""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path

import apsw
import pytest

import clew
from clew.backends.sqlite import SqliteBackend
from clew.backends.sqlite.schema import MIGRATIONS, STORE, expected_rows, fingerprint
from tests.backends.sqlite.children import prepare_store
from tests.faults.crash.common import message, texts

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
TABLES = [
    "sessions",
    "details",
    "branches",
    "entries",
    "records",
    "events",
    "usage",
    "packs",
    "search_entries",
]
ADDED = {
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM details; END",
    "an index on an expression": "CREATE INDEX i ON entries (length(hex(zeroblob(1000))))",
    "an index on a column": "CREATE INDEX i ON entries (time)",
    "a view": f"CREATE VIEW v AS {ENDLESS}",
    "a table": "CREATE TABLE t (x)",
    "no index": "DROP INDEX sessions_tree",
    "a default": "ALTER TABLE details ADD COLUMN more TEXT DEFAULT 'x'",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    prepare_store(tmp_path / "a.db")
    return tmp_path / "a.db"


def change(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


def change_text(path: Path, name: str, text: str) -> None:
    """Write something else into the schema than what SQLite would let anybody write there."""
    connection = apsw.Connection(str(path))
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (text, name))
    connection.close()


def refused(path: Path) -> None:
    content = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(clew.CorruptError, match="not a table as Clew makes it"):
            clew.open(path, read_only=read_only)
    assert path.read_bytes() == content


@pytest.mark.parametrize("table", TABLES)
def test_s34_an_endless_view_in_the_place_of_a_table_is_never_read(path: Path, table: str) -> None:
    columns = [row[1] for row in apsw.Connection(str(path)).execute(f"PRAGMA table_info({table})")]
    view = ", ".join(f"x AS {column}" for column in columns)
    change(
        path,
        f"DROP TABLE {table}",
        f"CREATE VIEW {table} AS SELECT {view} FROM ({ENDLESS})",
    )

    refused(path)


@pytest.mark.parametrize("name", ["SESSIONS", "sessions"])
def test_s34_a_view_that_calls_itself_a_table_is_never_read(path: Path, name: str) -> None:
    change(path, *(f"DROP INDEX sessions_{end}" for end in INDEXES))
    change_text(path, "sessions", f"CREATE VIEW {name} AS {ENDLESS}")

    with pytest.raises(clew.CorruptError):
        clew.open(path)
    with pytest.raises(clew.CorruptError):
        clew.open(path, read_only=True)


INDEXES = ["id", "activity", "workspace", "trash", "tree", "status", "running", "due"]


def test_s34_a_column_that_is_computed_is_never_read(path: Path) -> None:
    change(
        path,
        "DROP TABLE details",
        "CREATE TABLE details (sid INTEGER PRIMARY KEY, value AS (hex(zeroblob(100000000))))",
    )

    refused(path)


def test_s34_a_virtual_table_that_clew_did_not_make_is_never_read(path: Path) -> None:
    change(path, "DROP TABLE details", "CREATE VIRTUAL TABLE details USING fts5 (sid, value)")

    refused(path)


def test_s57_words_that_are_looked_up_in_a_view_are_never_read(path: Path) -> None:
    change(
        path,
        "DROP TABLE search_words",
        f"CREATE VIEW evil AS SELECT x AS said, x AS tool, x AS home FROM ({ENDLESS})",
        "CREATE VIRTUAL TABLE search_words USING fts5 (said, tool, home, content = 'evil')",
    )

    refused(path)


@pytest.mark.parametrize("what", ADDED)
def test_s57_a_store_with_a_schema_of_somebody_else_is_read_and_not_written(path: Path, what: str) -> None:
    change(path, ADDED[what], "PRAGMA journal_mode = DELETE")
    content = path.read_bytes()

    with clew.open(path) as store:
        assert len(texts(store.get("s"))) == 10
        assert [info.id for info in store.list()] == ["s"]
        with pytest.raises(clew.errors.ReadOnlyError, match=r"as Clew makes it|is missing"):
            store.get("s").append(message("x"))

    assert path.read_bytes() == content


@pytest.mark.parametrize("version", [0, -1, 2])
def test_s53_a_version_that_does_not_fit_the_tables_changes_nothing(path: Path, version: int) -> None:
    change(path, f"PRAGMA user_version = {version}", "PRAGMA wal_checkpoint(TRUNCATE)")
    content = path.read_bytes()

    with pytest.raises(clew.ClewError), clew.open(path) as store:
        store.create("x")

    assert path.read_bytes() == content


def test_what_litestream_and_analyze_add_is_no_reason_to_refuse(path: Path) -> None:
    change(
        path,
        "CREATE TABLE IF NOT EXISTS _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)",
        "CREATE TABLE IF NOT EXISTS _litestream_lock (id INTEGER)",
        "ANALYZE",
    )

    with clew.open(path) as store:
        store.get("s").append(message("x"))


@pytest.mark.parametrize("version", MIGRATIONS)
def test_a_schema_is_known_by_its_fingerprint(version: int) -> None:
    """One that is not would be compared word by word whenever a store is opened."""
    assert STORE.fingerprints[version] == fingerprint(expected_rows(version))


def run_and_press_ctrl_c(connection: apsw.Connection) -> None:
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    connection.execute(f"SELECT max(x) FROM ({ENDLESS})").fetchall()


@pytest.mark.parametrize("writing", [True, False])
def test_s34_ctrl_c_ends_a_statement_that_never_would(path: Path, writing: bool) -> None:
    """A table whose pages lead to one another has no end either, and no check at opening finds it."""
    backend = SqliteBackend(path)
    try:
        connection = backend._connections.writer if writing else backend._connections.take_reader()
        assert connection is not None
        with pytest.raises(KeyboardInterrupt):
            run_and_press_ctrl_c(connection)
    finally:
        backend.close()


def schema_pages(path: Path) -> list[int]:
    """The first page leads to those that hold the schema."""
    connection = apsw.Connection(str(path))
    try:
        name = "SELECT pageno FROM dbstat WHERE name = 'sqlite_schema' ORDER BY pageno"
        return [row[0] for row in connection.execute(name)]
    except apsw.SQLError:  # an SQLite without dbstat
        return [1, 2, 3, 4, 5]
    finally:
        connection.close()


@pytest.mark.parametrize("seed", range(40))
def test_s34_damage_anywhere_in_a_schema_is_an_error_of_ours(path: Path, seed: int) -> None:
    change(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    chance = random.Random(seed)
    content = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 2, 10, 100])):
        page = chance.choice(schema_pages(path))
        at = (page - 1) * 4096 + chance.randrange(100 if page == 1 else 0, 4096)
        content[at] = chance.choice(
            [0, 1, 255, content[at] ^ 1 << chance.randrange(8), chance.randrange(256)]
        )
    path.write_bytes(content)

    try:
        with clew.open(path) as store:
            for info in store.list():
                store.get(info.id).messages()
            store.session("new").append(message("x"))
    except clew.ClewError:
        pass


@pytest.mark.parametrize("table", ["sessions", "branches"])
@pytest.mark.parametrize("number", [2**31 - 1, 2**62])
def test_s51_a_counter_that_was_set_beyond_what_a_key_can_hold_is_an_error_of_ours(
    path: Path, table: str, number: int
) -> None:
    change(path, f"UPDATE sqlite_sequence SET seq = {number} WHERE name = '{table}'")

    with clew.open(path) as store:
        with pytest.raises(clew.CorruptError, match="would be number"):
            store.session("new").append(message("x"))
        assert len(texts(store.get("s"))) == 10


def test_s51_an_index_that_counts_an_entry_twice_ends_a_verification(path: Path) -> None:
    """As a page does to which two others lead."""
    with clew.open(path) as store:
        engine = store._engine
        with engine.read() as reader:
            counted = type(reader).count_entries
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "clew.backends.sqlite.reader.SqliteReader.count_entries",
            lambda self, *args: 2 * counted(self, *args),
        )
        with clew.open(path) as store:
            store.verify(full=True)
