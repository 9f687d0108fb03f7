"""langgraph-checkpoint-sqlite: the messages channel of an agent's state, one `put` a step.

This is a lower bound of what its users pay: the graph engine around it also calls `put_writes` for every
task, and its `add_messages` merges the lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.harness.work import Message


class LangGraph:
    """The checkpointer that the documentation shows first. A checkpoint holds the whole channel."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "checkpoints.db"
        self._stack = AsyncExitStack()
        self._histories: dict[str, list[Any]] = {}
        self._configs: dict[str, Any] = {}
        self._saver: Any = None

    async def open(self) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        self._saver = self._stack.enter_context(SqliteSaver.from_conn_string(str(self._path)))

    def prepare(self, messages: Sequence[Message]) -> list[Any]:
        return [native(message) for message in messages]

    async def append(self, session: str, items: list[Any]) -> None:
        self._configs[session] = self._saver.put(*self._step(session, items))

    async def read(self, session: str) -> list[Any]:
        found = self._saver.get_tuple({"configurable": {"thread_id": session, "checkpoint_ns": ""}})
        messages: list[Any] = found.checkpoint["channel_values"]["messages"]
        return messages

    async def close(self) -> None:
        await self._stack.aclose()

    def _step(self, session: str, items: list[Any]) -> tuple[Any, Any, Any, Any]:
        from langgraph.checkpoint.base.id import uuid6

        history = self._histories.setdefault(session, [])
        history.extend(items)
        step = len(history)
        config = self._configs.get(session) or {"configurable": {"thread_id": session, "checkpoint_ns": ""}}
        checkpoint = {
            "v": 4,
            "id": str(uuid6(clock_seq=step)),
            "ts": datetime.now(UTC).isoformat(),
            "channel_values": {"messages": history},
            "channel_versions": {"messages": f"{step:032}.0"},
            "versions_seen": {"agent": {"messages": f"{step - 1:032}.0"}},
            "updated_channels": ["messages"],
        }
        return (
            config,
            checkpoint,
            {"source": "loop", "step": step, "parents": {}},
            {"messages": f"{step:032}.0"},
        )


class LangGraphAsync(LangGraph):
    """The same on aiosqlite, for concurrent writers."""

    async def open(self) -> None:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        self._saver = await self._stack.enter_async_context(
            AsyncSqliteSaver.from_conn_string(str(self._path))
        )

    async def append(self, session: str, items: list[Any]) -> None:
        self._configs[session] = await self._saver.aput(*self._step(session, items))

    async def read(self, session: str) -> list[Any]:
        found = await self._saver.aget_tuple({"configurable": {"thread_id": session, "checkpoint_ns": ""}})
        messages: list[Any] = found.checkpoint["channel_values"]["messages"]
        return messages


def native(message: Message) -> Any:
    """The message as a langchain message."""
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    if message["role"] == "user":
        return HumanMessage(message["content"])
    if message["role"] == "tool":
        return ToolMessage(message["content"], tool_call_id=message["tool_call_id"])
    calls = [
        {
            "id": call["id"],
            "name": call["function"]["name"],
            "args": msgspec.json.decode(call["function"]["arguments"]),
            "type": "tool_call",
        }
        for call in message.get("tool_calls", ())
    ]
    return AIMessage(message["content"], tool_calls=calls)
