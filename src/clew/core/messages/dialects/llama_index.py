"""Chat messages of LlamaIndex: `{"role", "additional_kwargs", "blocks"}`, where a block has a `block_type`.

Calls are blocks, or, as they were before, in `additional_kwargs`; a result is a message of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from clew.core.messages.dialects.base import (
    INTERRUPTED,
    ROLES,
    Call,
    ItemDialect,
    Part,
    Placement,
    Role,
    filled,
    parts_of,
    thought,
    typed_part,
)
from clew.core.messages.dialects.openai import LEGACY, call_part
from clew.model import Json, Message

_ROLES: Final[dict[str, Role]] = {**ROLES, "chatbot": "assistant"}


class LlamaIndexDialect(ItemDialect):
    name = "llama-index"
    fields = frozenset({"blocks"})

    def claims(self, message: Message) -> bool:
        role = message.get("role")
        return (
            isinstance(message.get("blocks"), list)
            and isinstance(message.get("additional_kwargs"), dict)
            and isinstance(role, str)
            and role in _ROLES
        )

    def role(self, message: Message) -> Role:
        return _ROLES[message["role"]]

    def parts(self, message: Message) -> list[Part]:
        blocks, extra = parts_of(message, "blocks"), message["additional_kwargs"]
        role = self.role(message)
        if role == "tool":
            call = Call(filled(extra.get("tool_call_id")), filled(extra.get("name")))
            if message["role"] == "function":
                call = Call(None, call.name, LEGACY)
            placement = Placement.AFTER_CALL if call.id or call.name else None
            return [Part("result", 0, None, blocks, call, placement)]
        placement = Placement.AFTER_CALL if role == "assistant" else None
        said = [block for block in blocks if _kind(block) != "tool_call"]
        parts = [_part(block, at) for at, block in enumerate(said)]
        if len(said) == len(blocks):
            calls = parts_of(extra, "tool_calls")
            return parts + [call_part(call, at, placement) for at, call in enumerate(calls)]
        asked = [block for block in blocks if _kind(block) == "tool_call"]
        return parts + [_call(block, at, placement) for at, block in enumerate(asked)]

    def inside(self, result: Part) -> Iterable[Part]:
        return [_part(block, at) for at, block in enumerate(result.value)]

    def interrupted(self, message: Message, part: Part) -> Json:
        call = part.call
        assert call is not None
        extra = {"tool_call_id": call.id} if call.id else {"name": call.name}
        blocks = [{"block_type": "text", "text": INTERRUPTED}]
        return {"role": "tool", "additional_kwargs": extra, "blocks": blocks}


def _call(block: Json, at: int, placement: Placement | None) -> Part:
    call = Call(filled(block.get("tool_call_id")), filled(block.get("tool_name")))
    return Part("call", at, None, block.get("tool_kwargs"), call, placement if call.id or call.name else None)


def _part(block: Json, at: int) -> Part:
    match _kind(block):
        case "text" if isinstance(text := block.get("text"), str):
            return Part("text", at, text)
        case "thinking":
            return thought(block.get("content"), at)
        case "citation":
            return _part(block.get("cited_content"), at)
        case "image" | "audio" | "video" as kind:
            return Part("media", at, None, _media(block, kind))
        case "document":
            return Part("media", at, None, {"type": "file", "name": block.get("title") or _name(block)})
        case _:
            return typed_part(block, at)


def _media(block: Json, kind: str) -> Json:
    data = block.get(kind)
    if url := filled(block.get("url")):
        return {"type": kind, "source": {"url": url}}
    if isinstance(data, str):
        media_type = block.get(f"{kind}_mimetype") or f"{kind}/*"
        return {"type": kind, "source": {"media_type": media_type, "data": data}}
    return {"type": kind, "source": {"url": _name(block)}}


def _name(block: Json) -> str:
    return filled(block.get("path")) or filled(block.get("url")) or "file"


def _kind(block: Json) -> str:
    kind = block.get("block_type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""


LLAMA_INDEX: Final = LlamaIndexDialect()
