"""Cutting a large file to chunks, so that memory stays bounded and an edit costs the chunks around it.

The cuts are where the content says (FastCDC), so that an insertion at the front moves no chunk behind
it. The parameters are part of the format: other ones, and nothing that is stored is found again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from clew.files.objects.format import Chunk, encode_chunks, object_name

if TYPE_CHECKING:
    from clew.files.objects.store import ObjectWriter

WHOLE: Final = 4 * 1024 * 1024
"""Files up to this size are one object."""

PIECE: Final = 1024 * 1024
_SMALLEST: Final = PIECE // 4
_LARGEST: Final = PIECE * 4
_NORMALISATION: Final = 1
_SEED: Final = 0


def cut(fd: int) -> Iterator[bytes]:
    """The content of a file from where it stands to its end, in chunks."""
    from pyfastcdc import FastCDC  # most trees have no file that large

    cutter = FastCDC(
        PIECE, min_size=_SMALLEST, max_size=_LARGEST, normalized_chunking=_NORMALISATION, seed=_SEED
    )
    # The next chunk is written over the memory of this one: so it is copied.
    return (bytes(chunk.data) for chunk in cutter.cut_stream(_Stream(fd)))


def store_chunks(pieces: Iterator[bytes], writer: ObjectWriter) -> tuple[bytes, int]:
    """Store the chunks and the list of them: the name of the list, the length of the file."""
    chunks: list[Chunk] = []
    for piece in pieces:
        name = object_name(piece)
        writer.put(piece, name)
        chunks.append(Chunk(name, len(piece)))
    return writer.put(encode_chunks(chunks)), sum(chunk.size for chunk in chunks)


class _Stream:
    """A descriptor as what the cutter reads from."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def readinto(self, buffer: memoryview) -> int:
        return os.readv(self._fd, [buffer])
