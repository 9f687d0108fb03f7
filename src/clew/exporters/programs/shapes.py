"""JSON and times as Go writes them: an exported file is the one that its program would have written."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from clew.core.messages.dialects import role_of
from clew.core.messages.dialects.base import type_of
from clew.exporters.blocks import Block, blocks_of
from clew.model import Json

ZERO_TIME: Final = "0001-01-01T00:00:00Z"
"""No time at all."""
_FOR_SCRIPTS: Final = {ord("<"): r"\u003c", ord(">"): r"\u003e", ord("&"): r"\u0026"}
_ALWAYS: Final = {0x2028: r"\u2028", 0x2029: r"\u2029"}


def go_json(value: Json, *, pretty: bool = False, html: bool = True) -> bytes:
    """Outside of strings none of the replaced characters is found in JSON."""
    separators = (",", ": ") if pretty else (",", ":")
    text = json.dumps(value, ensure_ascii=False, indent=2 if pretty else None, separators=separators)
    return text.translate({**_ALWAYS, **_FOR_SCRIPTS} if html else _ALWAYS).encode()


def go_time(moment: datetime) -> str:
    """In UTC, without zeros at the end."""
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if "." in text else text) + "Z"


def parse_go_time(text: Json) -> datetime | None:
    """None: no time, or none that is set."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) and text != ZERO_TIME else None
    except ValueError:
        return None
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)


# ── Messages in the shapes that picoclaw, ggcode and ductwork read ────────────────────────────────
# A message that has the shape already is passed on as it is. Of others the words, the calls and their results
# come over; thoughts only where there is a place for them, and images as a word that says so.

# -- has a message the shape already: would Go decode it into the types of the program?
#
# Go refuses a message in which one field has another type, and passes over every field that it does not know.
# So a message has the shape of such a program when all fields that it knows have their types, and none of the
# others holds calls or results: those would be lost. `null` fits everywhere: Go takes it for nothing.

_ELSEWHERE: Final = frozenset({"tool_calls", "tool_call_id", "function_call", "parts", "toolCalls"})
"""Where other shapes keep calls and results."""
_OF_OTHERS: Final = frozenset({"tool_use_id", "source", "image_url"})
"""What blocks of others have, and those of ggcode have not."""


# -- picoclaw


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None
    thought_signature: str | None = None


class _Google(msgspec.Struct):
    thought_signature: str | None = None


class _Extra(msgspec.Struct):
    google: _Google | None = None


class _Call(msgspec.Struct):
    function: _Function
    id: str | None = None
    type: str | None = None
    extra_content: _Extra | None = None


class _CacheControl(msgspec.Struct):
    type: str | None = None


