"""LangChain: flat messages told by `type`, as `{"type": "ai", "content", "tool_calls"}`."""

from __future__ import annotations

from typing import Final

from clew.core.messages.dialects.base import (
    INTERRUPTED,
    ROLES,
    Call,
    ItemDialect,
    Placement,
    Role,
    Slot,
    filled,
    is_blank,
    media_in,
    parts_of,
    texts_in,
    type_of,
)
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
_REASONING: Final = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
_CALLS: Final = frozenset({"tool_use", "tool_call", "function_call", "input_json_delta"})
"""Blocks that say once more what `tool_calls` has."""


class LangChainDialect(ItemDialect):
    name = "langchain"

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

    def texts(self, message: Message) -> list[str]:
        return [] if self.role(message) == "tool" else texts_in(message["content"])

    def shows_media(self, message: Message) -> bool:
        return media_in(message["content"])

    def is_reasoning_only(self, message: Message) -> bool:
        if self.role(message) != "assistant" or parts_of(message, "tool_calls"):
            return False
        thoughts = any(type_of(part) in _REASONING for part in parts_of(message)) or bool(_reasoning(message))
        return thoughts and all(map(is_blank, texts_in(message["content"]))) and not self.shows_media(message)

    def slots(self, message: Message) -> list[Slot]:
        role = self.role(message)
        if role == "assistant":
            calls = [_call(call) for call in parts_of(message, "tool_calls")]
            return [Slot(call, at, False, Placement.AFTER_CALL) for at, call in enumerate(calls) if call]
        key, name = filled(message.get("tool_call_id")), filled(message.get("name"))
        if role != "tool" or not (key or name):
            return []
        return [Slot(Call(key, name), 0, True, Placement.AFTER_CALL)]

    def interrupted(self, message: Message, slot: Slot) -> Json:
        key, name = slot.call.id, slot.call.name
        same_name = {"name": name} if name else {}
        return {
            "type": "tool",
            "content": INTERRUPTED,
            "tool_call_id": key or "",
            **same_name,
            "status": "error",
        }


def as_chat(message: Message) -> dict[str, Json]:
    """The same as a message of the chat dialect, for whoever shows it."""
    role = LANGCHAIN.role(message)
    content = message["content"]
    if isinstance(content, list):
        content = [part for part in content if type_of(part) not in _CALLS]
    fields = ("tool_calls", "tool_call_id", "name", "id")
    known = {name: message[name] for name in fields if message.get(name)}
    thought = _reasoning(message)
    return {"role": role, "content": content, **known, **({"reasoning_content": thought} if thought else {})}


def _reasoning(message: Message) -> str | None:
    kwargs = message.get("additional_kwargs")
    return filled(kwargs.get("reasoning_content")) if isinstance(kwargs, dict) else None


def _call(call: Json) -> Call | None:
    if not isinstance(call, dict):
        return None
    key, name = filled(call.get("id")), filled(call.get("name"))
    return Call(key, name) if key or name else None


LANGCHAIN = LangChainDialect()
