"""A database that its program is writing to: it is read as it is, and its writer hardly ever waits."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from clew.importers.reading import sqlite
from clew.importers.reading.seen import watching
from tests.importers.readers import tree_bytes

WRITER = """
import sqlite3, sys, time

db = sqlite3.connect(sys.argv[1], timeout=0.02, isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
db.execute("PRAGMA synchronous = NORMAL")
db.execute(f"PRAGMA wal_autocheckpoint = {sys.argv[2]}")
db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT, n INTEGER)")
db.execute("INSERT INTO t (x, n) VALUES ('first', 1)")
print("ready", flush=True)
if sys.argv[3] == "wait":
    sys.stdin.read()
end = time.monotonic() + float(sys.argv[4])
commits = failed = 0
while time.monotonic() < end:
    try:
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO t (x) VALUES (?)", ("x" * 3000,))
        db.execute("UPDATE t SET n = n + 1 WHERE id = 1")
        db.execute("COMMIT")
        commits += 1
    except sqlite3.OperationalError:
        failed += 1
        if db.in_transaction:
            db.execute("ROLLBACK")
print(commits, failed, flush=True)
"""


@contextmanager
def writer(
    path: Path, *, checkpoint: int = 1000, waits: bool = True, seconds: float = 0
) -> Iterator[subprocess.Popen[str]]:
    """A process that has the database open, and for so many seconds commits, waiting 20 ms at most."""
    args = [sys.executable, "-c", WRITER, str(path), str(checkpoint), "wait" if waits else "", str(seconds)]
    process = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        with process:
            pass


@pytest.mark.parametrize("checkpoint", [20, 1000])
def test_a_writer_that_waits_for_milliseconds_fails_at_none_of_its_commits(
    tmp_path: Path, checkpoint: int
) -> None:
    """SQLite's own readers hold the right to write, shared, for an instant if they meet a writer that is just
    changing the head of the index: so a writer that gives up at once can fail; it was seen once."""
    path = tmp_path / "a.db"
    with writer(path, checkpoint=checkpoint, waits=False, seconds=3) as process:
        reads, last = 0, 0
        while process.poll() is None and Path(f"{path}-shm").exists():
            with sqlite.opened(path) as db:
                for _ in range(20):
                    with sqlite.snapshot(db):
                        (first,) = sqlite.rows(db, "SELECT max(id) AS n FROM t")
                        (again,) = sqlite.rows(db, "SELECT n FROM t WHERE id = 1")
                    assert first == again  # of one moment
                    assert first["n"] >= last
                    last, reads = first["n"], reads + 1
        assert process.stdout is not None
        commits, failed = map(int, process.stdout.read().split())
    assert failed == 0
    assert min(commits, reads) > 20


def test_a_running_program_finds_its_files_as_it_left_them(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with writer(path):
        before = tree_bytes(tmp_path)
        assert set(before) == {"a.db", "a.db-wal", "a.db-shm"}
        with sqlite.opened(path) as db:
            assert [row["x"] for row in sqlite.rows(db, "SELECT x FROM t")] == ["first"]
        assert tree_bytes(tmp_path) == before


def test_nothing_is_copied_while_a_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"
    monkeypatch.setattr(shutil, "copyfileobj", None)
    with writer(path), sqlite.opened(path) as db:
        assert len(list(sqlite.rows(db, "SELECT x FROM t"))) == 1


def test_the_log_of_a_program_that_was_killed_is_read_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with writer(path, checkpoint=0) as process:
        process.kill()
        process.wait()
    before = tree_bytes(tmp_path)
    assert before["a.db-wal"]
    with sqlite.opened(path) as db:
        assert [row["x"] for row in sqlite.rows(db, "SELECT x FROM t")] == ["first"]
    assert tree_bytes(tmp_path) == before
    Path(f"{path}-shm").unlink()
    before = tree_bytes(tmp_path)
    with sqlite.opened(path) as db:
        assert [row["x"] for row in sqlite.rows(db, "SELECT x FROM t")] == ["first"]
    assert tree_bytes(tmp_path) == before


def test_a_program_that_ends_while_we_read_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with writer(path, checkpoint=0) as process, sqlite.opened(path) as db:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        assert [row["x"] for row in sqlite.rows(db, "SELECT x FROM t")] == ["first"]
    with closing(sqlite3.connect(path)) as db2:
        assert db2.execute("SELECT x FROM t").fetchall() == [("first",)]


def test_a_writer_without_a_log_is_not_locked_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any lock of a reader would make its commit fail."""
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as own:
        own.execute("CREATE TABLE t (x)")
        own.execute("INSERT INTO t VALUES ('first'), ('second')")
    code = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], timeout=0.02, isolation_level=None);"
        "db.execute('INSERT INTO t VALUES (2)')"
    )
    monkeypatch.setattr("clew.importers.reading.seen.RECENT", 0)
    with watching() as at_rest, sqlite.opened(path):
        pass
    with watching() as seen, sqlite.opened(path) as db:
        read = sqlite.rows(db, "SELECT x FROM t")
        next(read)
        subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert at_rest.is_settled
    assert not seen.is_settled  # it is read once more


@pytest.mark.parametrize("statement", ["INSERT INTO t (x) VALUES (1)", "PRAGMA wal_checkpoint", "VACUUM"])
def test_nothing_is_written_to_a_live_database(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "a.db"
    with writer(path), sqlite.opened(path) as db:
        with pytest.raises(apsw.AuthError):
            db.execute(statement)
        db.authorizer = None
        with pytest.raises((apsw.ReadOnlyError, apsw.SQLError)):
            db.execute("INSERT INTO t (x) VALUES (1)")


def test_a_log_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with writer(path):
        for end in ("", "-shm"):
            shutil.copy(f"{path}{end}", tmp_path / f"b.db{end}")
        (tmp_path / "b.db-wal").symlink_to(f"{path}-wal")
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
