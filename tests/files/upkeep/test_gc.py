"""What `gc` removes, what it must not, and that it does no harm to snapshots that are being taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from uuid_utils import uuid7

import clew
from clew.backends.contract import STORE_WIDE, Reader
from clew.core.conversation import moves
from clew.core.engine.engine import Engine
from clew.core.retention.rules import DAY
from clew.errors import CorruptError, ObjectMissingError
from clew.files import journal, records
from clew.files.objects.format import FILE, FOLDER, TreeEntry, encode_directory, object_name
from clew.files.objects.store import ObjectReader
from clew.files.upkeep import gc as module
from clew.files.upkeep.gc import gc
from clew.files.upkeep.needs import unneeded
from clew.files.upkeep.verify import verify
from clew.model.files import FileProgress, Snapshot
from tests.files.snapshots import (
    NEW,
    OLD,
    delete,
    ids,
    object_count,
    pack_count,
    planted,
    put,
    recorded,
    snapshot_of,
    take,
)
from tests.files.trees import Tree, build

# ── Objects ───────────────────────────────────────────────────────────────────────────────────────


def test_what_snapshots_need_stays(engine: Engine) -> None:
    take(engine, OLD)
    take(engine, NEW)
    before = object_count(engine)
    report = gc(engine)
    assert (report.snapshots, report.objects, report.bytes) == (0, 0, 0)
    assert object_count(engine) == before
    assert verify(engine, full=True).ok


def test_what_only_a_deleted_snapshot_needed_goes(engine: Engine) -> None:
    old = take(engine, OLD)
    take(engine, NEW)
    delete(engine, old)
    report = gc(engine)
    assert report.objects == 6  # second, d, two pieces, their list, the root
    assert report.bytes > len(b"second")
    assert object_count(engine) == 4
    assert verify(engine, full=True).ok


def test_everything_goes_when_nothing_is_needed(engine: Engine) -> None:
    delete(engine, take(engine, OLD))
    planted(engine, NEW)  # as a snapshot leaves it that was killed before its record
    gc(engine)
    assert object_count(engine) == pack_count(engine) == 0


def test_a_second_collection_finds_nothing(engine: Engine) -> None:
    old = take(engine, {"a": b"x" * 10, "b": b"y" * 5000})
    take(engine, {"b": b"y" * 5000})
    delete(engine, old)
    assert gc(engine).objects == 2
    assert gc(engine).objects == 0


def test_a_dry_run_says_the_same_and_writes_nothing(engine: Engine) -> None:
    old = take(engine, OLD)
    take(engine, NEW)
    take(engine, {"s": b"safety"}, kind="safety", at=engine.now() - 31 * DAY)
    delete(engine, old)
    before = object_count(engine), pack_count(engine), ids(engine)
    promised = gc(engine, dry_run=True)
    assert promised.dry_run
    assert before == (object_count(engine), pack_count(engine), ids(engine))
    done = gc(engine)
    assert not done.dry_run
    assert (done.snapshots, done.objects, done.bytes) == (
        promised.snapshots,
        promised.objects,
        promised.bytes,
    )
    assert done.snapshots == 1


def test_a_pack_of_which_little_is_left_is_packed_anew(engine: Engine) -> None:
    old = take(engine, {f"{n}": b"%d" % n * 1000 for n in range(10)})
    kept = take(engine, {"3": b"3" * 1000, "7": b"7" * 1000})
    delete(engine, old)
    gc(engine)
    with engine.read() as reader:
        size = sum(pack.size for pack in reader.list_packs(0, 100))
    assert size < 4000
    objects = ObjectReader(engine.read)
    entries = objects.directory(bytes.fromhex(kept.tree))
    assert [objects.get(entry.digest) for entry in entries] == [b"3" * 1000, b"7" * 1000]


def test_a_pack_of_which_most_is_left_is_left_as_it_is(engine: Engine) -> None:
    old = take(engine, {"small": b"s", "large": b"l" * 5000})
    take(engine, {"large": b"l" * 5000})
    with engine.read() as reader:
        packs = {pack.pack for pack in reader.list_packs(0, 100)}
    delete(engine, old)
    gc(engine)
    with engine.read() as reader:
        assert packs == {pack.pack for pack in reader.list_packs(0, 100)}
        assert not reader.find_objects([object_name(b"s")])
    assert verify(engine, full=True).ok


def test_a_thorough_collection_leaves_no_byte_of_it(engine: Engine) -> None:
    old = take(engine, {"secret": b"the password", "large": b"l" * 5000})
    take(engine, {"large": b"l" * 5000})
    delete(engine, old)
    gc(engine, thorough=True)
    with engine.read() as reader:
        contents = [reader.get_pack(pack.pack) for pack in reader.list_packs(0, 100)]
    assert contents
    assert not any(b"password" in content for content in contents)
    assert verify(engine, full=True).ok


def test_an_empty_file_alone_in_its_pack_is_needed_too(engine: Engine) -> None:
    put(engine, b"")
    take(engine, {"nothing": b""})
    gc(engine, thorough=True)
    assert verify(engine, full=True).ok


def test_a_file_that_holds_the_bytes_of_a_directory_does_not_hide_what_that_needs(engine: Engine) -> None:
    inner = encode_directory([TreeEntry(b"f", FILE, object_name(b"needed"), 6)])
    name = object_name(inner)
    outer = encode_directory(
        [TreeEntry(b"as-file", FILE, name, len(inner)), TreeEntry(b"as-folder", FOLDER, name, len(inner))]
    )
    put(engine, inner, outer, b"needed")
    recorded(engine, object_name(outer))
    assert gc(engine).objects == 0
    assert verify(engine).ok


def test_many_objects_go_in_many_transactions(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PAGE", "PACKS_AT_ONCE", "OBJECTS_AT_ONCE", "BYTES_AT_ONCE"):
        monkeypatch.setattr(module, name, 2)
    kept: list[Tree] = []
    for number in range(6):
        tree: Tree = {f"{n}": b"%d of %d" % (n, number) for n in range(5)}
        kept.append({"0": b"0 of %d" % number})
        delete(engine, take(engine, tree))
    for tree in kept:
        take(engine, tree)
    gc(engine)
    assert object_count(engine) == 12
    assert verify(engine, full=True).ok


def test_nothing_is_removed_while_it_can_not_be_told_what_is_needed(engine: Engine) -> None:
    broken = take(engine, OLD)
    delete(engine, take(engine, NEW))
    engine.run(lambda tx: tx.drop_objects([bytes.fromhex(broken.tree)]))
    before = object_count(engine)
    with pytest.raises(ObjectMissingError) as caught:
        gc(engine)
    assert broken.id in caught.value.__notes__[0]
    assert object_count(engine) == before
    delete(engine, broken)
    gc(engine)
    assert object_count(engine) == 0


def test_a_record_that_can_not_be_read_keeps_everything(engine: Engine) -> None:
    delete(engine, take(engine, OLD))
    engine.run(lambda tx: tx.put_record(STORE_WIDE, "snapshot", "ff" * 16, b"\x93damaged"))
    before = object_count(engine)
    with pytest.raises(CorruptError, match="ff" * 16):
        gc(engine)
    assert object_count(engine) == before


def test_progress_is_told(engine: Engine) -> None:
    take(engine, OLD)
    told: list[FileProgress] = []
    gc(engine, on_progress=told.append)
    assert told[-1].files == object_count(engine)


# ── Snapshots that nobody needs ───────────────────────────────────────────────────────────────────


def test_a_snapshot_that_somebody_asked_for_stays_however_old_it_is(engine: Engine) -> None:
    take(engine, OLD, at=0)
    assert gc(engine).snapshots == 0


def test_a_safety_snapshot_stays_for_thirty_days(engine: Engine) -> None:
    young = take(engine, OLD, kind="safety", at=engine.now() - 29 * DAY)
    take(engine, NEW, kind="safety", at=engine.now() - 31 * DAY)
    assert gc(engine).snapshots == 1
    assert ids(engine) == {young.id}
    assert verify(engine, full=True).ok


def test_an_old_safety_snapshot_stays_while_a_restore_names_it(engine: Engine) -> None:
    """P13: what a pending restore needs to go back is there, however long it lies."""
    old = take(engine, OLD, kind="safety", at=0)
    journal = b'{"safety": "%s"}' % old.id.encode()
    engine.run(lambda tx: tx.put_record(STORE_WIDE, "restore", "r1", journal))
    assert gc(engine).snapshots == 0
    engine.run(lambda tx: tx.drop_record(STORE_WIDE, "restore", "r1"))
    assert gc(engine).snapshots == 1


def test_an_old_safety_snapshot_stays_while_a_move_of_a_session_names_it(
    store: clew.Store, engine: Engine
) -> None:
    session = store.session("s")
    session.append({"role": "user", "content": "hi"})
    row = _row(engine, "s")
    old = take(engine, OLD, kind="safety", at=0, sessions=row.tree)
    files = moves.FileMove(b"/work", old.id, "")
    engine.run(lambda tx: moves.rewind(tx, session._access, 0, 1, files))
    assert gc(engine).snapshots == 0
    store.delete("s", purge=True)
    assert (ids(engine), gc(engine).objects) == (set(), 0)


def _journal(engine: Engine, safety: Snapshot, target: bytes, **fields: Any) -> str:
    record = journal.Restore(
        id=uuid7().hex,
        root=b"/work",
        snapshot="0" * 32,
        target=target,
        last=None,
        safety=safety.id,
        now=bytes.fromhex(safety.tree),
        paths=None,
        overwrite=False,
        token="0123456789abcdef",
        **fields,
    )
    engine.run(lambda tx: journal.begin(tx, record))
    return record.id


def test_the_trees_of_a_restore_stay_when_its_snapshots_are_deleted(engine: Engine) -> None:
    """P13: a killed restore can be finished and taken back, whatever the user deletes meanwhile."""
    safety, target = take(engine, OLD, kind="safety"), take(engine, NEW)
    _journal(engine, safety, bytes.fromhex(target.tree), created=0)
    delete(engine, safety)
    delete(engine, target)
    assert gc(engine).objects == 0


def test_a_restore_that_is_over_is_forgotten_with_its_snapshot_after_thirty_days(engine: Engine) -> None:
    now = engine.now()
    old, young = take(engine, OLD, kind="safety", at=0), take(engine, NEW, kind="safety", at=0)
    _journal(engine, old, bytes(32), state="done", created=now - 31 * DAY)
    kept = _journal(engine, young, bytes(32), state="done", created=now - 29 * DAY)
    assert gc(engine, dry_run=True).snapshots == 1
    assert gc(engine).snapshots == 1
    assert ids(engine) == {young.id}
    with engine.read() as reader:
        assert [id for id, _ in reader.scan_records(STORE_WIDE, "restore")] == [kept]


def test_a_restore_is_not_forgotten_while_the_session_can_undo_it(store: clew.Store, engine: Engine) -> None:
    session = store.session("s")
    session.append({"role": "user", "content": "hi"})
    safety = take(engine, OLD, kind="safety", at=0)
    move = b'{"sid": %d}' % _row(engine, "s").sid
    _journal(engine, safety, bytes(32), state="done", created=0, move=move)
    engine.run(lambda tx: moves.rewind(tx, session._access, 0, 1, moves.FileMove(b"/work", safety.id, "")))
    assert gc(engine).snapshots == 0
    store.delete("s", purge=True)
    assert (ids(engine), gc(engine).objects) == (set(), 0)


def _row(engine: Engine, id: str) -> Any:
    with engine.read() as reader:
        return reader.find_session(id) or reader.find_session(id, deleted=True)


@pytest.fixture
def root(tmp_path: Path, own_cache: None) -> Path:
    return tmp_path / "work"


def _checkpoint(session: clew.Session, name: str, root: Path, content: bytes) -> str:
    build(root, {"a": content, "d": {"b": b"same"}})
    return session.checkpoint(name, files=root).snapshot or ""


def test_the_snapshot_of_a_checkpoint_stays_while_that_names_it(
    store: clew.Store, engine: Engine, root: Path
) -> None:
    session = store.session("s")
    first = _checkpoint(session, "c", root, b"one")
    assert gc(engine).snapshots == 0
    second = _checkpoint(session, "c", root, b"two")  # the name moves on
    assert gc(engine).snapshots == 1
    assert ids(engine) == {second} != {first}
    session.delete_checkpoint("c")
    assert gc(engine).snapshots == 1
    assert object_count(engine) == 0


def test_a_checkpoint_in_the_trash_keeps_its_files(store: clew.Store, engine: Engine, root: Path) -> None:
    snapshot = _checkpoint(store.session("s"), "c", root, b"one")
    store.delete("s")
    assert gc(engine).snapshots == 0
    assert store.restore_deleted("s").get_checkpoint("c").snapshot == snapshot
    store.delete("s", purge=True)
    assert (ids(engine), gc(engine).objects) == (set(), 0)


def test_a_fork_keeps_the_files_of_the_checkpoints_that_it_took_along(
    store: clew.Store, engine: Engine, root: Path
) -> None:
    session = store.session("s")
    session.append({"role": "user", "content": "hi"})
    snapshot = _checkpoint(session, "c", root, b"one")
    fork = session.fork("f")
    store.delete("s", purge=True)
    assert gc(engine).snapshots == 0
    assert fork.get_checkpoint("c").snapshot == snapshot
    assert verify(engine, full=True).ok


def test_a_snapshot_for_a_checkpoint_needs_its_session(engine: Engine) -> None:
    snapshot = snapshot_of(planted(engine, OLD), kind="checkpoint")
    with pytest.raises(ValueError, match=snapshot.id):
        engine.run(lambda tx: records.put(tx, snapshot, records.counters_of(tx)))


def test_what_becomes_needed_while_it_looks_stays(
    store: clew.Store, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is decided by a look outside of the transaction is decided again inside."""
    old = take(engine, OLD, kind="safety", at=0)

    def look(reader: Reader, now: int) -> list[str]:
        found = unneeded(reader, now)
        engine.run(lambda tx: tx.put_record(STORE_WIDE, "restore", "r1", old.id.encode()))
        return found

    monkeypatch.setattr(module, "unneeded", look)
    assert gc(engine).snapshots == 0
    assert ids(engine) == {old.id}
