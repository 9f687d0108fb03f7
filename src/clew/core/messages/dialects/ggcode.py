"""ggcode: Anthropic's blocks with names of its own, `tool_name`, `tool_id` and `output`."""

from __future__ import annotations

from clew.core.messages.dialects.anthropic import AnthropicDialect
from clew.core.messages.dialects.base import INTERRUPTED, Call, Placement, Slot, filled, type_of
from clew.model import Json, Message


class GgcodeDialect(AnthropicDialect):
    name = "ggcode"

    def claims(self, message: Message) -> bool:
        content = message.get("content")
        if not isinstance(content, list) or message.get("role") not in ("user", "assistant"):
            return False
        return any(map(_is_ours, content))

    def slot(self, block: Json, at: int, role: str | None) -> Slot | None:
        is_result = role == "user"
        if type_of(block) != ("tool_result" if is_result else "tool_use"):
            return None
        call = Call(filled(block.get("tool_id")), filled(block.get("tool_name")))
        return Slot(call, at, is_result, Placement.AFTER_TURN) if call.id else None

    def interrupted(self, message: Message, slot: Slot) -> Json:
        return {"type": "tool_result", "tool_id": slot.call.id, "output": INTERRUPTED, "is_error": True}


def _is_ours(block: Json) -> bool:
    return type_of(block) in ("tool_use", "tool_result") and "tool_id" in block


GGCODE = GgcodeDialect()
