"""What is said to Pydantic AI in its tests."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.usage import RequestUsage

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


def asks(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(content=text, timestamp=AT)], timestamp=AT)


def says(text: str, usage: RequestUsage | None = None) -> ModelResponse:
    used = usage or RequestUsage(input_tokens=5, output_tokens=3)
    return ModelResponse(parts=[TextPart(content=text)], usage=used, model_name="scripted", timestamp=AT)


def turn(name: str) -> list[ModelMessage]:
    return [asks(f"ask {name}"), says(f"say {name}")]


def texts(messages: list[ModelMessage]) -> list[str]:
    return [str(getattr(part, "content", "")) for message in messages for part in message.parts]


def run(work: Any) -> Any:
    return asyncio.run(work)


async def started(adapter: Any, id: str = "talk", *names: str, scope: str | None = None) -> Conversation:
    conversation = Conversation(conversation_id=id)
    for name in names or ("one", "two"):
        conversation.messages.extend(turn(name))
    await adapter.save(conversation, scope=scope)
    return conversation
