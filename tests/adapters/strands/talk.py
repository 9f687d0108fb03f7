"""A model that says what it was told to, and what else tests of Strands need."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any, cast

from strands.models import Model
from strands.types._snapshot import Snapshot
from strands.types.content import Message

Saying = str | dict[str, Any]
"""A text, or a tool call, or what a guardrail does: the words that come instead of the user's."""


def says(text: str) -> Saying:
    return text


def calls(name: str, **arguments: Any) -> Saying:
    return {"name": name, "arguments": arguments}


def blocks(instead: str) -> Saying:
    return {"redacted": instead}


class ScriptedModel(Model):
    """Says one thing after the other, and remembers what it was given."""

    def __init__(self, *script: Saying) -> None:
        self._script = list(script)
        self.given: list[list[Message]] = []

    def get_config(self) -> dict[str, Any]:
        return {}

    def update_config(self, **model_config: Any) -> None:
        pass

    async def structured_output(self, *args: Any, **kwargs: Any) -> AsyncGenerator[dict[str, Any], None]:
        raise NotImplementedError
        yield {}

    def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterable[Any]:
        self.given.append(json.loads(json.dumps(messages, default=repr)))
        return self._said(self._script.pop(0), f"call-{len(self.given)}")

    async def _said(self, saying: Saying, call: str) -> AsyncIterable[Any]:
        yield {"messageStart": {"role": "assistant"}}
        reason = "end_turn"
        if isinstance(saying, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": saying}}}
        elif "redacted" in saying:
            reason = "guardrail_intervened"
            yield {"redactContent": {"redactUserContentMessage": saying["redacted"]}}
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "no"}}}
        else:
            reason = "tool_use"
            yield {"contentBlockStart": {"start": {"toolUse": {"name": saying["name"], "toolUseId": call}}}}
            arguments = json.dumps(saying["arguments"])
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": arguments}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": reason}}
        usage = {"inputTokens": 10, "outputTokens": 2, "totalTokens": 12}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 0}}}


def said(role: str, *content: Any) -> Message:
    return cast("Message", {"role": role, "content": list(content)})


def conversation() -> list[Message]:
    """Four messages, as the conformance of adapters asks for them; one with bytes in it."""
    image = {"image": {"format": "png", "source": {"bytes": b"\x89PNG\xff"}}}
    call = {"toolUse": {"toolUseId": "c1", "name": "look_up", "input": {"bird": "heron"}}}
    result = {"toolResult": {"toolUseId": "c1", "status": "success", "content": [{"text": "kingfisher"}]}}
    return [
        said("user", {"text": "Is that a grey heron?"}, image),
        said("assistant", call),
        said("user", result),
        said("assistant", {"text": "naïve 鷺 \0"}),
    ]


def numbered(number: str) -> list[Message]:
    return [said("user", {"text": number}), said("assistant", {"text": number})]


def number_of(message: Message) -> str:
    return message["content"][0]["text"]


def snapshot_of(messages: list[Any], **state: Any) -> bytes:
    """What a `SnapshotSessionManager` writes."""
    from strands.session.snapshot_session_manager import _serialize_snapshot

    data = {"messages": messages, "state": state, "interrupt_state": {"activated": False}}
    return _serialize_snapshot(Snapshot("agent", "1.0", data, {}))
