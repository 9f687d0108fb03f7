"""The objects of snapshots: file contents, directories, lists of chunks; named by their BLAKE3 hash.

An object is plain bytes, and its name is the hash of exactly these bytes. What they mean is said by
whoever refers to them: a directory says of each entry what it is. A directory refers to its entries by
name, so the name of the root names every byte below it, and an unchanged directory is the same object.

    directory   DIRECTORY, then for each entry in the order of its name's bytes:
                kind (1 byte), length of the name (2, big endian), name, hash (32), size (8, big endian)
    chunk list  CHUNKS, then for each chunk: hash (32), size (8, big endian)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from blake3 import blake3

from clew.core.hashing import DIGEST_SIZE

DIRECTORY: Final = b"clewdir1"
CHUNKS: Final = b"clewchk1"

FILE: Final = 0
EXECUTABLE: Final = 1
LINK: Final = 2
FOLDER: Final = 3
CHUNKED: Final = 4
"""Added to FILE or EXECUTABLE: the hash is that of a chunk list."""

MAX_NAME: Final = 255

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


def decode_directory(content: bytes) -> list[TreeEntry]:
    """The entries of a directory. ValueError for anything that `encode_directory` would not make of
    names that can be: no empty name, no `/`, no NUL, neither `.` nor `..`, none twice, in order."""
    if not content.startswith(DIRECTORY):
        raise ValueError("it is no directory")
    entries: list[TreeEntry] = []
    at, last = len(DIRECTORY), b""
    while at < len(content):
        try:
            kind, length = _head.unpack_from(content, at)
            at += _head.size
            name = content[at : at + length]
            digest, size = _tail.unpack_from(content, at + length)
        except struct.error as exc:
            raise ValueError("the directory is cut short") from exc
        at += length + _tail.size
        check_name(name)
        if name <= last:
            raise ValueError(f"the name {name!r} is out of order, or there twice")
        if kind > FOLDER and kind not in (FILE | CHUNKED, EXECUTABLE | CHUNKED):
            raise ValueError(f"{name!r} is of the unknown kind {kind}")
        entries.append(TreeEntry(name, kind, digest, size))
        last = name
    return entries


def check_name(name: bytes) -> None:
    """A name in a directory must not lead out of it."""
    if not name or name in (b".", b"..") or b"/" in name or b"\0" in name or len(name) > MAX_NAME:
        raise ValueError(f"{name!r} can not be the name of a file")


def encode_chunks(chunks: Sequence[Chunk]) -> bytes:
    return CHUNKS + b"".join(_tail.pack(chunk.digest, chunk.size) for chunk in chunks)


def decode_chunks(content: bytes) -> list[Chunk]:
    body = memoryview(content)[len(CHUNKS) :]
    if not content.startswith(CHUNKS) or len(body) % _tail.size:
        raise ValueError("it is no list of chunks")
    return [Chunk(digest, size) for digest, size in _tail.iter_unpack(body)]
