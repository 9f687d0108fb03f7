"""A database that its program is writing to: it is read as it is, and its writer hardly ever waits."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from clew.importers.reading import sqlite
from clew.importers.reading.seen import watching
from tests.importers.readers import tree_bytes
from tests.support.effort import usually
from tests.support.rows import named

WRITER = """
import json, sqlite3, sys

held = {}
for line in sys.stdin:
    path, patience, times, *statements = json.loads(line)
    if path not in held:
        held[path] = sqlite3.connect(path, isolation_level=None)
    db = held[path]
    db.execute(f"PRAGMA busy_timeout = {patience}")
    failed = 0
    for statement in statements * times:
        try:
            db.execute(statement)
        except sqlite3.OperationalError:
            failed += 1
            if db.in_transaction:
                db.execute("ROLLBACK")
    if not statements:
        held.pop(path).close()
    print(failed, flush=True)
"""
"""Another process: SQLite's locks hold between processes only."""
COMMIT = [
    "BEGIN IMMEDIATE",
    f"INSERT INTO t (x) VALUES ('{'x' * 3000}')",
    "UPDATE t SET n = n + 1 WHERE id = 1",
    "COMMIT",
]


class Program:
    """It has databases open."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def begin(self, path: Path, *statements: str, patience: int = 0, times: int = 1) -> None:
        """`patience`: for so many milliseconds it waits for a lock."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([str(path), patience, times, *statements]) + "\n")
        self._process.stdin.flush()

    def ended(self) -> int:
        """How many of the statements failed."""
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def run(self, path: Path, *statements: str) -> int:
        self.begin(path, *statements)
        return self.ended()

    def leave(self, path: Path) -> None:
        assert self.run(path) == 0

    def end(self) -> None:
        with self._process:
            self._process.kill()


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    made = Program()
    yield made
    made.end()


@pytest.fixture
def live(tmp_path: Path, program: Program) -> Iterator[Path]:
    """A database that the program has open, with one row."""
    path = tmp_path / "a.db"
    made = ["PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", "PRAGMA wal_autocheckpoint = 20"]
    made += ["CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT, n INTEGER)"]
    assert program.run(path, *made, "INSERT INTO t (x, n) VALUES ('first', 1)") == 0
    yield path
    program.leave(path)


def test_a_writer_that_does_not_wait_can_commit_while_we_read(live: Path, program: Program) -> None:
    with sqlite.opened(live) as db:
        for _ in range(30):  # past where it brings its log into the database
            with sqlite.snapshot(db):
                (first,) = sqlite.rows(db, "SELECT max(id) AS n FROM t")
                assert program.run(live, *COMMIT) == 0
                (again,) = sqlite.rows(db, "SELECT n FROM t WHERE id = 1")
            assert first == again  # of one moment
        assert first == {"n": 30}


def test_a_writer_that_never_stops_fails_at_none_of_its_commits(live: Path, program: Program) -> None:
    """SQLite's own readers hold the right to write, shared, for an instant if they meet a writer that is just
    changing the head of the index: so a writer that gives up at once can fail; it was seen once."""
    commits = usually(20_000, quick=200, thorough=200_000)
    program.begin(live, *COMMIT, patience=100_000, times=commits)
    last = 0
    while last <= commits:
        with sqlite.opened(live) as db:
            for _ in range(20):
                with sqlite.snapshot(db):
                    (first,) = sqlite.rows(db, "SELECT max(id) AS n FROM t")
                    (again,) = sqlite.rows(db, "SELECT n FROM t WHERE id = 1")
                assert first == again  # of one moment
                assert first["n"] >= last
                last = first["n"]
    assert program.ended() == 0


def test_a_running_program_finds_its_files_as_it_left_them(
    live: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "copyfileobj", None)  # nothing is copied
    before = tree_bytes(tmp_path)
    assert set(before) == {"a.db", "a.db-wal", "a.db-shm"}
    with sqlite.opened(live) as db:
        assert [row["x"] for row in sqlite.rows(db, "SELECT x FROM t")] == ["first"]
    assert tree_bytes(tmp_path) == before


def test_the_log_of_a_program_that_was_killed_is_read_and_left_alone(live: Path, tmp_path: Path) -> None:
    """What it leaves is what lay there the moment before, and nobody has it open."""
    place = tmp_path / "left"
    place.mkdir()
    for file in tmp_path.glob("a.db*"):
        shutil.copy(file, place)
    assert (place / "a.db-wal").stat().st_size
    for _ in range(2):
        before = tree_bytes(place)
        with sqlite.opened(place / "a.db") as db:
            assert [row["x"] for row in sqlite.rows(db, "SELECT x FROM t")] == ["first"]
        assert tree_bytes(place) == before
        (place / "a.db-shm").unlink(missing_ok=True)


def test_a_program_that_ends_while_we_read_loses_nothing(live: Path, program: Program) -> None:
    with sqlite.opened(live) as db:
        program.leave(live)
        assert [row["x"] for row in sqlite.rows(db, "SELECT x FROM t")] == ["first"]
    with closing(sqlite3.connect(live)) as db2:
        assert db2.execute("SELECT x FROM t").fetchall() == [("first",)]
    program.run(live, "SELECT 1")


def test_a_writer_without_a_log_is_not_locked_out(
    tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any lock of a reader would make its commit fail."""
    path = tmp_path / "a.db"
    assert program.run(path, "CREATE TABLE t (x)", "INSERT INTO t VALUES ('first'), ('second')") == 0
    monkeypatch.setattr("clew.importers.reading.seen.RECENT", 0)
    with watching() as at_rest, sqlite.opened(path):
        pass
    with watching() as seen, sqlite.opened(path) as db:
        read = sqlite.rows(db, "SELECT x FROM t")
        next(read)
        assert program.run(path, "INSERT INTO t VALUES (2)") == 0
    assert at_rest.is_settled
    assert not seen.is_settled  # it is read once more
    program.leave(path)


def test_nothing_is_written_to_a_live_database(live: Path) -> None:
    with sqlite.opened(live) as db:
        for statement in ("INSERT INTO t (x) VALUES (1)", "PRAGMA wal_checkpoint", "VACUUM"):
            with named(statement), pytest.raises(apsw.AuthError):
                db.execute(statement)
        db.authorizer = None
        with pytest.raises((apsw.ReadOnlyError, apsw.SQLError)):
            db.execute("INSERT INTO t (x) VALUES (1)")


def test_a_log_that_is_a_link_is_not_read(live: Path, tmp_path: Path) -> None:
    for end in ("", "-shm"):
        shutil.copy(f"{live}{end}", tmp_path / f"b.db{end}")
    (tmp_path / "b.db-wal").symlink_to(f"{live}-wal")
    with pytest.raises(PermissionError, match="link"), sqlite.opened(tmp_path / "b.db"):
        pass


def test_an_index_that_is_just_being_written_is_looked_at_again() -> None:
    class Changing:
        """As SQLite says it of an index that a writer is changing; by chance in one of 50,000 reads."""

        left = 3

        def cursor(self) -> Changing:
            return self

        def execute(self, sql: str, values: object) -> str:
            self.left -= 1
            if self.left:
                raise apsw.ReadOnlyError("attempt to write a readonly database")
            return sql

    assert sqlite.begun(Changing(), "SELECT 1") == "SELECT 1"  # type: ignore[arg-type, comparison-overlap]
