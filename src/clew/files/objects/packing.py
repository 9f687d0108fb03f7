"""Packs of objects on their way to the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from clew.backends.contract import Transaction
from clew.core.log import digest


class Pack(msgspec.Struct, frozen=True):
    """What `Transaction.add_pack` takes."""

    codec: int
    blob: bytes
    size: int
    members: list[tuple[bytes, int, int]]

    def add_to(self, tx: Transaction) -> None:
        tx.add_pack(self.codec, self.blob, self.size, self.members)

    def contents(self) -> Iterator[tuple[bytes, bytes]]:
        body = digest.unpack(self.codec, self.blob)
        for name, offset, size in self.members:
            yield name, body[offset : offset + size]


def compress(batch: Sequence[tuple[bytes, bytes]]) -> Pack:
    """A pack of names and contents."""
    members, offset = [], 0
    for name, content in batch:
        members.append((name, offset, len(content)))
        offset += len(content)
    body = batch[0][1] if len(batch) == 1 else b"".join(content for _, content in batch)
    return Pack(*digest.pack_objects(body), offset, members)
