"""The loop of the watcher, with a sync that only counts: windows, passes, retries, signals."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

import clew
from clew.errors import StoreBusyError, VersionError
from clew.importers.follow import pending, polling, trees
from clew.importers.follow import watcher as module
from clew.importers.follow.lease import Following
from clew.importers.follow.watcher import Watcher
from clew.model.transfer import ImportReport
from tests.importers.follow.story import Stage, Story, leave_word

NOTHING = ImportReport(sessions=(), dry_run=False, files=3)
give_back_memory = module._give_back_memory


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

    def wait_for(self, number: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self.asked) >= number)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    root = Path(os.path.realpath(tmp_path)) / "root"
    root.mkdir()
    return root


@pytest.fixture
def sync(place: Path) -> Counting:
    return Counting(place)


@pytest.fixture
def stage() -> Stage:
    return Stage()


Watching = Callable[..., Watcher]


@pytest.fixture
def watching(sync: Counting, stage: Stage, place: Path) -> Iterator[Watching]:
    following = Following(pid=1, since=0.0, store="")
    with clew.open("memory:") as store:
        yield partial(stage.watcher, store, sync, following=following, wake=place.parent / "wake")


def test_first_everything_then_what_changes_in_one_pass(
    sync: Counting, stage: Stage, watching: Watching, place: Path, memory_given_back: list[None]
) -> None:
    def story() -> Story:
        assert sync.asked == [None]
        for number in range(20):
            (place / f"{number % 4}.jsonl").write_text(str(number))
            yield module.WINDOW / 40
        assert sync.asked == [None], "the window is open"
        yield module.WINDOW

    watcher = watching()
    stage.tell(watcher, story())
    assert sync.asked == [None, [str(place / f"{number}.jsonl") for number in range(4)]]
    assert (watcher.following.passes, watcher.following.sources) == (2, 3)
    assert watcher.following.state == "following"
    assert list(place.parent.glob("wake/*")) == []
    assert len(memory_given_back) == 1, "after a look at everything only"


def test_what_comes_during_a_pass_is_brought_by_the_next_one(
    sync: Counting, stage: Stage, watching: Watching, place: Path
) -> None:
    late = iter(["a.jsonl", "b.jsonl"])

    def write() -> None:
        for name in late:
            (place / name).write_text("x")
            return

    sync.during = write
    stage.tell(watching(), iter([1.0]))
    assert sync.asked == [None, [str(place / "a.jsonl")], [str(place / "b.jsonl")]]


def test_while_nothing_happens_it_does_nothing(sync: Counting, stage: Stage, watching: Watching) -> None:
    stage.tell(watching(), iter([]))
    assert stage.waits == [module.SAFETY], "one sleep until the next look at everything"
    assert sync.asked == [None]


@pytest.mark.parametrize(("most", "value"), [("MOST_PATHS", 19), ("MOST_LETTERS", 500)])
def test_too_much_at_once_is_one_look_at_everything(
    sync: Counting,
    stage: Stage,
    watching: Watching,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    most: str,
    value: int,
) -> None:
    monkeypatch.setattr(pending, most, value)

    def story() -> Story:
        incoming = place.parent / "incoming"
        incoming.mkdir()
        for number in range(20):
            (incoming / str(number)).touch()
        incoming.rename(place / "moved")
        yield 1
        (place / "a.jsonl").write_text("x")
        yield 1

    stage.tell(watching(), story())
    assert sync.asked == [None, None, [str(place / "a.jsonl")]]


def test_more_than_the_system_can_tell_is_one_look_at_everything(
    sync: Counting, stage: Stage, watching: Watching, place: Path
) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 100_000:
        pytest.skip("this system's queue is very long")

    def write() -> None:
        if len(sync.asked) == 1:
            with (place / "a").open("ab", 0) as one, (place / "b").open("ab", 0) as other:
                for _ in range(most // 2 + 10):
                    one.write(b"x")
                    other.write(b"x")

    sync.during = write
    stage.tell(watching(), iter([1.0]))
    assert sync.asked == [None, None]


def test_asked_for_or_after_a_while_it_looks_at_everything(
    sync: Counting, stage: Stage, watching: Watching
) -> None:
    watcher = watching()

    def story() -> Story:
        watcher.rescan()
        yield 0
        assert sync.asked == [None, None]
        yield module.SAFETY - 1
        assert sync.asked == [None, None]
        yield 2

    stage.tell(watcher, story())
    assert sync.asked == [None, None, None]


def test_a_store_that_is_busy_is_tried_again(
    sync: Counting, stage: Stage, watching: Watching, place: Path
) -> None:
    left = [StoreBusyError("busy"), StoreBusyError("busy")]
    states: list[str] = []

    def fail() -> None:
        if sync.asked[-1] is not None and left:
            raise left.pop()

    def story() -> Story:
        (place / "a.jsonl").write_text("x")
        yield 2 * module.WINDOW
        assert len(sync.asked) == 2
        yield module.FIRST_RETRY
        assert len(sync.asked) == 3
        yield module.FIRST_RETRY
        assert len(sync.asked) == 3, "it waits longer each time"
        yield module.FIRST_RETRY

    sync.during = fail
    watcher = watching(on_state=lambda state: states.append(state.state))
    stage.tell(watcher, story())
    assert sync.asked == [None, *[[str(place / "a.jsonl")]] * 3]
    assert "retrying" in states
    assert watcher.following.state == "following"
    assert watcher.following.trouble is not None
    assert "busy" in watcher.following.trouble.reason


def test_a_store_that_cannot_be_used_ends_it(sync: Counting, watching: Watching) -> None:
    def fail() -> None:
        raise VersionError("too new")

    sync.during = fail
    with pytest.raises(VersionError):
        watching().run()


def test_a_pass_can_be_ended_in_the_middle(
    sync: Counting, stage: Stage, watching: Watching, place: Path
) -> None:
    watcher = watching()

    def stopped() -> None:
        watcher.check()
        watcher.stop()
        watcher.check()

    def story() -> Story:
        sync.during = stopped
        (place / "a.jsonl").write_text("x")
        yield 1
        pytest.fail("it went on")

    stage.tell(watcher, story())
    assert len(sync.asked) == 2
    assert watcher.following.passes == 1


def test_what_it_writes_itself_is_no_news(
    sync: Counting, stage: Stage, watching: Watching, place: Path
) -> None:
    def write() -> None:
        (place / "store.db-wal").write_text("x")

    sync.during = write
    stage.tell(watching(ignored=[str(place / "store.db")]), iter([1.0]))
    assert sync.asked == [None]


def test_a_place_that_cannot_be_watched_is_polled(
    sync: Counting, stage: Stage, watching: Watching, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "silent_file_system", lambda path: "nfs4" if path == str(place) else None)
    watcher = watching()

    def story() -> Story:
        (place / "a.jsonl").write_text("x")
        yield polling.SHORTEST / 2
        assert sync.asked == [None]
        yield polling.SHORTEST
        assert sync.asked == [None, [str(place / "a.jsonl")]]
        assert list(watcher.following.polled) == [str(place)]
        monkeypatch.setattr(trees, "silent_file_system", lambda path: None)
        watcher.rescan()
        yield 0
        assert sync.asked[2:] == [None]
        assert watcher.following.polled == {}

    stage.tell(watcher, story())


def test_hooks_wake_it_also_where_nothing_can_be_watched(
    stage: Stage, sync: Counting, watching: Watching, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "silent_file_system", lambda path: "nfs4")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(place.parent))
    transcript = place.parent / "projects" / "a.jsonl"
    sync.roots = [Root("claude-code", str(transcript.parent))]

    def story() -> Story:
        leave_word(place.parent / "wake", f'"hook_event_name":"Stop"\n"transcript_path":"{transcript}"\n')
        yield module.WAKE_POLL

    stage.tell(watching(), story())
    assert sync.asked == [None, [str(transcript)]]


def test_a_hook_wakes_it_at_once(
    sync: Counting, stage: Stage, watching: Watching, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(place.parent))
    transcript = place.parent / "projects" / "a.jsonl"
    transcript.parent.mkdir()
    sync.roots = [Root("claude-code", str(transcript.parent))]
    wake = place.parent / "wake"
    said = f'"hook_event_name":"Stop"\n"session_id":"s"\n"transcript_path":"{transcript}"\n'
    left = [StoreBusyError("busy")]

    def fail() -> None:
        if len(sync.asked) == 2:
            raise left.pop()

    def story() -> Story:
        sync.during = fail
        leave_word(wake, said)
        yield 0
        assert len(sync.asked) == 2, "without a window"
        yield 2 * module.FIRST_RETRY
        assert sync.asked == [None, [str(transcript)], [str(transcript)]]
        assert not list(wake.glob("*/*"))
        leave_word(wake, said.replace(str(transcript), "/etc/passwd"))
        yield 10

    stage.tell(watching(), story())
    assert len(sync.asked) == 3


def test_another_thread_wakes_and_ends_it_while_it_sleeps(
    store: clew.Store, sync: Counting, place: Path
) -> None:
    """With the real clock, and the real system call."""
    following = Following(pid=1, since=0.0, store="")
    watcher = Watcher(store, sync, following=following, wake=place.parent / "wake")
    thread = threading.Thread(target=watcher.run)
    thread.start()
    sync.wait_for(1)
    watcher.rescan()
    sync.wait_for(2)
    (place / "a.jsonl").write_text("x")
    sync.wait_for(3)
    watcher.stop()
    thread.join()
    assert sync.asked == [None, None, [str(place / "a.jsonl")]]


def test_memory_is_given_back_while_another_thread_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server follows agents beside requests: a busy connection keeps its pages, and nothing fails."""
    monkeypatch.setattr(gc, "collect", lambda: 0)
    connection, reading = apsw.Connection(":memory:"), threading.Event()

    def busy() -> bool:
        reading.set()
        return False

    connection.set_progress_handler(busy, 1000)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    thread = threading.Thread(target=_until_interrupted, args=(connection, endless))
    thread.start()
    try:
        reading.wait()
        give_back_memory()
    finally:
        connection.interrupt()
        thread.join()


def _until_interrupted(connection: apsw.Connection, statement: str) -> None:
    with pytest.raises(apsw.InterruptError):
        connection.execute(statement).fetchall()
