"""The parts of a Pydantic AI message, as the typed parts that the exporters know how to show."""

from __future__ import annotations

from collections.abc import Iterator

from clew.core.messages.dialects.base import parts_of
from clew.core.messages.dialects.pydantic_ai import is_media, kind_of
from clew.model import Json, Message


def typed_parts(message: Message) -> list[Json]:
    return [shown for part in parts_of(message, "parts") for shown in _typed(part)]


def _typed(part: Json) -> Iterator[Json]:
    match kind_of(part):
        case "text" | "system-prompt" | "compaction" if isinstance(part.get("content"), str):
            yield _text(part["content"])
        case "speech" if isinstance(part.get("transcript"), str):
            yield _text(part["transcript"])
        case "user-prompt":
            yield from _said(part.get("content"))
        case "thinking":
            yield {"type": "thinking", "thinking": part.get("content") or None}
        case "file":
            yield from _said([part.get("content")])
        case "tool-call" | "builtin-tool-call":
            called = {"name": part.get("tool_name"), "id": part.get("tool_call_id")}
            yield {"type": "tool_use", **called, "input": part.get("args")}
        case "tool-return" | "builtin-tool-return":
            yield _result(part, is_error=part.get("outcome", "success") != "success")
        case "retry-prompt" if part.get("tool_name"):
            yield _result(part, is_error=True)
        case _:
            yield part


def _said(content: Json) -> Iterator[Json]:
    for item in content if isinstance(content, list) else [content]:
        if isinstance(item, str):
            yield _text(item)
        elif is_media(item):
            yield {"type": _medium(item), "source": item}
        elif isinstance(item, dict) and isinstance(item.get("content"), str):
            yield _text(item["content"])
        elif not (isinstance(item, dict) and item.get("kind") == "cache-point"):
            yield item


def _result(part: Json, *, is_error: bool) -> Json:
    content = part.get("content")
    shown = list(_said(content)) if isinstance(content, list) or is_media(content) else content
    answered = {"tool_use_id": part.get("tool_call_id"), "tool_name": part.get("tool_name")}
    return {"type": "tool_result", **answered, "content": shown, "is_error": is_error}


def _medium(item: Json) -> str:
    kind = str(item.get("media_type") or item.get("kind"))
    return next((medium for medium in ("image", "audio", "video") if kind.startswith(medium)), "file")


def _text(text: str) -> Json:
    return {"type": "text", "text": text}
