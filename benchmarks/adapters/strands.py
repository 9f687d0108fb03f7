"""Strands: no store on SQLite ships with it, so the first peer is one written in an hour, on sqlite3, and as
durable as ours. The other is what Strands ships, which keeps files and never syncs them.

A turn of `FRAMEWORK` is what a `RepositorySessionManager` asks of its repository: create a message for the
question, the call of a tool, its result and the answer, and update the agent, whose state has changed.
A turn of `SNAPSHOTS` is what a `SnapshotSessionManager` asks of its storage: write the whole agent, once.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any, Final

from strands.session.file_session_manager import FileSessionManager
from strands.session.session_repository import SessionRepository
from strands.storage import LocalFileStorage, Storage
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

import clew
from benchmarks.adapters import Framework
from clew.adapters.strands import ClewSessionRepository, ClewStorage

_CHAT: Final = "chat-1"
_AGENT: Final = "default"
_KEY: Final = f"session/{_CHAT}/scopes/agent/{_AGENT}/snapshots/snapshot_latest.json"
_WORDS: Final = "the grey heron stands in the shallow water and waits for a fish to pass by "
_TIME: Final = "2026-11-15T12:00:00.000000+00:00"

_SCHEMA: Final = """
PRAGMA journal_mode=WAL;
PRAGMA synchronous=FULL;
CREATE TABLE IF NOT EXISTS session (id TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS agent (session TEXT, id TEXT, body TEXT NOT NULL, PRIMARY KEY (session, id));
CREATE TABLE IF NOT EXISTS message (
    session TEXT, agent TEXT, id INTEGER, body TEXT NOT NULL, PRIMARY KEY (session, agent, id)
);
CREATE TABLE IF NOT EXISTS value (key TEXT PRIMARY KEY, body BLOB NOT NULL);
"""


class _Table:
    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.executescript(_SCHEMA)

    def close(self) -> None:
        self._connection.close()

    def _put(self, statement: str, *values: object) -> None:
        self._connection.execute(statement, values)

    def _body(self, statement: str, *values: object) -> Any:
        row = self._connection.execute(statement, values).fetchone()
        return None if row is None else row[0]


class ByHand(_Table, SessionRepository):
    """Three tables, a transaction for each write."""

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        self._put("INSERT INTO session VALUES (?, ?)", session.session_id, json.dumps(session.to_dict()))
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        body = self._body("SELECT body FROM session WHERE id = ?", session_id)
        return None if body is None else Session.from_dict(json.loads(body))

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        body = json.dumps(session_agent.to_dict())
        self._put("INSERT OR REPLACE INTO agent VALUES (?, ?, ?)", session_id, session_agent.agent_id, body)

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        body = self._body("SELECT body FROM agent WHERE session = ? AND id = ?", session_id, agent_id)
        return None if body is None else SessionAgent.from_dict(json.loads(body))

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        previous = self.read_agent(session_id, session_agent.agent_id)
        assert previous is not None
        session_agent.created_at = previous.created_at
        self.create_agent(session_id, session_agent)

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        body = json.dumps(session_message.to_dict())
        number = session_message.message_id
        self._put("INSERT INTO message VALUES (?, ?, ?, ?)", session_id, agent_id, number, body)

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **kwargs: Any
    ) -> SessionMessage | None:
        raise NotImplementedError

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        raise NotImplementedError

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **kwargs: Any
    ) -> list[SessionMessage]:
        raise NotImplementedError


class ValuesByHand(_Table):
    """One table, a transaction for each write."""

    async def write(self, key: str, data: bytes) -> None:
        await asyncio.to_thread(self._put, "INSERT OR REPLACE INTO value VALUES (?, ?)", key, data)


def _messages(number: int) -> list[dict[str, Any]]:
    """What a turn adds to the conversation."""
    used = {"usage": {"inputTokens": 900, "outputTokens": 80, "totalTokens": 980}}
    call = {"toolUse": {"toolUseId": f"call-{number}", "name": "look_up", "input": {"bird": "heron"}}}
    content = [{"text": _WORDS * 8}]
    result = {"toolResult": {"toolUseId": f"call-{number}", "status": "success", "content": content}}
    said: list[dict[str, Any]] = [
        {"role": "user", "content": [{"text": f"{number}: {_WORDS * 2}"}]},
        {"role": "assistant", "content": [call], "metadata": used},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [{"text": _WORDS * 4}], "metadata": used},
    ]
    return [{**message, "tracking_id": f"{number:08d}-{index}"} for index, message in enumerate(said)]


class _Talk:
    """A conversation in a repository."""

    def __init__(self, repository: SessionRepository, closes: Any = None) -> None:
        self._repository = repository
        self._closes = closes
        if repository.read_session(_CHAT) is None:
            repository.create_session(Session(session_id=_CHAT, session_type=SessionType.AGENT))
        repository.create_agent(_CHAT, self._agent(0))

    def _agent(self, number: int) -> SessionAgent:
        return SessionAgent(agent_id=_AGENT, state={"turn": number}, conversation_manager_state={})

    async def turn(self, number: int) -> None:
        for index, message in enumerate(_messages(number), 4 * number):
            record = SessionMessage.from_message(message, index)  # type: ignore[arg-type]
            self._repository.create_message(_CHAT, _AGENT, record)
        self._repository.update_agent(_CHAT, self._agent(number))

    async def close(self) -> None:
        if self._closes is not None:
            self._closes.close()


class _Saves:
    """An agent that is saved in a storage as a whole. Making the bytes, which takes longer the more was said,
    is Strands' own work: here they are made cheaply."""

    def __init__(self, storage: Storage | ValuesByHand, closes: Any = None) -> None:
        self._storage = storage
        self._closes = closes
        self._said: list[str] = []

    def _bytes(self, number: int) -> bytes:
        self._said += [json.dumps(message, ensure_ascii=False) for message in _messages(number)]
        begin = (
            f'{{"scope": "agent", "schema_version": "1.0", "created_at": "{_TIME}", "data": {{"messages": ['
        )
        end = f'], "state": {{"turn": {number}}}, "conversation_manager_state": {{}}}}, "app_data": {{}}}}'
        return (begin + ", ".join(self._said) + end).encode()

    async def turn(self, number: int) -> None:
        await self._storage.write(_KEY, self._bytes(number))

    async def close(self) -> None:
        if self._closes is not None:
            self._closes.close()


async def _clew(place: Path) -> _Talk:
    store = clew.open(place / "agents.db")
    return _Talk(ClewSessionRepository(store), store)


async def _by_hand(place: Path) -> _Talk:
    table = ByHand(place / "by-hand.db")
    return _Talk(table, table)


async def _files(place: Path) -> _Talk:
    return _Talk(FileSessionManager(_CHAT, str(place)))


async def _clew_saves(place: Path) -> _Saves:
    store = clew.open(place / "agents.db")
    return _Saves(ClewStorage(store), store)


async def _saves_by_hand(place: Path) -> _Saves:
    table = ValuesByHand(place / "by-hand.db")
    return _Saves(table, table)


async def _saves_in_files(place: Path) -> _Saves:
    return _Saves(LocalFileStorage(str(place)))


def _size(turns: int) -> int:
    """As the repositories of Strands write them, without spaces."""
    size = 0
    for number in range(turns):
        for index, message in enumerate(_messages(number), 4 * number):
            record = SessionMessage(message, index, None, _TIME, _TIME)  # type: ignore[arg-type]
            size += len(json.dumps(record.to_dict(), separators=(",", ":")))
    return size


def _size_of_saves(turns: int) -> int:
    """The last snapshot: all messages are in it."""
    return sum(len(json.dumps(message)) for number in range(turns) for message in _messages(number))


FRAMEWORK: Final = Framework(
    name="strands",
    clew=_clew,
    theirs={"sqlite3 by hand": _by_hand, "FileSessionManager": _files},
    message_bytes=_size,
)
SNAPSHOTS: Final = Framework(
    name="strands snapshots",
    clew=_clew_saves,
    theirs={"sqlite3 by hand": _saves_by_hand, "LocalFileStorage": _saves_in_files},
    message_bytes=_size_of_saves,
)
