"""The parts that most dialects share: `content` is a text or a list of typed parts."""

from __future__ import annotations

from typing import Final

from clew.model import Json, Message

TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text"})
MEDIA_TYPES: Final = frozenset(
    {
        "audio",
        "audio_url",
        "container_upload",
        "document",
        "file",
        "image",
        "image_url",
        "input_audio",
        "input_file",
        "input_image",
        "input_video",
        "video",
        "video_url",
    }
)


def filled(value: Json) -> str | None:
    """The value when it is a text that says something, as an id or a name does."""
    return value if isinstance(value, str) and value else None


def type_of(part: Json) -> str:
    """The part's type; empty for anything that has none."""
    kind = part.get("type") if isinstance(part, dict) else None
    return kind if isinstance(kind, str) else ""


def parts_of(message: Message, field: str = "content") -> list[Json]:
    """The message's parts; none when there is no list of them."""
    parts = message.get(field)
    return parts if isinstance(parts, list) else []


def is_blank(text: str) -> bool:
    return not text or text.isspace()


def texts_in(content: Json) -> list[str]:
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    found = []
    for part in content:
        text = part if isinstance(part, str) else _text_of_part(part)
        if isinstance(text, str):
            found.append(text)
    return found


def _text_of_part(part: Json) -> Json:
    kind = type_of(part)
    if kind in TEXT_TYPES:
        return part.get("text")
    return part.get("refusal") if kind == "refusal" else None


def media_in(content: Json) -> bool:
    return isinstance(content, list) and any(type_of(part) in MEDIA_TYPES for part in content)
