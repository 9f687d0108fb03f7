"""Messages of the Agent Framework as JSON, by its own form of them."""

from __future__ import annotations

from typing import Any, Final

from agent_framework import Message

import clew
from clew.adapters.common.jsontext import encode, restored

FRAMEWORK: Final = "agent-framework"


def encoded(message: Message) -> bytes:
    return encode(message.to_dict())


def decoded(value: dict[str, Any]) -> Message:
    return Message.from_dict(restored(value))


def messages_of(session: clew.Session, last: int | None = None) -> list[Message]:
    """The last messages on the path, or all."""
    found = session.messages(last=last)
    try:
        return [decoded(value) for value in found]
    except (KeyError, TypeError, ValueError) as exc:
        raise clew.InvalidError(
            f"session {session.id!r} holds what is no message of the Agent Framework: rewind to before it"
        ) from exc
