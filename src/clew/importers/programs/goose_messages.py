"""A message of goose in Anthropic's blocks, which are nearest to its own."""

from __future__ import annotations

from typing import NamedTuple

from clew.core.messages.dialects.base import texts_in
from clew.importers.reading.values import items, mapping, text, without
from clew.model import Json


class GooseMessage(NamedTuple):
    role: str
    content: list[Json]
    created: Json
    rest: dict[str, Json]
    """The id, and who may see it: flags that a later compaction turns over."""

    @property
    def for_people(self) -> bool:
        return mapping(self.rest.get("metadata")).get("userVisible", True) is not False

    @property
    def for_the_model(self) -> bool:
        return mapping(self.rest.get("metadata")).get("agentVisible", True) is not False

    @property
    def text(self) -> str:
        return "\n".join(texts_in(self.content))


def converted(message: GooseMessage) -> dict[str, Json]:
    return {"role": message.role, "content": [_block(block) for block in message.content]}


def _block(block: Json) -> Json:
    if not isinstance(block, dict):
        return block
    if block.get("type") == "toolRequest":
        call = mapping(mapping(block.get("toolCall")).get("value"))
        asked = {"name": call.get("name"), "input": call.get("arguments")}
        more = without(block, ("type", "id", "toolCall"))
        return {"type": "tool_use", "id": block.get("id"), **asked, **more}
    if block.get("type") == "toolResponse":
        result = mapping(block.get("toolResult"))
        content, failed = _result(result)
        more = without(block, ("type", "id", "toolResult"))
        told = {"type": "tool_result", "tool_use_id": block.get("id"), "content": content, **more}
        return {**told, "is_error": True} if failed else told
    return block


def _result(result: dict[str, Json]) -> tuple[Json, bool]:
    """What came back: a list of contents, in newer versions inside an object of MCP."""
    if "error" in result or result.get("status") == "error":
        return text(result.get("error")) or "", True
    value = result.get("value")
    if isinstance(value, dict):
        return items(value.get("content")), value.get("isError") is True
    return value, False
