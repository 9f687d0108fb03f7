"""Snapshots and restores of any tree, changed in any way, give back every byte (P13, P14, I-20)."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import event, given, settings

import clew
from clew.files.restore import prepare, restore
from clew.model.files import RestoreReport
from tests.files.edits import Change, apply, changes
from tests.files.playground import State, house, kept, state
from tests.files.trees import MIB, Link, Program, Tree, build, trees
from tests.support.effort import usually

IGNORED = b".ignored"
LARGEST = usually(4 * MIB + 1, thorough=20 * MIB)
"""Bytes of a file: one more than are kept in one piece."""


def plant_ignored(root: Path) -> None:
    """Files that the rules leave out, at the top and in every directory that is there."""
    (root / ".gitignore").write_text("*.ignored\n")
    folders = [directory for directory, _, _ in os.walk(os.fsencode(root))]
    for folder in folders:
        try:
            with open(folder + b"/local.ignored", "wb") as file:
                file.write(b"mine: " + folder)
        except OSError:
            pass  # the path is as long as a path can be
    os.chmod(root / "local.ignored", 0o600)


def ignored_of(found: State) -> State:
    return {path: what for path, what in found.items() if path.endswith(IGNORED)}


def not_ignored_of(found: State) -> State:
    return {path: what for path, what in found.items() if not path.endswith(IGNORED)}


def check_clean(store: clew.Store) -> None:
    report = store.verify()
    assert report.problems == ()
    assert store.pending_restores() == []


@settings(max_examples=usually(15, thorough=60))
@given(tree=trees(LARGEST), made=changes(LARGEST))
def test_i20_any_tree_comes_back_byte_for_byte_and_so_does_what_was_there_before(
    tree: Tree, made: list[Change]
) -> None:
    """P13: restore gives exactly the first snapshot, undo_restore exactly the state before, with modes."""
    with house() as home:
        build(home.root, tree)
        first = state(home.root)
        with home.open() as store:
            snapshot = store.snapshot(home.root)
            for change in made:
                apply(home.root, change)
            second = state(home.root)
            store.snapshot(home.root)

            report = store.restore(snapshot)

            assert report.failed == ()
            assert kept(state(home.root)) == kept(first)
            if report.id is not None:
                event("something was restored")
                undone = store.undo_restore(report)
                assert undone.failed == ()
            assert state(home.root) == second
            check_clean(store)


@settings(max_examples=usually(25, thorough=60))
@given(tree=trees(largest=4095), made=changes(4095))
def test_p14_a_directory_is_as_in_the_snapshot_but_for_what_is_ignored(
    tree: Tree, made: list[Change]
) -> None:
    """P14: what the rules left out of the snapshot stays as it is, whatever the rules are by now."""
    with house() as home:
        build(home.root, tree)
        plant_ignored(home.root)
        known = not_ignored_of(state(home.root))
        with home.open() as store:
            snapshot = store.snapshot(home.root)
            for change in made:
                apply(home.root, change, spared=IGNORED)
            before = state(home.root)

            report = store.restore(snapshot)

            after = state(home.root)
            assert ignored_of(after) == ignored_of(before)
            check_restored(after, known, report)
            assert not [path for path in after if b".clew-restore-" in path]
            if report.id is not None:
                assert store.undo_restore(report).failed == ()
            assert state(home.root) == before
            check_clean(store)


def check_restored(after: State, known: State, report: RestoreReport) -> None:
    """All that the snapshot names, and nothing else, but for what had to stay: that is told."""
    paths = [*(one.path for one in report.failed), *(one.path for one in report.kept)]
    told = {os.fsencode(path) for path in paths}
    now, then = kept(after), kept(known)
    for path in then.keys() | now.keys():
        is_told = any(path == other or path.startswith(other + b"/") for other in told)
        holds_told = any(other.startswith(path + b"/") for other in told)
        assert is_told or now.get(path) == then.get(path) or (holds_told and path not in then), path


@settings(max_examples=15)
@given(tree=trees(largest=4095), made=changes(4095))
def test_a_restore_elsewhere_makes_the_same_tree_and_leaves_the_root_alone(
    tree: Tree, made: list[Change]
) -> None:
    """A snapshot is not bound to where it was taken."""
    with house() as home:
        build(home.root, tree)
        first = state(home.root)
        with home.open() as store:
            snapshot = store.snapshot(home.root)
            for change in made:
                apply(home.root, change)
            changed = state(home.root)

            report = store.restore(snapshot, home.directory / "new")

            assert report.failed == ()
            assert kept(state(home.directory / "new")) == kept(first)
            assert state(home.root) == changed


ALL_SIZES: Tree = {
    b"empty": b"",
    b"one": b"\0",
    b"exactly": os.urandom(4 * MIB),
    b"above": Program(os.urandom(4 * MIB + 1)),
    b"large": os.urandom(20 * MIB + 7),
    b"zeros": bytes(9 * MIB),
    b"no folder": {},
    b"new\nline\xff": {b"link": Link(b"../large"), b"dangling\xff": Link(b"\xff\n")},
}


def test_i20_files_of_all_sizes_up_to_20_mb_of_noise_come_back() -> None:
    """Large files are kept in pieces: every byte of them comes back, at every place of a change."""
    with house() as home, home.open() as store:
        build(home.root, ALL_SIZES)
        first = state(home.root)
        snapshot = store.snapshot(home.root)
        for place in (0, 7 * MIB, 20 * MIB):
            with (home.root / "large").open("r+b") as file:
                file.seek(place)
                file.write(b"changed")
        with (home.root / "zeros").open("ab") as file:
            file.truncate(MIB)
        (home.root / "above").unlink()
        second = state(home.root)

        report = store.restore(snapshot)

        assert {change.path for change in report.changes} == {"large", "zeros", "above"}
        assert kept(state(home.root)) == kept(first)
        store.undo_restore(report)
        assert state(home.root) == second
        check_clean(store)


def test_p13_an_undo_of_a_rewind_gives_back_the_permissions_of_private_files() -> None:
    """A file that only its owner could read is not readable by all after `rewind` and `undo`."""
    with house() as home, home.open() as store:
        session = store.session("s")
        (home.root / "a").write_text("one")
        session.checkpoint("start", files=home.root)
        (home.root / "secret").write_text("key")
        (home.root / "secret").chmod(0o600)
        session.checkpoint("later", files=home.root)
        before = state(home.root)
        session.rewind("start", files=True)
        assert b"secret" not in state(home.root)

        session.undo()

        assert state(home.root) == before


def test_the_comparison_finds_an_undo_that_forgets_permissions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: without the modes in the journal a private file comes back readable by all."""
    monkeypatch.setattr(prepare, "unusual_modes", lambda root, plan: {})
    with house() as home, home.open() as store:
        (home.root / "a").write_text("one")
        snapshot = store.snapshot(home.root)
        (home.root / "secret").write_text("key")
        (home.root / "secret").chmod(0o600)
        store.snapshot(home.root)
        before = state(home.root)

        store.undo_restore(store.restore(snapshot))

        assert state(home.root) != before


def test_the_comparison_finds_a_restore_that_asks_only_the_rules_of_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A planted bug: what was ignored, and is not any more, would go, though it was there all the time."""
    real = restore.restore
    careless = lambda tools, job: real(tools, msgspec.structs.replace(job, omitted_by=None))  # noqa: E731
    monkeypatch.setattr(restore, "restore", careless)
    with house() as home, home.open() as store:
        plant_ignored(home.root)
        snapshot = store.snapshot(home.root)
        before = state(home.root)
        (home.root / ".gitignore").unlink()

        store.restore(snapshot)

        assert ignored_of(state(home.root)) != ignored_of(before)
