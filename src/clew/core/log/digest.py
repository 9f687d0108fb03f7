"""Digests of contents and entries, and how a body lies in a record (raw or zstd, with a checksum)."""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Final

from blake3 import blake3
from xxhash import xxh3_64_intdigest

from clew.core.messages.validate import MAX_MESSAGE_BYTES

# ── The names of contents: BLAKE3 over a fixed header and the bytes that follow it ────────────────
# Every header begins with a tag that says what is hashed and by which version of the rule, and all its
# fields have fixed sizes. So no two different inputs share one byte string, no entry can pass for a
# batch, and a future rule cannot be mistaken for this one.

DIGEST_SIZE: Final = 32
ROOT: Final = bytes(DIGEST_SIZE)
"""The parent of the first entry of a history."""
LOST: Final = b"\xff" * DIGEST_SIZE
"""Placeholder digest for an entry whose hash was unreadable when the store was repaired."""

# tag, parent, position, time, kind, flags: 64 bytes, one block of BLAKE3.
_entry_header = struct.Struct("<8s32sqqII").pack
_ENTRY: Final = b"clewent1"
# tag, number of bodies; their lengths follow, then the bodies.
_batch_header = struct.Struct("<8sQ").pack
_BATCH: Final = b"clewbat1"


def entry_digest(parent: bytes, position: int, kind: int, time: int, flags: int, body: bytes) -> bytes:
    """The digest of an entry; with `parent`'s inside, it names the whole history up to it."""
    if len(parent) != DIGEST_SIZE:  # struct would cut or pad it in silence
        raise ValueError(f"a digest has {DIGEST_SIZE} bytes, not {len(parent)}")
    # One call on joined bytes: a second call, for the body alone, costs more than the copy.
    try:
        header = _entry_header(_ENTRY, parent, position, time, kind, flags)
    except struct.error as error:
        raise ValueError(f"an entry has no such numbers: {error}") from error
    return blake3(header + body).digest()


def batch_digest(bodies: Sequence[bytes]) -> bytes:
    """The digest of a batch: the same only for the same bodies, split in the same way."""
    count = len(bodies)
    hasher = blake3(_batch_header(_BATCH, count) + struct.pack(f"<{count}Q", *map(len, bodies)))
    for body in bodies:
        hasher.update(body)
    return hasher.digest()


# ── How a body lies in a record: raw or zstd, and the checksum over the record ────────────────────
# Measured with chats, code and tool output: level 1 leaves 30-45 % of a large body; level 3 leaves one
# point less and takes 40 % longer. Reading decides the threshold: a decompressor cannot be used twice,
# and making one costs 7 µs on a virtual machine, where libzstd's question for the processor's features
# traps. Below 16 KB unpacking costs several times as much as decoding the JSON, so small bodies stay
# raw: they are the most in number, and hold the fewest of the bytes.

RAW: Final = 0
ZSTD: Final = 1

THRESHOLD: Final = 16 * 1024
LEVEL: Final = 1

# Packs of objects are read seldom, and are most of what a store with snapshots holds: level 3 leaves
# 5 % less of them than level 1; level 9 leaves 10-17 % less, and takes 5 times as long.
OBJECTS_THRESHOLD: Final = 512
OBJECTS_LEVEL: Final = 3

# 64 bits each, so that no number that a damaged record may hold is out of range.
_fields = struct.Struct("<5q").pack


def _zstd() -> ModuleType:
    """Imported when a large body comes by: most processes that open a store never need it."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def pack(body: bytes) -> tuple[int, bytes]:
    """Choose how to store a body: (codec, blob)."""
    return _compressed(body, LEVEL) if len(body) >= THRESHOLD else (RAW, body)


def pack_objects(body: bytes, level: int = OBJECTS_LEVEL) -> tuple[int, bytes]:
    """Choose how to store a pack of objects: (codec, blob)."""
    # What claims to be larger is not unpacked: only the list of a huge directory can be.
    is_fit = OBJECTS_THRESHOLD <= len(body) <= MAX_MESSAGE_BYTES
    return _compressed(body, level) if is_fit else (RAW, body)


def _compressed(body: bytes, level: int) -> tuple[int, bytes]:
    # A context of its own each time: 10 µs of 60 or more, and nothing is shared between threads.
    blob = _zstd().compress(body, level)
    return (ZSTD, blob) if len(blob) * 10 <= len(body) * 9 else (RAW, body)


def unpack(codec: int, blob: bytes) -> bytes:
    """The body that was packed. ValueError: the blob is damaged, or of a codec that is not known."""
    if codec == RAW:
        return blob
    if codec != ZSTD:
        raise ValueError(f"unknown codec {codec}")
    zstd = _zstd()
    try:
        # The size stands in the header: looked at first, so that no forged frame fills the memory.
        size = zstd.get_frame_info(blob).decompressed_size
        if not size or size > MAX_MESSAGE_BYTES:
            raise ValueError(f"the zstd frame claims {size} bytes")
        decoder = zstd.ZstdDecompressor()
        body: bytes = decoder.decompress(blob, size)
    except zstd.ZstdError as error:
        raise ValueError(f"the zstd frame is damaged: {error}") from error
    if not decoder.eof or decoder.unused_data or len(body) != size:
        raise ValueError("the zstd frame is damaged: it does not end where it should")
    return body


def checksum(blob: bytes, position: int, time: int, kind: int, codec: int, flags: int) -> int:
    """XXH3 over the blob, seeded by the small fields; 63 bits, to fit a signed column.

    Every read checks it, so it has to be nearly free: it takes a tenth of the time of a CRC-32.
    """
    return xxh3_64_intdigest(blob, xxh3_64_intdigest(_fields(position, time, kind, codec, flags))) >> 1
