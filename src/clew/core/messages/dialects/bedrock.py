"""Bedrock's Converse: `{"role", "content"}`, where a block is told by its key and has no type.

Strands speaks it whatever the provider is, and other frameworks that began on Bedrock do too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from clew.core.messages.dialects.blocks import BlockDialect
from clew.core.messages.dialects.content import filled, parts_of
from clew.core.messages.dialects.contract import INTERRUPTED, Call, Placement, Slot
from clew.model import Json, Message

MEDIA: Final = ("image", "document", "video", "audio")
_KEYS: Final = frozenset(
    {"text", "toolUse", "toolResult", "reasoningContent", "cachePoint", "guardContent", "citationsContent"}
    | set(MEDIA)
)


class BedrockDialect(BlockDialect):
    name = "bedrock"

    def claims(self, message: Message) -> bool:
        content = message.get("content")
        if not isinstance(content, list) or message.get("role") not in ("user", "assistant"):
            return False
        return not message.get("tool_calls") and any(map(_is_ours, content))

    def texts(self, message: Message) -> list[str]:
        return [text for block in parts_of(message) for text in texts_of(block)]

    def shows_media(self, message: Message) -> bool:
        return any(inner(block, key) is not None for block in parts_of(message) for key in MEDIA)

    def is_reasoning(self, block: Json) -> bool:
        return inner(block, "reasoningContent") is not None

    def slot(self, block: Json, at: int, role: str | None) -> Slot | None:
        is_result = role == "user"
        value = inner(block, "toolResult" if is_result else "toolUse")
        key = None if value is None else filled(value.get("toolUseId"))
        if value is None or key is None:
            return None
        name = None if is_result else filled(value.get("name"))
        return Slot(Call(key, name), at, is_result, Placement.AFTER_TURN)

    def interrupted(self, message: Message, slot: Slot) -> Json:
        content: Json = [{"text": INTERRUPTED}]
        return {"toolResult": {"toolUseId": slot.call.id, "status": "error", "content": content}}

    def tool_values(self, message: dict[str, Json]) -> Iterator[Json]:
        """What tools were asked and answered: names, arguments, contents."""
        for block in parts_of(message):
            if (call := inner(block, "toolUse")) is not None:
                yield [call.get("name"), call.get("input")]
            for part in parts_of(inner(block, "toolResult") or {}):
                if isinstance(part, dict):
                    yield [part.get("text"), part.get("json")]


def inner(block: Json, key: str) -> dict[str, Json] | None:
    """What a block holds under its key, if it is such a block."""
    value = block.get(key) if isinstance(block, dict) else None
    return value if isinstance(value, dict) else None


def texts_of(block: Json) -> Iterator[str]:
    """What is said in a block: plainly, with citations, or for a guardrail to look at."""
    if not isinstance(block, dict):
        return
    if isinstance(text := block.get("text"), str):
        yield text
    if (guarded := inner(inner(block, "guardContent"), "text")) is not None:
        yield from texts_of(guarded)
    for part in parts_of(inner(block, "citationsContent") or {}):
        yield from texts_of(part)


def _is_ours(block: Json) -> bool:
    return isinstance(block, dict) and "type" not in block and not _KEYS.isdisjoint(block)


BEDROCK = BedrockDialect()
