"""The records of snapshots: equal to what was put, newest first, of one root or of all."""

from __future__ import annotations

import msgspec
import pytest

from clew.backends.contract import STORE_WIDE
from clew.core.engine.engine import Engine
from clew.errors import CorruptError, SnapshotNotFoundError
from clew.files import records
from clew.files.records import PAGE, SnapshotCounters
from clew.model import utc
from clew.model.files import Skipped, Snapshot
from tests.files.snapshots import snapshot_of

TREE = bytes(range(32))


def put(engine: Engine, *several: Snapshot) -> None:
    for snapshot in several:
        engine.run(
            lambda tx, one=snapshot: records.put(tx, one, records.counters_of(tx), sessions=1)  # type: ignore[misc]
        )


def test_a_snapshot_comes_back_equal(engine: Engine) -> None:
    """I-20: a root and a skipped path of bytes that are no UTF-8 included."""
    odd = b"/odd \xff\n".decode("utf-8", "surrogateescape")
    snapshot = Snapshot(
        id="0123456789abcdef" * 2,
        kind="checkpoint",
        root=odd,
        tree=TREE.hex(),
        created_at=utc(1_700_000_000_123_456),
        files=1,
        links=2,
        directories=3,
        bytes=2**40,
        new_bytes=5,
        skipped=(Skipped("pipe", "fifo"), Skipped(odd, "too large")),
        include=(".env", odd),
        exclude=("*.log",),
        max_file_bytes=2**33,
    )
    put(engine, snapshot)
    with engine.read() as reader:
        assert records.get(reader, snapshot.id) == snapshot
        assert records.list_all(reader, odd) == [snapshot]


@pytest.mark.parametrize("id", ["", "0" * 32, "no such", "(objects)"])
def test_an_unknown_id_is_named(engine: Engine, id: str) -> None:
    put(engine, snapshot_of(TREE))
    with engine.read() as reader:
        assert records.find(reader, id) is None
        with pytest.raises(SnapshotNotFoundError) as caught:
            records.get(reader, id)
    assert repr(id) in str(caught.value)
    assert not engine.run(lambda tx: records.delete(tx, id))
    with engine.read() as reader:
        assert records.counters_of(reader).taken == 1


@pytest.mark.parametrize("count", [PAGE - 1, PAGE, PAGE + 1, 2 * PAGE + 5])
def test_they_are_listed_newest_first_across_pages(engine: Engine, count: int) -> None:
    several = [snapshot_of(TREE, id=f"{number:032x}", at=number) for number in range(count)]
    put(engine, *several)
    with engine.read() as reader:
        assert records.list_all(reader) == several[::-1]
        assert records.list_all(reader, limit=3) == several[:-4:-1]
        assert [id for id, _ in records.scan(reader)] == [one.id for one in several]


def test_those_of_a_root_are_found_among_others(engine: Engine) -> None:
    mine, other = snapshot_of(TREE, root="/mine", id="1" * 32), snapshot_of(TREE, root="/other", id="2" * 32)
    put(engine, mine, other)
    with engine.read() as reader:
        assert records.list_all(reader, "/mine") == [mine]
        assert records.list_all(reader, "/none") == []


def test_the_latest_of_a_root_is_not_one_that_a_restore_took(engine: Engine) -> None:
    first, last = snapshot_of(TREE, id="1" * 32), snapshot_of(TREE, id="2" * 32, kind="checkpoint")
    put(engine, first, last, snapshot_of(TREE, id="3" * 32, kind="safety"))
    put(engine, snapshot_of(TREE, id="4" * 32, root="/other"))
    with engine.read() as reader:
        assert records.latest(reader, "/work") == last
        assert records.latest(reader, "/none") is None


def test_a_deleted_snapshot_is_gone(engine: Engine) -> None:
    snapshot = snapshot_of(TREE)
    put(engine, snapshot)
    assert engine.run(lambda tx: records.delete(tx, snapshot.id))
    assert not engine.run(lambda tx: records.delete(tx, snapshot.id))
    with engine.read() as reader:
        assert records.find(reader, snapshot.id) is None


def test_a_damaged_record_is_named(engine: Engine) -> None:
    engine.run(lambda tx: tx.put_record(STORE_WIDE, "snapshot", "f" * 32, b"\xc1"))
    with engine.read() as reader, pytest.raises(CorruptError, match="f" * 32):
        records.get(reader, "f" * 32)


def test_a_record_with_fields_of_a_later_version_can_be_read(engine: Engine) -> None:
    snapshot = snapshot_of(TREE)
    put(engine, snapshot)
    with engine.read() as reader:
        value = reader.get_record(STORE_WIDE, "snapshot", snapshot.id)
    later = msgspec.msgpack.encode([*msgspec.msgpack.decode(value or b""), "of a later version"])
    engine.run(lambda tx: tx.put_record(STORE_WIDE, "snapshot", snapshot.id, later))
    with engine.read() as reader:
        assert records.get(reader, snapshot.id) == snapshot


def test_the_shelf_counts_what_was_taken_and_what_was_collected(engine: Engine) -> None:
    with engine.read() as reader:
        assert records.counters_of(reader) == SnapshotCounters(0, 0)
    put(engine, snapshot_of(TREE), snapshot_of(TREE))
    engine.run(records.note_collected)
    with engine.read() as reader:
        assert records.counters_of(reader) == SnapshotCounters(2, 1)
