"""Pydantic AI: `{"kind": "request" | "response", "parts"}`, where each part says its `part_kind`.

A request is all that goes to the model at once: system prompts, what the user said, results of tools.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from clew.core.messages.dialects.base import (
    INTERRUPTED,
    BlockDialect,
    Call,
    Placement,
    Role,
    Slot,
    filled,
    is_blank,
    parts_of,
)
from clew.model import Json, Message

_SERVER: Final = "server"
"""The kind of calls that the provider runs and answers itself, in the response."""
_MEDIA: Final = frozenset({"image-url", "audio-url", "video-url", "document-url", "binary", "uploaded-file"})
_RESULTS: Final = frozenset({"tool-return", "retry-prompt"})
_SLOTS: Final = {
    "tool-call": ("tool", False, Placement.AFTER_TURN),
    "tool-return": ("tool", True, Placement.AFTER_TURN),
    "retry-prompt": ("tool", True, Placement.AFTER_TURN),
    "builtin-tool-call": (_SERVER, False, Placement.INSIDE),
    "builtin-tool-return": (_SERVER, True, Placement.INSIDE),
}


class PydanticAiDialect(BlockDialect):
    name = "pydantic-ai"
    field = "parts"

    def claims(self, message: Message) -> bool:
        if message.get("kind") not in ("request", "response") or "role" in message:
            return False
        parts = message.get("parts")
        return isinstance(parts, list) and all(map(kind_of, parts))

    def role(self, message: Message) -> Role:
        if message.get("kind") == "response":
            return "assistant"
        if self.shows_media(message) or not all(map(is_blank, _said(message, "user-prompt"))):
            return "user"
        kinds = [kind_of(part) for part in parts_of(message, "parts")]
        if not _RESULTS.isdisjoint(kinds):
            return "tool"
        if "user-prompt" in kinds or _speech(message, "user"):
            return "user"
        return "system" if "system-prompt" in kinds else "other"

    def texts(self, message: Message) -> list[str]:
        if message.get("kind") == "response":
            return [*_said(message, "text"), *_speech(message, "assistant")]
        said = [*_said(message, "user-prompt"), *_speech(message, "user")]
        return said or list(_said(message, "system-prompt"))

    def shows_media(self, message: Message) -> bool:
        prompts = (part for part in parts_of(message, "parts") if kind_of(part) == "user-prompt")
        return any(is_media(item) for part in prompts for item in parts_of(part))

    def is_reasoning(self, block: Json) -> bool:
        return kind_of(block) == "thinking"

    def _is_blank_text(self, block: Json) -> bool:
        return kind_of(block) == "text" and is_blank(filled(block.get("content")) or "")

    def slot(self, block: Json, at: int, role: str | None) -> Slot | None:
        found = _SLOTS.get(kind_of(block))
        if found is None:
            return None
        family, is_result, placement = found
        call = Call(filled(block.get("tool_call_id")), filled(block.get("tool_name")), family)
        return Slot(call, at, is_result, placement) if call.id and call.name else None

    def interrupted(self, message: Message, slot: Slot) -> Json:
        kind = "builtin-tool-return" if slot.call.kind == _SERVER else "tool-return"
        called = {"tool_name": slot.call.name, "tool_call_id": slot.call.id}
        return {**called, "content": INTERRUPTED, "outcome": "interrupted", "part_kind": kind}

    def gather(self, pieces: Sequence[Json]) -> list[dict[str, Json]]:
        return [{"parts": list(pieces), "kind": "request"}]

    def tool_values(self, message: dict[str, Json]) -> Iterator[Json]:
        """What tools were asked and answered: names, arguments, contents."""
        for part in parts_of(message, "parts"):
            if kind_of(part) in _SLOTS:
                yield [part.get("tool_name"), part.get("args"), part.get("content")]


def kind_of(part: Json) -> str:
    """The part's kind; empty for anything that has none."""
    kind = part.get("part_kind") if isinstance(part, dict) else None
    return kind if isinstance(kind, str) else ""


def is_media(item: Json) -> bool:
    kind = item.get("kind") if isinstance(item, dict) else None
    return isinstance(kind, str) and kind in _MEDIA


def spoken(content: Json) -> Iterator[str]:
    """The texts of a content, which is one, or a list of them and of other things."""
    if isinstance(content, str):
        yield content
    for item in content if isinstance(content, list) else []:
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict) and item.get("kind") in ("text-content", "structured-content"):
            yield from spoken(item.get("content"))


def _said(message: Message, kind: str) -> Iterator[str]:
    for part in parts_of(message, "parts"):
        if kind_of(part) == kind:
            yield from spoken(part.get("content"))


def _speech(message: Message, speaker: str) -> list[str]:
    """What was said aloud, and written down."""
    parts = (part for part in parts_of(message, "parts") if kind_of(part) == "speech")
    texts = [part.get("transcript") for part in parts if part.get("speaker") == speaker]
    return [text for text in texts if isinstance(text, str)]


PYDANTIC_AI = PydanticAiDialect()
