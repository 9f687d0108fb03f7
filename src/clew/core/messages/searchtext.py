"""What of a message is searched: what was said, and, apart from it, what tools were asked and answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from clew.core.log.rows import NOT_HUMAN
from clew.core.messages.dialects import dialect_of, text_of
from clew.core.messages.dialects.content import type_of
from clew.core.messages.dialects.contract import Role
from clew.core.messages.speakers import speaker_of
from clew.model import Json

ROLES: Final[tuple[Role, ...]] = ("user", "assistant", "tool", "system", "other")
"""In storage a role is its number here."""

_NOT_TEXT: Final = frozenset(
    {
        "id", "type", "role", "tool_call_id", "tool_use_id", "call_id", "tool_id", "status", "signature",
        "thoughtSignature", "thought_signature", "encrypted_content", "mimeType", "mime_type", "media_type",
        "cache_control", "is_error", "index",
    }
)  # fmt: skip
_MEDIA: Final = frozenset({"inlineData", "inline_data", "source", "image_url", "input_audio", "file_data"})
_CALL_FIELDS: Final = ("tool_calls", "function_call")
_DEEPEST: Final = 40


class Searched(NamedTuple):
    """The text of a message. Reasoning, ids and media are in neither part."""

    role: int
    said: str
    tool: str


def searched_text(message: dict[str, Json], flags: int) -> Searched:
    """What a message can be found by. `flags`: those of its entry. No shape is too odd: nothing here
    raises."""
    role = speaker_of(message, injected=bool(flags & NOT_HUMAN))
    said = "" if role == "tool" else text_of(message)
    content = message.get("content")
    if role != "tool" and type(content) is str and not any(map(message.get, _CALL_FIELDS)):
        return Searched(ROLES.index(role), said, "")
    return Searched(ROLES.index(role), said, "\n".join(_tool_texts(message)))


def _tool_texts(message: dict[str, Json]) -> Iterator[str]:
    for value in dialect_of(message).tool_values(message):
        yield from _strings(value, 0)


def _strings(value: Json, depth: int) -> Iterator[str]:
    """Every text in a value, and the names of what is given to a tool."""
    if isinstance(value, str):
        yield value
    elif depth > _DEEPEST:
        return
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each, depth + 1)
    elif isinstance(value, dict) and type_of(value) not in ("thinking", "redacted_thinking", "reasoning"):
        for name, each in value.items():
            if name not in _NOT_TEXT and name not in _MEDIA:
                yield from _strings(each, depth + 1)
