"""Snapshots made directly, without a directory to scan, and what they leave in a store."""

from __future__ import annotations

from uuid_utils import uuid7

from clew.core.engine.engine import Engine
from clew.files import records
from clew.files.objects.store import ObjectWriter
from clew.files.records import retry_if_collected
from clew.model import utc
from clew.model.files import Snapshot, SnapshotKind
from tests.files.trees import Chunked, Tree, encode

OLD: Tree = {"a": b"first", "d": {"b": b"second"}, "large": Chunked((b"piece one", b"piece two"))}
NEW: Tree = {"a": b"first", "d": {"b": b"changed"}}


def put(engine: Engine, *contents: bytes) -> list[bytes]:
    """Objects that nothing names; their names."""
    writer = ObjectWriter(engine)
    names = [writer.put(content) for content in contents]
    writer.flush()
    return names


def recorded(engine: Engine, tree: bytes) -> Snapshot:
    """A snapshot of a tree, whatever is in the store of that."""
    snapshot = snapshot_of(tree)
    engine.run(lambda tx: records.put(tx, snapshot, records.counters_of(tx)))
    return snapshot


def planted(engine: Engine, tree: Tree) -> bytes:
    """A tree that no snapshot names."""
    writer = ObjectWriter(engine)
    root = encode(tree, writer.put).digest
    writer.flush()
    return root


def snapshot_of(
    tree: bytes, *, kind: SnapshotKind = "snapshot", root: str = "/work", at: int = 0, id: str = ""
) -> Snapshot:
    return Snapshot(
        id=id or uuid7().hex,
        kind=kind,
        root=root,
        tree=tree.hex(),
        created_at=utc(at),
        files=0,
        links=0,
        directories=0,
        bytes=0,
        new_bytes=0,
        skipped=(),
    )


def take(
    engine: Engine, tree: Tree, *, kind: SnapshotKind = "snapshot", at: int | None = None, sessions: int = 0
) -> Snapshot:
    """A snapshot of a tree, taken as a store takes it."""

    def attempt(shelf: records.SnapshotCounters) -> Snapshot:
        snapshot = snapshot_of(planted(engine, tree), kind=kind, at=engine.now() if at is None else at)
        engine.run(lambda tx: records.put(tx, snapshot, shelf, sessions=sessions))
        return snapshot

    return retry_if_collected(engine, attempt)


def delete(engine: Engine, snapshot: Snapshot) -> None:
    assert engine.run(lambda tx: records.delete(tx, snapshot.id))


def ids(engine: Engine) -> set[str]:
    with engine.read() as reader:
        return {one.id for one in records.iterate(reader)}


def object_count(engine: Engine) -> int:
    with engine.read() as reader:
        return len(reader.scan_objects(b"", 1_000_000))


def pack_count(engine: Engine) -> int:
    with engine.read() as reader:
        return len(reader.list_packs(0, 1_000_000))
