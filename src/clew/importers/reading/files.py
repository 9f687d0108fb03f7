"""Opening files of others: never anything else than a file, and as they read uncompressed.

Some were compressed when they had grown cold; these are read as far as they are whole.
"""

from __future__ import annotations

import errno
import io
import sys
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Final

from clew.core.disk.open import open_file

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_CHUNK: Final = 256 * 1024
MOST_AT_ONCE: Final = 1024 * 1024 * 1024
"""A document that is larger is not read: it would have to be in memory as a whole."""
MOST_UNPACKED: Final = 64 * 1024 * 1024
"""So much may come out of any compressed file,"""
MOST_TIMES: Final = 200
"""and so many times its own size: logs become a tenth or a fiftieth, bombs a ten-thousandth."""


def content_of(path: Path) -> bytes:
    """All of a file. OSError as `open_file`."""
    with open_file(path) as file:
        found = file.read(MOST_AT_ONCE + 1)
    if len(found) > MOST_AT_ONCE:
        raise OSError(errno.EFBIG, f"it has more than {MOST_AT_ONCE >> 20} MiB", str(path))
    return found


def opened(raw: IO[bytes], path: Path) -> IO[bytes]:
    """A file as it reads uncompressed. What is wrong with it is told by `damage_of`, at its end."""
    start = raw.read(4)
    raw.seek(0)
    if start != _MAGIC and path.suffix != ".zst":
        return raw
    return io.BufferedReader(_Unpacked(raw), 1024 * 1024)


def damage_of(file: IO[bytes]) -> str | None:
    """Why an opened file ended before its time; None: it did not."""
    inner = getattr(file, "raw", None)
    return inner.damage if isinstance(inner, _Unpacked) else None


class _Unpacked(io.RawIOBase):
    """A damaged frame ends the file: what stands before it can be read."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed = packed
        self._zstd = _zstd()
        self._frame: Any = None
        self._rest = b""
        self._taken = self._given = 0
        self.damage: str | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data and self.damage is None:
            if self._frame is None or self._frame.eof:
                self._rest = self._rest or self._read()
                if not self._rest:
                    return 0
                self._frame = self._zstd.ZstdDecompressor()
            elif self._frame.needs_input and not self._rest:
                self._rest = self._read()
                if not self._rest:
                    self.damage = "the compressed file is cut off"
                    break
            data = self._next(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _read(self) -> bytes:
        found = self._packed.read(_CHUNK)
        self._taken += len(found)
        return found

    def _next(self, most: int) -> bytes:
        try:
            data: bytes = self._frame.decompress(self._rest, most)
        except self._zstd.ZstdError as error:
            self.damage = f"the compressed file is damaged: {error}"
            return b""
        self._rest = self._frame.unused_data if self._frame.eof else b""
        self._given += len(data)
        if self._given > MOST_UNPACKED + MOST_TIMES * self._taken:
            self.damage = f"it unpacks to more than {MOST_TIMES} times its size"
            return b""
        return data


def _zstd() -> ModuleType:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
