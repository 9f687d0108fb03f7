"""F-04: every state in which a crash may have left a tree of files, from the record of what was told.

The rules are those of POSIX, stricter than any one file system: content is safe when its file was synced, a
name when its directory was. Of the content that was not, each write may be lost, kept, torn at a sector, or
have arrived as zeros; of the names that were not, the last ones may be lost.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from tests.faults.disk.file_log import FileEvent

SECTOR: Final = 512
"""What a disk writes as a whole."""
EXHAUSTIVE: Final = 4
"""Up to so many unsynced writes, every combination is tried; of more, a fixed choice."""
SAMPLES: Final = 8

Names: TypeAlias = dict[str, "_Inode | None"]
"""Where names lead; None: a directory."""


class FileState(msgspec.Struct, frozen=True):
    """A tree as a crash may have left it; `None` is a directory. And the marks made before it."""

    files: Mapping[str, bytes | None]
    marks: tuple[str, ...]
    story: str

    def write_to(self, directory: Path) -> None:
        """Make `directory` this tree, whatever was there."""
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for path, content in sorted(self.files.items()):
            if content is None:
                (directory / path).mkdir(parents=True, exist_ok=True)
            else:
                (directory / path).parent.mkdir(parents=True, exist_ok=True)
                (directory / path).write_bytes(content)


class _Inode:
    def __init__(self, content: bytes = b"") -> None:
        self.safe = content
        self.pending: list[FileEvent] = []

    def newest(self) -> bytes:
        return _applied(self.safe, self.pending)


class _Tree:
    """A file system as far as a crash is concerned."""

    def __init__(self, base: Mapping[str, bytes | None]) -> None:
        self.safe: Names = {p: None if content is None else _Inode(content) for p, content in base.items()}
        self.now: Names = dict(self.safe)
        self.unsafe: list[tuple[FileEvent, _Inode | None]] = []
        """Changes of names that no sync of their directories has followed yet."""

    def take(self, event: FileEvent) -> None:
        match event.kind:
            case "create" if event.path not in self.now:
                self._rename(event, _Inode())
            case "mkdir" | "remove" | "rename" | "link":
                self._rename(event, self.now.get(event.path))
            case "write" | "truncate":
                inode = self.now.get(event.path)
                if inode is not None:
                    if event.offset < 0:
                        event = msgspec.structs.replace(event, offset=len(inode.newest()))
                    inode.pending.append(event)
            case "sync":
                self._sync(event.path)

    def _rename(self, event: FileEvent, inode: _Inode | None) -> None:
        self.unsafe.append((event, inode))
        _change_names(self.now, event, inode)

    def _sync(self, path: str) -> None:
        inode = self.now.get(path)
        if inode is not None:
            inode.safe, inode.pending = inode.newest(), []
            return
        for event, changed in self.unsafe:
            if _parent(event.path) == path:
                _change_names(self.safe, event, changed)
        self.unsafe = [(event, inode) for event, inode in self.unsafe if _parent(event.path) != path]

    def names(self, count: int) -> Names:
        """The names when of the unsafe changes only the first ones arrived."""
        names = dict(self.safe)
        for event, inode in self.unsafe[:count]:
            _change_names(names, event, inode)
        return names


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "."


def _change_names(names: Names, event: FileEvent, inode: _Inode | None) -> None:
    match event.kind:
        case "create":
            names[event.path] = inode
        case "mkdir":
            names[event.path] = None
        case "remove":
            names.pop(event.path, None)
        case "link":
            names[event.target] = inode
        case "rename":
            names.pop(event.path, None)
            names[event.target] = inode


def _applied(content: bytes, events: Sequence[FileEvent]) -> bytes:
    result = bytearray(content)
    for event in events:
        if event.kind == "truncate":
            del result[event.offset :]
        end = event.offset + len(event.data)
        if len(result) < end:
            result += bytes(end - len(result))
        result[event.offset : end] = event.data
    return bytes(result)


def file_states(
    events: Sequence[FileEvent], base: Mapping[str, bytes | None], *, seed: int = 0, at_once: int = 0
) -> Iterator[FileState]:
    """Every state (of much that is unsafe: a fixed choice). `base` was there, safely, before.
    `at_once`: of each moment no more than so many ways in which writes arrive.

    A state is made at the latest moment at which it is possible: before a sync, and at the end.
    """
    tree = _Tree(base)
    chooser = random.Random(seed)
    marks: tuple[str, ...] = ()
    seen: set[bytes] = set()
    for event in [*events, None]:
        if event is None or event.kind == "sync":
            for story, files in _states_now(tree, chooser, at_once):
                name = _digest(files, marks)
                if name not in seen:
                    seen.add(name)
                    yield FileState(files, marks, story)
        if event is not None and event.kind == "mark":
            marks = (*marks, event.path)
        elif event is not None:
            tree.take(event)


def _states_now(
    tree: _Tree, chooser: random.Random, at_once: int
) -> Iterator[tuple[str, dict[str, bytes | None]]]:
    inodes = {id(inode): inode for inode in (*tree.safe.values(), *tree.now.values()) if inode is not None}
    inodes |= {id(inode): inode for _, inode in tree.unsafe if inode is not None}
    pending = [event for inode in inodes.values() for event in inode.pending]
    for count in range(len(tree.unsafe), -1, -1):
        lost_names = f"{len(tree.unsafe) - count} of {len(tree.unsafe)} names lost"
        names = tree.names(count)
        ways = list(_arrivals(pending, chooser))
        if at_once and len(ways) > at_once:
            ways = chooser.sample(ways, at_once)
        for story, arrived in ways:
            yield f"{story}, {lost_names}", _files(names, arrived)


def _files(names: Names, arrived: Mapping[int, FileEvent]) -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {}
    for path, inode in sorted(names.items()):
        if (above := _parent(path)) != "." and above not in found:
            continue  # its directory was lost, and it with that
        if inode is None:
            found[path] = None
        else:
            kept = [arrived[id(event)] for event in inode.pending if id(event) in arrived]
            found[path] = _applied(inode.safe, kept)
    return found


def _arrivals(
    pending: Sequence[FileEvent], chooser: random.Random
) -> Iterator[tuple[str, dict[int, FileEvent]]]:
    """Which of the unsynced writes arrived, and how."""
    everything = {id(event): event for event in pending}
    for kept in _choices(len(pending), chooser):
        yield (
            f"{len(kept)} of {len(pending)} writes arrived: {sorted(kept)}",
            {id(event): event for place, event in enumerate(pending) if place in kept},
        )
    for place, event in enumerate(pending):
        before = {id(event): event for event in pending[:place]}
        for story, part in _torn(event):
            for others in (before, everything):
                yield (
                    f"write {place} {story}, {len(others)} of {len(pending)} arrived",
                    {**others, id(event): part},
                )


def _choices(count: int, chooser: random.Random) -> Iterator[frozenset[int]]:
    if count <= EXHAUSTIVE:
        for chosen in product((True, False), repeat=count):
            yield frozenset(place for place, kept in enumerate(chosen) if kept)
        return
    for place in range(count + 1):
        yield frozenset(range(place))
    for place in range(count):
        yield frozenset({place})
        yield frozenset(range(count)) - {place}
    for _ in range(SAMPLES):
        yield frozenset(place for place in range(count) if chooser.random() < 0.5)


def _torn(event: FileEvent) -> Iterator[tuple[str, FileEvent]]:
    if event.kind != "write":
        return
    yield "arrived as zeros", msgspec.structs.replace(event, data=bytes(len(event.data)))
    first = (event.offset // SECTOR + 1) * SECTOR
    cuts = list(range(first, event.offset + len(event.data), SECTOR))
    for cut in sorted({*cuts[:1], *cuts[len(cuts) // 2 :][:1], *cuts[-1:]}):
        size = cut - event.offset
        yield f"torn at {cut}", msgspec.structs.replace(event, data=event.data[:size])
        yield f"without its first {size}", msgspec.structs.replace(event, offset=cut, data=event.data[size:])


def _digest(files: Mapping[str, bytes | None], marks: tuple[str, ...]) -> bytes:
    hasher = blake2b(repr(marks).encode(), digest_size=16)
    for name, content in sorted(files.items()):
        hasher.update(f"\0{name}\0{len(content) if content is not None else -1}\0".encode())
        hasher.update(content or b"")
    return hasher.digest()
