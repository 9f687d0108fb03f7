"""Events, and a service to give them to."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session
from google.genai import types

from clew.adapters.adk import ClewSessionService

T = TypeVar("T")

TALK: dict[str, Any] = {"app_name": "birds", "user_id": "ann", "session_id": "talk"}


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def said(text: str, author: str = "user", **fields: Any) -> Event:
    role = "user" if author == "user" else "model"
    content = types.Content(role=role, parts=[types.Part(text=text)])
    return Event(invocation_id="e-1", author=author, content=content, **fields)


def changing(**delta: Any) -> Event:
    """An event that changes the state; in the names of keys, __ stands for a colon."""
    keys = {key.replace("__", ":"): value for key, value in delta.items()}
    return Event(invocation_id="e-1", author="agent", actions=EventActions(state_delta=keys))


def texts(session: Session | None) -> list[str]:
    assert session is not None
    parts = [event.content.parts[0] for event in session.events if event.content and event.content.parts]
    return [part.text or "" for part in parts]


async def load(service: ClewSessionService, **key: str) -> Session:
    session = await service.get_session(**{**TALK, **key})
    assert session is not None
    return session
