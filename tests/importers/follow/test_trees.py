"""Watched places: whatever happens below them is told, and what cannot be watched is said."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.core.directory_watch import Inotify
from clew.importers.follow import trees as module
from clew.importers.follow.trees import Trees, outermost

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system tells nothing")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


@pytest.fixture
def opened() -> Iterator[list[Trees]]:
    made: list[Trees] = []
    yield made
    for one in made:
        one.close()


def written(path: Path, text: str = "x") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)
    return str(path)


def told(trees: Trees) -> set[str]:
    happened = trees.read()
    assert happened.lost is None
    return set(happened.paths)


def test_tells_of_files_that_were_written_came_or_went(place: Path, opened: list[Trees]) -> None:
    old = written(place / "a" / "old.jsonl")
    opened.append(trees := Trees([str(place)]))
    assert told(trees) == set()
    assert told(trees) == set()
    assert {written(place / "a" / "old.jsonl"), written(place / "new.jsonl")} == told(trees)
    os.replace(place / "new.jsonl", place / "a" / "moved.jsonl")
    assert told(trees) == {str(place / "new.jsonl"), str(place / "a" / "moved.jsonl")}
    os.unlink(old)
    assert told(trees) == {old}


def test_a_look_at_files_is_no_news(place: Path, opened: list[Trees]) -> None:
    old = written(place / "old.jsonl")
    opened.append(trees := Trees([str(place)]))
    Path(old).read_bytes()
    os.listdir(place)
    os.utime(old)
    assert told(trees) == set()


def test_new_directories_are_watched_with_all_that_is_in_them(place: Path, opened: list[Trees]) -> None:
    opened.append(trees := Trees([str(place)]))
    first = written(place / "2026" / "11" / "16" / "a.jsonl")  # before we had a chance to watch
    assert told(trees) == {first}
    assert told(trees) == set()
    assert {written(place / "2026" / "11" / "16" / "a.jsonl")} == told(trees)
    outside = place.parent / f"{place.name}-outside"
    brought = written(outside / "deep" / "b.jsonl")
    shutil.move(outside, place / "in")
    assert told(trees) == {str(place / "in" / "deep" / "b.jsonl")} != {brought}
    assert {written(place / "in" / "deep" / "b.jsonl")} == told(trees)


def test_a_directory_that_moves_is_known_by_its_new_name(place: Path, opened: list[Trees]) -> None:
    written(place / "old" / "below" / "a.jsonl")
    opened.append(trees := Trees([str(place)]))
    os.rename(place / "old", place / "new")
    assert told(trees) == {str(place / "new" / "below" / "a.jsonl")}
    assert {written(place / "new" / "below" / "a.jsonl")} == told(trees)
    os.rename(place / "new", place.parent / f"{place.name}-gone")
    told(trees)
    written(place.parent / f"{place.name}-gone" / "below" / "a.jsonl")
    assert told(trees) == set()


def test_a_place_that_is_not_there_yet(place: Path, opened: list[Trees]) -> None:
    sessions, archive = place / ".codex" / "sessions", place / ".codex" / "archived"
    opened.append(trees := Trees([str(sessions), str(archive)]))
    assert trees.watches == 1
    written(place / "other.txt")
    written(place / "other" / "sessions" / "a.jsonl")
    assert told(trees) == set()
    (place / ".codex").mkdir()
    assert told(trees) == set()
    assert {written(sessions / "a.jsonl"), written(archive / "b.jsonl")} == told(trees)
    written(place / ".codex" / "log.txt")
    assert told(trees) == set()
    assert {written(sessions / "a.jsonl"), written(archive / "deep" / "b.jsonl")} == told(trees)


def test_a_place_that_goes_and_comes_again(place: Path, opened: list[Trees]) -> None:
    root = place / "up" / "root"
    written(root / "a.jsonl")
    opened.append(trees := Trees([str(root)]))
    shutil.rmtree(place / "up")
    assert told(trees) == {str(root / "a.jsonl")}
    assert {written(root / "deep" / "b.jsonl")} == told(trees)
    assert {written(root / "deep" / "b.jsonl")} == told(trees)


def test_a_place_that_is_a_file(place: Path, opened: list[Trees]) -> None:
    history = written(place / ".history.md")
    opened.append(trees := Trees([history]))
    written(place / "other.md")
    assert told(trees) == set()
    assert {written(place / ".history.md")} == told(trees)
    other = place / "new.md"
    written(other)
    os.replace(other, history)  # another file in its place
    assert told(trees) == {history}
    assert {written(place / ".history.md")} == told(trees)


def test_the_log_of_a_database_means_the_database(place: Path, opened: list[Trees]) -> None:
    database = str(place / "up" / "logs.db")
    opened.append(trees := Trees([database, str(place / "tree")]))
    inner = written(place / "tree" / "opencode.db")
    written(place / "up" / "logs.db")
    assert told(trees) == {database, inner}
    written(place / "up" / "logs.db-wal")
    written(place / "tree" / "opencode.db-wal")
    assert told(trees) == {database, inner}
    os.unlink(f"{database}-wal")
    os.unlink(f"{inner}-wal")
    assert told(trees) == set()
    (place / "tree" / "opencode.db-wal").touch()  # as when a program opens it only
    written(place / "tree" / "opencode.db-shm")
    assert told(trees) == set()
    os.unlink(written(place / "up" / "logs.db-journal"))
    assert told(trees) == {database}


def test_nothing_happens_in_what_is_ours(place: Path, opened: list[Trees]) -> None:
    ours = [place / "store.db", place / "state"]
    (place / "state").mkdir()
    opened.append(trees := Trees([str(place)], ignored=[str(one) for one in ours]))
    for name in ("store.db", "store.db-wal", "state/watch.json", "state/new/deep.json"):
        written(place / name)
    assert told(trees) == set()
    assert told(trees) == set()
    assert {written(place / "store.dbx")} == told(trees)


def test_more_than_the_system_can_tell_is_said(place: Path, opened: list[Trees]) -> None:
    opened.append(trees := Trees([str(place)]))
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 100_000:
        pytest.skip("this system's queue is very long")
    written(place / "new" / "a.jsonl")
    with (place / "a").open("ab", 0) as one, (place / "b").open("ab", 0) as other:
        for _ in range(most // 2 + 10):
            one.write(b"x")
            other.write(b"x")
    written(place / "late" / "a.jsonl")
    assert trees.read().lost is not None
    assert {written(place / name / "a.jsonl") for name in ("new", "late")} == told(trees)


def test_where_no_more_directories_can_be_watched_one_place_is_polled(
    place: Path, opened: list[Trees]
) -> None:
    class Limited(Inotify):
        left = 5

        def add_named(self, path: bytes, events: int, *, is_file: bool = False) -> int:
            if not self.left:
                raise OSError(errno.ENOSPC, "No space left on device")
            Limited.left -= 1
            return super().add_named(path, events, is_file=is_file)

    small, large = place / "a-small", place / "large"
    written(small / "a.jsonl")
    for number in range(9):
        written(large / str(number) / "b.jsonl")
    opened.append(trees := Trees([str(small), str(large)], queue=Limited))
    assert list(trees.polled) == [str(large)]
    assert "max_user_watches" in trees.polled[str(large)]
    assert "sysctl" in trees.polled[str(large)]
    assert trees.watches == 1
    assert {written(small / "a.jsonl")} == told(trees)
    Limited.left = 1
    written(small / "1" / "c.jsonl")
    told(trees)
    assert trees.polled.keys() == {str(large)}
    written(small / "2" / "c.jsonl")
    told(trees)
    assert trees.polled.keys() == {str(large), str(small)}
    Limited.left = 100
    trees.watch()
    assert trees.polled == {}
    assert {written(large / "8" / "b.jsonl")} == told(trees)


def test_without_a_watcher_all_places_are_polled(place: Path, opened: list[Trees]) -> None:
    def refused() -> Inotify:
        raise OSError(errno.EMFILE, "Too many open files")

    opened.append(trees := Trees([str(place)], queue=refused))
    assert "max_user_instances" in trees.polled[str(place)]
    assert trees.fileno() is None
    written(place / "a")
    assert told(trees) == set()


def test_other_file_systems_are_polled(
    place: Path, opened: list[Trees], monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "remote").mkdir()
    is_remote = (place / "remote").as_posix()
    monkeypatch.setattr(module, "silent_file_system", lambda path: "nfs4" if path == is_remote else None)
    opened.append(trees := Trees([str(place / "remote" / "not there"), str(place / "local")]))
    assert list(trees.polled) == [str(place / "remote" / "not there")]
    assert "nfs4" in trees.polled[str(place / "remote" / "not there")]


def test_places_inside_of_others_are_watched_once(place: Path) -> None:
    (place / "link").symlink_to(place / "a")
    roots = [place / "a" / "b", place / "a", place / "ab", place / "link"]
    assert outermost(map(str, roots)) == [str(place / "a"), str(place / "ab")]
