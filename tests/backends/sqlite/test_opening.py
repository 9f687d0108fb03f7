"""Opening a file: with the durability that was asked for, and nothing that is not ours."""

from __future__ import annotations

import hashlib
import itertools
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import apsw
import pytest

import clew
from clew.backends.sqlite import SqliteBackend
from tests.faults.crash.common import message, texts
from tests.support.rows import each_row


def contents(directory: Path) -> dict[str, str]:
    """The names and hashes of all files, but for an empty log and its index: no content is in them."""
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in directory.iterdir()
        if not file.name.endswith("-shm") and not (file.name.endswith("-wal") and not file.stat().st_size)
    }


def names(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.iterdir())


def pragma(connection: apsw.Connection | None, name: str) -> Any:
    assert connection is not None
    return connection.execute(f"PRAGMA {name}").get


@pytest.mark.parametrize(("level", "synchronous"), [("full", 2), ("process", 1)])
def test_the_durability_that_was_asked_for_is_what_sqlite_does(
    tmp_path: Path, level: Literal["full", "process"], synchronous: int
) -> None:
    backend = SqliteBackend(tmp_path / "a.db", durability=level)
    try:
        assert pragma(backend._connections.writer, "synchronous") == synchronous
        assert pragma(backend._connections.writer, "journal_mode") == "wal"
        assert backend.capabilities.durability == level
    finally:
        backend.close()


def test_the_strongest_durability_is_the_default(tmp_path: Path) -> None:
    with clew.open(tmp_path / "a.db") as store:
        assert store.capabilities.durability == "full"


