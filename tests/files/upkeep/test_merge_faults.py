"""Merging beside snapshots, stopped, killed, and with damaged objects: no byte is ever lost."""

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
from clew.core.log import digest
from clew.core.log.rows import PackInfo
from clew.errors import LeaseLostError
from clew.files import records
from clew.files.objects.format import FILE, TreeEntry, encode_directory, object_name
from clew.files.objects.store import ObjectReader
from clew.files.upkeep import gc as module
from clew.files.upkeep import merge
from clew.files.upkeep.gc import gc
from clew.files.upkeep.merge import FEWEST, PackMove
from clew.files.upkeep.verify import verify
from clew.model.files import Snapshot
from tests.files.snapshots import object_count, planted, snapshot_of, take
from tests.files.trees import Tree
from tests.files.upkeep import collectors
from tests.files.upkeep.small_packs import assert_whole, edited, noise, packs, take_many
from tests.support.forks import call_in_fork


def test_what_a_snapshot_adds_before_its_record_stays_in_its_pack(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P13: nobody else knows yet what it is for."""
    taken = take_many(engine, 20)
    merge = module._Collection._merge
    trees: list[bytes] = []
    added: list[PackInfo] = []

    def plant_and_merge(collection: module._Collection) -> int:
        trees.append(planted(engine, {"mine": b"not yet recorded"}))
        added.append(packs(engine)[-1])
        return merge(collection)

    monkeypatch.setattr(module._Collection, "_merge", plant_and_merge)
    gc(engine, merge=True)
    assert added[0] in packs(engine)
    assert len(packs(engine)) < 10
    assert ObjectReader(engine.read).directory(trees[0])
    assert_whole(engine, taken)


def test_a_merge_refuses_no_snapshot_and_makes_no_cache_useless(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that was found in the store is missing afterwards, so nobody has to look again."""
    taken = take_many(engine, 20)
    merge = module._Collection._merge
    under_way: list[tuple[bytes, records.SnapshotCounters]] = []

    def begin_and_merge(collection: module._Collection) -> int:
        with engine.read() as reader:
            shelf = records.counters_of(reader)
        under_way.append((planted(engine, edited(20)), shelf))
        return merge(collection)

    monkeypatch.setattr(module._Collection, "_merge", begin_and_merge)
    before = len(packs(engine))
    gc(engine, merge=True)
    assert len(packs(engine)) < before / 2
    tree, shelf = under_way[0]
    snapshot = snapshot_of(tree)
    engine.run(partial(records.put, snapshot=snapshot, seen=shelf))
    assert_whole(engine, [*taken, (snapshot, edited(20))])


def _few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "MERGED", 40_000)
    monkeypatch.setattr(merge, "SMALL", 20_000)
    monkeypatch.setattr(merge, "PACKS_AT_ONCE", 1)


