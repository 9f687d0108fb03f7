"""F-44: somebody changes the directory while it is looked at, or restored (S-05 to S-08, P13, P14)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import clew
from clew.files.snapshot.read import WHOLE
from clew.model.files import Snapshot
from tests.files.playground import House, house, kept, state
from tests.files.restore.busy_directory import (
    OUTSIDE,
    Ambush,
    Storm,
    content,
    is_mixed,
    swap_back,
    swap_for_link,
)
from tests.files.trees import in_store, leaves

ROUNDS = 25
LARGE = 2 * WHOLE + 64 * 1024
"""Bytes of a file that is stored in pieces, and read by more than one call."""
LISTED = {"changing", "fifo", "unreadable", "device"}
"""How a snapshot names what changed under its eyes: a link that is a directory by now is no device, but
what matters is that it is listed."""


@pytest.fixture
def home() -> Iterator[House]:
    """A root with files, and beside it a directory with the same names and other contents."""
    with house() as made:
        for folder in ("d/e", "swap/e"):
            (made.root / folder).mkdir(parents=True)
        for number, name in enumerate(["a", "b", "d/a", "d/b", "d/e/a", "swap/a", "swap/e/a"]):
            (made.root / name).write_bytes(content(number, 4096))
        (made.outside / "e").mkdir()
        for name in ("a", "b", "e/a", "only here"):
            (made.outside / name).write_bytes(OUTSIDE * 512)
        (made.outside / "link").symlink_to(OUTSIDE.decode())
        yield made


def stored(store: clew.Store, snapshot: Snapshot) -> dict[bytes, bytes]:
    found = leaves(in_store(store._engine, bytes.fromhex(snapshot.tree)))
    return {path: held for path, held in found.items() if isinstance(held, bytes)}


def check_inside(store: clew.Store, snapshot: Snapshot) -> None:
    """Nothing of what lies outside is in the snapshot, and no file of it is of two moments."""
    found = stored(store, snapshot)
    assert [path for path, held in found.items() if OUTSIDE in held] == []
    assert [path for path, held in found.items() if is_mixed(held)] == []


# -- at every call


def each_moment(
    act: Callable[[Ambush], None], swap: Callable[[], None], planted: bool = False
) -> Iterator[int]:
    """Do something again and again, ambushed at its first call, its second, …, until there are no more."""
    for number in range(1, 2000):
        ambush = Ambush(number, swap, follows_links=planted)
        act(ambush)
        yield number
        if ambush.count < number:
            return


def snapshots_in_ambush(home: House, planted: bool = False) -> Iterator[tuple[clew.Store, Snapshot]]:
    taken: list[Snapshot] = []
    with home.open() as store:

        def act(ambush: Ambush) -> None:
            swap_back(home.root / "swap")
            (home.root / "swap/a").write_bytes(content(ambush.count, 64))  # else it is known by its times
            with ambush.laid():
                taken.append(store.snapshot(home.root))

        for _ in each_moment(act, lambda: swap_for_link(home.root / "swap", home.outside), planted):
            yield store, taken.pop()


def test_f44_a_directory_swapped_for_a_link_at_any_call_of_a_snapshot_is_not_followed(home: House) -> None:
    """S-05: nothing outside of the root is read into the store."""
    moments = changing = 0
    for store, snapshot in snapshots_in_ambush(home):
        check_inside(store, snapshot)
        changing += any(one.reason == "changing" for one in snapshot.skipped)
        moments += 1
    assert moments > 30
    assert changing > 0
    swap_back(home.root / "swap")
    with home.open() as store:
        assert stored(store, store.snapshot(home.root)).keys() >= {b"swap/a", b"swap/e/a"}


def test_the_ambush_finds_a_snapshot_that_follows_links(home: House) -> None:
    """A planted bug: O_NOFOLLOW is taken away."""
    taken = snapshots_in_ambush(home, planted=True)

    assert any(OUTSIDE in held for store, snapshot in taken for held in stored(store, snapshot).values())


def restores_in_ambush(home: House, planted: bool = False) -> Iterator[tuple[clew.Store, Snapshot]]:
    """All files below the directory that is swapped are restored: created, overwritten, and deleted."""
    with home.open() as store:
        first = store.snapshot(home.root)

        def act(ambush: Ambush) -> None:
            swap_back(home.root / "swap")
            for pending in store.pending_restores():
                store.undo_restore(pending.id)
            (home.root / "swap/a").write_bytes(content(7, 64))
            (home.root / "swap/e/a").unlink(missing_ok=True)
            (home.root / "swap/only here").write_bytes(content(8, 64))
            store.snapshot(home.root)
            with ambush.laid():
                store.restore(first)

        for _ in each_moment(act, lambda: swap_for_link(home.root / "swap", home.outside), planted):
            yield store, first


def test_f44_a_directory_swapped_for_a_link_at_any_call_of_a_restore_is_not_followed(home: House) -> None:
    """S-06, P14: nothing outside of the root is written, made or deleted; later all is restored."""
    outside, target = state(home.outside), kept(state(home.root))
    moments = 0
    for store, first in restores_in_ambush(home):
        assert state(home.outside) == outside
        moments += 1
        if moments % 20 == 0:
            swap_back(home.root / "swap")
            store.snapshot(home.root)  # what comes back after a restore is unknown to it, and would stay
            assert store.restore(first).failed == ()
            assert kept(state(home.root)) == target
            assert store.verify(full=False).problems == ()
    assert moments > 60


def test_f44_a_restore_in_ambush_leaves_no_temporary_files(home: House) -> None:
    """P14: not in a directory that was swapped away, and that is back now, either."""
    left: set[Path] = set()
    for _ in restores_in_ambush(home):
        left.update(home.root.rglob(".clew-restore-*"))
    assert left == set()


def test_the_ambush_finds_a_restore_that_follows_links(home: House) -> None:
    """A planted bug: O_NOFOLLOW is taken away."""
    outside = state(home.outside)

    assert any(state(home.outside) != outside for _ in restores_in_ambush(home, planted=True))


# -- all the time


@pytest.mark.parametrize("seed", [1, 2])
def test_f44_snapshots_in_a_storm_hold_no_mixture_and_nothing_of_outside(home: House, seed: int) -> None:
    """What changes is listed or whole, never half-stored as if whole; the next snapshot works as ever."""
    with home.open() as store:
        with Storm(home.root, home.outside, seed) as storm:
            taken = [store.snapshot(home.root) for _ in range(ROUNDS)]
        for snapshot in taken:
            check_inside(store, snapshot)
        assert storm.rounds > ROUNDS
        assert {one.reason for snapshot in taken for one in snapshot.skipped} <= LISTED
        after = store.snapshot(home.root)
        assert stored(store, after) == files_on_disk(home.root)
        assert store.verify().problems == ()


@pytest.mark.parametrize("seed", [3, 4])
def test_f44_restores_in_a_storm_write_nothing_outside_and_end_well_after_it(home: House, seed: int) -> None:
    """P13, P14: what changed meanwhile is left alone and told; afterwards a restore gives every byte."""
    outside, target = state(home.outside), state(home.root)
    with home.open() as store:
        first = store.snapshot(home.root)
        reasons = set()
        with Storm(home.root, home.outside, seed, largest=200_000) as storm:
            for _ in range(ROUNDS):
                report = store.restore(first)
                reasons |= {failure.reason for failure in report.failed}
                check_inside(store, store.get_snapshot(report.safety or ""))
        assert storm.rounds > ROUNDS
        assert state(home.outside) == outside
        assert reasons
        assert store.pending_restores() == []
        for path in (path for path in home.root.rglob("*") if path.is_fifo()):
            path.unlink()
        assert store.restore(first).failed == ()
        now = kept(state(home.root))
        assert {path: what for path, what in now.items() if path in target} == kept(target)
        assert store.verify().problems == ()


def files_on_disk(root: Path) -> dict[bytes, bytes]:
    return {path: held for path, (kind, _, held) in state(root).items() if kind == "file"}


def test_f44_a_fifo_in_the_place_of_a_file_at_any_call_does_not_make_us_wait(home: House) -> None:
    """I-21: somebody swaps a file for a FIFO between the look at it and its opening."""
    path = home.root / "a"

    def swap() -> None:
        path.unlink()
        os.mkfifo(path)

    with home.open() as store:

        def act(ambush: Ambush) -> None:
            path.unlink(missing_ok=True)
            path.write_bytes(content(ambush.count, 64))
            with ambush.laid():
                taken.append(store.snapshot(home.root))

        taken: list[Snapshot] = []
        told = {one.reason for _ in each_moment(act, swap) for one in taken[-1].skipped}

    assert "fifo" in told
    assert told - {"fifo"}  # it was a file when it was looked at
    assert told <= LISTED


def rewritten_snapshots(home: House, size: int) -> Iterator[bytes | None]:
    """Of a file that is rewritten at each call in turn, what the snapshot holds; None: it is listed."""
    path = home.root / "a"

    def rewrite() -> None:
        with path.open("r+b") as file:
            file.write(content(2, size))

    with home.open() as store:
        taken: list[Snapshot] = []

        def act(ambush: Ambush) -> None:
            path.write_bytes(content(1, size))
            with ambush.laid():
                taken.append(store.snapshot(home.root))

        for _ in each_moment(act, rewrite):
            snapshot = taken.pop()
            held = stored(store, snapshot).get(b"a")
            assert (held is None) == (
                ("a", "changing") in [(one.path, one.reason) for one in snapshot.skipped]
            )
            yield held


@pytest.mark.parametrize("size", [4096, LARGE])
def test_f44_a_file_rewritten_at_any_call_of_a_snapshot_is_whole_or_listed(home: House, size: int) -> None:
    """Of the same size, and within one tick of the clock: its times do not tell. The large one takes
    two seconds: it is read some thirty times."""
    assert set(rewritten_snapshots(home, size)) <= {content(1, size), content(2, size), None}


def test_the_ambush_finds_a_snapshot_that_trusts_what_it_reads(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted bug: what was read is not looked at again."""
    monkeypatch.setattr("clew.files.snapshot.read._is_same", lambda before, after: True)
    monkeypatch.setattr("clew.files.snapshot.read._stamp", lambda: 2**63)

    assert any(is_mixed(held) for held in rewritten_snapshots(home, LARGE) if held is not None)
