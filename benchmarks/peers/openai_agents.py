"""openai-agents: `SQLiteSession` and `AdvancedSQLiteSession` (WAL, synchronous=FULL by default)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.work import Message


class OpenAISession:
    """One `add_items` an append; the database work runs in a thread, as the library has it."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "sessions.db"
        self._sessions: dict[str, Any] = {}

    async def open(self) -> None:
        pass

    def prepare(self, messages: Sequence[Message]) -> list[Message]:
        return list(messages)

    async def append(self, session: str, items: list[Message]) -> None:
        await self._session(session).add_items(items)

    async def read(self, session: str) -> list[Any]:
        items: list[Any] = await self._session(session).get_items()
        return items

    async def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def _session(self, session: str) -> Any:
        if session not in self._sessions:
            self._sessions[session] = self._make(session)
        return self._sessions[session]

    def _make(self, session: str) -> Any:
        from agents import SQLiteSession

        return SQLiteSession(session, self._path)


class OpenAIAdvancedSession(OpenAISession):
    """The variant that knows branches and turns."""

    def _make(self, session: str) -> Any:
        from agents.extensions.memory import AdvancedSQLiteSession

        return AdvancedSQLiteSession(session_id=session, db_path=self._path, create_tables=True)
