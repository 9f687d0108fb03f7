"""Packs of objects: one file each, a line that says what it is, then its content."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec

from clew.backends.jsonl import disk
from clew.backends.jsonl.layout import Layout
from clew.core import lines
from clew.core.frame import checksum, unpack
from clew.errors import CorruptError


class PackHead(msgspec.Struct, frozen=True, tag_field="kind", tag="pack-file"):
    """The first line of a pack's file."""

    pack: int
    codec: int
    size: int
    checksum: int
    stored: int
    members: Sequence[tuple[bytes, int, int]]


def pack_checksum(size: int, codec: int, blob: bytes) -> int:
    return checksum(blob, 0, size, 0, codec, 0)


def write_pack(
    layout: Layout, pack: int, codec: int, blob: bytes, size: int,
    members: Sequence[tuple[bytes, int, int]], *, durable: bool,
) -> lines.PackLine:  # fmt: skip
    """Write the file of a pack, durably, and give the line that names it."""
    recorded = pack_checksum(size, codec, blob)
    head = PackHead(pack, codec, size, recorded, len(blob), members)
    first = lines.finish(msgspec.json.encode(head)[1:], is_last=True)
    file = f"{pack}-{recorded:016x}.pack"
    disk.write_whole(layout.packs / file, first + blob, durable=durable)
    return lines.PackLine(pack, file, codec, size, recorded, len(blob), tuple(members))


def read_pack(layout: Layout, pack: int, file: str, codec: int, size: int, recorded: int) -> bytes:
    """The raw content of a pack, or CorruptError."""
    path = layout.packs / file
    try:
        whole = path.read_bytes()
        blob = whole[whole.index(b"\n") + 1 :]
        if pack_checksum(size, codec, blob) != recorded:
            raise ValueError("its checksum does not match")
        content = unpack(codec, blob)
    except (OSError, TypeError, ValueError, struct.error) as exc:
        raise CorruptError(f"pack {pack} is damaged: {exc} ({path})") from exc
    if len(content) != size:
        raise CorruptError(f"pack {pack} is damaged: it has {len(content)} bytes, not {size} ({path})")
    return content


def remove_packs(layout: Layout, files: Sequence[str]) -> None:
    for file in files:
        disk.remove(layout.packs / file)
