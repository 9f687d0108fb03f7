"""Snapshots of a few edits each, and what they leave in a store."""

from __future__ import annotations

from blake3 import blake3

from clew.core.engine.engine import Engine
from clew.core.log.rows import PackInfo
from clew.files.objects.store import ObjectReader
from clew.files.upkeep.verify import verify
from clew.model.files import Snapshot
from tests.files.snapshots import take
from tests.files.trees import Chunked, Link, Node, Tree


def noise(text: str, size: int) -> bytes:
    """Bytes that compress against nothing but themselves."""
    return blake3(text.encode()).digest(length=size)


def edited(edits: int) -> Tree:
    """Three directories of forty files after so many edits, each of one byte of another file."""
    tree: dict[str, Node] = {"link": Link(b"d0/f0"), "chunked": Chunked((b"one", b"two"))}
    for folder in range(3):
        tree[f"d{folder}"] = {f"f{file}": _file(folder, file, edits) for file in range(40)}
    return tree


def _file(folder: int, file: int, edits: int) -> bytes:
    count = len(range(folder * 40 + file, edits, 120))
    return noise(f"{folder} {file}", 3000) + b"%d" % count


def take_many(engine: Engine, count: int = 60) -> list[tuple[Snapshot, Tree]]:
    return [(take(engine, edited(number)), edited(number)) for number in range(count)]


def packs(engine: Engine) -> list[PackInfo]:
    with engine.read() as reader:
        return reader.list_packs(0, 100_000)


def stored(engine: Engine) -> int:
    return sum(info.stored for info in packs(engine))


def assert_whole(engine: Engine, taken: list[tuple[Snapshot, Tree]]) -> None:
    """P13: each snapshot still has every byte."""
    assert verify(engine, full=True).problems == ()
    objects = ObjectReader(engine.read)
    for snapshot, tree in taken:
        for folder in objects.directory(bytes.fromhex(snapshot.tree)):
            of = tree[folder.name.decode()]
            if isinstance(of, dict):
                found = {
                    e.name.decode(): b"".join(objects.pieces(e)) for e in objects.directory(folder.digest)
                }
                assert found == of
