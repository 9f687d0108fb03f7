"""Errors of the index and of other processes: none leaks, none stays, none costs anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

import clew
from clew.backends.jsonl import JsonlBackend
from clew.errors import ClewError
from clew.testing.backend.base import user
from tests.backends.jsonl.stores import said


class Failing:
    """A connection on which some statements fail."""

    def __init__(self, real: apsw.Connection, statements: tuple[str, ...], error: apsw.Error) -> None:
        self._real = real
        self._statements = statements
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, sql: str, *args: Any) -> Any:
        if sql in self._statements:
            raise self._error
        return self._real.execute(sql, *args)

    def close(self, force: bool = False) -> None:
        if not force and "close" in self._statements:
            raise self._error
        self._real.close(force)


def failing(backend: JsonlBackend, *statements: str, error: apsw.Error | None = None) -> None:
    writer = backend._connections.writer
    assert writer is not None
    failing = Failing(writer, statements, error or apsw.IOError("disk I/O error"))
    backend._connections.writer = failing  # type: ignore[assignment]


def test_a_transaction_that_can_not_be_undone_costs_the_index_and_nothing_else(fast_path: Path) -> None:
    """F-08: the error of the caller comes through, the locks are free, and a new index is made."""
    backend = JsonlBackend(fast_path / "store")
    with clew.Store(backend) as store:
        session = store.session("s")
        session.append(user("one"))
        failing(backend, "ROLLBACK")
        with pytest.raises(ZeroDivisionError), backend.write() as tx:
            tx.put_record(0, "var", "v", b"%d" % (1 // 0))
        session.append(user("two"))

        assert said(store) == ["one", "two"]
    assert list((fast_path / "store").glob("index.db.corrupt-*"))


def test_a_transaction_that_can_not_begin_is_an_error_of_ours_and_leaves_no_lock(fast_path: Path) -> None:
    """F-08."""
    backend = JsonlBackend(fast_path / "store")
    with clew.Store(backend) as store:
        session = store.session("s")
        real = backend._connections.writer
        failing(backend, "BEGIN IMMEDIATE")
        with pytest.raises(ClewError) as caught:
            session.append(user("one"))
        assert isinstance(caught.value.__cause__, apsw.Error)
        backend._connections.writer = real
        session.append(user("two"))

        assert said(store) == ["two"]


def test_an_index_that_can_not_be_written_fails_no_append(fast_path: Path) -> None:
    """The logs are the truth: what they have is there, and the index catches up."""
    backend = JsonlBackend(fast_path / "store")
    with clew.Store(backend) as store:
        session = store.session("s")
        real = backend._connections.writer
        failing(backend, "COMMIT", error=apsw.FullError("no space"))
        session.append(user("one"))
        backend._connections.writer = real

        assert said(store) == ["one"]
        session.append(user("two"))
        assert said(store) == ["one", "two"]


def test_an_index_that_can_not_be_closed_well_is_no_error(fast_path: Path) -> None:
    """The logs have it all."""
    backend = JsonlBackend(fast_path / "store")
    store = clew.Store(backend)
    store.session("s").append(user("one"))
    failing(backend, "close")
    store.close()

    with clew.open(f"jsonl:///{fast_path / 'store'}") as again:
        assert said(again) == ["one"]


@pytest.mark.parametrize(
    "harm",
    [
        "DROP TABLE places",
        "DROP TABLE branches; UPDATE logs SET head = x'00', tail = x'00'",
        "UPDATE logs SET head = x'00', tail_at = -9223372036854775808",
        "UPDATE branches SET uid = 'x' || branch; UPDATE logs SET head = x'00', applied = 1, tail = x''",
    ],
)
def test_an_index_that_says_nonsense_is_made_anew(fast_path: Path, harm: str) -> None:
    """F-12, F-14: a flipped bit may make any row of it anything."""
    place = fast_path / "store"
    with clew.open(f"jsonl:///{place}") as store:
        store.session("s").append(user("one"))
        store.get("s").fork("f").append(user("two"))
    connection = apsw.Connection(str(place / "index.db"))
    connection.execute(harm)
    connection.close()
    for log in (place / "sessions").iterdir():  # other files of the same content: they are looked at
        copy = log.with_suffix(".copy")
        copy.write_bytes(log.read_bytes())
        copy.replace(log)

    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "f") == ["one", "two"]
        assert store.verify(full=True).ok


@pytest.mark.parametrize("harm", ["UPDATE details SET value = x'7b'"])
def test_an_index_whose_rows_make_no_sense_shows_a_damaged_session_once_and_is_then_made_anew(
    fast_path: Path, harm: str
) -> None:
    """F-12: whoever meets them first is told."""
    place = fast_path / "store"
    with clew.open(f"jsonl:///{place}") as store:
        store.session("s").append(user("one"))
    connection = apsw.Connection(str(place / "index.db"))
    connection.execute(harm)
    connection.close()

    with clew.open(f"jsonl:///{place}") as store:
        assert ["settings cannot be read" in str(info.damaged) for info in store.list()] == [True]
        assert said(store) == ["one"]
        assert [(info.id, info.damaged) for info in store.list()] == [("s", None)]


def test_a_directory_that_another_process_makes_this_moment_is_no_file(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-21: whoever starts at the same time uses the same store."""
    place = fast_path / "store"
    real = Path.is_dir

    def too_early(path: Path, **options: Any) -> bool:
        found = real(path, **options)
        if path == place and not found:
            place.mkdir()
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Path, "is_dir", too_early)
        with clew.open(f"jsonl:///{place}") as store:
            store.session("s").append(user("one"))
            assert said(store) == ["one"]


