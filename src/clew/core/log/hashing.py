"""The names of contents: BLAKE3 over a fixed header and the bytes that follow it.

Every header begins with a tag that says what is hashed and by which version of the rule, and all its
fields have fixed sizes. So no two different inputs share one byte string, no entry can pass for a
batch, and a future rule can not be mistaken for this one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from blake3 import blake3

DIGEST_SIZE: Final = 32
ROOT: Final = bytes(DIGEST_SIZE)
"""The parent of the first entry of a history."""
LOST: Final = b"\xff" * DIGEST_SIZE
"""Stands where a repair could not read a hash any more: what it was nobody can tell."""

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
