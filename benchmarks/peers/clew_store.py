"""Clew on its embedded default: SQLite, WAL, synchronous=FULL. All that the benchmarks need of it is here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import clew
from benchmarks.harness.work import Message


class Clew:
    """The synchronous face."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "clew.db"
        self._sessions: dict[str, clew.Session] = {}

    async def open(self) -> None:
        self.store = clew.open(str(self._path))

    def prepare(self, messages: Sequence[Message]) -> list[Message]:
        return list(messages)

    async def append(self, session: str, items: list[Message]) -> None:
        self.session(session).append(*items)

    async def read(self, session: str) -> list[Any]:
        return self.session(session).messages()

    async def close(self) -> None:
        self._sessions.clear()
        self.store.close()

    def session(self, session: str) -> clew.Session:
        """The handle, made once as a program would."""
        if session not in self._sessions:
            self._sessions[session] = self.store.session(session)
        return self._sessions[session]


class ClewAsync:
    """The asynchronous face."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "clew.db"
        self._sessions: dict[str, clew.AsyncSession] = {}

    async def open(self) -> None:
        self.store = await clew.open_async(str(self._path))

    def prepare(self, messages: Sequence[Message]) -> list[Message]:
        return list(messages)

    async def append(self, session: str, items: list[Message]) -> None:
        handle = self._sessions.get(session)
        if handle is None:
            handle = self._sessions[session] = await self.store.session(session)
        await handle.append(*items)

    async def read(self, session: str) -> list[Any]:
        return await (await self.store.session(session)).messages()

    async def close(self) -> None:
        self._sessions.clear()
        await self.store.close()
