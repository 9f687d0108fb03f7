"""Bedrock's Converse: `{"role", "content"}`, where a block is told by its key and has no type.

Strands speaks it whatever the provider is, and keeps it in the records of its sessions; other frameworks that
began on Bedrock speak it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final, Literal

from clew.core.messages.dialects.base import (
    INTERRUPTED,
    BlockDialect,
    Call,
    Part,
    Placement,
    WrappedDialect,
    filled,
    parts_of,
    thought,
    typed_part,
    typed_parts,
)
from clew.model import Json, Message

_MEDIA: Final = ("image", "document", "video", "audio")
_KEYS: Final = frozenset(
    {"text", "toolUse", "toolResult", "reasoningContent", "cachePoint", "guardContent", "citationsContent"}
    | set(_MEDIA)
)


class BedrockDialect(BlockDialect):
    name = "bedrock"

    def claims(self, message: Message) -> bool:
        content = message.get("content")
        if not isinstance(content, list) or message.get("role") not in ("user", "assistant"):
            return False
        return not message.get("tool_calls") and any(map(_is_ours, content))

    def parts(self, message: Message) -> list[Part]:
        content = message.get("content")
        if not isinstance(content, list):
            return typed_parts(content)
        role = message.get("role")
        return [part for at, block in enumerate(content) for part in _parts(block, at, role)]

    def inside(self, result: Part) -> Iterable[Part]:
        content = result.value
        return [part for at, block in enumerate(content or ()) for part in _parts(block, at, None)]

    def interrupted(self, message: Message, part: Part) -> Json:
        assert part.call is not None
        content: Json = [{"text": INTERRUPTED}]
        return {"toolResult": {"toolUseId": part.call.id, "status": "error", "content": content}}


def _parts(block: Json, at: int, role: Json) -> Iterator[Part]:
    if not isinstance(block, dict):
        yield typed_part(block, at)
    elif (call := _inner(block, "toolUse")) is not None:
        called = Call(filled(call.get("toolUseId")), filled(call.get("name")))
        placement = Placement.AFTER_TURN if called.id and role != "user" else None
        yield Part("call", at, None, call.get("input"), called, placement)
    elif (result := _inner(block, "toolResult")) is not None:
        answered = Call(filled(result.get("toolUseId")), None)
        placement = Placement.AFTER_TURN if answered.id and role == "user" else None
        has_failed = result.get("status") == "error"
        yield Part("result", at, None, parts_of(result), answered, placement, has_failed)
    elif (reasoning := _inner(block, "reasoningContent")) is not None:
        yield thought(filled((_inner(reasoning, "reasoningText") or {}).get("text")), at)
    elif texts := list(_texts_of(block)):
        yield from (Part("text", at, text) for text in texts)
    elif (medium := next((key for key in _MEDIA if _inner(block, key) is not None), None)) is not None:
        yield Part("media", at, None, _media(medium, block[medium]))
    elif _inner(block, "cachePoint") is None:
        yield typed_part(block, at)


def _texts_of(block: Json) -> Iterator[str]:
    """What is said in a block: plainly, with citations, or for a guardrail to look at."""
    if not isinstance(block, dict):
        return
    if isinstance(text := block.get("text"), str):
        yield text
    if (guarded := _inner(_inner(block, "guardContent"), "text")) is not None:
        yield from _texts_of(guarded)
    for part in parts_of(_inner(block, "citationsContent") or {}):
        yield from _texts_of(part)


def _media(medium: str, value: Json) -> Json:
    """Bytes are kept as base64; what lies in S3 is only named."""
    source = _inner(value, "source") or {}
    name = filled(value.get("name")) or medium
    found = {
        "media_type": f"{'application' if medium == 'document' else medium}/{value.get('format', '')}",
        "data": (_inner(source, "bytes") or {}).get("data"),
        "url": (_inner(source, "location") or {}).get("uri"),
    }
    return {"type": "file" if medium == "document" else medium, "name": name, "source": found}


def _inner(block: Json, key: str) -> dict[str, Json] | None:
    """What a block holds under its key, if it is such a block."""
    value = block.get(key) if isinstance(block, dict) else None
    return value if isinstance(value, dict) else None


def _is_ours(block: Json) -> bool:
    return isinstance(block, dict) and "type" not in block and not _KEYS.isdisjoint(block)


BEDROCK: Final = BedrockDialect()


# -- Strands

_FIELDS: Final = ("message_id", "redact_message", "created_at")


class StrandsDialect(WrappedDialect):
    """Records of a session: a message, and what a guardrail put in its place."""

    name = "strands"
    fields = frozenset({"redact_message"})
    around: ClassVar[dict[str, Json]] = {
        "message": {},
        "message_id": None,
        "redact_message": None,
        "created_at": None,
    }

    def claims(self, message: Message) -> bool:
        inner = message.get("message")
        if not isinstance(inner, dict) or not all(field in message for field in _FIELDS):
            return False
        return isinstance(inner.get("content"), list)

    def unwrap(self, message: Message) -> dict[str, Json]:
        """The message that counts: what a guardrail put in the place of the first one, if it did."""
        inner: dict[str, Json] = message[_shown_field(message)]
        return inner

    def wrap(self, message: dict[str, Json], inner: dict[str, Json]) -> dict[str, Json]:
        return {**message, _shown_field(message): inner}


def _shown_field(message: Message) -> Literal["message", "redact_message"]:
    return "redact_message" if isinstance(message.get("redact_message"), dict) else "message"


STRANDS: Final = StrandsDialect(BEDROCK)
