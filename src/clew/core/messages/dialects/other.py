"""Messages of no known dialect, and ggcode's."""

from __future__ import annotations

from typing import Final

from clew.core.messages.dialects.anthropic import AnthropicDialect
from clew.core.messages.dialects.base import (
    INTERRUPTED,
    Call,
    ItemDialect,
    Part,
    Placement,
    Role,
    filled,
    type_of,
    typed_part,
)
from clew.model import Json, Message

# ── ggcode: Anthropic's blocks with names of its own, `tool_name`, `tool_id` and `output` ─────────


class GgcodeDialect(AnthropicDialect):
    name = "ggcode"

    def claims(self, message: Message) -> bool:
        content = message.get("content")
        if not isinstance(content, list) or message.get("role") not in ("user", "assistant"):
            return False
        return any(map(_is_ours, content))

    def part(self, block: Json, at: int, is_user: bool) -> Part:
        kind = type_of(block)
        if kind not in ("tool_use", "tool_result"):
            return typed_part(block, at)
        call = Call(
            filled(block.get("tool_id")) or filled(block.get("tool_use_id")) or filled(block.get("id")),
            filled(block.get("tool_name")) or filled(block.get("name")),
        )
        is_paired = bool(filled(block.get("tool_id"))) and (kind == "tool_result") is is_user
        placement = Placement.AFTER_TURN if is_paired else None
        if kind == "tool_use":
            return Part("call", at, None, block.get("input"), call, placement)
        output = block.get("output", block.get("content"))
        return Part("result", at, None, output, call, placement, bool(block.get("is_error")))

    def interrupted(self, message: Message, part: Part) -> Json:
        assert part.call is not None
        return {"type": "tool_result", "tool_id": part.call.id, "output": INTERRUPTED, "is_error": True}


def _is_ours(block: Json) -> bool:
    return type_of(block) in ("tool_use", "tool_result") and "tool_id" in block


GGCODE: Final = GgcodeDialect()


# ── Messages that no other dialect claims: passed through untouched ───────────────────────────────

_AROUND_A_TEXT: Final = frozenset({"role", "type", "id", "timestamp", "content"})


class OtherDialect(ItemDialect):
    name = "other"

    def claims(self, message: Message) -> bool:
        return True

    def role(self, message: Message) -> Role:
        return "other"

    def parts(self, message: Message) -> list[Part]:
        content = message.get("content")
        if isinstance(content, str) and message.keys() <= _AROUND_A_TEXT:
            return [Part("text", 0, content, speaker="other")]
        return [Part("other", 0, value=dict(message))]

    def interrupted(self, message: Message, part: Part) -> Json:
        raise AssertionError("a message without calls has none to answer")


OTHER: Final = OtherDialect()
