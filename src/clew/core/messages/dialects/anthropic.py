"""Anthropic messages: calls, results, thinking and media are blocks of `content`."""

from __future__ import annotations

from typing import Final

from clew.core.messages.dialects.blocks import BlockDialect
from clew.core.messages.dialects.content import filled, media_in, texts_in, type_of
from clew.core.messages.dialects.contract import INTERRUPTED, Call, Placement, Slot
from clew.model import Json, Message

_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_SERVER_CALLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})
_SERVER: Final = "server"
"""The kind of calls that the provider runs and answers itself, in the assistant's own message."""


class AnthropicDialect(BlockDialect):
    name = "anthropic"
    is_plain_without_calls = True

    def claims(self, message: Message) -> bool:
        content = message.get("content")
        if not isinstance(content, list) or message.get("role") not in ("user", "assistant"):
            return False
        # Some proxies write their calls twice, here and as `tool_calls`; the results then are chat messages.
        return not message.get("tool_calls") and any(_is_ours(type_of(block)) for block in content)

    def texts(self, message: Message) -> list[str]:
        return texts_in(message.get("content"))

    def shows_media(self, message: Message) -> bool:
        return media_in(message.get("content"))

    def is_reasoning(self, block: Json) -> bool:
        return type_of(block) in _THINKING

    def slot(self, block: Json, at: int, role: str | None) -> Slot | None:
        kind = type_of(block)
        if role == "user":
            key = filled(block.get("tool_use_id")) if kind == "tool_result" else None
            return Slot(Call(key, None), at, True, Placement.AFTER_TURN) if key else None
        if kind == "tool_use":
            key, name = filled(block.get("id")), filled(block.get("name"))
            return Slot(Call(key, name), at, False, Placement.AFTER_TURN) if key else None
        if kind in _SERVER_CALLS:
            key, name = filled(block.get("id")), filled(block.get("name"))
            return Slot(Call(key, name, _SERVER), at, False, Placement.INSIDE) if key else None
        if kind.endswith("_tool_result"):
            key = filled(block.get("tool_use_id"))
            return Slot(Call(key, None, _SERVER), at, True, Placement.INSIDE) if key else None
        return None

    def interrupted(self, message: Message, slot: Slot) -> Json:
        if slot.call.kind == _SERVER:
            return _interrupted_on_server(message["content"][slot.at], slot.call)
        return {
            "type": "tool_result",
            "tool_use_id": slot.call.id,
            "content": INTERRUPTED,
            "is_error": True,
        }


def _is_ours(kind: str) -> bool:
    return kind in ("tool_use", "tool_result") or kind in _THINKING or _is_server(kind)


def _is_server(kind: str) -> bool:
    return kind in _SERVER_CALLS or kind.endswith("_tool_result")


def _interrupted_on_server(block: Json, call: Call) -> Json:
    if block["type"] == "mcp_tool_use":
        text = {"type": "text", "text": INTERRUPTED}
        return {"type": "mcp_tool_result", "tool_use_id": call.id, "is_error": True, "content": [text]}
    # One result type for each tool, except that both kinds of tool search share theirs.
    name = call.name or "web_search"
    result = "tool_search_tool_result" if name.startswith("tool_search") else f"{name}_tool_result"
    error = {"type": f"{result}_error", "error_code": "unavailable"}
    return {"type": result, "tool_use_id": call.id, "content": error}


ANTHROPIC = AnthropicDialect()
