"""How much a snapshot may take."""

from __future__ import annotations

from typing import Final

import msgspec

from clew.errors import InvalidError, QuotaExceededError

MIB: Final = 1024 * 1024
GIB: Final = 1024 * MIB


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """A larger file is skipped and listed; more files, or more bytes, and there is no snapshot."""

    max_file_bytes: int = 100 * MIB
    max_files: int = 1_000_000
    max_bytes: int = 50 * GIB

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value < 0:
                raise InvalidError(f"{name} must not be negative, as {value} is")

    def check(self, root: str, files: int, size: int) -> None:
        if files > self.max_files:
            raise QuotaExceededError(f"{root!r} holds more than {self.max_files} files; nothing was stored")
        if size > self.max_bytes:
            raise QuotaExceededError(f"{root!r} holds more than {self.max_bytes} bytes; nothing was stored")
