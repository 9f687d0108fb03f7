"""Gemini: `{"role", "parts"}`, where a part is told by its key; ids are optional."""

from __future__ import annotations

from typing import Final

from clew.core.messages.dialects.blocks import BlockDialect
from clew.core.messages.dialects.content import filled, parts_of
from clew.core.messages.dialects.contract import INTERRUPTED, Call, Placement, Role, Slot
from clew.model import Json, Message

_CALLS: Final = ("functionCall", "function_call")
_RESULTS: Final = ("functionResponse", "function_response")
_MEDIA: Final = ("inlineData", "inline_data", "fileData", "file_data")
_KEYS: Final = frozenset({"text", "thought", *_CALLS, *_RESULTS, *_MEDIA})


class GeminiDialect(BlockDialect):
    name = "gemini"
    field = "parts"
    pairs_by_name = True

    def claims(self, message: Message) -> bool:
        parts = message.get("parts")
        return isinstance(parts, list) and any(map(_is_ours, parts))

    def role(self, message: Message) -> Role:
        if message.get("role") is None:
            return "assistant" if any(not slot.is_result for slot in self.slots(message)) else "user"
        return super().role(message)

    def texts(self, message: Message) -> list[str]:
        spoken = [part for part in parts_of(message, "parts") if not self.is_reasoning(part)]
        texts = [part.get("text") if isinstance(part, dict) else part for part in spoken]
        return [text for text in texts if isinstance(text, str)]

    def shows_media(self, message: Message) -> bool:
        return any(_value(part, _MEDIA) for part in parts_of(message, "parts"))

    def is_reasoning(self, block: Json) -> bool:
        return isinstance(block, dict) and bool(block.get("thought"))

    def slot(self, block: Json, at: int, role: str | None) -> Slot | None:
        is_result = _value(block, _RESULTS) is not None
        value = _value(block, _RESULTS if is_result else _CALLS)
        if value is None or role in (("model", "assistant") if is_result else ("user", "function", "tool")):
            return None
        call = Call(filled(value.get("id")), filled(value.get("name")))
        return Slot(call, at, is_result, Placement.ONE_MESSAGE) if call.name else None

    def interrupted(self, message: Message, slot: Slot) -> Json:
        key = _RESULTS[0] if _CALLS[0] in message["parts"][slot.at] else _RESULTS[1]
        same_id = {"id": slot.call.id} if slot.call.id else {}
        return {key: {**same_id, "name": slot.call.name, "response": {"error": INTERRUPTED}}}


def _is_ours(part: Json) -> bool:
    # Other agents have `parts` too, but give them a type.
    return isinstance(part, dict) and "type" not in part and not _KEYS.isdisjoint(part)


def _value(part: Json, keys: tuple[str, ...]) -> Json:
    if isinstance(part, dict):
        for key in keys:
            if isinstance(value := part.get(key), dict):
                return value
    return None


GEMINI = GeminiDialect()
