"""Directory trees for tests: strategies that make them, builders that put them on disk, and the way back
from the store."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from hypothesis import strategies as st

from clew.core.engine.engine import Engine
from clew.files.objects.format import EXECUTABLE, FOLDER, LINK
from clew.files.objects.store import ObjectReader, ObjectWriter
from clew.files.snapshot.classify import Limits
from clew.files.snapshot.scan import Scan, scan
from clew.files.snapshot.statcache import StatCache


class File(NamedTuple):
    content: bytes
    is_executable: bool = False


class Link(NamedTuple):
    target: bytes


Node: TypeAlias = "File | Link | Mapping[bytes, Node]"
Tree: TypeAlias = Mapping[bytes, Node]

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
    leaves = st.one_of(st.builds(File, contents(largest), st.booleans()), links())
    node = st.recursive(
        leaves, lambda below: st.dictionaries(names(), below, max_size=5), max_leaves=max_leaves
    )
    return st.dictionaries(names(), node, max_size=6)


def build(root: Path | str, tree: Tree) -> None:
    """Make the tree below `root`, which is made if need be."""
    _build(os.fsencode(root), tree)


def _build(at: bytes, tree: Tree) -> None:
    os.makedirs(at, exist_ok=True)
    for name, node in tree.items():
        path = at + b"/" + name
        match node:
            case File(content, is_executable):
                with open(path, "wb") as file:
                    file.write(content)
                os.chmod(path, 0o755 if is_executable else 0o644)
            case Link(target):
                os.symlink(target, path)
            case _:
                _build(path, node)


def on_disk(root: Path | str) -> Tree:
    """What is there, but for anything that is neither file nor link nor directory."""
    return _on_disk(os.fsencode(root))


def _on_disk(at: bytes) -> Tree:
    tree: dict[bytes, Node] = {}
    for name in os.listdir(at):
        path = at + b"/" + name
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            tree[name] = Link(os.readlink(path))
        elif stat.S_ISDIR(mode):
            tree[name] = _on_disk(path)
        elif stat.S_ISREG(mode):
            tree[name] = File(Path(os.fsdecode(path)).read_bytes(), bool(mode & 0o111))
    return tree


def in_store(engine: Engine, tree: bytes) -> Tree:
    """What the store holds under this name."""
    return _in_store(ObjectReader(engine.read), tree)


def _in_store(reader: ObjectReader, tree: bytes) -> Tree:
    found: dict[bytes, Node] = {}
    for entry in reader.directory(tree):
        if entry.kind == FOLDER:
            found[entry.name] = _in_store(reader, entry.digest)
            continue
        content = b"".join(reader.pieces(entry))
        found[entry.name] = (
            Link(content) if entry.kind == LINK else File(content, bool(entry.kind & 3 == EXECUTABLE))
        )
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


def paths(tree: Tree, at: bytes = b"") -> set[bytes]:
    """All paths of a tree; those of directories end with a slash."""
    found: set[bytes] = set()
    for name, node in tree.items():
        if isinstance(node, Mapping):
            found |= {at + name + b"/"} | paths(node, at + name + b"/")
        else:
            found.add(at + name)
    return found
