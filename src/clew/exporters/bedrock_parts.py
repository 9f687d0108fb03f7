"""The blocks of a Bedrock message, as the typed parts that the exporters know how to show."""

from __future__ import annotations

from collections.abc import Iterator

from clew.core.messages.dialects.base import filled, parts_of
from clew.core.messages.dialects.bedrock import MEDIA, inner, texts_of
from clew.model import Json, Message


def typed_parts(message: Message) -> list[Json]:
    return [part for block in parts_of(message) for part in _typed(block)]


def _typed(block: Json) -> Iterator[Json]:
    if (call := inner(block, "toolUse")) is not None:
        called = {"name": call.get("name"), "id": call.get("toolUseId")}
        yield {"type": "tool_use", **called, "input": call.get("input")}
    elif (result := inner(block, "toolResult")) is not None:
        content = [part for piece in parts_of(result) for part in _typed(piece)]
        answered = {"tool_use_id": result.get("toolUseId"), "is_error": result.get("status") == "error"}
        yield {"type": "tool_result", **answered, "content": content}
    elif (reasoning := inner(block, "reasoningContent")) is not None:
        text = inner(reasoning, "reasoningText") or {}
        yield {"type": "thinking", "thinking": filled(text.get("text"))}
    elif texts := list(texts_of(block)):
        yield from ({"type": "text", "text": text} for text in texts)
    elif (medium := next((key for key in MEDIA if inner(block, key) is not None), None)) is not None:
        yield _media(medium, block[medium])
    elif inner(block, "cachePoint") is None:
        yield block


def _media(medium: str, value: Json) -> Json:
    """Bytes are kept as base64; what lies in S3 is only named."""
    source = inner(value, "source") or {}
    name = filled(value.get("name")) or medium
    held = inner(source, "bytes") or {}
    kind = f"{'application' if medium == 'document' else medium}/{value.get('format', '')}"
    found = {
        "media_type": kind,
        "data": held.get("data"),
        "url": (inner(source, "location") or {}).get("uri"),
    }
    return {"type": "file" if medium == "document" else medium, "name": name, "source": found}
