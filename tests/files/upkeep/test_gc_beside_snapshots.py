"""`gc` and snapshots that are taken at the same moment, by other threads and processes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.backends.contract import STORE_WIDE, Transaction
from clew.core.engine.engine import Engine
from clew.errors import LeaseHeldError, LeaseLostError, StoreBusyError
from clew.files import records
from clew.files import records as keeping
from clew.files.objects.format import object_name
from clew.files.objects.store import ObjectReader
from clew.files.records import CollectedError, SnapshotCounters, retry_if_collected
from clew.files.upkeep import gc as module
from clew.files.upkeep.gc import gc
from clew.files.upkeep.verify import verify
from clew.model.files import Snapshot
from tests.files.snapshots import (
    NEW,
    OLD,
    delete,
    ids,
    object_count,
    pack_count,
    planted,
    snapshot_of,
    take,
)
from tests.files.upkeep import collectors
from tests.support.forks import call_in_fork


def test_a_snapshot_is_refused_if_objects_were_removed_while_it_was_taken(engine: Engine) -> None:
    with engine.read() as reader:
        shelf = records.counters_of(reader)
    tree = planted(engine, OLD)
    gc(engine)
    snapshot = snapshot_of(tree)
    with pytest.raises(CollectedError, match=snapshot.id):
        engine.run(lambda tx: records.put(tx, snapshot, shelf))
    assert not ids(engine)


def test_a_snapshot_is_not_refused_if_nothing_was_removed(engine: Engine) -> None:
    with engine.read() as reader:
        shelf = records.counters_of(reader)
    gc(engine)
    snapshot = snapshot_of(planted(engine, OLD))
    engine.run(lambda tx: records.put(tx, snapshot, shelf))
    assert ids(engine) == {snapshot.id}


def test_a_snapshot_that_was_refused_is_taken_again_and_gc_has_to_wait(engine: Engine) -> None:
    shelves: list[SnapshotCounters] = []

    def attempt(shelf: SnapshotCounters) -> Snapshot:
        shelves.append(shelf)
        snapshot = snapshot_of(planted(engine, OLD))
        if len(shelves) == 1:
            gc(engine)
        else:
            with pytest.raises(LeaseHeldError, match="the lease of this store to collect garbage"):
                gc(engine)
        engine.run(lambda tx: records.put(tx, snapshot, shelf))
        return snapshot

    snapshot = retry_if_collected(engine, attempt)
    assert len(shelves) == 2
    assert ids(engine) == {snapshot.id}
    assert gc(engine).objects == 0
    assert verify(engine, full=True).ok


def test_a_snapshot_that_can_not_be_kept_says_so(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_claim", lambda _: None)  # as if gc could not be kept out
    attempts: list[SnapshotCounters] = []

    def attempt(shelf: SnapshotCounters) -> None:
        attempts.append(shelf)
        tree = planted(engine, OLD)
        gc(engine)
        engine.run(lambda tx: records.put(tx, snapshot_of(tree), shelf))

    with pytest.raises(StoreBusyError, match="8 times"):
        retry_if_collected(engine, attempt)
    assert len(attempts) == keeping.TRIES
    assert not ids(engine)


def test_what_a_snapshot_takes_up_again_while_gc_is_at_work_stays(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Marked as garbage, then needed again before it went: gc looks at the new snapshot first."""
    delete(engine, take(engine, OLD))
    delete(engine, take(engine, {"other": b"garbage"}))
    planned = module._Collection._plan
    taken: list[Snapshot] = []

    def plan(collection: module._Collection) -> Iterator[list[int]]:
        for packs in planned(collection):
            if not taken:
                taken.append(take(engine, OLD))
            yield packs

    monkeypatch.setattr(module._Collection, "_plan", plan)
    report = gc(engine)
    assert ids(engine) == {taken[0].id}
    assert verify(engine, full=True).ok
    assert report.objects == 2
    with engine.read() as reader:
        assert not reader.find_objects([object_name(b"garbage")])


