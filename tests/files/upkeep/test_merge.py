"""What `gc` makes of the many small packs that small snapshots leave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.core.engine.engine import Engine
from clew.files.objects.store import PACK_SIZE
from clew.files.upkeep.gc import gc
from clew.files.upkeep.merge import FEWEST, MERGED, SMALL
from tests.files.snapshots import object_count, take
from tests.files.upkeep.small_packs import assert_whole, edited, noise, packs, stored, take_many


def test_many_small_packs_become_few_and_every_byte_stays(engine: Engine) -> None:
    taken = take_many(engine)
    before, objects = packs(engine), object_count(engine)
    report = gc(engine, merge=True)

    assert (report.objects, report.bytes) == (0, 0)
    assert object_count(engine) == objects
    assert len(packs(engine)) < len(before) / 10
    assert sum(info.size for info in packs(engine)) == sum(info.size for info in before)
    assert_whole(engine, taken)


def test_versions_of_a_path_are_packed_with_what_it_was_at_first(engine: Engine) -> None:
    """Each edited file is noise, so only the older version of itself can make it small."""
    take(engine, edited(0))
    first = stored(engine)
    for number in range(1, 61):
        take(engine, edited(number))
    assert stored(engine) > 1.7 * first
    gc(engine, merge=True)

    assert stored(engine) < 1.2 * first


def test_a_second_collection_moves_nothing(engine: Engine) -> None:
    take_many(engine)
    gc(engine, merge=True)
    before = packs(engine)
    gc(engine, merge=True)

    assert packs(engine) == before
    assert sum(info.size < SMALL for info in before) < FEWEST


def test_what_comes_after_a_merge_is_merged_with_it(engine: Engine) -> None:
    taken = take_many(engine, 30)
    gc(engine, merge=True)
    first = stored(engine)
    taken += [(take(engine, edited(number)), edited(number)) for number in range(30, 60)]
    gc(engine, merge=True)

    assert stored(engine) < 1.1 * first
    assert_whole(engine, taken)


def test_few_small_packs_are_left_as_they_are(engine: Engine) -> None:
    for number in range(FEWEST - 1):
        take(engine, {"a": b"%d" % number})
    before = packs(engine)
    gc(engine, merge=True)
    assert packs(engine) == before

    take(engine, {"a": b"another"})
    gc(engine, merge=True)
    assert len(packs(engine)) == 1


def test_the_packs_of_one_large_snapshot_are_left_as_they_are(engine: Engine) -> None:
    take(engine, {f"{number}": noise(f"{number}", 60_000) for number in range(60)})
    before = packs(engine)
    gc(engine, merge=True)

    assert len(before) > FEWEST
    assert packs(engine) == before


def test_a_larger_pack_is_not_packed_anew_for_a_small_edit(engine: Engine) -> None:
    large = {f"{number}": noise(f"{number}", 60_000) for number in range(4)}
    take(engine, large)
    first = packs(engine)[0]
    for number in range(FEWEST):
        take(engine, {**large, "notes": b"%d" % number})
    gc(engine, merge=True)

    assert first in packs(engine)
    assert len(packs(engine)) == 2


def test_the_pack_of_one_large_object_is_left_as_it_is(engine: Engine) -> None:
    take(engine, {"a": noise("large", PACK_SIZE + 1)})
    large = max(packs(engine), key=lambda info: info.size)
    for number in range(FEWEST):
        take(engine, {"a": noise(f"{number}", 30_000)})
    gc(engine, merge=True)

    assert large in packs(engine)
    assert len(packs(engine)) == 2


def test_a_merged_pack_is_never_larger_than_what_may_be_unpacked_for_one_object(engine: Engine) -> None:
    for number in range(100):
        take(engine, {"a": noise(f"{number}", 50_000 if number % 2 else 90_000)})
    assert all(info.size < SMALL for info in packs(engine))
    gc(engine, merge=True)

    sizes = sorted(info.size for info in packs(engine))
    assert sizes[-1] <= MERGED
    assert sizes[1] >= PACK_SIZE


def test_nothing_is_merged_unasked(engine: Engine) -> None:
    take_many(engine, 20)
    before = packs(engine)
    report = gc(engine)

    assert packs(engine) == before
    assert report.merged == 0


def test_a_dry_run_merges_nothing_and_says_what_it_would_save(engine: Engine) -> None:
    take_many(engine, 20)
    before, size = packs(engine), stored(engine)
    promised = gc(engine, dry_run=True, merge=True)
    assert packs(engine) == before

    done = gc(engine, merge=True)
    assert promised.merged == done.merged == size - stored(engine)


# ── The file ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(str(tmp_path / "store.db")) as opened:
        take_many(opened._engine)
        yield opened


def test_the_file_is_rewritten_by_vacuum_only(on_disk: clew.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = on_disk._engine.backend
    on_disk.vacuum()
    before = backend.bytes_on_disk()
    with monkeypatch.context() as patched:
        patched.setattr(backend, "scrub", lambda: pytest.fail("gc rewrote the store"))
        report = on_disk.gc(merge=True, thorough=True)

    assert report.merged > 0.25 * before
    on_disk.vacuum()
    assert backend.bytes_on_disk() < 0.75 * before
    assert on_disk.verify(full=True).ok


def test_what_merging_freed_is_used_again(on_disk: clew.Store, tmp_path: Path) -> None:
    on_disk.gc(merge=True)
    on_disk.vacuum()
    on_disk.close()
    file = tmp_path / "store.db"
    small = file.stat().st_size
    with clew.open(str(file)) as store:
        for number in range(60, 80):
            take(store._engine, edited(number))
            store.gc(merge=True)

    assert file.stat().st_size < 2.5 * small
