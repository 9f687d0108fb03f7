"""OpenAI Agents SDK: `ClewSession` beside `SQLiteSession`.

A turn is a run with one tool call, as the runner asks for it: the whole history, then the user's words, then
the call with its output, then the answer; each of the three is durable when the call returns.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from agents import SQLiteSession
from agents.extensions.memory import AsyncSQLiteSession
from agents.memory import Session

import clew
from benchmarks.adapters import Framework
from clew.adapters.openai_agents import ClewSession

ID = "talk"
FILLER = "the quick brown fox jumps over the lazy dog "


def batches(number: int) -> list[list[Any]]:
    """What the runner adds in a turn."""
    key = f"call_{number:024d}"
    arguments = json.dumps({"path": f"src/module_{number}.py", "query": FILLER * 4})
    said = {"type": "output_text", "text": f"{number} {FILLER * 14}", "annotations": [], "logprobs": []}
    return [
        [{"role": "user", "content": f"{number} {FILLER * 6}"}],
        [
            {
                "type": "function_call",
                "id": f"fc_{key}",
                "call_id": key,
                "name": "look",
                "arguments": arguments,
            },
            {"type": "function_call_output", "call_id": key, "output": f"{number} {FILLER * 20}"},
        ],
        [
            {
                "type": "message",
                "id": f"msg_{number:024d}",
                "role": "assistant",
                "status": "completed",
                "content": [said],
            }
        ],
    ]


class Talk:
    def __init__(self, session: Session, store: clew.Store | None = None) -> None:
        self._session = session
        self._store = store

    async def turn(self, number: int) -> None:
        history = await self._session.get_items()
        assert len(history) == 4 * number
        for batch in batches(number):
            await self._session.add_items(batch)

    async def close(self) -> None:
        if self._store is not None:
            self._store.close()
        elif isinstance(self._session, AsyncSQLiteSession):
            await self._session.close()
        else:
            cast("SQLiteSession", self._session).close()


async def ours(directory: Path) -> Talk:
    store = clew.open(directory / "agents.db")
    return Talk(ClewSession(ID, store), store)


async def sqlite(directory: Path) -> Talk:
    return Talk(SQLiteSession(ID, directory / "agents.db"))


async def async_sqlite(directory: Path) -> Talk:
    return Talk(AsyncSQLiteSession(ID, directory / "agents.db"))


def message_bytes(turns: int) -> int:
    items = (item for number in range(turns) for batch in batches(number) for item in batch)
    return sum(len(json.dumps(item)) for item in items)


FRAMEWORK = Framework(
    "openai-agents",
    ours,
    {"SQLiteSession": sqlite, "AsyncSQLiteSession": async_sqlite},
    message_bytes,
)
