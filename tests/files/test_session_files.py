"""Files that belong to points of a conversation, through the public surface."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import clew
from clew.files.restore.apply import Applier
from clew.files.restore.write import FileWriter, Ready, RefusedError
from clew.model.files import RestoreReport


def say(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


@pytest.fixture
def root(tmp_path: Path, own_cache: None) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    (root / "a.txt").write_text("one")
    (root / "gone.txt").write_text("still here")
    return root


@pytest.fixture
def s(store: clew.Store, root: Path) -> clew.Session:
    """Two turns, each with the files as they were: in the second one a file came and one went."""
    s = store.session("s")
    s.append(say("first"))
    s.checkpoint("first", files=root)
    s.append(say("second"))
    (root / "a.txt").write_text("two")
    (root / "new.txt").write_text("new")
    (root / "gone.txt").unlink()
    s.checkpoint("second", files=root)
    return s


def content(root: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(root.iterdir())}


FIRST = {"a.txt": "one", "gone.txt": "still here"}
SECOND = {"a.txt": "two", "new.txt": "new"}


def test_a_rewind_without_files_leaves_them(s: clew.Session, root: Path) -> None:
    s.rewind("first")
    assert content(root) == SECOND
    s.undo()
    assert content(root) == SECOND


def test_an_entry_has_the_files_of_the_last_checkpoint_before_it(s: clew.Session, root: Path) -> None:
    s.append(say("third"))
    (root / "a.txt").write_text("three")
    s.checkpoint("third", files=root)
    s.rewind(next(iter(s.entries(last=1, before=s.head))), files=True)
    assert (content(root), len(s.messages())) == (SECOND, 2)


def test_a_point_without_files_is_refused_and_nothing_moves(store: clew.Store, root: Path) -> None:
    s = store.session("bare")
    s.append(say("a"))
    s.checkpoint("bare")
    head = s.head
    for point in ("bare", 0, head):
        with pytest.raises(clew.errors.SnapshotNotFoundError):
            s.rewind(point, files=True)
    assert s.head == head


def test_files_can_be_restored_somewhere_else(s: clew.Session, root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    s.rewind("first", files=other)
    assert (content(other), content(root)) == (FIRST, SECOND)


def test_a_fork_finds_the_files_of_the_checkpoints_that_it_took_along(s: clew.Session, root: Path) -> None:
    fork = s.fork()
    fork.rewind("first", files=True)
    assert (content(root), len(fork.messages()), len(s.messages())) == (FIRST, 1, 2)


def test_of_two_checkpoints_only_what_came_after_the_last_one_is_a_conflict(
    s: clew.Session, root: Path
) -> None:
    (root / "a.txt").write_text("mine")
    (root / "unknown.txt").write_text("mine too")
    assert s.restore_files("first", dry_run=True).conflicts == ("a.txt", "unknown.txt")
    s.rewind("first", files=True, on_conflict="keep")
    assert content(root) == {**FIRST, "a.txt": "mine", "unknown.txt": "mine too"}
    with pytest.raises(clew.errors.RestoreConflictError):
        s.restore_files("first", on_conflict="refuse")
    s.restore_files("first")
    assert content(root) == FIRST


@pytest.mark.parametrize(
    "move", [lambda s: s.rewind("first", files=True), lambda s: s.undo()], ids=["rewind", "undo"]
)
def test_p9_a_lease_of_somebody_else_stops_the_files_too(
    s: clew.Session, root: Path, move: Callable[[clew.Session], object]
) -> None:
    s.rewind("second", files=True)
    s.rewind("first", files=True)
    with s.run() as run:
        with pytest.raises(clew.LeaseHeldError):
            move(s)
        assert content(root) == FIRST
        run.rewind("second", files=True)
        assert content(root) == SECOND


def test_a_run_keeps_files_with_its_checkpoints(store: clew.Store, root: Path) -> None:
    s = store.session("worker")
    with s.run(task="t") as run:
        run.append(say("go"))
        run.checkpoint(iteration=1, files=root)
        (root / "a.txt").write_text("half done")
    point = s.resume()
    assert point.checkpoint.snapshot is not None
    s.rewind(point.checkpoint, files=True)
    assert content(root) == FIRST


def test_the_history_of_a_file_names_the_checkpoints_that_changed_it(s: clew.Session, root: Path) -> None:
    found = {path: [(v.checkpoint, v.verb) for v in s.file_history(path)] for path in ("a.txt", "gone.txt")}
    assert found == {
        "a.txt": [("first", "created"), ("second", "changed")],
        "gone.txt": [("first", "created"), ("second", "deleted")],
    }
    assert s.file_history("never.txt") == []


def test_f43_a_restore_that_was_cut_off_is_finished_with_its_head(
    store: clew.Store, s: clew.Session, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Applier, "run", stop)
        with pytest.raises(clew.errors.RestoreFailedError):
            s.rewind("first", files=True)
    (pending,) = store.pending_restores()
    assert (pending.session, len(s.messages())) == ("s", 2)

    store.finish_restore(pending.id)
    assert (content(root), len(s.messages()), store.pending_restores()) == (FIRST, 1, [])
    s.undo()
    assert (content(root), len(s.messages())) == (SECOND, 2)


def test_f43_a_restore_that_was_cut_off_is_undone_and_the_head_stays(
    store: clew.Store, s: clew.Session, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Applier.run

    def stop(applier: Applier) -> None:
        run(applier)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Applier, "run", stop)
        with pytest.raises(clew.errors.RestoreFailedError):
            s.rewind("first", files=True)
    assert content(root) == FIRST
    store.undo_restore(store.pending_restores()[0].id)
    assert (content(root), len(s.messages()), store.pending_restores()) == (SECOND, 2, [])


def test_a_rewind_in_which_a_file_failed_says_so_and_can_be_undone(
    s: clew.Session, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: whoever asked for the files must hear that one of them is not there."""
    place = FileWriter.place

    def refuse(leaves: FileWriter, fd: int, name: bytes, ready: Ready) -> None:
        if name == b"a.txt":
            raise RefusedError("changed while restoring")
        place(leaves, fd, name, ready)

    with monkeypatch.context() as patched:
        patched.setattr(FileWriter, "place", refuse)
        with pytest.raises(clew.errors.RestoreFailedError) as caught:
            s.rewind("first", files=True)
    report = caught.value.report
    assert isinstance(report, RestoreReport)
    assert [one.path for one in report.failed] == ["a.txt"]
    assert (content(root), len(s.messages())) == ({**FIRST, "a.txt": "two"}, 1)
    s.undo()
    assert (content(root), len(s.messages())) == (SECOND, 2)


