"""Messages of the Agent Framework as JSON, by its own form of them."""

from __future__ import annotations

import json
from typing import Any, Final

from agent_framework import Message

import clew

FRAMEWORK: Final = "agent-framework"


def encoded(message: Message) -> bytes:
    return to_json(message.to_dict())


def decoded(value: dict[str, Any]) -> Message:
    return Message.from_dict(value)


def to_json(value: Any) -> bytes:
    """Strict JSON. ValueError or TypeError for what is none: not a number, or an unknown object."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # lone surrogates can be escaped, if not encoded
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def messages_of(session: clew.Session, last: int | None = None) -> list[Message]:
    """The last messages on the path, or all."""
    found = session.messages(last=last)
    try:
        return [decoded(value) for value in found]
    except (KeyError, TypeError, ValueError) as exc:
        raise clew.InvalidError(
            f"session {session.id!r} holds what is no message of the Agent Framework: rewind to before it"
        ) from exc
