"""Directory trees for tests: strategies that make them, builders that put them on disk, and the way back
from the store."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from hypothesis import strategies as st

from clew.core.engine.engine import Engine
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
from clew.files.objects.store import ObjectReader, ObjectWriter
from clew.files.snapshot.classify import Limits
from clew.files.snapshot.scan import Scan, scan
from clew.files.snapshot.statcache import StatCache


class Program(msgspec.Struct, frozen=True):
    """A file that can be executed."""

    content: bytes


class Link(msgspec.Struct, frozen=True):
    target: bytes


class Chunked(msgspec.Struct, frozen=True):
    """A file in the store, in these pieces."""

    pieces: tuple[bytes, ...]


Node: TypeAlias = "bytes | Program | Link | Chunked | Mapping[Any, Node]"
Tree: TypeAlias = Mapping[Any, Node]
"""Names, bytes or text, lead to contents of files, programs, links, or trees."""

MIB = 1024 * 1024

_ODD_NAMES = [
    b"new\nline", b"\xff\xfe", b"n" * 255, b"\xff" * 255, "é".encode(), "e\u0301".encode(), b"trailing ",
    b"trailing.", b"case", b"CASE", b"-rf", b"*", b"[a]", b"\\", b"a\tb", b"con", b"#", b"!x", b"~", b"...",
]  # fmt: skip
"""Names that programs get wrong: I-20."""

_RESERVED = {
    b".", b"..", b".git", b".gitignore", b".clewignore", b"node_modules", b".venv", b"venv", b"__pycache__",
    b".mypy_cache", b".pytest_cache", b".ruff_cache", b".tox", b".nox", b".hg", b".svn", b".DS_Store",
}  # fmt: skip


def names() -> st.SearchStrategy[bytes]:
    """Anything that the file system takes, but for what is left out by default."""
    any_bytes = st.binary(min_size=1, max_size=12).filter(lambda name: not {0, 0x2F} & set(name))
    plain = st.text("abcXYZ.é _-", min_size=1, max_size=8).map(str.encode)
    return st.one_of(plain, any_bytes, st.sampled_from(_ODD_NAMES)).filter(lambda name: name not in _RESERVED)


def contents(largest: int = 20 * MIB) -> st.SearchStrategy[bytes]:
    """Mostly small; sometimes up to `largest`, made of something short."""
    large = st.builds(
        lambda seed, size, tail: (seed * (size // len(seed) + 1))[:size] + tail,
        st.binary(min_size=1, max_size=64),
        st.sampled_from([4095, 4096, 256 * 1024, MIB, 4 * MIB, 4 * MIB + 1, 9 * MIB, 20 * MIB]).filter(
            lambda size: size <= largest
        ),
        st.binary(max_size=16),
    )
    small = st.binary(max_size=200)
    return st.one_of(small, small, small, small, small, large) if largest >= 4095 else small


def links() -> st.SearchStrategy[Link]:
    """Dangling ones, loops, absolute ones, out of the root: none is followed."""
    targets = st.sampled_from(
        [b"missing", b".", b"..", b"/etc/passwd", b"/", b"../../x", b"\xff", b"a" * 300]
    )
    return st.builds(Link, targets)


def trees(largest: int = 20 * MIB, max_leaves: int = 12) -> st.SearchStrategy[Tree]:
    leaves = st.one_of(contents(largest), st.builds(Program, contents(largest)), links())
    node = st.recursive(
        leaves, lambda below: st.dictionaries(names(), below, max_size=5), max_leaves=max_leaves
    )
    return st.dictionaries(names(), node, max_size=6)


def build(root: Path | str, tree: Tree) -> None:
    """Make the tree below `root`, beside what is there."""
    _build(os.fsencode(root), tree)


def _build(at: bytes, tree: Tree) -> None:
    os.makedirs(at, exist_ok=True)
    for name, node in tree.items():
        path = at + b"/" + os.fsencode(name)
        match node:
            case Link(target):
                os.symlink(target, path)
            case bytes() | Program():
                with open(path, "wb") as file:
                    file.write(node if isinstance(node, bytes) else node.content)
                os.chmod(path, 0o755 if isinstance(node, Program) else 0o644)
            case Mapping():
                _build(path, node)


def on_disk(root: Path | str) -> dict[bytes, Any]:
    """What is there, but for anything that is neither file nor link nor directory."""
    return _on_disk(os.fsencode(root))


def _on_disk(at: bytes) -> dict[bytes, Any]:
    tree: dict[bytes, Any] = {}
    for name in os.listdir(at):
        path = at + b"/" + name
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            tree[name] = Link(os.readlink(path))
        elif stat.S_ISDIR(mode):
            tree[name] = _on_disk(path)
        elif stat.S_ISREG(mode):
            content = Path(os.fsdecode(path)).read_bytes()
            tree[name] = Program(content) if mode & 0o111 else content
    return tree


def encode(tree: Tree, put: Callable[[bytes], bytes], *, chunk: int = sys.maxsize) -> TreeEntry:
    """Put a tree, files of `chunk` bytes or more in pieces of that size; the entry of its root."""
    entries = [_encode(os.fsencode(name), node, put, chunk) for name, node in tree.items()]
    content = encode_directory(entries)
    return TreeEntry(b"", FOLDER, put(content), len(content))


def _encode(name: bytes, node: Node, put: Callable[[bytes], bytes], chunk: int) -> TreeEntry:
    match node:
        case Link(target):
            return TreeEntry(name, LINK, put(target), len(target))
        case Chunked(pieces):
            return _encode_chunks(name, FILE, pieces, put)
        case bytes() | Program():
            kind, content = (FILE, node) if isinstance(node, bytes) else (EXECUTABLE, node.content)
            if len(content) < chunk:
                return TreeEntry(name, kind, put(content), len(content))
            pieces = tuple(content[at : at + chunk] for at in range(0, len(content), chunk))
            return _encode_chunks(name, kind, pieces, put)
        case Mapping():
            folder = encode(node, put, chunk=chunk)
            return TreeEntry(name, FOLDER, folder.digest, folder.size)


def _encode_chunks(
    name: bytes, kind: int, pieces: Sequence[bytes], put: Callable[[bytes], bytes]
) -> TreeEntry:
    chunks = encode_chunks([Chunk(put(piece), len(piece)) for piece in pieces])
    return TreeEntry(name, kind | CHUNKED, put(chunks), sum(map(len, pieces)))


def in_store(engine: Engine, tree: bytes) -> dict[bytes, Any]:
    """What the store holds under this name."""
    return _in_store(ObjectReader(engine.read), tree)


def _in_store(reader: ObjectReader, tree: bytes) -> dict[bytes, Any]:
    found: dict[bytes, Any] = {}
    for entry in reader.directory(tree):
        if entry.kind == FOLDER:
            found[entry.name] = _in_store(reader, entry.digest)
            continue
        content = b"".join(reader.pieces(entry))
        if entry.kind == LINK:
            found[entry.name] = Link(content)
        else:
            found[entry.name] = Program(content) if entry.kind & 3 == EXECUTABLE else content
    return found


def take(
    engine: Engine,
    root: Path | str,
    *,
    cache: StatCache | None = None,
    limits: Limits | None = None,
    **options: Any,
) -> Scan:
    """Scan as a snapshot does."""
    return scan(
        os.path.realpath(root),
        ObjectWriter(engine),
        limits=limits or Limits(),
        cache=cache,
        **options,
    )


def leaves(tree: Tree, at: bytes = b"") -> dict[bytes, Any]:
    """All that is no directory, by its path."""
    found: dict[bytes, Any] = {}
    for name, node in tree.items():
        path = at + os.fsencode(name)
        found |= leaves(node, path + b"/") if isinstance(node, Mapping) else {path: node}
    return found


def paths(tree: Tree, at: bytes = b"") -> set[bytes]:
    """All paths of a tree; those of directories end with a slash."""
    found: set[bytes] = set()
    for name, node in tree.items():
        path = at + os.fsencode(name)
        found |= {path + b"/"} | paths(node, path + b"/") if isinstance(node, Mapping) else {path}
    return found