def test_a_file_is_refused_as_one(fast_path: Path) -> None:
    (fast_path / "file").write_text("mine")
    with pytest.raises(ClewError, match="is a file"):
        JsonlBackend(fast_path / "file")

    assert (fast_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE branches SET uid = 'b' || uid WHERE branch = 2",
        "UPDATE sessions SET title = 'another' WHERE id = 's'",
        "UPDATE records SET value = x'32' WHERE kind = 'var'",
        "DELETE FROM usage",
        "UPDATE entries SET digest = x'00' WHERE key & 4294967295 = 0",
    ],
)
def test_an_index_that_says_something_else_than_the_logs_is_found_by_a_full_look_and_made_anew(
    fast_path: Path, harm: str
) -> None:
    """P7, F-12: its rows have no checksums; the lines that they come from do."""
    place = fast_path / "store"
    with clew.open(f"jsonl:///{place}") as store:
        session = store.session("s")
        session.append(user("one"), user("two"))
        session.set_var("v", 1)
        session.add_usage(model="m", input_tokens=7, output_tokens=5)
        session.fork("f").append(user("three"))
        before = store.list()
    connection = apsw.Connection(str(place / "index.db"))
    connection.execute(harm)
    connection.close()

    backend = JsonlBackend(place)
    with clew.Store(backend) as store:
        with backend.read() as reader:
            assert reader.damage(full=False, go_on=lambda: None) == []
            (problem, *_) = reader.damage(full=True, go_on=lambda: None)
        assert harm.split()[1 if harm.startswith("UPDATE") else 2] in problem
        with backend.read() as reader:
            assert reader.damage(full=True, go_on=lambda: None) == []
        assert store.list() == before
        assert store.get("s").get_var("v") == 1
        assert store.verify(full=True).ok


def test_a_full_look_reads_the_logs_as_far_as_the_index_did(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P16: what others append meanwhile is no difference, and nobody waits."""
    from clew.backends.jsonl import compare

    place = fast_path / "store"
    backend = JsonlBackend(place)
    with clew.Store(backend) as store, clew.open(f"jsonl:///{place}", timeout=0.1) as other:
        store.session("s").append(user("one"))
        real: Any = vars(compare)["open_writer"]

        def open_late(*args: Any) -> apsw.Connection:
            other.get("s").append(user("two"))
            other.session("t").append(user("three"))
            found: apsw.Connection = real(*args)
            return found

        monkeypatch.setattr(compare, "open_writer", open_late)
        with backend.read() as reader:
            assert reader.damage(full=True, go_on=lambda: None) == []
        assert said(store) == ["one", "two"]