class _SystemPart(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    cache_control: _CacheControl | None = None


class _Attachment(msgspec.Struct):
    type: str | None = None
    ref: str | None = None
    url: str | None = None
    filename: str | None = None
    content_type: str | None = None


class _Picoclaw(msgspec.Struct):
    role: Literal["system", "user", "assistant", "tool"]
    content: str
    media: list[str] | None = None
    attachments: list[_Attachment] | None = None
    reasoning_content: str | None = None
    system_parts: list[_SystemPart] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    model_name: str | None = None
    created_at: datetime | None = None


def is_picoclaw(message: dict[str, Json]) -> bool:
    return "function_call" not in message and _decodes(message, _Picoclaw)


# -- ggcode


class _Image(msgspec.Struct):
    mime: str | None = None
    base64: str | None = None


class _Block(msgspec.Struct):
    type: Literal["text", "image", "tool_use", "tool_result"]
    text: str | None = None
    image_mime: str | None = None
    image_data: str | None = None
    tool_name: str | None = None
    tool_id: str | None = None
    input: Any = None
    output: str | None = None
    is_error: bool | None = None
    images: list[_Image] | None = None
    reasoning_content: str | None = None
    thinking_signature: str | None = None
    thinking_data: str | None = None


class _Ggcode(msgspec.Struct):
    role: Literal["system", "user", "assistant"]
    content: list[_Block] | None
    id: str | None = None


def is_ggcode(message: dict[str, Json]) -> bool:
    if not _ELSEWHERE.isdisjoint(message) or not _decodes(message, _Ggcode):
        return False
    return all(map(_is_ggcode_block, message["content"] or ()))


def _is_ggcode_block(block: dict[str, Json]) -> bool:
    if block["type"] == "tool_use" and "id" in block and "tool_id" not in block:
        return False
    return _OF_OTHERS.isdisjoint(block)


# -- ductwork: the messages of Anthropic's SDK


class _Text(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _Picture(msgspec.Struct, tag_field="type", tag="image"):
    source: dict[str, Any]


class _Document(msgspec.Struct, tag_field="type", tag="document"):
    source: dict[str, Any]


class _SearchResult(msgspec.Struct, tag_field="type", tag="search_result"):
    source: str
    title: str
    content: list[_Text]


class _Thinking(msgspec.Struct, tag_field="type", tag="thinking"):
    thinking: str
    signature: str


class _Redacted(msgspec.Struct, tag_field="type", tag="redacted_thinking"):
    data: str


class _Use(msgspec.Struct, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: Any


class _Result(msgspec.Struct, tag_field="type", tag="tool_result"):
    tool_use_id: str
    content: list[_Text | _Picture | _Document | _SearchResult] | None = None
    is_error: bool | None = None


class _ServerUse(msgspec.Struct, tag_field="type", tag="server_tool_use"):
    id: str
    name: str
    input: Any


class _WebResult(msgspec.Struct, tag_field="type", tag="web_search_tool_result"):
    tool_use_id: str
    content: list[dict[str, Any]] | dict[str, Any]


class _Anthropic(msgspec.Struct):
    role: Literal["user", "assistant"]
    content: (
        list[
            _Text
            | _Picture
            | _Document
            | _SearchResult
            | _Thinking
            | _Redacted
            | _Use
            | _Result
            | _ServerUse
            | _WebResult
        ]
        | None
    )


def is_anthropic(message: dict[str, Json]) -> bool:
    if message == {"content": None, "role": ""}:
        return True  # what Go writes for a message that says nothing
    return _ELSEWHERE.isdisjoint(message) and _decodes(message, _Anthropic)


def _decodes(message: dict[str, Json], into: type[msgspec.Struct]) -> bool:
    try:
        msgspec.convert(message, into)
    except msgspec.ValidationError:
        return False
    return True


# -- into these shapes

_CHAT_ROLES: Final = frozenset({"system", "user", "assistant", "tool"})


def as_chat(message: dict[str, Json]) -> list[dict[str, Json]]:
    """With a text as content; results are messages of their own."""
    if is_picoclaw(message):
        return [message]
    blocks = blocks_of(message)
    found: list[dict[str, Json]] = [
        {"role": "tool", "content": block.text, "tool_call_id": block.call or ""}
        for block in blocks
        if block.kind == "result"
    ]
    calls = [_chat_call(block) for block in blocks if block.kind == "call"]
    thoughts = "\n\n".join(block.text for block in blocks if block.kind == "thinking")
    said = "\n\n".join(_words(block) for block in blocks if block.kind in ("text", "data", "media"))
    if said or calls or not found:
        spoken: dict[str, Json] = {"role": _role(message), "content": said}
        spoken |= {"reasoning_content": thoughts} if thoughts else {}
        found.append({**spoken, "tool_calls": calls} if calls else spoken)
    return found


def as_ggcode(message: dict[str, Json]) -> dict[str, Json]:
    """With blocks as content, in ggcode's own words."""
    if is_ggcode(message):
        # An answer of Anthropic's comes with its own id, which ggcode would take for that of the message:
        # the parts of one answer would be one message said again and again.
        return message if "type" not in message else {name: message[name] for name in ("role", "content")}
    blocks = [_ggcode_block(block) for block in blocks_of(message) if block.kind != "thinking"]
    role = _role(message)
    return {"role": "user" if role == "tool" else role, "content": blocks}


def as_anthropic(message: dict[str, Json]) -> dict[str, Json]:
    """With blocks as content, also in results."""
    content = message.get("content")
    if isinstance(content, list):
        message = {**message, "content": [_with_listed_result(block) for block in content]}
    if is_anthropic(message):
        return message
    blocks = [_anthropic_block(block) for block in blocks_of(message) if block.kind != "thinking"]
    return {"content": blocks, "role": "assistant" if _role(message) == "assistant" else "user"}


def _role(message: dict[str, Json]) -> str:
    role = role_of(message)
    return role if role in _CHAT_ROLES else "user"


def _with_listed_result(block: Json) -> Json:
    """Anthropic takes the result of a tool as a text too; its SDK for Go does not."""
    if type_of(block) == "tool_result" and isinstance(block.get("content"), str):
        return {**block, "content": [{"text": block["content"], "type": "text"}]}
    return block


def _words(block: Block) -> str:
    return f"[{block.text or 'image'}]" if block.kind == "media" else block.text


def _arguments(block: Block) -> dict[str, Json]:
    """An object, as all three want it; a tool may have been called with a text."""
    try:
        given = msgspec.json.decode(block.text) if block.text else {}
    except msgspec.DecodeError:
        given = block.text
    return given if isinstance(given, dict) else {"input": given}


def _chat_call(block: Block) -> Json:
    function = {"name": block.name or "", "arguments": msgspec.json.encode(_arguments(block)).decode()}
    return {"id": block.call or "", "type": "function", "function": function}


def _ggcode_block(block: Block) -> Json:
    if block.kind == "call":
        call = {"tool_name": block.name or "", "tool_id": block.call or ""}
        return {"type": "tool_use", **call, "input": _arguments(block)}
    if block.kind == "result":
        answer = {"tool_id": block.call or "", "output": block.text, "is_error": block.is_error}
        return {"type": "tool_result", **answer}
    return {"type": "text", "text": _words(block)}


def _anthropic_block(block: Block) -> Json:
    if block.kind == "call":
        return {
            "id": block.call or "",
            "input": _arguments(block),
            "name": block.name or "",
            "type": "tool_use",
        }
    if block.kind == "result":
        text = [{"text": block.text, "type": "text"}]
        return {
            "tool_use_id": block.call or "",
            "is_error": block.is_error,
            "content": text,
            "type": "tool_result",
        }
    return {"text": _words(block), "type": "text"}
