"""The limit: one file a session, one JSON line a message, one `write` and one `fdatasync` an append."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.harness.work import Message, encode


class RawFile:
    """What no store that keeps its promises can beat: the lines are encoded before the clock starts."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[str, int] = {}

    async def open(self) -> None:
        pass

    def prepare(self, messages: Sequence[Message]) -> list[bytes]:
        return [encode(message) + b"\n" for message in messages]

    async def append(self, session: str, items: list[bytes]) -> None:
        self.write(session, items)

    def write(self, session: str, items: list[bytes]) -> None:
        """The same without a loop, for threads."""
        file = self._files.get(session)
        if file is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            file = self._files[session] = os.open(self._directory / f"{session}.jsonl", flags, 0o600)
        os.write(file, items[0] if len(items) == 1 else b"".join(items))
        os.fdatasync(file)

    async def read(self, session: str) -> list[Any]:
        return self.load(session)

    def load(self, session: str) -> list[Any]:
        decode = msgspec.json.Decoder().decode
        return [decode(line) for line in (self._directory / f"{session}.jsonl").read_bytes().splitlines()]

    async def close(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()
