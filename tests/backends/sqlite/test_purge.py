"""P18, S-29: after a purge no byte of the content is left, in any file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import clew
from clew.backends.sqlite import SqliteBackend
from tests.backends.sqlite.children import purge_with_a_reader
from tests.backends.sqlite.failing_calls import kill_purges
from tests.backends.sqlite.traces import SECRET, Words, fill, needles, others_of, traces
from tests.faults.crash.common import check_file, message, quick_directory, texts
from tests.support.children import call


@pytest.fixture
def place() -> Iterator[Path]:
    """In memory: many commits, and no crash that a sync would matter to."""
    with quick_directory() as directory:
        yield directory


@pytest.mark.parametrize(("seed", "size"), [(0, 6), (4, 6), (5, 6), (2, 12)])
def test_p18_s29_no_byte_of_a_purged_session_is_left(place: Path, seed: int, size: int) -> None:
    """Messages small and large, title, tags, metadata, variables, notes, names: all were there before."""
    words = Words(seed)
    with clew.open(place / "a.db") as store:
        fill(store, words, rounds=size, others=size)
        wanted = needles(place / "a.db", words)
        others = others_of(store)
        assert sum(traces(place, wanted).values()) > 300

        assert store.delete(SECRET, purge=True)

        assert traces(place, wanted) == {}
        assert others_of(store) == others
    assert traces(place, wanted) == {}
    assert check_file(place / "a.db") == "ok"


def test_p18_s29_no_byte_is_left_of_a_session_that_was_in_the_trash(place: Path) -> None:
    words = Words(11)
    with clew.open(place / "a.db") as store:
        fill(store, words, rounds=4)
        wanted = needles(place / "a.db", words)
        store.delete(SECRET)
        store.create(SECRET).append(message("another one of that name"))

        assert store.delete(SECRET, purge=True)

        assert traces(place, {*wanted, b"another one of that name"}) == {}


def test_p18_s29_no_byte_is_left_of_anything_after_a_purging_clear(place: Path) -> None:
    words = Words(12)
    with clew.open(place / "a.db") as store:
        fill(store, words, rounds=4)
        wanted = needles(place / "a.db", words)

        store.clear(confirm=True, purge=True)

        assert traces(place, {*wanted, b"other-3"}) == {}


def test_p18_s29_a_purge_leaves_a_fork_what_it_shares_and_nothing_else(place: Path) -> None:
    words = Words(13)
    with clew.open(place / "a.db") as store:
        fill(store, words, rounds=4)
        base = store.create("base")
        base.append(message("shared " + "s" * 40))
        fork = base.fork("fork")
        base.append(message("not shared " + "n" * 40), message("n" * 20_000 + "not shared either"))

        store.delete("base", purge=True)

        assert texts(fork) == ["shared " + "s" * 40]
        assert traces(place, {b"not shared"}) == {}
        assert traces(place, {b"shared sss"}) != {}


def test_p18_s29_no_byte_is_left_when_another_process_has_the_store_open(place: Path) -> None:
    """And a process that is in the middle of a read delays the purge, which can be repeated."""
    result = purge_with_a_reader(str(place / "a.db"))

    assert result["idle"] == {}
    assert result["busy"] == "store_busy"
    assert result["read on"]
    assert result["after"] == {}


@pytest.mark.needs("strace")
@pytest.mark.parametrize(("syscall", "every"), [("pwrite64", 9), ("fdatasync", 1), ("ftruncate", 1)])
def test_p18_s29_a_purge_that_is_killed_at_any_point_is_finished_by_the_next_one(
    place: Path, syscall: str, every: int
) -> None:
    """After the kill the session is there as a whole or gone as a whole."""
    result = call(kill_purges, str(place), syscall, every)

    assert result["wrong"] == {}
    assert result["gone"] + result["there"] > 0


def test_the_search_for_traces_finds_a_purge_that_does_not_rebuild_the_file(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted bug, and the reason for the rebuild: secure_delete alone leaves copies in split pages."""

    def no_rebuild(self: SqliteBackend) -> None:
        assert self._connections.writer is not None
        self._connections.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    monkeypatch.setattr(SqliteBackend, "scrub", no_rebuild)

    assert any(_left_after_purge(place / f"{seed}", seed) for seed in range(16))


def test_the_search_for_traces_finds_a_purge_that_leaves_the_log(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted bug."""
    monkeypatch.setattr(SqliteBackend, "scrub", lambda self: None)

    assert "a.db-wal" in _left_after_purge(place / "x", 1)


def _left_after_purge(directory: Path, seed: int) -> dict[str, Any]:
    words = Words(seed)
    with clew.open(directory / "a.db") as store:
        fill(store, words, others=12)
        wanted = needles(directory / "a.db", words)
        store.delete(SECRET, purge=True)
        return traces(directory, wanted)


def test_the_database_overwrites_what_it_deletes(place: Path) -> None:
    """Before any purge: entries of a dropped session do not linger in free pages either."""
    backend = SqliteBackend(place / "a.db")
    try:
        assert isinstance(backend._connections.writer, apsw.Connection)
        assert backend._connections.writer.execute("PRAGMA secure_delete").get == 1
        assert backend._connections.writer.execute("PRAGMA temp_store").get == 2
    finally:
        backend.close()


def test_the_purge_of_a_damaged_session_takes_no_branch_from_another_one(place: Path) -> None:
    """Its row names a tree that is none, and has the number of a fork."""
    with clew.open(place / "a.db") as store:
        base = store.create("base")
        base.append(message("shared"))
        fork = base.fork("fork")
        fork.append(message("its own"))
        store.create("bad").append(message("gone"))
        backend = store._engine.backend
        assert isinstance(backend, SqliteBackend)
        assert backend._connections.writer is not None
        backend._connections.writer.execute(
            "UPDATE sessions SET status = 99, tree = ? WHERE id = 'bad'", (fork._sid,)
        )

        assert store.delete("bad", purge=True)

        assert store.verify(full=True).problems == ()
        assert texts(fork) == ["shared", "its own"]
        assert store.stats().entries == 2
