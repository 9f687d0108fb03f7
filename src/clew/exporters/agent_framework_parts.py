"""The contents of an Agent Framework message, as the typed parts that the exporters know how to show."""

from __future__ import annotations

from clew.core.messages.dialects.agent_framework import result_of
from clew.core.messages.dialects.base import parts_of, type_of
from clew.model import Json, Message


def typed_parts(message: Message) -> list[Json]:
    return [_typed(part) for part in parts_of(message, "contents")]


def _typed(part: Json) -> Json:
    kind = type_of(part)
    if kind == "text_reasoning":
        return {"type": "thinking", "thinking": part.get("text")}
    if kind in ("data", "uri") and isinstance(part.get("uri"), str):
        return {"type": _medium(part), "image_url": part["uri"]}
    if kind.endswith("_call") and part.get("call_id"):
        name = part.get("name") or part.get("tool_name") or kind.removesuffix("_tool_call")
        asked = next((part[field] for field in ("arguments", "inputs", "commands") if field in part), None)
        return {"type": "tool_use", "name": name, "id": part["call_id"], "input": asked}
    if kind.endswith("_result") and part.get("call_id"):
        return _answer(part)
    return part


def _answer(part: Json) -> Json:
    failed = part.get("exception")
    content = failed or result_of(part)
    answered = {"tool_use_id": part["call_id"], "tool_name": part.get("name") or part.get("tool_name")}
    return {"type": "tool_result", **answered, "content": content, "is_error": bool(failed)}


def _medium(part: Json) -> str:
    kind = str(part.get("media_type"))
    return next((medium for medium in ("image", "audio", "video") if kind.startswith(medium)), "file")
