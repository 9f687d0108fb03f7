"""`pause` ends when something was committed, by whatever process, and does not look at tables meanwhile.

Who hears nothing waits 1000 seconds here: such a test ends by its time-out.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import clew
from clew.backends.contract import Backend
from clew.backends.jsonl import JsonlBackend, lock_watch
from clew.backends.memory import MemoryBackend
from clew.backends.postgres import PostgresBackend
from clew.backends.sqlite import SqliteBackend
from clew.core.engine.wakes import Wakes
from clew.core.log.rows import EMPTY, Details, SessionRow
from clew.store import Store
from tests.support.children import call
from tests.support.waiting import until

LONG = 1000.0
SHORT = 0.02

KINDS = ["memory", "sqlite", "jsonl", "jsonl without notices", "postgres"]
SHARED = KINDS[1:]


def open_backend(kind: str, request: pytest.FixtureRequest, place: Path) -> Backend:
    if kind == "memory":
        return MemoryBackend()
    if kind == "sqlite":
        return SqliteBackend(place / "clew.db")
    if kind == "postgres":
        return PostgresBackend(request.getfixturevalue("emptied_postgres"))
    return JsonlBackend(place / "clew")


@pytest.fixture
def backend(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Backend]:
    if kind == "jsonl without notices":
        monkeypatch.setattr(lock_watch, "IS_THERE", False)
    backend = open_backend(kind, request, tmp_path)
    backend.pause(LONG)  # the first one ends at once: something may have been written before it
    while backend.pause(SHORT):
        pass
    yield backend
    backend.close()


def write(backend: Backend, id: str = "x") -> None:
    with backend.write() as tx:
        tx.add_session(SessionRow(0, id, 0, 1, 1, None, EMPTY, False, None, False, "", None), Details())


def write_elsewhere(url: str) -> None:
    with clew.open(url) as store:
        store.session("elsewhere")


def paused(backend: Backend) -> tuple[threading.Thread, list[bool]]:
    heard: list[bool] = []
    thread = threading.Thread(target=lambda: heard.append(backend.pause(LONG)))
    thread.start()
    return thread, heard


@pytest.mark.parametrize("kind", KINDS)
class TestPause:
    def test_it_lasts_as_long_as_nothing_is_written(self, backend: Backend) -> None:
        began = time.monotonic()

        assert backend.pause(SHORT) is False
        assert time.monotonic() - began >= SHORT

    def test_a_commit_of_this_process_ends_it(self, backend: Backend) -> None:
        thread, heard = paused(backend)
        write(backend)
        thread.join()

        assert heard == [True]

    def test_what_was_committed_before_it_ends_it(self, backend: Backend) -> None:
        """Nothing falls between a look and the pause after it."""
        write(backend)

        assert backend.pause(LONG)
        assert not backend.pause(SHORT)

    def test_closing_ends_it(self, backend: Backend) -> None:
        thread, heard = paused(backend)
        backend.close()
        thread.join()

        assert heard == [True]
        assert backend.pause(LONG)

    def test_every_thread_that_waits_is_told_of_every_commit(self, backend: Backend) -> None:
        """Though one commit ends one pause only, and threads come back late."""
        store = Store(backend)
        wakes = store._engine.service(Wakes)
        rounds = threading.Barrier(4)
        told: list[bool] = []

        def follow() -> None:
            for _ in range(10):
                seen = wakes.count
                rounds.wait()
                told.append(wakes.wait(seen, LONG))
                rounds.wait()

        threads = [threading.Thread(target=follow) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(10):
            rounds.wait()
            write(backend, f"x{number}")
            rounds.wait()
        for thread in threads:
            thread.join()

        assert told == [True] * 30


@pytest.mark.parametrize("kind", SHARED)
class TestOtherProcesses:
    def test_a_commit_of_another_process_ends_it(self, backend: Backend) -> None:
        thread, heard = paused(backend)
        call(write_elsewhere, backend.location)
        thread.join()

        assert heard == [True]

    def test_a_forked_child_waits_by_itself(self, backend: Backend) -> None:
        """F-30: what the parent has open stays the parent's."""
        child = fork(backend, lambda: write_and_pause(backend))

        assert backend.pause(LONG)
        assert wait_for(child) == 7
        with backend.read() as reader:
            assert reader.find_session("of the child") is not None

    def test_a_store_that_is_only_read_is_told_too(self, backend: Backend, kind: str, tmp_path: Path) -> None:
        with clew.open(backend.location, read_only=True) as reading:
            follows = reading._engine.backend
            follows.pause(LONG)
            thread, heard = paused(follows)
            write(backend)
            thread.join()

        assert heard == [True]

    def test_nothing_is_read_from_tables_meanwhile(
        self, backend: Backend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []
        for part in (SqliteBackend, JsonlBackend, PostgresBackend):
            monkeypatch.setattr(part, "read", lambda *_: asked.append("read"))
        backend.pause(0.2)

        assert asked == []


def write_and_pause(backend: Backend) -> None:
    write(backend, "of the child")
    backend.pause(LONG)


def fork(backend: Backend, work: Callable[[], object]) -> int:
    backend.before_fork()
    child = os.fork()
    if child == 0:
        try:
            backend.after_fork(is_child=True)
            work()
            backend.close()
            os._exit(7)
        finally:
            os._exit(1)
    backend.after_fork(is_child=False)
    return child


def wait_for(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("kind", ["sqlite", "jsonl", "jsonl without notices"])
def test_a_fork_while_another_thread_waits_takes_nothing_along(backend: Backend) -> None:
    thread, heard = paused(backend)
    child = fork(backend, lambda: write_and_pause(backend))
    thread.join()

    assert wait_for(child) == 7
    assert heard == [True]


@pytest.mark.parametrize("kind", ["jsonl"])
def test_a_commit_that_goes_on_is_not_told_by_halves(
    backend: JsonlBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSONL: the mark of a writer at work is no commit yet."""
    seen, is_marked = threading.Event(), lock_watch.LockWatch._is_marked

    def look(watch: lock_watch.LockWatch) -> bool:
        found = is_marked(watch)
        if found:
            seen.set()
        return found

    monkeypatch.setattr(lock_watch.LockWatch, "_is_marked", look)
    monkeypatch.setattr(lock_watch, "AT_WORK_FOR", LONG)
    thread, heard = paused(backend)
    backend.store_lock.acquire(1)
    backend.store_lock.mark()
    until(lambda: seen.is_set() or heard)
    assert heard == []
    backend.store_lock.clear()
    backend.store_lock.release()
    thread.join()

    assert heard == [True]


@pytest.mark.parametrize("kind", ["jsonl"])
def test_a_commit_that_comes_to_no_end_is_told_after_a_while(backend: JsonlBackend) -> None:
    """JSONL: its writer was killed."""
    backend.store_lock.acquire(1)
    backend.store_lock.mark()

    assert backend.pause(LONG)
    backend.store_lock.clear()
    backend.store_lock.release()
