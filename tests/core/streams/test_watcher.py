"""When a watcher looks: after commits, not without a reason, and far enough back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.backends.contract import Reader
from clew.backends.sqlite import SqliteBackend
from clew.core.log.rows import Listed, SessionQuery
from clew.core.streams.watch import FULL_AFTER, MANY, SHORT_SLACK, SHORTEST_SLACK, Watcher
from clew.store import Store
from clew.testing.backend.base import say

LONG = 1000.0
A_BIT = 0.01
SECOND = 1_000_000


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with clew.open(tmp_path / "clew.db") as store:
        yield store


@pytest.fixture
def clock() -> Clock:
    return Clock()


def settle(watcher: Watcher, clock: Clock) -> list[str]:
    """Look until there is no reason to, not even after a while; what it told."""
    told: list[str] = []
    for _ in range(20):
        if not watcher.pause(A_BIT):
            return told
        told += [change.session for change in watcher.look()]
        clock.now += 2 * FULL_AFTER
    raise AssertionError("it looks without end")


def test_after_a_commit_it_looks_and_without_one_it_does_not(store: Store, clock: Clock) -> None:
    watcher = Watcher(store._engine, None, LONG, clock)
    settle(watcher, clock)
    assert not watcher.pause(A_BIT)
    say(store.session("s"), "x")

    assert settle(watcher, clock) == ["s"]
    assert not watcher.pause(A_BIT)


def test_what_nothing_told_of_is_found_when_it_is_time(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer may be killed right behind its commit, before it could tell."""
    backend = store._engine.backend
    assert isinstance(backend, SqliteBackend)
    watcher = Watcher(store._engine, None, LONG, clock)
    settle(watcher, clock)
    monkeypatch.setattr(backend._connections, "_ask", lambda: backend._connections._answer)
    say(store.session("s"), "x")
    assert not watcher.pause(A_BIT)
    clock.now += LONG

    assert settle(watcher, clock) == ["s"]


def test_a_writer_that_waited_long_for_its_turn_is_not_passed_over(tmp_path: Path, clock: Clock) -> None:
    """It took the time before, so what it writes is older than what was seen already: the look that goes
    back all the way finds it. The same for one whose clock is behind."""
    now = 1_800_000_000 * SECOND
    path = tmp_path / "clew.db"
    with (
        Store(SqliteBackend(path), clock=lambda: now) as ahead,
        Store(SqliteBackend(path), clock=lambda: now - 30 * SECOND) as behind,
    ):
        watcher = Watcher(ahead._engine, None, LONG, clock)
        ahead.session("ahead")
        assert settle(watcher, clock) == ["ahead"]
        behind.session("behind")

        assert settle(watcher, clock) == ["behind"]


def test_a_look_after_a_commit_does_not_read_all_that_were_active_in_the_last_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_800_000_000 * SECOND
    with Store(SqliteBackend(tmp_path / "clew.db"), clock=lambda: now) as store:
        for number in range(300):
            store.session(f"s{number}")
        now += 10 * SECOND
        watcher = Watcher(store._engine, None, LONG)
        store.session("new")
        watcher.look()
        watcher._full_at = None
        read: list[int] = []
        kind = _reader(store)
        listing = kind.list_sessions

        def counted(self: Reader, query: SessionQuery) -> list[Listed]:
            found: list[Listed] = listing(self, query)
            read.append(len(found))
            return found

        monkeypatch.setattr(kind, "list_sessions", counted)
        store.session("newer")

        assert [change.session for change in watcher.look()] == ["newer"]
        assert sum(read) == 2


def _reader(store: Store) -> type[Reader]:
    with store._engine.read() as reader:
        return type(reader)


def test_where_very_many_sessions_are_active_a_look_goes_back_less_far(tmp_path: Path) -> None:
    """So its cost does not grow with them; what it passes over is found by the look that goes back far."""
    now = 1_800_000_000 * SECOND
    with Store(SqliteBackend(tmp_path / "clew.db"), clock=lambda: now) as store:
        watcher = Watcher(store._engine, None, LONG)
        store.transact(lambda tx: [tx.create(f"s{number}") for number in range(MANY + 1)])
        for _ in range(20):
            watcher._full_at = None
            watcher.look()
        assert watcher._slack == SHORTEST_SLACK
        now += 70 * SECOND
        for number in range(20):
            store.session(f"quiet {number}")
            watcher._full_at = None
            watcher.look()
        assert watcher._slack == SHORT_SLACK
