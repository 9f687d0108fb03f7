"""Pydantic AI: `{"kind": "request" | "response", "parts"}`, where each part says its `part_kind`.

A request is all that goes to the model at once: system prompts, what the user said, results of tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from clew.core.messages.dialects.base import (
    INTERRUPTED,
    BlockDialect,
    Call,
    Part,
    Placement,
    Role,
    filled,
    parts_of,
    says_something,
    thought,
    typed_part,
)
from clew.model import Json, Message

_SERVER: Final = "server"
"""The kind of calls that the provider runs and answers itself, in the response."""
_MEDIA: Final = frozenset({"image-url", "audio-url", "video-url", "document-url", "binary", "uploaded-file"})
_CALLS: Final = {
    "tool-call": ("tool", Placement.AFTER_TURN),
    "builtin-tool-call": (_SERVER, Placement.INSIDE),
}
_RESULTS: Final = {
    "tool-return": ("tool", Placement.AFTER_TURN),
    "retry-prompt": ("tool", Placement.AFTER_TURN),
    "builtin-tool-return": (_SERVER, Placement.INSIDE),
}

_SPOKEN: Final = {"text": "assistant", "system-prompt": "system", "speech": None, "compaction": "other"}
"""Who says it; None: the part does."""


class PydanticAiDialect(BlockDialect):
    name = "pydantic-ai"
    fields = frozenset({"kind"})
    field = "parts"

    def claims(self, message: Message) -> bool:
        if message.get("kind") not in ("request", "response") or "role" in message:
            return False
        parts = message.get("parts")
        return isinstance(parts, list) and all(map(_kind_of, parts))

    def role(self, message: Message) -> Role:
        if message.get("kind") == "response":
            return "assistant"
        kinds = set()
        for part in parts_of(message, "parts"):
            kind = _kind_of(part)
            kinds.add("user-speech" if kind == "speech" and part.get("speaker") == "user" else kind)
            if kind == "user-prompt" and says_something(_said(part.get("content"), 0)):
                return "user"
        if "tool-return" in kinds or "retry-prompt" in kinds:
            return "tool"
        if "user-prompt" in kinds or "user-speech" in kinds:
            return "user"
        return "system" if "system-prompt" in kinds else "other"

    def parts(self, message: Message) -> list[Part]:
        speaker = "assistant" if message.get("kind") == "response" else "user"
        found: list[Part] = []
        for at, part in enumerate(parts_of(message, "parts")):
            found += _parts(part, _kind_of(part), at, speaker)
        # A request without a word of the user's is the system's own.
        if speaker == "user" and not any(part.kind == "text" and part.speaker is None for part in found):
            found = [replace(part, speaker=None) if part.speaker == "system" else part for part in found]
        return found

    def interrupted(self, message: Message, part: Part) -> Json:
        call = part.call
        assert call is not None
        kind = "builtin-tool-return" if call.kind == _SERVER else "tool-return"
        called = {"tool_name": call.name, "tool_call_id": call.id}
        return {**called, "content": INTERRUPTED, "outcome": "interrupted", "part_kind": kind}

    def inside(self, result: Part) -> Iterable[Part]:
        return _said(result.value, 0)

    def gather(self, pieces: Sequence[Json]) -> list[dict[str, Json]]:
        return [{"parts": list(pieces), "kind": "request"}]


def _parts(part: Json, kind: str, at: int, speaker: str) -> Iterable[Part]:
    content = part.get("content")
    if kind in _CALLS:
        call, placement = _paired(part, *_CALLS[kind])
        return (Part("call", at, None, part.get("args"), call, placement),)
    if kind in _RESULTS and (kind != "retry-prompt" or part.get("tool_name")):
        call, placement = _paired(part, *_RESULTS[kind])
        has_failed = kind == "retry-prompt" or part.get("outcome", "success") != "success"
        value = [content] if _is_media(content) else content
        return (Part("result", at, None, value, call, placement, has_failed),)
    if kind == "user-prompt":
        return _said(content, at)
    if kind == "thinking":
        return (thought(content or None, at),)
    if kind == "file":
        return _said([content], at)
    said = part.get("transcript") if kind == "speech" else content
    if kind not in _SPOKEN or not isinstance(said, str):
        return (typed_part(part, at),)
    said_by = _SPOKEN[kind] or part.get("speaker")
    if said_by == speaker:
        return (Part("text", at, said),)
    return (Part("text", at, said, speaker="system" if said_by == "system" else "other"),)


def _said(content: Json, at: int) -> Iterable[Part]:
    """The parts of a content, which is a text, or a list of texts and of other things."""
    return (Part("text", at, content),) if isinstance(content, str) else _items(content, at)


def _items(content: Json, at: int) -> Iterator[Part]:
    for item in content if isinstance(content, list) else [content]:
        if isinstance(item, str):
            yield Part("text", at, item)
        elif _is_media(item):
            yield Part("media", at, None, {"type": _medium(item), "source": item})
        elif isinstance(item, dict) and isinstance(item.get("content"), str):
            is_said = item.get("kind") in ("text-content", "structured-content")
            yield Part("text", at, item["content"], speaker=None if is_said else "other")
        elif not (isinstance(item, dict) and item.get("kind") == "cache-point"):
            yield typed_part(item, at)


def _paired(part: Json, family: str, placement: Placement) -> tuple[Call, Placement | None]:
    call = Call(filled(part.get("tool_call_id")), filled(part.get("tool_name")), family)
    return call, placement if call.id and call.name else None


def _kind_of(part: Json) -> str:
    """The part's kind; empty for anything that has none."""
    kind = part.get("part_kind") if isinstance(part, dict) else None
    return kind if isinstance(kind, str) else ""


def _is_media(item: Json) -> bool:
    kind = item.get("kind") if isinstance(item, dict) else None
    return isinstance(kind, str) and kind in _MEDIA


def _medium(item: Json) -> str:
    kind = str(item.get("media_type") or item.get("kind"))
    return next((medium for medium in ("image", "audio", "video") if kind.startswith(medium)), "file")


PYDANTIC_AI: Final = PydanticAiDialect()
