"""Chat messages of LlamaIndex: `{"role", "additional_kwargs", "blocks"}`, where a block has a `block_type`.

Calls are blocks, or, as they were before, in `additional_kwargs`; a result is a message of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from clew.core.messages.dialects.base import INTERRUPTED, ItemDialect, Role, Slot, filled, parts_of
from clew.core.messages.dialects.openai import CHAT
from clew.model import Json, Message

_MEDIA: Final = ("image", "audio", "video", "document")
_ROLES: Final = {"chatbot": "assistant", "model": "assistant"}
_KNOWN_ROLES: Final = frozenset(
    {"system", "developer", "user", "assistant", "function", "tool", "chatbot", "model"}
)


class LlamaIndexDialect(ItemDialect):
    name = "llama-index"

    def claims(self, message: Message) -> bool:
        role = message.get("role")
        return (
            isinstance(message.get("blocks"), list)
            and isinstance(message.get("additional_kwargs"), dict)
            and isinstance(role, str)
            and role in _KNOWN_ROLES
        )

    def role(self, message: Message) -> Role:
        return CHAT.role(as_chat(message))

    def texts(self, message: Message) -> list[str]:
        return CHAT.texts(as_chat(message))

    def shows_media(self, message: Message) -> bool:
        return any(_kind(block) in _MEDIA for block in parts_of(message, "blocks"))

    def is_reasoning_only(self, message: Message) -> bool:
        blocks = parts_of(message, "blocks")
        return bool(blocks) and all(_kind(block) == "thinking" for block in blocks) and not _calls(message)

    def slots(self, message: Message) -> list[Slot]:
        return CHAT.slots(as_chat(message))

    def interrupted(self, message: Message, slot: Slot) -> Json:
        extra = {"tool_call_id": slot.call.id} if slot.call.id else {"name": slot.call.name}
        blocks = [{"block_type": "text", "text": INTERRUPTED}]
        return {"role": "tool", "additional_kwargs": extra, "blocks": blocks}

    def tool_values(self, message: dict[str, Json]) -> Iterator[Json]:
        """What a tool was asked or answered: what of it is searched."""
        for call in _calls(message):
            yield call.get("function") if isinstance(call, dict) else call
        if message["role"] in ("tool", "function"):
            yield message["additional_kwargs"].get("name")
            yield [_part(block) for block in parts_of(message, "blocks")]


def as_chat(message: Message) -> dict[str, Json]:
    """The same in the words of a chat completion, for those who know how to read one."""
    role, extra = message["role"], message["additional_kwargs"]
    parts = [_part(block) for block in parts_of(message, "blocks") if _kind(block) != "tool_call"]
    said: dict[str, Json] = {"role": _ROLES.get(role, role), "content": parts}
    if calls := _calls(message):
        said["tool_calls"] = calls
    named = {field: extra[field] for field in ("tool_call_id", "name") if filled(extra.get(field))}
    return {**said, **named}


def _calls(message: Message) -> list[Json]:
    found = [block for block in parts_of(message, "blocks") if _kind(block) == "tool_call"]
    if not found:
        return parts_of(message["additional_kwargs"], "tool_calls")
    return [
        {
            "id": block.get("tool_call_id"),
            "type": "function",
            "function": {"name": block.get("tool_name"), "arguments": block.get("tool_kwargs")},
        }
        for block in found
    ]


def _part(block: Json) -> Json:
    match _kind(block):
        case "text":
            return {"type": "text", "text": block.get("text")}
        case "thinking":
            return {"type": "thinking", "thinking": block.get("content")}
        case "citation":
            return _part(block.get("cited_content"))
        case "image" | "audio" | "video" as kind:
            return _media(block, kind)
        case "document":
            return {"type": "file", "file": {"filename": block.get("title") or _name(block)}}
        case _:
            return block


def _media(block: Json, kind: str) -> Json:
    data, mime = block.get(kind), block.get(f"{kind}_mimetype") or f"{kind}/*"
    url = block.get("url") or (f"data:{mime};base64,{data}" if isinstance(data, str) else _name(block))
    return {"type": f"{kind}_url", f"{kind}_url": {"url": url}}


def _name(block: Json) -> str:
    return filled(block.get("path")) or filled(block.get("url")) or "file"


def _kind(block: Json) -> str:
    kind = block.get("block_type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""


LLAMA_INDEX = LlamaIndexDialect()