def test_a_snapshot_that_is_taken_between_two_moves_is_whole(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _few_at_once(monkeypatch)
    taken = take_many(engine, 40)
    planned = merge.Repacking.parcels
    count = 0

    def parcels(self: merge.Repacking, *args: Any) -> Iterator[PackMove]:
        nonlocal count
        for parcel in planned(self, *args):
            yield parcel
            count += 1
            tree = {**edited(count), "new": b"%d" % count}
            taken.append((take(engine, tree), tree))

    monkeypatch.setattr(merge.Repacking, "parcels", parcels)
    gc(engine, merge=True)
    assert count > 3
    assert_whole(engine, taken)


class Stop(Exception):
    pass


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_f44_a_merge_that_ends_anywhere_leaves_the_store_in_order(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped before each of its transactions in turn; nothing is lost, and the next one goes on."""
    _few_at_once(monkeypatch)
    move = module._Collection._move
    for stop_at in range(30):
        calls = 0

        def stopping(
            collection: module._Collection, tx: Transaction, *, parcel: PackMove, at: int = stop_at
        ) -> bool:
            nonlocal calls
            calls += 1
            if calls > at:
                raise Stop
            return move(collection, tx, parcel=parcel)

        with clew.open("memory:" if kind == "memory" else str(tmp_path / f"{stop_at}.db")) as store:
            engine = store._engine
            taken = take_many(engine, 12)
            objects = object_count(engine)
            monkeypatch.setattr(module._Collection, "_move", stopping)
            try:
                gc(engine, merge=True)
                is_stopped = False
            except Stop:
                is_stopped = True
            monkeypatch.setattr(module._Collection, "_move", move)
            assert_whole(engine, taken)
            gc(engine, merge=True)
            assert_whole(engine, taken)
            assert object_count(engine) == objects
        if not is_stopped:
            assert stop_at > 1
            return
    pytest.fail("it never came to its end")


def test_f43_a_merge_that_lost_its_claim_moves_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was frozen while somebody else took over must not go on."""
    taken = take_many(engine, 20)
    before = packs(engine)
    merge = module._Collection._merge

    def lose_and_merge(collection: module._Collection) -> int:
        engine.run(lambda tx: tx.drop_record(STORE_WIDE, "lease", "objects"))
        engine.run(lambda tx: records.take_claim(tx, engine.host))
        return merge(collection)

    monkeypatch.setattr(module._Collection, "_merge", lose_and_merge)
    with pytest.raises(LeaseLostError):
        gc(engine, merge=True)
    assert packs(engine) == before
    assert_whole(engine, taken)


def test_a_parcel_is_refused_when_something_does_not_lie_where_it_lay(engine: Engine) -> None:
    take(engine, {"a": b"content"})
    name = object_name(b"content")
    with engine.read() as reader:
        place = reader.find_objects([name])[name]
    moved = type(place)(place.pack + 1, place.offset, place.size)
    before = packs(engine)

    assert not engine.run(PackMove({name: moved}, [(digest.RAW, b"content", 7, [(name, 0, 7)])], []).apply)
    assert packs(engine) == before


def test_a_pack_that_still_holds_something_never_goes(engine: Engine) -> None:
    """P13: with a pack goes whatever lies in it, so the count of a plan is not relied on."""
    taken = take(engine, {"a": b"content"})
    name = object_name(b"content")
    with engine.read() as reader:
        place = reader.find_objects([name])[name]
    parcel = PackMove({name: place}, [(digest.RAW, b"content", 7, [(name, 0, 7)])], [place.pack])

    assert engine.run(parcel.apply)
    assert ObjectReader(engine.read).directory(bytes.fromhex(taken.tree))
    assert verify(engine, full=True).ok


def test_p7_a_damaged_object_stays_where_it_is_and_the_others_are_merged(engine: Engine) -> None:
    name = object_name(b"right")
    engine.run(lambda tx: tx.add_pack(digest.RAW, b"wrong", 5, [(name, 0, 5)]))
    damaged = packs(engine)[0]
    tree = planted(engine, {"a": b"x"})
    content = encode_directory([TreeEntry(b"bad", FILE, name, 5)])
    engine.run(
        lambda tx: tx.add_pack(digest.RAW, content, len(content), [(object_name(content), 0, len(content))])
    )
    with engine.read() as reader:
        shelf = records.counters_of(reader)
    for root in (tree, object_name(content)):
        engine.run(partial(records.put, snapshot=snapshot_of(root), seen=shelf))
    for number in range(FEWEST):
        take(engine, {"a": b"%d" % number})
    gc(engine, merge=True)

    assert damaged in packs(engine)
    assert len(packs(engine)) == 2
    assert [name.hex() in str(problem) for problem in verify(engine, full=True).problems] == [True]


def test_snapshots_that_are_taken_and_deleted_while_it_merges_stay_whole(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "FEWEST", 2)
    applied: list[bool] = []
    apply = PackMove.apply

    def noted(parcel: PackMove, tx: Transaction) -> bool:
        applied.append(apply(parcel, tx))
        return applied[-1]

    monkeypatch.setattr(PackMove, "apply", noted)
    with ThreadPoolExecutor(3) as threads:
        takers = [threads.submit(collectors.take_and_delete, engine, seed, 12) for seed in (1, 2)]
        collector = threads.submit(collectors.collect, engine, lambda: all(map(Future.done, takers)))
    assert [taker.exception() for taker in takers] == [None, None]
    assert collector.exception() is None
    assert any(applied)
    assert verify(engine, full=True).problems == ()
    with engine.read() as reader:
        assert len(list(records.iterate(reader))) == 4


def test_f44_a_merge_that_is_killed_inside_a_transaction_does_no_harm(tmp_path: Path) -> None:
    """Every snapshot is whole afterwards, and the next merge is not kept out."""
    path = str(tmp_path / "store.db")
    with clew.open(path) as store:
        taken: list[tuple[Snapshot, Tree]] = []
        for number in range(1, 4):
            for edit in range(6):
                tree = {f"d{n}": {"f": noise(f"{n} {number} {edit}", 500)} for n in range(4)}
                taken.append((take(store._engine, tree), tree))
            call_in_fork(collectors.die_merging, path, number, expect=-9)
            assert_whole(store._engine, taken)
        assert not gc(store._engine, merge=True).dry_run
        assert_whole(store._engine, taken)
