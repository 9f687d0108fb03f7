"""Microsoft Agent Framework: `{"type": "message", "role", "contents"}`, where each content says its type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from clew.core.messages.dialects.base import (
    INTERRUPTED,
    BlockDialect,
    Call,
    Placement,
    Slot,
    filled,
    parts_of,
    type_of,
)
from clew.model import Json, Message

_MEDIA: Final = frozenset({"data", "uri", "hosted_file"})
_SERVER: Final = "server"
"""The kind of calls that the provider runs and answers itself, in the assistant's own message."""


class AgentFrameworkDialect(BlockDialect):
    name = "agent-framework"
    field = "contents"

    def claims(self, message: Message) -> bool:
        if message.get("type") != "message" or not isinstance(message.get("role"), str):
            return False
        contents = message.get("contents")
        return isinstance(contents, list) and all(map(type_of, contents))

    def texts(self, message: Message) -> list[str]:
        spoken = (part for part in parts_of(message, "contents") if type_of(part) == "text")
        return [part["text"] for part in spoken if isinstance(part.get("text"), str)]

    def shows_media(self, message: Message) -> bool:
        return any(type_of(part) in _MEDIA for part in parts_of(message, "contents"))

    def is_reasoning(self, block: Json) -> bool:
        return type_of(block) == "text_reasoning"

    def slot(self, block: Json, at: int, role: str | None) -> Slot | None:
        kind = type_of(block)
        key = filled(block.get("call_id")) if kind else None
        if key is None:
            return None
        name = filled(block.get("name")) or filled(block.get("tool_name"))
        if kind in ("function_call", "function_result"):
            return Slot(Call(key, name), at, kind == "function_result", Placement.ONE_MESSAGE)
        if kind.endswith(("_tool_call", "_tool_result")):
            return Slot(Call(key, name, _SERVER), at, kind.endswith("_result"), Placement.INSIDE)
        return None

    def interrupted(self, message: Message, slot: Slot) -> Json:
        if slot.call.kind == _SERVER:
            called = type_of(message["contents"][slot.at])
            return {"type": f"{called.removesuffix('_call')}_result", "call_id": slot.call.id}
        return {"type": "function_result", "call_id": slot.call.id, "result": INTERRUPTED}

    def gather(self, pieces: Sequence[Json]) -> list[dict[str, Json]]:
        return [{"type": "message", "role": "tool", "contents": list(pieces)}]

    def tool_values(self, message: dict[str, Json]) -> Iterator[Json]:
        """What tools were asked and answered: names, arguments, results."""
        for part in parts_of(message, "contents"):
            kind = type_of(part)
            if kind.endswith("_call"):
                yield [part.get(field) for field in ("name", "tool_name", "arguments", "inputs", "commands")]
            elif kind.endswith("_result"):
                yield result_of(part)
                yield part.get("exception")


def result_of(part: Json) -> Json:
    """What a tool answered. The framework keeps it twice: as a value, and as what is sent to the model."""
    fields = ("result", "output", "outputs", "items")
    return next((part[field] for field in fields if part.get(field) is not None), None)


AGENT_FRAMEWORK = AgentFrameworkDialect()
