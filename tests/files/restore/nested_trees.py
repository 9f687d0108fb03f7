"""Trees as nested dicts, on disk and in a store, for the tests of restores."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from clew.backends.memory.backend import MemoryBackend
from clew.core.engine.engine import Engine
from clew.files.objects.format import (
    CHUNKED,
    EXECUTABLE,
    FILE,
    FOLDER,
    LINK,
    Chunk,
    Directory,
    TreeEntry,
    encode_chunks,
    encode_directory,
    object_name,
)
from clew.files.objects.store import ObjectReader, ObjectWriter
from clew.files.restore.plan import GetDirectories
from clew.files.restore.restore import finish, restore, roll_back
from clew.model.files import OnConflict, RestoreReport

CHUNK = 1000
"""Files of at least this size are stored in chunks here."""


class Link(NamedTuple):
    to: bytes


class Program(NamedTuple):
    content: bytes


Tree: TypeAlias = dict[bytes, Any]
"""Names lead to contents (bytes), programs, links, or trees."""


def encode(tree: Tree, put: Callable[[bytes], bytes]) -> TreeEntry:
    """Put a tree; its entry."""
    entries = [_encode_one(name, what, put) for name, what in tree.items()]
    content = encode_directory(entries)
    return TreeEntry(b"", FOLDER, put(content), len(content))


def _encode_one(name: bytes, what: Any, put: Callable[[bytes], bytes]) -> TreeEntry:
    if isinstance(what, dict):
        entry = encode(what, put)
        return TreeEntry(name, FOLDER, entry.digest, entry.size)
    if isinstance(what, Link):
        return TreeEntry(name, LINK, put(what.to), len(what.to))
    kind = EXECUTABLE if isinstance(what, Program) else FILE
    content: bytes = what.content if isinstance(what, Program) else what
    if len(content) < CHUNK:
        return TreeEntry(name, kind, put(content), len(content))
    pieces = [content[at : at + CHUNK] for at in range(0, len(content), CHUNK)]
    chunks = encode_chunks([Chunk(put(piece), len(piece)) for piece in pieces])
    return TreeEntry(name, kind | CHUNKED, put(chunks), len(content))


def in_memory(*trees: Tree) -> tuple[list[bytes], GetDirectories]:
    """The names of trees, and the way to look into them."""
    objects: dict[bytes, bytes] = {}

    def put(content: bytes) -> bytes:
        name = object_name(content)
        objects[name] = content
        return name

    return [encode(tree, put).digest for tree in trees], reading(objects)


def reading(objects: Mapping[bytes, bytes]) -> GetDirectories:
    return lambda names: {name: Directory(objects[name]) for name in names}


def write(root: Path, tree: Tree) -> None:
    """Make a tree on disk, beside what is there."""
    root.mkdir(exist_ok=True, parents=True)
    for name, what in tree.items():
        path = root / os.fsdecode(name)
        if isinstance(what, dict):
            write(path, what)
        elif isinstance(what, Link):
            path.symlink_to(os.fsdecode(what.to))
        else:
            path.write_bytes(what.content if isinstance(what, Program) else what)
            path.chmod(0o755 if isinstance(what, Program) else 0o644)


def read(root: Path, ignored: Collection[bytes] = (), also: Collection[bytes] = (), at: bytes = b"") -> Tree:
    """What is on disk, but for what has an ignored name and is not in `also`."""
    tree: Tree = {}
    for name in sorted(os.listdir(os.fsencode(root))):
        path = os.fsencode(root) + b"/" + name
        below = at + name
        leads = any(one == below or one.startswith(below + b"/") for one in also)
        if name in ignored and not leads:
            continue
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            tree[name] = Link(os.readlink(path))
        elif stat.S_ISDIR(mode):
            tree[name] = read(Path(os.fsdecode(path)), ignored, also, below + b"/")
            if name in ignored:
                inside = read(Path(os.fsdecode(path)), ignored, also, below + b"/")
                tree[name] = {k: v for k, v in inside.items() if any(
                    one == below + b"/" + k or one.startswith(below + b"/" + k + b"/") for one in also
                )}  # fmt: skip
        elif stat.S_ISREG(mode):
            content = Path(os.fsdecode(path)).read_bytes()
            tree[name] = Program(content) if mode & 0o111 else content
    return tree


class Workshop:
    """A directory, a store, and restores from one into the other."""

    def __init__(self, root: Path, engine: Engine | None = None, ignored: Collection[bytes] = ()) -> None:
        self.root = root
        self.engine = engine or Engine(MemoryBackend())
        self.reader = ObjectReader(self.engine.read)
        self.ignored = ignored
        self.safeties: list[bytes] = []

    def put(self, tree: Tree) -> bytes:
        writer = ObjectWriter(self.engine)
        name = encode(tree, writer.put).digest
        writer.flush()
        return name

    def look(self, also: Collection[bytes]) -> bytes:
        return self.put(read(self.root, self.ignored, also))

    def take_safety(self, also: Collection[bytes]) -> tuple[str, bytes]:
        self.safeties.append(self.look(also))
        return f"safety-{len(self.safeties)}", self.safeties[-1]

    def restore(
        self, target: Tree, last: Tree | None = None, *, on_conflict: OnConflict = "overwrite", **more: Any
    ) -> RestoreReport:
        return restore(
            self.engine,
            ObjectReader(self.engine.read),
            snapshot_id="snapshot-1",
            target=self.put(target),
            last=None if last is None else self.put(last),
            root=str(self.root),
            take_safety=self.take_safety,
            look=self.look,
            on_conflict=on_conflict,
            **more,
        )

    def finish(self, id: str, **more: Any) -> RestoreReport:
        return finish(self.engine, self.reader, id, **more)

    def roll_back(self, id: str, **more: Any) -> RestoreReport:
        return roll_back(self.engine, self.reader, id, **more)

    def state(self) -> Tree:
        return read(self.root)


def paths_kept(report: RestoreReport) -> tuple[str, ...]:
    return tuple(kept.path for kept in report.kept)


def leaves(tree: Tree, at: bytes = b"") -> dict[bytes, Any]:
    """Paths of all that is no directory."""
    found: dict[bytes, Any] = {}
    for name, what in tree.items():
        found |= leaves(what, at + name + b"/") if isinstance(what, dict) else {at + name: what}
    return found
