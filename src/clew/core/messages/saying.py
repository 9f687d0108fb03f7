"""What of a message a model provider takes: none accepts one in which nothing is said.

Runs that were stopped leave empty answers behind, and importers keep what a program told its user.
"""

from __future__ import annotations

from typing import Final

from clew.core.messages.dialects import role_of
from clew.core.messages.dialects.content import is_blank
from clew.model import Json, Message

NOTICE: Final = "notice"
"""The key of a system message that a program showed to its user, and never sent to a model."""
_SPEAKERS: Final = ("user", "assistant")
_BESIDE: Final = (
    *(
        "tool_calls",
        "function_call",
        "tool_call_id",
        "refusal",
        "audio",
        "images",
        "attachments",
        "media",
        "files",
    ),
    *("reasoning", "reasoning_content", "reasoning_details", "thinking", "thinking_blocks"),
)
"""What a message may say beside its content."""


def is_notice(message: Message) -> bool:
    """Whether it is for people only."""
    return message.get(NOTICE) is True and message.get("role") == "system"


def is_misplaced(message: Message) -> bool:
    """Whether it may stand before a conversation, but not inside: Gemini has no system messages there."""
    return message.get("role") == "system" and "content" not in message and "parts" in message


def is_plain(message: Message) -> bool:
    """Whether it is a text for a provider, as nearly all are: then nothing else need be asked."""
    content = message.get("content")
    return type(content) is str and bool(content) and not content.isspace() and NOTICE not in message


def is_said(message: dict[str, Json]) -> bool:
    """Whether a provider gets anything of it."""
    return is_plain(message) or (not is_notice(message) and sayable(message) is not None)


def sayable(message: dict[str, Json]) -> dict[str, Json] | None:
    """The message without the texts in it that are blank; None: nothing is left. One that needs no change is
    the very object that was given."""
    field = _field(message)
    if field is None:
        return message
    said = message[field]
    if isinstance(said, list):
        kept = [block for block in said if not _is_blank_text(block)]
        if len(kept) == len(said) and kept:
            return message
        if kept:
            return {**message, field: kept}
    return None if not any(message.get(name) for name in _BESIDE) else message


def _field(message: Message) -> str | None:
    """Where a user or an assistant says something, if it looks as if nothing were there; None: all is well,
    or the message is of a shape of its own."""
    content = message.get("content")
    if type(content) is str and not is_blank(content):
        return None
    if not isinstance(message.get("role"), str) or message.get("type", "message") != "message":
        return None
    field = "parts" if "content" not in message and isinstance(message.get("parts"), list) else "content"
    if field == "content" and "content" not in message:
        return None
    said = message[field]
    if not (said is None or isinstance(said, str | list)):
        return None
    if isinstance(said, list) and said and not any(map(_is_blank_text, said)):
        return None
    return field if role_of(message) in _SPEAKERS else None


def _is_blank_text(block: Json) -> bool:
    """A text without a word. What stands beside one, as a signature of Gemini, makes it worth keeping."""
    if isinstance(block, str):
        return is_blank(block)
    if not isinstance(block, dict) or not isinstance(text := block.get("text"), str) or not is_blank(text):
        return False
    return block.get("type") == "text" or block.keys() == {"text"}
