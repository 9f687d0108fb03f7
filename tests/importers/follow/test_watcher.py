"""The loop of the watcher, with a sync that only counts: windows, passes, retries, signals."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

import clew
from clew.errors import StoreBusyError, VersionError
from clew.importers.follow import watcher as module
from clew.importers.follow.lease import Following
from clew.importers.follow.pending import MOST_PATHS
from clew.importers.follow.watcher import Watcher
from clew.model.transfer import ImportReport

NOTHING = ImportReport(sessions=(), dry_run=False, files=3)
PATIENCE = 10.0


class Root(NamedTuple):
    format: str
    path: str


class Counting:
    """A sync that notes what it is asked for."""

    def __init__(self, *roots: Path) -> None:
        self.roots = [Root("claude-code", str(root)) for root in roots]
        self.asked: list[list[str] | None] = []
        self.during: Callable[[], None] = lambda: None
        self._changed = threading.Condition()

    def all(self) -> ImportReport:
        return self._note(None)

    def some(self, paths: Collection[str]) -> ImportReport:
        return self._note(sorted(paths))

    def _note(self, paths: list[str] | None) -> ImportReport:
        with self._changed:
            self.asked.append(paths)
            self._changed.notify_all()
        self.during()
        return NOTHING

    def wait_for(self, number: int) -> list[list[str] | None]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.asked) >= number, PATIENCE), self.asked
            return self.asked[:]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    root = Path(os.path.realpath(tmp_path)) / "root"
    root.mkdir()
    return root


@contextmanager
def running(sync: Counting, tmp_path: Path, **options: object) -> Iterator[Watcher]:
    with clew.open("memory:") as store:
        following = Following(pid=1, since=0.0, store="")
        watcher = Watcher(store, sync, following=following, wake=tmp_path / "wake", **options)  # type: ignore[arg-type]
        thread = threading.Thread(target=watcher.run)
        thread.start()
        try:
            yield watcher
        finally:
            watcher.stop()
            thread.join(PATIENCE)
            assert not thread.is_alive()


def test_first_everything_then_what_changes_in_one_pass(place: Path, tmp_path: Path) -> None:
    sync = Counting(place)
    with running(sync, tmp_path) as watcher:
        sync.wait_for(1)
        time.sleep(0.05)
        for number in range(20):
            (place / f"{number % 4}.jsonl").write_text(str(number))
        asked = sync.wait_for(2)
    assert asked == [None, [str(place / f"{number}.jsonl") for number in range(4)]]
    assert (watcher.following.passes, watcher.following.sources) == (2, 3)
    assert watcher.following.state == "following"
    assert list((tmp_path).glob("wake/*")) == []


def test_what_comes_during_a_pass_is_brought_by_the_next_one(place: Path, tmp_path: Path) -> None:
    sync = Counting(place)
    late = iter(["a.jsonl", "b.jsonl"])

    def write() -> None:
        for name in late:
            (place / name).write_text("x")
            return

    sync.during = write
    with running(sync, tmp_path):
        asked = sync.wait_for(3)
    assert asked == [None, [str(place / "a.jsonl")], [str(place / "b.jsonl")]]


def test_while_nothing_happens_it_does_nothing(place: Path, tmp_path: Path) -> None:
    sync = Counting(place)
    with running(sync, tmp_path):
        sync.wait_for(1)
        time.sleep(0.1)
        before = time.thread_time_ns(), time.process_time()
        time.sleep(0.5)
        assert time.process_time() - before[1] < 0.05
    assert sync.asked == [None]


def test_too_much_at_once_is_one_look_at_everything(place: Path, tmp_path: Path) -> None:
    sync = Counting(place)
    with running(sync, tmp_path):
        sync.wait_for(1)
        incoming = place.parent / "incoming"
        incoming.mkdir()
        for number in range(MOST_PATHS + 1):
            (incoming / str(number)).touch()
        incoming.rename(place / "moved")
        assert sync.wait_for(2) == [None, None]


def test_more_than_the_system_can_tell_is_one_look_at_everything(place: Path, tmp_path: Path) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 100_000:
        pytest.skip("this system's queue is very long")
    sync = Counting(place)

    def write() -> None:
        if len(sync.asked) == 1:
            with (place / "a").open("ab", 0) as one, (place / "b").open("ab", 0) as other:
                for _ in range(most // 2 + 10):
                    one.write(b"x")
                    other.write(b"x")

    sync.during = write
    with running(sync, tmp_path):
        assert sync.wait_for(2) == [None, None]


def test_asked_for_or_after_a_while_it_looks_at_everything(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = Counting(place)
    with running(sync, tmp_path) as watcher:
        sync.wait_for(1)
        watcher.rescan()
        assert sync.wait_for(2) == [None, None]
    monkeypatch.setattr(module, "SAFETY", 0.2)
    sync = Counting(place)
    with running(sync, tmp_path):
        assert sync.wait_for(3) == [None, None, None]


def test_a_store_that_is_busy_is_tried_again(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_RETRY", 0.05)
    sync = Counting(place)
    left = [StoreBusyError("busy"), StoreBusyError("busy")]
    states: list[str] = []

    def fail() -> None:
        if sync.asked[-1] is not None and left:
            raise left.pop()

    sync.during = fail
    with running(sync, tmp_path, on_state=lambda state: states.append(state.state)) as watcher:
        sync.wait_for(1)
        (place / "a.jsonl").write_text("x")
        asked = sync.wait_for(4)
    assert asked == [None, *[[str(place / "a.jsonl")]] * 3]
    assert "retrying" in states
    assert watcher.following.state == "following"
    assert watcher.following.trouble is not None
    assert "busy" in watcher.following.trouble.reason


def test_a_store_that_cannot_be_used_ends_it(place: Path, tmp_path: Path) -> None:
    sync = Counting(place)

    def fail() -> None:
        raise VersionError("too new")

    sync.during = fail
    with clew.open("memory:") as store:
        watcher = Watcher(
            store, sync, following=Following(pid=1, since=0.0, store=""), wake=tmp_path / "wake"
        )
        with pytest.raises(VersionError):
            watcher.run()


def test_a_pass_can_be_ended_in_the_middle(place: Path, tmp_path: Path) -> None:
    sync = Counting(place)
    with running(sync, tmp_path) as watcher:

        def long() -> None:
            for _ in range(1000):
                watcher.check()
                time.sleep(0.01)

        sync.wait_for(1)
        sync.during = long
        (place / "a.jsonl").write_text("x")
        sync.wait_for(2)
        began = time.monotonic()
        watcher.stop()
    assert time.monotonic() - began < 2


def test_what_it_writes_itself_is_no_news(place: Path, tmp_path: Path) -> None:
    sync = Counting(place)

    def write() -> None:
        (place / "store.db-wal").write_text(str(time.time()))

    sync.during = write
    with running(sync, tmp_path, ignored=[str(place / "store.db")]):
        sync.wait_for(1)
        time.sleep(0.5)
    assert sync.asked == [None]


def test_a_place_that_cannot_be_watched_is_polled(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clew.importers.follow import polling, trees

    monkeypatch.setattr(polling, "SHORTEST", 0.05)
    monkeypatch.setattr(trees, "silent_file_system", lambda path: "nfs4" if path == str(place) else None)
    sync = Counting(place)
    with running(sync, tmp_path) as watcher:
        sync.wait_for(1)
        (place / "a.jsonl").write_text("x")
        assert sync.wait_for(2) == [None, [str(place / "a.jsonl")]]
        assert list(watcher.following.polled) == [str(place)]
        monkeypatch.setattr(trees, "silent_file_system", lambda path: None)
        watcher.rescan()
        assert sync.wait_for(3)[2] is None
        assert watcher.following.polled == {}


def test_hooks_wake_it_also_where_nothing_can_be_watched(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clew.importers.follow import trees

    monkeypatch.setattr(trees, "silent_file_system", lambda path: "nfs4")
    monkeypatch.setattr(module, "WAKE_POLL", 0.05)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(place.parent))
    transcript = place.parent / "projects" / "a.jsonl"
    sync = Counting(place.parent / "projects")
    with running(sync, tmp_path):
        sync.wait_for(1)
        [wake] = (tmp_path / "wake").iterdir()
        (wake / ".new").write_text(f'"hook_event_name":"Stop"\n"transcript_path":"{transcript}"\n')
        (wake / ".new").rename(wake / "claude-code.123")
        assert sync.wait_for(2) == [None, [str(transcript)]]


def test_a_hook_wakes_it_at_once(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW", 5.0)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(place.parent))
    projects = place.parent / "projects"
    projects.mkdir()
    transcript = projects / "a.jsonl"
    sync = Counting(projects)
    left = [StoreBusyError("busy")]
    monkeypatch.setattr(module, "FIRST_RETRY", 0.05)

    def fail() -> None:
        if len(sync.asked) == 2:
            raise left.pop()

    sync.during = fail
    with running(sync, tmp_path):
        sync.wait_for(1)
        [wake] = (tmp_path / "wake").iterdir()
        said = f'"hook_event_name":"Stop"\n"session_id":"s"\n"transcript_path":"{transcript}"\n'
        (wake / ".new").write_text(said)
        began = time.monotonic()
        (wake / ".new").rename(wake / "claude-code.123")
        sync.wait_for(2)
        assert time.monotonic() - began < 1
        assert sync.wait_for(3) == [None, [str(transcript)], [str(transcript)]]
        assert not list(wake.iterdir())
        (wake / ".new").write_text(said.replace(str(transcript), "/etc/passwd"))
        (wake / ".new").rename(wake / "claude-code.123")
        time.sleep(0.2)
    assert len(sync.asked) == 3


def test_memory_is_given_back_while_another_thread_reads() -> None:
    """A server follows agents beside requests: a busy connection keeps its pages, and nothing fails."""
    connection, reading = apsw.Connection(":memory:"), threading.Event()

    def busy() -> bool:
        reading.set()
        return False

    connection.set_progress_handler(busy, 1000)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    thread = threading.Thread(target=_until_interrupted, args=(connection, endless))
    thread.start()
    try:
        assert reading.wait(10)
        module._give_back_memory()
    finally:
        connection.interrupt()
        thread.join()


def _until_interrupted(connection: apsw.Connection, statement: str) -> None:
    with pytest.raises(apsw.InterruptError):
        connection.execute(statement).fetchall()
