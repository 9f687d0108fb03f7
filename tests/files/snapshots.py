"""Trees and snapshots made directly, without a directory to scan."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypeAlias

import msgspec
from uuid_utils import uuid7

from clew.core.engine.engine import Engine
from clew.files import records
from clew.files.objects.format import (
    CHUNKED,
    EXECUTABLE,
    FILE,
    FOLDER,
    LINK,
    Chunk,
    TreeEntry,
    encode_chunks,
    encode_directory,
)
from clew.files.objects.store import ObjectWriter
from clew.files.records import retry_if_collected
from clew.model import utc
from clew.model.files import Snapshot, SnapshotKind


class Link(msgspec.Struct, frozen=True):
    target: bytes


class Program(msgspec.Struct, frozen=True):
    content: bytes


class Chunked(msgspec.Struct, frozen=True):
    pieces: tuple[bytes, ...]


Node: TypeAlias = "bytes | Link | Program | Chunked | Mapping[str, Node]"
Tree: TypeAlias = Mapping[str, Node]


def plant(writer: ObjectWriter, tree: Tree) -> bytes:
    """Put a tree; the name of its root."""
    return writer.put(
        encode_directory([_entry(writer, os.fsencode(name), node) for name, node in tree.items()])
    )


def _entry(writer: ObjectWriter, name: bytes, node: Node) -> TreeEntry:
    match node:
        case Link(target):
            return TreeEntry(name, LINK, writer.put(target), len(target))
        case Program(content):
            return TreeEntry(name, EXECUTABLE, writer.put(content), len(content))
        case Chunked(pieces):
            chunks = [Chunk(writer.put(piece), len(piece)) for piece in pieces]
            return TreeEntry(name, FILE | CHUNKED, writer.put(encode_chunks(chunks)), sum(map(len, pieces)))
        case bytes():
            return TreeEntry(name, FILE, writer.put(node), len(node))
    digest = plant(writer, node)
    return TreeEntry(name, FOLDER, digest, 0)


def planted(engine: Engine, tree: Tree) -> bytes:
    """A tree that no snapshot names."""
    writer = ObjectWriter(engine)
    root = plant(writer, tree)
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


def object_count(engine: Engine) -> int:
    with engine.read() as reader:
        return len(reader.scan_objects(b"", 1_000_000))


def pack_count(engine: Engine) -> int:
    with engine.read() as reader:
        return len(reader.list_packs(0, 1_000_000))
