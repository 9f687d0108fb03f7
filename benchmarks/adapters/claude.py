"""Claude Agent SDK: it ships no store for disks, so the peers are stores on sqlite3 as its examples are.

A turn is what a connected client asks of its store in one turn: one `append` of the lines that the turn added
to the transcript (the prompt, two calls of tools with their results, the answer, and the program's records).
The peers are one table of lines; they neither know lines that come again nor keep summaries, as the examples
do not. "sqlite3" is Python's as it comes, "sqlite3 in WAL" has the same durability as Clew.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from claude_agent_sdk import InMemorySessionStore, SessionKey, SessionStore

import clew
from benchmarks.adapters import Framework
from clew.adapters.claude import ClewSessionStore

_KEY: Final[SessionKey] = {"project_key": "-birds", "session_id": str(UUID(int=1))}
_WORDS: Final = "the grey heron stands in the shallow water and waits for a fish to pass by "
_SCHEMA: Final = """
CREATE TABLE line (
    seq INTEGER PRIMARY KEY, project TEXT NOT NULL, session TEXT NOT NULL, subpath TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX line_of ON line (project, session, subpath, seq);
"""


class ByHand:
    """One table, a transaction for each batch."""

    def __init__(self, path: Path, *, wal: bool) -> None:
        self.connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        if wal:
            self.connection.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;")
        self.connection.executescript(_SCHEMA)
        self.lock = threading.Lock()

    async def append(self, key: SessionKey, entries: list[Any]) -> None:
        place = (key["project_key"], key["session_id"], key.get("subpath", ""))
        rows = [(*place, json.dumps(entry)) for entry in entries]
        await asyncio.to_thread(self._write, rows)

    def _write(self, rows: list[tuple[str, str, str, str]]) -> None:
        with self.lock:
            self.connection.execute("BEGIN IMMEDIATE")
            self.connection.executemany(
                "INSERT INTO line (project, session, subpath, body) VALUES (?, ?, ?, ?)", rows
            )
            self.connection.execute("COMMIT")


def _lines(number: int) -> list[Any]:
    """What a turn adds to a transcript."""
    said: list[tuple[str, Any]] = [("user", f"{number}: {_WORDS * 2}")]
    for step in range(2):
        call = f"toolu_{number}_{step}"
        said.append(
            ("assistant", [{"type": "tool_use", "id": call, "name": "Read", "input": {"path": "a.py"}}])
        )
        said.append(
            (
                "user",
                [
                    {
                        "type": "tool_result",
                        "tool_use_id": call,
                        "content": _WORDS * (2 + (5 * number + step) % 29),
                    }
                ],
            )
        )
    said.append(("assistant", [{"type": "text", "text": _WORDS * 4}]))
    lines = [_line(f"{number}-{at}", role, content) for at, (role, content) in enumerate(said)]
    last: dict[str, Any] = {"type": "last-prompt", "lastPrompt": "…", "sessionId": _KEY["session_id"]}
    return [*lines, last]


def _line(name: str, role: str, content: Any) -> dict[str, Any]:
    used = {
        "input_tokens": 10,
        "output_tokens": 80,
        "cache_read_input_tokens": 900,
        "service_tier": "standard",
    }
    is_result = isinstance(content, list) and content[0]["type"] == "tool_result"
    return {
        "parentUuid": str(UUID(bytes=f"{name:*>16}".encode()[:16])),
        "isSidechain": False,
        "type": role,
        "message": {
            "role": role,
            "content": content,
            **({} if role == "user" else {"model": "scripted", "usage": used}),
        },
        **({"toolUseResult": {"type": "text", "file": content[0]["content"]}} if is_result else {}),
        "uuid": str(UUID(bytes=f"{name:0>16}".encode()[:16])),
        "timestamp": "2026-11-15T08:00:00.000Z",
        "userType": "external",
        "cwd": "/birds",
        "sessionId": _KEY["session_id"],
        "version": "2.1.325",
        "gitBranch": "main",
    }


class _Talk:
    def __init__(self, transcripts: SessionStore | ByHand, close: Any = None) -> None:
        self._transcripts = transcripts
        self._close = close

    async def turn(self, number: int) -> None:
        await self._transcripts.append(_KEY, _lines(number))

    async def close(self) -> None:
        if self._close is not None:
            self._close()


async def _clew(place: Path) -> _Talk:
    store = clew.open(place / "agents.db")
    return _Talk(ClewSessionStore(store), store.close)


async def _sqlite(place: Path) -> _Talk:
    store = ByHand(place / "by-hand.db", wal=False)
    return _Talk(store, store.connection.close)


async def _wal(place: Path) -> _Talk:
    store = ByHand(place / "by-hand.db", wal=True)
    return _Talk(store, store.connection.close)


async def _in_memory(place: Path) -> _Talk:
    return _Talk(InMemorySessionStore())


def _size(turns: int) -> int:
    return sum(len(json.dumps(line)) for number in range(turns) for line in _lines(number))


FRAMEWORK: Final = Framework(
    name="claude-agent-sdk",
    clew=_clew,
    theirs={"sqlite3 in WAL": _wal, "sqlite3": _sqlite, "in memory": _in_memory},
    message_bytes=_size,
)
