"""LlamaIndex: `ClewChatStore` beside the durable chat store that it ships.

A turn is what a chat engine asks of its memory: the user's message is added, the history is read, the answer
is added.
"""

from __future__ import annotations

from pathlib import Path

from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

import clew
from benchmarks.adapters import Framework
from clew.adapters.llama_index import ClewChatStore

KEY = "talk"
FILLER = "the quick brown fox jumps over the lazy dog "


def asked(number: int) -> ChatMessage:
    return ChatMessage(role=MessageRole.USER, content=f"{number} {FILLER * 12}")


def answered(number: int) -> ChatMessage:
    return ChatMessage(role=MessageRole.ASSISTANT, content=f"{number} {FILLER * 24}")


class Ours:
    def __init__(self, directory: Path) -> None:
        self._store = clew.open(directory / "agents.db")
        self._chats = ClewChatStore(self._store)

    async def turn(self, number: int) -> None:
        await self._chats.async_add_message(KEY, asked(number))
        assert len(await self._chats.aget_messages(KEY)) == 2 * number + 1
        await self._chats.async_add_message(KEY, answered(number))

    async def close(self) -> None:
        self._store.close()


class Sql:
    def __init__(self, directory: Path) -> None:
        uri = f"sqlite+aiosqlite:///{directory / 'agents.db'}"
        self._chats = SQLAlchemyChatStore(table_name="messages", async_database_uri=uri)

    async def turn(self, number: int) -> None:
        await self._chats.add_message(KEY, asked(number))
        assert len(await self._chats.get_messages(KEY)) == 2 * number + 1
        await self._chats.add_message(KEY, answered(number))

    async def close(self) -> None:
        engine = self._chats._async_engine
        if engine is not None:
            await engine.dispose()


async def ours(directory: Path) -> Ours:
    return Ours(directory)


async def sql(directory: Path) -> Sql:
    return Sql(directory)


def message_bytes(turns: int) -> int:
    messages = (make(number) for number in range(turns) for make in (asked, answered))
    return sum(len(message.model_dump_json()) for message in messages)


FRAMEWORK = Framework("llama-index", ours, {"SQLAlchemyChatStore": sql}, message_bytes)
