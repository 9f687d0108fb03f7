"""Microsoft Agent Framework: `{"type": "message", "role", "contents"}`, where each content says its type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from clew.core.messages.dialects.base import (
    INTERRUPTED,
    BlockDialect,
    Call,
    Part,
    Placement,
    filled,
    parts_of,
    thought,
    type_of,
    typed_part,
)
from clew.model import Json, Message

_SERVER: Final = "server"
"""The kind of calls that the provider runs and answers itself, in the assistant's own message."""


class AgentFrameworkDialect(BlockDialect):
    name = "agent-framework"
    fields = frozenset({"contents"})
    field = "contents"

    def claims(self, message: Message) -> bool:
        if message.get("type") != "message" or not isinstance(message.get("role"), str):
            return False
        contents = message.get("contents")
        return isinstance(contents, list) and all(map(type_of, contents))

    def parts(self, message: Message) -> list[Part]:
        return [_part(part, at) for at, part in enumerate(parts_of(message, "contents"))]

    def interrupted(self, message: Message, part: Part) -> Json:
        call = part.call
        assert call is not None
        if call.kind == _SERVER:
            called = type_of(message["contents"][part.at])
            return {"type": f"{called.removesuffix('_call')}_result", "call_id": call.id}
        return {"type": "function_result", "call_id": call.id, "result": INTERRUPTED}

    def gather(self, pieces: Sequence[Json]) -> list[dict[str, Json]]:
        return [{"type": "message", "role": "tool", "contents": list(pieces)}]


def _part(part: Json, at: int) -> Part:
    kind = type_of(part)
    if kind == "text" and isinstance(text := part.get("text"), str):
        return Part("text", at, text)
    if kind == "text_reasoning":
        return thought(part.get("text"), at)
    if kind in ("data", "uri"):
        return Part("media", at, None, _media(part))
    if kind == "hosted_file":
        return Part("media", at, None, {"type": "file", "name": part.get("name") or part.get("file_id")})
    if kind.endswith("_call") and part.get("call_id"):
        asked = next((part[field] for field in ("arguments", "inputs", "commands") if field in part), None)
        return Part("call", at, None, asked, *_paired(part, kind, "_call"))
    if kind.endswith("_result") and part.get("call_id"):
        failed = part.get("exception")
        call, placement = _paired(part, kind, "_result")
        return Part("result", at, None, failed or _answer(part), call, placement, bool(failed))
    return typed_part(part, at)


def _paired(part: Json, kind: str, end: str) -> tuple[Call, Placement | None]:
    key = filled(part.get("call_id"))
    name = filled(part.get("name")) or filled(part.get("tool_name"))
    if kind == f"function{end}":
        return Call(key, name), Placement.ONE_MESSAGE if key else None
    if end == "_call":
        name = name or kind.removesuffix("_tool_call")
    is_server = kind.endswith(f"_tool{end}")
    return Call(key, name, _SERVER), Placement.INSIDE if key and is_server else None


def _answer(part: Json) -> Json:
    """What a tool answered. The framework keeps it twice: as a value, and as what is sent to the model."""
    fields = ("result", "output", "outputs", "items")
    return next((part[field] for field in fields if part.get(field) is not None), None)


def _media(part: Json) -> Json:
    if not isinstance(uri := part.get("uri"), str):
        return part
    kind = str(part.get("media_type"))
    medium = next((medium for medium in ("image", "audio", "video") if kind.startswith(medium)), "file")
    return {"type": medium, "image_url": uri}


AGENT_FRAMEWORK: Final = AgentFrameworkDialect()
