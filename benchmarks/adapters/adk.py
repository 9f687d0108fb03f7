"""Google ADK: its SqliteSessionService, and its DatabaseSessionService on aiosqlite.

A turn is what the runner asks of its session service: get the session, then append a question, a call of a
tool, its result (which changes the state) and the answer (which is kept in the state). `FRAMEWORK` loads the
last 20 events, as `RunConfig(get_session_config=…)` asks for; `WHOLE` loads all, which is the default: then
making objects out of events is most of the work, on every store, and grows with the history.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

import clew
from benchmarks.adapters import Framework
from clew.adapters.adk import ClewSessionService

_KEY: Final[dict[str, Any]] = {"app_name": "birds", "user_id": "ann", "session_id": "talk"}
_RECENT: Final = GetSessionConfig(num_recent_events=20)
_WORDS: Final = "the grey heron stands in the shallow water and waits for a fish to pass by "


def _events(number: int) -> list[Event]:
    """What a turn adds to the session."""
    call = types.Part(
        function_call=types.FunctionCall(id=f"call-{number}", name="look_up", args={"bird": "heron"})
    )
    result = types.FunctionResponse(id=f"call-{number}", name="look_up", response={"result": _WORDS * 8})
    return [
        _event(number, "user", "user", types.Part(text=f"{number}: {_WORDS * 2}")),
        _event(number, "spotter", "model", call),
        _event(number, "spotter", "user", types.Part(function_response=result), seen=number),
        _event(number, "spotter", "model", types.Part(text=_WORDS * 4), answer=_WORDS * 4),
    ]


def _event(number: int, author: str, role: str, part: types.Part, **state: Any) -> Event:
    return Event(
        invocation_id=f"e-{number}",
        author=author,
        content=types.Content(role=role, parts=[part]),
        actions=EventActions(state_delta=state),
    )


class _Talk:
    """A session in a service."""

    def __init__(
        self, service: BaseSessionService, config: GetSessionConfig | None, store: clew.Store | None = None
    ) -> None:
        self._service = service
        self._config = config
        self._store = store

    async def turn(self, number: int) -> None:
        session = await self._service.get_session(**_KEY, config=self._config)
        session = session or await self._service.create_session(**_KEY)
        for event in _events(number):
            await self._service.append_event(session, event)

    async def close(self) -> None:
        if isinstance(self._service, DatabaseSessionService):
            await self._service.close()
        if self._store is not None:
            self._store.close()


async def _clew(config: GetSessionConfig | None, place: Path) -> _Talk:
    store = clew.open(place / "agents.db")
    return _Talk(ClewSessionService(store), config, store)


async def _sqlite(config: GetSessionConfig | None, place: Path) -> _Talk:
    return _Talk(SqliteSessionService(str(place / "sessions.db")), config)


async def _database(config: GetSessionConfig | None, place: Path) -> _Talk:
    return _Talk(DatabaseSessionService(f"sqlite+aiosqlite:///{place / 'sessions.db'}"), config)


def _size(turns: int) -> int:
    events = (event for number in range(turns) for event in _events(number))
    return sum(len(event.model_dump_json(exclude_none=True)) for event in events)


def _framework(name: str, config: GetSessionConfig | None) -> Framework:
    return Framework(
        name=name,
        clew=partial(_clew, config),
        theirs={
            "SqliteSessionService": partial(_sqlite, config),
            "DatabaseSessionService": partial(_database, config),
        },
        message_bytes=_size,
    )


FRAMEWORK: Final = _framework("adk", _RECENT)
WHOLE: Final = _framework("adk whole history", None)
