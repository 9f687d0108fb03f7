"""google-adk: `DatabaseSessionService` on sqlite+aiosqlite (rollback journal, synchronous=FULL)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.harness.work import Message

APP, USER = "bench", "user"


class GoogleADK:
    """One `append_event` a message: it has no call for several."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "sessions.db"
        self._sessions: dict[str, Any] = {}
        self._service: Any = None

    async def open(self) -> None:
        from google.adk.sessions import DatabaseSessionService

        self._service = DatabaseSessionService(f"sqlite+aiosqlite:///{self._path}")

    def prepare(self, messages: Sequence[Message]) -> list[Any]:
        return [native(message) for message in messages]

    async def append(self, session: str, items: list[Any]) -> None:
        handle = self._sessions.get(session)
        if handle is None:
            handle = await self._service.create_session(app_name=APP, user_id=USER, session_id=session)
            self._sessions[session] = handle
        for event in items:
            await self._service.append_event(handle, event)

    async def read(self, session: str) -> list[Any]:
        found = await self._service.get_session(app_name=APP, user_id=USER, session_id=session)
        events: list[Any] = found.events
        return events

    async def close(self) -> None:
        await self._service.close()


def native(message: Message) -> Any:
    """The message as an event of the ADK."""
    from google.adk.events import Event
    from google.genai import types

    if message["role"] == "tool":
        response = types.FunctionResponse(
            id=message["tool_call_id"], name="tool", response={"result": message["content"]}
        )
        content = types.Content(role="user", parts=[types.Part(function_response=response)])
        return Event(author="agent", invocation_id="i", content=content)
    parts = [types.Part(text=message["content"])]
    for call in message.get("tool_calls", ()):
        arguments = msgspec.json.decode(call["function"]["arguments"])
        function = types.FunctionCall(id=call["id"], name=call["function"]["name"], args=arguments)
        parts.append(types.Part(function_call=function))
    author, role = ("user", "user") if message["role"] == "user" else ("agent", "model")
    return Event(author=author, invocation_id="i", content=types.Content(role=role, parts=parts))