def test_p12_p13_an_undo_takes_back_what_the_rewind_did_and_nothing_else(s: clew.Session, root: Path) -> None:
    """What somebody did since, to files that the rewind did not touch, stays."""
    (root / "same.txt").write_text("same")
    s.checkpoint("third", files=root)
    s.rewind("third", files=True)  # nothing to do
    (root / "same.txt").write_text("mine")
    s.undo()
    assert content(root) == {**SECOND, "same.txt": "mine"}
    s.rewind("first", files=True)
    (root / "later.txt").write_text("mine")
    s.undo()
    assert content(root) == {**SECOND, "same.txt": "mine", "later.txt": "mine"}


def test_gc_keeps_what_undo_needs_and_a_purge_lets_go_of_the_rest(
    store: clew.Store, s: clew.Session, root: Path
) -> None:
    s.rewind("first", files=True)
    store.gc()
    s.undo()
    assert content(root) == SECOND
    assert store.verify(full=True).ok
    store.delete("s", purge=True)
    assert store.snapshots() == []
    assert (store.gc().snapshots, store.gc().objects) == (0, 0)
    assert store.verify(full=True).ok


def test_a_watched_tree_is_kept_as_exactly_as_one_that_is_not(
    store: clew.Store, root: Path, tmp_path: Path
) -> None:
    with store.watch_files(root) as watch:
        for number in range(5):
            (root / f"{number % 2}.txt").write_text(str(number))
            os.makedirs(root / f"d{number}" / "e")
            assert store.snapshot(root).tree == store.snapshot(root, exclude=["nothing-like-this"]).tree
    assert not watch.is_running


def test_the_async_face_keeps_and_restores_files_too(root: Path) -> None:
    async def play() -> tuple[dict[str, str], int]:
        async with clew.open_async("memory:") as store:
            s = await store.session("s")
            await s.append(say("first"))
            await s.checkpoint("first", files=root)
            (root / "a.txt").write_text("two")
            snap = await store.snapshot(root)
            assert [
                one.path for one in await store.diff((await s.get_checkpoint("first")).snapshot or "", snap)
            ]
            await s.rewind("first", files=True)
            assert (await store.verify()).ok
            assert await store.pending_restores() == []
            return content(root), (await s.info).messages

    assert asyncio.run(play()) == (FIRST, 1)
