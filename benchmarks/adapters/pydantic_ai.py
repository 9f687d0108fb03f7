"""Pydantic AI: no store for disks ships with it, so the peer is one written in an hour, on sqlite3.

A turn is what the framework's pages tell an application to do around a run: load the conversation (its last
20 messages, as for a run that needs only the recent turns), then save what the run added: a question, a call
of a tool, its result, the answer.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

from pydantic import TypeAdapter
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

import clew
from benchmarks.adapters import Framework
from clew.adapters.pydantic_ai import ClewConversationStore

T = TypeVar("T")

_CHAT: Final = "chat-1"
_RECENT: Final = 20
_WORDS: Final = "the grey heron stands in the shallow water and waits for a fish to pass by "
_MESSAGE: Final[TypeAdapter[ModelMessage]] = TypeAdapter(ModelMessage)
_RECORD: Final = TypeAdapter(ConversationRecord)

_SCHEMA: Final = """
PRAGMA journal_mode=WAL;
PRAGMA synchronous=FULL;
CREATE TABLE IF NOT EXISTS record (id TEXT PRIMARY KEY, revision TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS entry (id TEXT PRIMARY KEY, parent TEXT, body TEXT NOT NULL);
"""
_LINE: Final = """
WITH RECURSIVE line (id, parent, body, depth) AS (
    SELECT id, parent, body, 1 FROM entry WHERE id = ?
    UNION ALL
    SELECT e.id, e.parent, e.body, depth + 1 FROM entry e JOIN line ON e.id = line.parent WHERE depth < ?
) SELECT id, parent, body FROM line ORDER BY depth DESC
"""


class ByHand(ConversationStore):
    """Two tables, a transaction for each write."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self.connection.executescript(_SCHEMA)
        self.lock = threading.Lock()

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        rows = await self._ask("SELECT body FROM record WHERE id = ?", conversation_id)
        return _RECORD.validate_json(rows[0][0]) if rows else None

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        raise NotImplementedError

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        raise NotImplementedError

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        (entry,) = await self.read_history(entry_id, limit=1)
        return entry

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        rows = await self._ask(_LINE, head_id, limit or 2**31)
        return [
            ConversationEntry(id=id, parent_id=parent, message=_MESSAGE.validate_json(body))
            for id, parent, body in rows
        ]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        entries = [(e.id, e.parent_id, _MESSAGE.dump_json(e.message).decode()) for e in new_entries]
        body = _RECORD.dump_json(record).decode()
        await asyncio.to_thread(self._write, record, body, entries, expected_revision)

    def _write(
        self,
        record: ConversationRecord,
        body: str,
        entries: list[tuple[str, str | None, str]],
        expected: str | None,
    ) -> None:
        with self.lock:
            self.connection.execute("BEGIN IMMEDIATE")
            found = self.connection.execute(
                "SELECT revision FROM record WHERE id = ?", (record.conversation_id,)
            ).fetchone()
            if (found[0] if found else None) != expected:
                self.connection.execute("ROLLBACK")
                raise ConversationConflict(record.conversation_id)
            self.connection.executemany("INSERT INTO entry VALUES (?, ?, ?)", entries)
            self.connection.execute(
                "INSERT OR REPLACE INTO record VALUES (?, ?, ?)",
                (record.conversation_id, record.revision, body),
            )
            self.connection.execute("COMMIT")

    async def _ask(self, statement: str, *values: object) -> list[tuple[str, str, str]]:
        def ask() -> list[tuple[str, str, str]]:
            with self.lock:
                return self.connection.execute(statement, values).fetchall()

        return await asyncio.to_thread(ask)


def _messages(number: int) -> list[ModelMessage]:
    """What a run adds to the conversation."""
    call = f"call-{number}"
    used = RequestUsage(input_tokens=900, output_tokens=80)
    return [
        ModelRequest(parts=[UserPromptPart(content=f"{number}: {_WORDS * 2}")], run_id=f"run-{number}"),
        ModelResponse(
            parts=[ToolCallPart(tool_name="look_up", args={"bird": "heron"}, tool_call_id=call)],
            usage=used,
            model_name="scripted",
            run_id=f"run-{number}",
        ),
        ModelRequest(
            parts=[
                ToolReturnPart(tool_name="look_up", content=_WORDS * (2 + number * 5 % 13), tool_call_id=call)
            ],
            run_id=f"run-{number}",
        ),
        ModelResponse(
            parts=[TextPart(content=_WORDS * 4)], usage=used, model_name="scripted", run_id=f"run-{number}"
        ),
    ]


class _Talk:
    """A conversation in a store."""

    def __init__(self, conversations: ConversationStore, store: clew.Store | None = None) -> None:
        self._conversations = conversations
        self._store = store

    async def turn(self, number: int) -> None:
        loaded = await self._conversations.load(_CHAT, limit=_RECENT)
        talk = loaded or Conversation(conversation_id=_CHAT)
        talk.messages.extend(_messages(number))
        await self._conversations.save(talk)

    async def close(self) -> None:
        if self._store is not None:
            self._store.close()
        if isinstance(self._conversations, ByHand):
            self._conversations.connection.close()


async def _clew(place: Path) -> _Talk:
    store = clew.open(place / "agents.db")
    return _Talk(ClewConversationStore(store), store)


async def _by_hand(place: Path) -> _Talk:
    return _Talk(ByHand(place / "by-hand.db"))


async def _in_memory(place: Path) -> _Talk:
    return _Talk(InMemoryConversationStore())


def _size(turns: int) -> int:
    return sum(len(ModelMessagesTypeAdapter.dump_json(_messages(number))) - 2 for number in range(turns))


FRAMEWORK: Final = Framework(
    name="pydantic-ai",
    clew=_clew,
    theirs={"sqlite3 by hand": _by_hand, "in memory": _in_memory},
    message_bytes=_size,
)
