"""Messages of other programs in the shapes that picoclaw, ggcode and ductwork read.

A message that has the shape already is passed on as it is. Of others the words, the calls and their results
come over; thoughts only where there is a place for them, and images as a word that says so.
"""

from __future__ import annotations

from typing import Final

import msgspec

from clew.core.messages.dialects import role_of
from clew.core.messages.dialects.content import type_of
from clew.exporters.blocks import Block, blocks_of
from clew.exporters.programs.decoding import is_anthropic, is_ggcode, is_picoclaw
from clew.model import Json

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