@pytest.mark.parametrize("level", ["none", "FULL", "", "memory"])
def test_an_unknown_durability_is_refused_before_anything_is_written(tmp_path: Path, level: str) -> None:
    with pytest.raises(clew.errors.InvalidUrlError):
        clew.open(tmp_path / "a.db", durability=level)

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_can_not_keep_a_log_is_refused_rather_than_used_with_less_durability(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a network file system, where SQLite keeps the old journal mode without a word."""
    path = tmp_path / "a.db"
    original = apsw.Connection.execute

    class NoLog(apsw.Connection):
        def execute(self, statements: str, *args: Any, **kwargs: Any) -> apsw.Cursor:
            return original(self, statements.replace("journal_mode = WAL", "journal_mode"), *args, **kwargs)

    monkeypatch.setattr(apsw, "Connection", NoLog)

    with pytest.raises(clew.errors.BackendUnavailableError, match="durability"):
        clew.open(path)


def test_f21_a_store_that_another_process_makes_just_now_is_not_taken_for_a_strangers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is faster, between any two looks at a file that was empty a moment ago."""
    sound = apsw.Connection

    for when in range(1, 12):
        path = tmp_path / f"{when}.db"
        path.touch()
        looks = itertools.count(1)

        class Slow(sound):  # type: ignore[misc,valid-type]
            def execute(self, *args: Any, **kwargs: Any) -> apsw.Cursor:
                if next(looks) == when:  # noqa: B023 (used before the loop goes on)
                    monkeypatch.setattr(apsw, "Connection", sound)
                    try:
                        clew.open(path, timeout=0.05).close()  # noqa: B023
                    except clew.StoreBusyError:
                        pass  # this one holds the file: nobody can be faster
                found: apsw.Cursor = super().execute(*args, **kwargs)
                return found

        monkeypatch.setattr(apsw, "Connection", Slow)
        with clew.open(path) as store:
            store.session("s").append(message("x"))
            assert texts(store.get("s")) == ["x"]


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """A store of a Clew to come."""
    path = tmp_path / "store" / "a.db"
    with clew.open(path) as store:
        store.session("s").append(message("from the future"))
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA user_version = {pragma(connection, 'user_version') + 1}")
    connection.close()
    return path


def test_p21_a_newer_schema_is_refused_without_a_write(newer: Path) -> None:
    before = contents(newer.parent)

    for _ in range(2):
        with pytest.raises(clew.errors.SchemaTooNewError) as caught:
            clew.open(newer)

    assert contents(newer.parent) == before
    assert names(newer.parent) == ["a.db"]
    assert caught.value.found == caught.value.known + 1
    assert not caught.value.retryable


@pytest.mark.parametrize("read_only", [False, True])
def test_p21_a_newer_schema_is_refused_without_a_write_when_a_crash_left_its_log(
    newer: Path, tmp_path: Path, read_only: bool
) -> None:
    """Not even the log is folded into the database: that is for the program that wrote it."""
    connection = apsw.Connection(str(newer))
    connection.execute("CREATE TABLE of_the_future (x)")
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in ("a.db", "a.db-wal"):
        (crashed / name).write_bytes((newer.parent / name).read_bytes())
    connection.close()
    before = contents(crashed)

    with pytest.raises(clew.errors.SchemaTooNewError):
        clew.open(crashed / "a.db", read_only=read_only)

    assert contents(crashed) == before


DATABASES = [
    "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)",
    "PRAGMA journal_mode = WAL; CREATE TABLE theirs (x)",
    "PRAGMA user_version = 7; VACUUM",
    "PRAGMA application_id = 252006673; VACUUM",
]
TEXTS = [
    b"Dear diary, this is no database.\n" * 40,
    b"hello",
    b"x",
    bytes(range(256)) * 32,
    b"SQLite format 3\0" + b"\xff" * 84,
]


@each_row("content", [*DATABASES, *TEXTS])
@each_row("read_only", [False, True])
def test_a_file_that_is_no_store_is_refused_and_stays_as_it_is(
    tmp_path: Path, content: str | bytes, read_only: bool
) -> None:
    """A database that another program made, a text, or something else."""
    path = tmp_path / "theirs.db"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with closing(apsw.Connection(str(path))) as connection:
            connection.execute(content).fetchall()
    before = contents(tmp_path)

    with pytest.raises(clew.errors.InvalidUrlError, match="not a Clew store"):
        clew.open(path, read_only=read_only)

    assert contents(tmp_path) == before
    assert read_only or names(tmp_path) == ["theirs.db"]


@pytest.mark.parametrize("scheme", ["jsonl", "sqlite"])
def test_the_location_is_absolute_and_an_address_with_two_slashes_says_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.chdir(tmp_path)

    for slashes in (":///", ":////"):
        with clew.open(f"{scheme}{slashes}{str(tmp_path)[1:]}/in%20all") as store:
            assert store.location == str(tmp_path / "in all")
    (tmp_path / "sub").mkdir()
    for relative, place in {"./logs": "logs", "./sub/a": "sub/a", f"../{tmp_path.name}/b": "b"}.items():
        with clew.open(f"{scheme}://{relative}?timeout=2") as store:
            assert store.location == str(tmp_path / place)
    for address, said in {
        f"{scheme}://logs/a": rf"three slashes before an absolute path; .* is {scheme}://\./logs/a",
        f"{scheme}:///logs": rf"is the absolute path /logs; for {tmp_path}/logs write {scheme}://\./logs",
        f"{scheme}:///./x": rf"write {scheme}://\./x",
        f"{scheme}:///": "names no file",
        f"{scheme}://./": "names no file",
    }.items():
        with pytest.raises(clew.errors.InvalidUrlError, match=said):
            clew.open(address)


@pytest.mark.parametrize("address", ["jsonl:agents", "sqlite:/a.db", "postgresql:db"])
def test_an_address_without_its_slashes_is_no_file_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(clew.errors.InvalidUrlError, match="://"):
        clew.open(address)

    assert contents(tmp_path) == {}


def test_a_file_that_is_not_there_is_not_made_by_opening_it_for_reading(tmp_path: Path) -> None:
    with pytest.raises(clew.errors.StoreNotFoundError):
        clew.open(tmp_path / "a.db", read_only=True)

    assert list(tmp_path.iterdir()) == []


def test_a_path_that_can_not_be_made_is_refused_with_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(clew.BackendError):
        clew.open(tmp_path / "file" / "a.db")


def test_closing_waits_for_reads_in_other_threads_or_lets_them_end(tmp_path: Path) -> None:
    """A read that is under way when the store closes gets its answer, or hears that it is closed."""
    store = clew.open(tmp_path / "a.db")
    session = store.session("s")
    session.append(*(message(f"{number}") for number in range(200)))
    raised: list[BaseException] = []
    started = threading.Barrier(5)

    def read() -> None:
        started.wait()
        try:
            while True:
                assert len(session.messages()) == 200
        except clew.errors.StoreClosedError:
            pass
        except BaseException as error:  # noqa: BLE001 (told to the test)
            raised.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    started.wait()
    store.close()
    for thread in threads:
        thread.join()

    assert raised == []


def test_a_driver_that_is_not_installed_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "clew.backends.postgres", None)

    with pytest.raises(clew.errors.InvalidUrlError, match=r"pip install .psycopg\[binary\]"):
        clew.open("postgresql://localhost/none")


def test_a_connection_that_is_given_back_while_the_store_closes_is_closed(tmp_path: Path) -> None:
    """A file that stays open keeps its locks, and cannot be removed on some systems."""
    backend = SqliteBackend(tmp_path / "a.db")

    class ClosingMeanwhile(list[apsw.Connection]):
        def append(self, connection: apsw.Connection) -> None:
            backend.close()
            super().append(connection)

    with backend.read():
        (borrowed,) = backend._connections._borrowed
        backend._connections._readers = ClosingMeanwhile(backend._connections._readers)

    with pytest.raises(apsw.ConnectionClosedError):
        pragma(borrowed, "user_version")