def test_what_a_snapshot_adds_while_gc_is_at_work_stays(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pack that came after the look at all packs is nobody's garbage."""
    delete(engine, take(engine, OLD))
    looked = module._Collection._all_objects
    added: list[bytes] = []

    def look(collection: module._Collection) -> Iterator[Any]:
        if not added:
            added.append(planted(engine, NEW))
        yield from looked(collection)

    monkeypatch.setattr(module._Collection, "_all_objects", look)
    gc(engine)
    assert ObjectReader(engine.read).directory(added[0])


def test_a_collection_that_lost_its_claim_removes_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-43: whoever was frozen while somebody else took over must not go on."""
    delete(engine, take(engine, OLD))
    before = object_count(engine)
    planned = module._Collection._plan

    def plan(collection: module._Collection) -> Iterator[list[int]]:
        engine.run(lambda tx: tx.drop_record(STORE_WIDE, "lease", "objects"))
        engine.run(lambda tx: records.take_claim(tx, engine.host))
        yield from planned(collection)

    monkeypatch.setattr(module._Collection, "_plan", plan)
    with pytest.raises(LeaseLostError):
        gc(engine)
    assert object_count(engine) == before


def test_a_claim_whose_holder_is_gone_does_not_stop_the_next(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    call_in_fork(collectors.claim_and_vanish, path)
    with clew.open(path) as store:
        delete(store._engine, take(store._engine, OLD))
        assert gc(store._engine).objects > 0


def test_one_collection_at_a_time(engine: Engine) -> None:
    claim = engine.run(lambda tx: records.take_claim(tx, engine.host))
    with pytest.raises(LeaseHeldError):
        gc(engine)
    assert gc(engine, dry_run=True).dry_run
    engine.run(lambda tx: records.end_claim(tx, claim))
    assert not gc(engine).dry_run


class Stop(Exception):
    pass


def test_a_collection_that_ends_anywhere_leaves_the_store_in_order(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-44: stopped before each of its transactions in turn; the next one finishes the work."""
    for name in ("PACKS_AT_ONCE", "OBJECTS_AT_ONCE", "BYTES_AT_ONCE"):
        monkeypatch.setattr(module, name, 1)
    applied = module._Collection._apply
    for stop_at in range(20):
        kept = take(engine, {"k": b"kept", **{f"{n}": b"kept %d" % n for n in range(3)}})
        for number in range(4):
            delete(engine, take(engine, {"k": b"kept", "x": b"garbage %d" % number}))
        calls = 0

        def apply(collection: module._Collection, tx: Transaction, *, task: Any, at: int = stop_at) -> bool:
            nonlocal calls
            calls += 1
            if calls > at:
                raise Stop
            return applied(collection, tx, task=task)

        monkeypatch.setattr(module._Collection, "_apply", apply)
        try:
            gc(engine)
            is_stopped = False
        except Stop:
            is_stopped = True
        monkeypatch.setattr(module._Collection, "_apply", applied)
        assert verify(engine, full=True).ok
        gc(engine)
        assert object_count(engine) == 5
        delete(engine, kept)
        if not is_stopped:
            return
    pytest.fail("it never came to its end")


def test_threads_that_take_snapshots_and_collect_do_no_harm_to_each_other(engine: Engine) -> None:
    with ThreadPoolExecutor(3) as threads:
        takers = [threads.submit(collectors.take_and_delete, engine, seed, 15) for seed in (1, 2)]
        collector = threads.submit(collectors.collect, engine, lambda: all(map(Future.done, takers)))
    assert [taker.exception() for taker in takers] == [None, None]
    assert collector.exception() is None
    assert len(ids(engine)) == 4
    assert verify(engine, full=True).problems == ()
    for id in ids(engine):
        engine.run(partial(records.delete, id=id))
    gc(engine)
    assert object_count(engine) == pack_count(engine) == 0


def test_processes_that_take_snapshots_and_collect_do_no_harm_to_each_other(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    clew.open(path).close()

    removed, *ends = call_in_fork(collectors.in_processes, path, 15)

    assert removed > 0
    assert ends == [0, 0, 0]
    with clew.open(path) as store:
        assert len(ids(store._engine)) == 4
        assert verify(store._engine, full=True).problems == ()


def test_a_collection_that_is_killed_does_no_harm_and_does_not_stop_the_next(tmp_path: Path) -> None:
    """F-44: kill -9 in the middle of the work, again and again."""
    path = str(tmp_path / "store.db")
    with clew.open(path) as store:
        engine = store._engine
        for number in range(1, 5):
            collectors.take_and_delete(engine, number, 6)
            call_in_fork(collectors.die_collecting, path, number, expect=-9)
            assert verify(engine, full=True).problems == ()
            assert not gc(engine).dry_run
        assert verify(engine, full=True).problems == ()
