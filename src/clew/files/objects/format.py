"""The objects of snapshots: file contents, directories, lists of chunks; named by their BLAKE3 hash.

An object is plain bytes, and its name is the hash of exactly these bytes. An object does not say what it is:
the directory that refers to it does. A directory refers to its entries by name, so the name of the root names
every byte below it, and an unchanged directory is the same object.

    directory   DIRECTORY, then for each entry in the order of its name's bytes:
                kind (1 byte), length of the name (2, big endian), name, hash (32), size (8, big endian)
    chunk list  CHUNKS, then for each chunk: hash (32), size (8, big endian)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter, lt
from typing import Final, TypeAlias

import msgspec
from blake3 import blake3

from clew.core.log.digest import DIGEST_SIZE
from clew.errors import CorruptError

DIRECTORY: Final = b"clewdir1"
CHUNKS: Final = b"clewchk1"

FILE: Final = 0
EXECUTABLE: Final = 1
LINK: Final = 2
FOLDER: Final = 3
CHUNKED: Final = 4
"""Added to FILE or EXECUTABLE: the hash is that of a chunk list."""
KINDS: Final = frozenset({FILE, EXECUTABLE, LINK, FOLDER, FILE | CHUNKED, EXECUTABLE | CHUNKED})

MAX_NAME: Final = 255
IMPOSSIBLE: Final = frozenset({b"", b".", b".."})

_head = struct.Struct(">BH")
_tail = struct.Struct(f">{DIGEST_SIZE}sQ")


class TreeEntry(msgspec.Struct, frozen=True, gc=False):
    """One entry of a directory."""

    name: bytes
    kind: int
    digest: bytes
    """Of a file: its content, or its chunk list; of a link: its target; of a folder: the directory."""
    size: int
    """Of a file: its length; else of the object."""

    @property
    def is_file(self) -> bool:
        return self.kind & 3 <= EXECUTABLE


class Chunk(msgspec.Struct, frozen=True, gc=False):
    digest: bytes
    size: int


def object_name(content: bytes) -> bytes:
    return blake3(content).digest()


def encode_directory(entries: Iterable[TreeEntry]) -> bytes:
    """The object of a directory; `entries` in any order."""
    parts = [DIRECTORY]
    for entry in sorted(entries, key=lambda entry: entry.name):
        parts += (_head.pack(entry.kind, len(entry.name)), entry.name, _tail.pack(entry.digest, entry.size))
    return b"".join(parts)


class Directory:
    """The entries of a directory. They are cut apart, and decoded when they are asked for: of two
    directories, only what differs is looked at."""

    def __init__(self, content: bytes) -> None:
        """ValueError as of `decode_directory`."""
        self._records = _cut_apart(content)

    def get(self, name: bytes) -> TreeEntry | None:
        record = self._records.get(name)
        return None if record is None else _decode(name, record)

    def entries(self) -> list[TreeEntry]:
        return [_decode(name, record) for name, record in self._records.items()]

    def names_of_differences(self, other: Directory) -> list[bytes]:
        """Names of what is not the same in both, in order."""
        return sorted({name for name, _ in self._records.items() ^ other._records.items()})


def decode_directory(content: bytes) -> list[TreeEntry]:
    """The entries of a directory. ValueError for anything that `encode_directory` would not make of
    names that can be: no empty name, no `/`, no NUL, neither `.` nor `..`, none twice, in order."""
    return Directory(content).entries()


def _cut_apart(content: bytes) -> dict[bytes, bytes]:
    """The bytes of each entry by its name, in order."""
    if not content.startswith(DIRECTORY):
        raise ValueError("it is no directory")
    names: list[bytes] = []
    records: list[bytes] = []
    at, end = len(DIRECTORY), len(content)
    head, tail = _head.size, _tail.size
    # Only cut here, and checked all at once below: no other loop of a plan runs as often as this.
    while at + head <= end:
        name = at + head
        rest = name + (content[at + 1] << 8 | content[at + 2])
        names.append(content[name:rest])
        records.append(content[at : rest + tail])
        at = rest + tail
    if at != end:
        raise ValueError("the directory is cut short")
    if not _are_sound(names, records):
        _refuse(names, records)
    return dict(zip(names, records, strict=True))


def _are_sound(names: Sequence[bytes], records: Sequence[bytes]) -> bool:
    if not names:
        return True
    together = b"/".join(names)
    return (
        all(map(lt, names, names[1:]))
        and KINDS.issuperset(map(itemgetter(0), records))
        and IMPOSSIBLE.isdisjoint(names)
        and together.count(b"/") == len(names) - 1
        and b"\0" not in together
        and max(map(len, names)) <= MAX_NAME
    )


def _refuse(names: Sequence[bytes], records: Sequence[bytes]) -> None:
    """Say which entry is the first that cannot be."""
    last = b""
    for name, record in zip(names, records, strict=True):
        check_name(name)
        if name <= last:
            raise ValueError(f"the name {name!r} is out of order, or there twice")
        if record[0] not in KINDS:
            raise ValueError(f"{name!r} is of the unknown kind {record[0]}")
        last = name


def _decode(name: bytes, record: bytes) -> TreeEntry:
    digest, size = _tail.unpack_from(record, len(record) - _tail.size)
    return TreeEntry(name, record[0], digest, size)


def check_name(name: bytes) -> None:
    """A name in a directory must not lead out of it."""
    if name in IMPOSSIBLE or b"/" in name or b"\0" in name or len(name) > MAX_NAME:
        raise ValueError(f"{name!r} cannot be the name of a file")


def encode_chunks(chunks: Sequence[Chunk]) -> bytes:
    return CHUNKS + b"".join(_tail.pack(chunk.digest, chunk.size) for chunk in chunks)


def decode_chunks(content: bytes) -> list[Chunk]:
    body = memoryview(content)[len(CHUNKS) :]
    if not content.startswith(CHUNKS) or len(body) % _tail.size:
        raise ValueError("it is no list of chunks")
    return [Chunk(digest, size) for digest, size in _tail.iter_unpack(body)]


# -- trees

EMPTY: Final = Directory(encode_directory([]))
EMPTY_TREE: Final = object_name(encode_directory([]))

GetDirectories: TypeAlias = Callable[[Collection[bytes]], Mapping[bytes, Directory]]
"""Reads the objects of several directories at once: there may be thousands."""


def find_entry(tree: bytes, path: bytes, directories: GetDirectories) -> TreeEntry | None:
    """What a tree holds at a path."""
    entry: TreeEntry | None = TreeEntry(b"", FOLDER, tree, 0)
    for name in path.split(b"/") if path else ():
        if entry is None or entry.kind != FOLDER:
            return None
        inside = directories([entry.digest])[entry.digest] if entry.digest != EMPTY_TREE else EMPTY
        entry = inside.get(name)
    return entry


MOST_PATHS: Final = 2_000_000
"""A snapshot holds up to a million files, and the directories that they are in."""
MOST_BYTES: Final = 512 * 1024 * 1024
"""Of all paths together: those of a tree that is deep are long."""


class TreeBudget:
    """How many paths one walk through a tree may come to.

    Equal directories are one object, so a tree of a few hundred bytes can have more paths than there are
    atoms: each directory holds the next one twice. No tree that Clew made is like that, but a store may come
    from anywhere.
    """

    def __init__(self) -> None:
        self._paths = 0
        self._bytes = 0

    def spend(self, path: bytes) -> None:
        """CorruptError: there are too many."""
        self._paths += 1
        self._bytes += len(path)
        if self._paths > MOST_PATHS or self._bytes > MOST_BYTES:
            raise CorruptError(
                f"the tree has more than {MOST_PATHS:,} paths, or they are longer than {MOST_BYTES:,} bytes"
                " together: no snapshot that Clew took is so large; name some of its paths (paths=)"
            )
