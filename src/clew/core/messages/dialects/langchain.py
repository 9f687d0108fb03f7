"""LangChain: flat messages told by `type`, as `{"type": "ai", "content", "tool_calls"}`."""

from __future__ import annotations

from typing import Final

from clew.core.messages.dialects.base import (
    INTERRUPTED,
    ROLES,
    Call,
    ItemDialect,
    Part,
    Placement,
    Role,
    filled,
    parts_of,
    thought,
    type_of,
    typed_parts,
)
from clew.core.messages.dialects.openai import call_part
from clew.model import Json, Message

_SPEAKERS: Final[dict[str, Role]] = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
    "chat": "other",
    "remove": "other",
    "HumanMessageChunk": "user",
    "AIMessageChunk": "assistant",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
    "FunctionMessageChunk": "tool",
    "ChatMessageChunk": "other",
}
_CALLS: Final = frozenset({"tool_use", "tool_call", "function_call", "input_json_delta"})
"""Blocks that say once more what `tool_calls` has."""


class LangChainDialect(ItemDialect):
    name = "langchain"
    fields = frozenset({"type"})

    def claims(self, message: Message) -> bool:
        kind = message.get("type")
        if type(kind) is not str or kind not in _SPEAKERS:
            return False
        # Others have a type beside their role; here only messages of free roles have one.
        has_role = kind in ("chat", "ChatMessageChunk")
        return ("role" in message) is has_role and isinstance(message.get("content"), (str, list))

    def role(self, message: Message) -> Role:
        role = _SPEAKERS[message["type"]]
        return ROLES.get(str(message.get("role")), "other") if role == "other" else role

    def parts(self, message: Message) -> list[Part]:
        role = self.role(message)
        if role == "tool":
            call = Call(filled(message.get("tool_call_id")), filled(message.get("name")))
            placement = Placement.AFTER_CALL if call.id or call.name else None
            has_failed = message.get("status") == "error"
            return [Part("result", 0, None, _content(message), call, placement, has_failed)]
        parts: list[Part] = []
        if text := _reasoning(message):
            parts.append(thought(text))
        parts += map(_read_reasoning, typed_parts(_content(message)))
        placement = Placement.AFTER_CALL if role == "assistant" else None
        parts += [call_part(call, at, placement) for at, call in enumerate(parts_of(message, "tool_calls"))]
        return parts

    def interrupted(self, message: Message, part: Part) -> Json:
        call = part.call
        assert call is not None
        same_name = {"name": call.name} if call.name else {}
        return {
            "type": "tool",
            "content": INTERRUPTED,
            "tool_call_id": call.id or "",
            **same_name,
            "status": "error",
        }


def _content(message: Message) -> Json:
    content = message["content"]
    if isinstance(content, list):
        return [part for part in content if type_of(part) not in _CALLS]
    return content


def _read_reasoning(part: Part) -> Part:
    """Bedrock's thoughts have a type of LangChain's own."""
    if part.kind != "other" or type_of(part.value) != "reasoning_content":
        return part
    inner = part.value.get("reasoning_content")
    return thought(inner.get("text") if isinstance(inner, dict) else inner, part.at)


def _reasoning(message: Message) -> str | None:
    kwargs = message.get("additional_kwargs")
    return filled(kwargs.get("reasoning_content")) if isinstance(kwargs, dict) else None


LANGCHAIN: Final = LangChainDialect()
