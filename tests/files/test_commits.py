"""How often the store is written to: each time is a wait for the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import RestoreConflictError
from clew.files.restore.apply import Applier
from clew.files.snapshot.take import PendingSnapshot, SnapshotTaker


@pytest.fixture
def root(tmp_path: Path, own_cache: None) -> Path:
    root = tmp_path / "work"
    for number in range(20):
        path = root / f"d{number % 4}" / str(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"file {number}")
    return root


class Commits:
    """Counts transactions that changed something; `with` begins anew."""

    def __init__(self, store: clew.Store) -> None:
        self.count = 0
        backend, counter = store._engine.backend, self
        write = backend.write

        class Counted:
            def __init__(self, *how: Any) -> None:
                self._inner = write(*how)

            def __enter__(self) -> Any:
                self._tx = self._inner.__enter__()
                return self._tx

            def __exit__(self, kind: Any, exc: Any, trace: Any) -> Any:
                counter.count += kind is None and self._tx.writes > 0
                return self._inner.__exit__(kind, exc, trace)

        backend.write = Counted  # type: ignore[assignment, method-assign]

    def __enter__(self) -> Commits:
        self.count = 0
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def commits(store: clew.Store) -> Commits:
    return Commits(store)


def edit(root: Path, text: str, count: int = 5) -> None:
    for path in sorted(root.glob("*/*"))[:count]:
        path.write_text(text)


def content(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.glob("*/*"))}


def test_a_snapshot_is_one_transaction(store: clew.Store, root: Path, commits: Commits) -> None:
    with commits:
        first = store.snapshot(root)
    assert commits.count == 1
    with commits:
        same = store.snapshot(root)
    assert commits.count == 1
    edit(root, "changed")
    with commits:
        changed = store.snapshot(root)
    assert commits.count == 1

    assert (first.tree == same.tree, same.new_bytes) == (True, 0)
    assert changed.new_bytes > len("changed")
    assert store.get_snapshot(changed.id) == changed
    assert store.verify().problems == ()


def test_a_checkpoint_with_files_is_one_transaction(store: clew.Store, root: Path, commits: Commits) -> None:
    session = store.session("s")
    session.append({"role": "user", "content": "hello"})
    with commits:
        session.checkpoint("here", files=root)

    assert commits.count == 1
    assert store.verify().problems == ()


def test_a_restore_begins_and_ends_with_a_transaction(
    store: clew.Store, root: Path, commits: Commits
) -> None:
    """P13: the safety snapshot with all that is new of it, and the journal, are durable at once."""
    first, before = store.snapshot(root), content(root)
    edit(root, "of the user")
    unsaved = content(root)
    with commits:
        report = store.restore(first)

    assert commits.count == 2
    assert content(root) == before
    assert [one.id for one in store.snapshots() if one.kind == "safety"] == [report.safety]
    assert store.verify().problems == ()
    store.undo_restore(report)
    assert content(root) == unsaved


def test_p13_what_goes_is_in_the_store_before_the_first_change(
    store: clew.Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store.snapshot(root)
    edit(root, "of the user")
    apply, seen = Applier.run, []

    def run(self: Applier) -> None:
        assert store.verify().problems == ()
        pending = store.pending_restores()[0]
        seen.append((pending.root, store.diff(pending.safety, root)))
        apply(self)

    monkeypatch.setattr(Applier, "run", run)
    store.restore(first)

    assert seen == [(str(root), [])]


def test_a_rewind_with_files_is_two_transactions(store: clew.Store, root: Path, commits: Commits) -> None:
    session = store.session("s")
    session.append({"role": "user", "content": "one"})
    session.checkpoint("one", files=root)
    session.append({"role": "user", "content": "two"})
    edit(root, "two")
    session.checkpoint("two", files=root)
    with commits:
        session.rewind("one", files=True)

    assert commits.count == 2
    assert len(session.messages()) == 1


def test_a_restore_with_nothing_to_do_is_one_transaction(
    store: clew.Store, root: Path, commits: Commits
) -> None:
    first = store.snapshot(root)
    with commits:
        report = store.restore(first)

    assert (commits.count, report.changes, report.id) == (1, (), None)
    assert store.get_snapshot(report.safety or "").tree == first.tree


def test_a_dry_run_leaves_no_record(store: clew.Store, root: Path, commits: Commits) -> None:
    first = store.snapshot(root)
    with commits:
        store.restore(first, dry_run=True)
    assert commits.count == 0
    edit(root, "of the user")
    report = store.restore(first, dry_run=True)

    assert len(report.changes) == 5
    assert store.snapshots() == [first]
    assert store.pending_restores() == []


def test_a_restore_that_is_refused_leaves_no_record_and_what_it_read_is_believed_later(
    store: clew.Store, root: Path
) -> None:
    """The cache says that the objects are there: so they are stored, and not read again."""
    first = store.snapshot(root)
    edit(root, "of the user")
    with pytest.raises(RestoreConflictError):
        store.restore(first, on_conflict="refuse")

    assert store.snapshots() == [first]
    assert store.pending_restores() == []
    assert store.snapshot(root).new_bytes == 0
    assert store.verify().problems == ()


def test_a_checkpoint_that_is_refused_leaves_objects_only(
    store: clew.Store, root: Path, tmp_path: Path
) -> None:
    session = store.session("s")
    session.append({"role": "user", "content": "one"})
    store.delete("s")
    with pytest.raises(clew.ClewError):
        session.checkpoint("one", files=root)

    assert store.snapshots() == []
    assert store.snapshot(root).new_bytes == 0


def test_a_restore_that_stops_half_way_stores_nothing_twice(
    store: clew.Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store.snapshot(root)
    edit(root, "of the user")

    def full(self: Applier) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(Applier, "run", full)
    with pytest.raises(clew.errors.RestoreFailedError):
        store.restore(first)

    with store._engine.read() as reader:
        packs = reader.list_packs(0, 100)
    assert len(packs) == 2
    assert all(pack.objects for pack in packs)


def test_a_restore_is_planned_again_if_gc_takes_what_its_plan_needs(
    store: clew.Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No record names yet what the safety snapshot found in the store."""
    first, before = store.snapshot(root), content(root)
    edit(root, "of the user")
    unsaved = content(root)
    store.delete_snapshot(store.snapshot(root).id)  # its content stays until gc
    take = SnapshotTaker.take
    collected: list[int] = []

    def take_and_collect(self: SnapshotTaker, *args: Any, **more: Any) -> PendingSnapshot:
        taken = take(self, *args, **more)
        if not collected:
            collected.append(store.gc().objects)
        return taken

    monkeypatch.setattr(SnapshotTaker, "take", take_and_collect)
    report = store.restore(first)

    assert collected[0] > 0
    assert content(root) == before
    assert store.verify().problems == ()
    store.undo_restore(report)
    assert content(root) == unsaved


def test_an_object_that_is_really_missing_is_named_and_nothing_is_changed(
    store: clew.Store, root: Path
) -> None:
    first = store.snapshot(root)
    edit(root, "of the user")
    unsaved = content(root)
    wanted = bytes.fromhex(first.tree)
    store._engine.run(lambda tx: tx.drop_objects([wanted]))

    with pytest.raises(clew.errors.ObjectMissingError, match=first.tree):
        store.restore(first)
    assert content(root) == unsaved
    assert store.pending_restores() == []


def test_the_safety_snapshot_holds_ignored_files_that_are_in_the_way(
    store: clew.Store, root: Path, commits: Commits
) -> None:
    """They are found by a second look, which asks the store for what the first one took."""
    first = store.snapshot(root)
    edit(root, "of the user")
    (root / ".gitignore").write_text("/d0/0\n")
    unsaved = content(root)
    with commits:
        report = store.restore(first)

    assert commits.count == 3
    assert content(root)["d0/0"] == "file 0"
    assert store.verify().problems == ()
    store.undo_restore(report)
    assert content(root) == unsaved
