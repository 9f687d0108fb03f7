"""Packs of objects: one file each, a line that says what it is, then its content."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from clew.backends.jsonl import disk
from clew.backends.jsonl.disk import File
from clew.backends.jsonl.layout import Layout, pack_file
from clew.backends.rows import pack_checksum, pack_content
from clew.core.log import jsonl
from clew.errors import CorruptError

LARGEST: Final = 1 << 30
"""No pack is larger: SQLite stores could not hold it."""
LONGEST_HEAD: Final = 1 << 26
"""Nor is the line that says what is in it."""


class PackHead(msgspec.Struct, frozen=True, tag_field="kind", tag="pack-file"):
    """The first line of a pack's file."""

    pack: int
    codec: int
    size: int
    checksum: int
    stored: int
    members: Sequence[tuple[bytes, int, int]]


def write_pack(
    layout: Layout, pack: int, codec: int, blob: bytes, size: int,
    members: Sequence[tuple[bytes, int, int]], *, durable: bool,
) -> jsonl.PackLine:  # fmt: skip
    """Write the file of a pack, durably, and give the line that names it."""
    recorded = pack_checksum(size, codec, blob)
    head = PackHead(pack, codec, size, recorded, len(blob), members)
    first = jsonl.finish(msgspec.json.encode(head)[1:], is_last=True)
    file = pack_file(pack, recorded)
    disk.write_whole(layout.packs.file(file), first + blob, durable=durable)
    return jsonl.PackLine(pack, file, codec, size, recorded, len(blob), tuple(members))


def read_pack(layout: Layout, pack: int, codec: int, size: int, recorded: int) -> bytes:
    """The raw content of a pack, or CorruptError."""
    try:
        blob = _read_blob(layout.packs.file(pack_file(pack, recorded)), size)
    except (OSError, TypeError, ValueError) as exc:
        raise CorruptError(f"pack {pack} is damaged: {exc} ({layout.packs.path})") from exc
    try:
        return pack_content(pack, size, codec, blob, recorded)
    except CorruptError as exc:
        raise CorruptError(f"{exc} ({layout.packs.path})") from exc


def _read_blob(file: File, size: int) -> bytes:
    """What stands behind the first line of a pack's file: never more than its content, unpacked."""
    handle = disk.open_for_reading(file)
    try:
        length = disk.size(handle)
        if length > min(size, LARGEST) + LONGEST_HEAD:
            raise ValueError(f"its file has {length} bytes")
        whole = disk.read_at(handle, length, 0)
    finally:
        disk.close(handle)
    return whole[whole.index(b"\n") + 1 :]


def remove_packs(layout: Layout, files: Sequence[str]) -> None:
    for file in files:
        disk.remove(layout.packs.file(file))


def pack_reference(file: str, stored: int) -> bytes:
    """What the index holds in place of a pack's content: its file, and how long that is."""
    return msgspec.json.encode((file, stored))


def pack_place(content: bytes) -> tuple[str, int]:
    """The file of a pack and the length of its content, from what the index holds."""
    return msgspec.json.decode(content, type=tuple[str, int])
