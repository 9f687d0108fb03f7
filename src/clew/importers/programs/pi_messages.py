"""A message of pi in a shape that a model provider knows: Anthropic's blocks are nearest to pi's own."""

from __future__ import annotations

from typing import Final

from clew.importers.contract import SourceUsage
from clew.importers.reading.values import count, items, kind, mapping, money, plain_name, when, without
from clew.model import Json

_INJECTED: Final = frozenset({"bashExecution", "custom", "hookMessage", "branchSummary", "compactionSummary"})


def converted(message: dict[str, Json]) -> tuple[dict[str, Json], dict[str, Json]]:
    """The message, and what of it has no place there."""
    match message.get("role"):
        case "assistant":
            content = message.get("content")
            blocks = [_block(block) for block in content] if isinstance(content, list) else content
            return {"role": "assistant", "content": blocks}, without(message, ("content",))
        case "toolResult":
            return _result(message), without(message, ("content", "isError"))
        case "bashExecution":
            shown = f"$ {message.get('command', '')}\n{message.get('output', '')}"
            return {"role": "user", "content": shown}, without(message, ("output",))
        case "custom" | "hookMessage":
            return {"role": "user", "content": message.get("content")}, without(message, ("content",))
        case "branchSummary" | "compactionSummary":
            return {"role": "user", "content": message.get("summary")}, without(message, ("summary",))
        case _:
            return message, {}


def is_injected(message: dict[str, Json]) -> bool:
    """Sent to the model under the name of the human, who did not say it."""
    return kind(message.get("role")) in _INJECTED


def usage_of(message: dict[str, Json], uid: str) -> SourceUsage | None:
    if message.get("role") != "assistant":
        return None
    told = mapping(message.get("usage"))
    read, write = count(told.get("cacheRead")), count(told.get("cacheWrite"))
    fresh, spoken = count(told.get("input")), count(told.get("output"))
    if not (read or write or fresh or spoken):
        return None
    return SourceUsage(
        id=uid,
        model=plain_name(message.get("model")),
        vendor=plain_name(message.get("provider")),
        input_tokens=fresh + read + write,
        output_tokens=spoken,
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=count(told.get("reasoning")),
        cost=money(mapping(told.get("cost")).get("total")),
        at=when(message.get("timestamp")),
    )


def _block(block: Json) -> Json:
    if not isinstance(block, dict) or block.get("type") != "toolCall":
        return block
    call = {"id": block.get("id"), "name": block.get("name"), "input": block.get("arguments")}
    return {"type": "tool_use", **call, **without(block, ("type", "id", "name", "arguments"))}


def _result(message: dict[str, Json]) -> dict[str, Json]:
    content = message.get("content")
    result = {
        "type": "tool_result",
        "tool_use_id": message.get("toolCallId"),
        "content": items(content) or content,
    }
    failed = {"is_error": True} if message.get("isError") else {}
    return {"role": "user", "content": [{**result, **failed}]}
