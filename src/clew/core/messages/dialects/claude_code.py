"""Lines of a Claude Code transcript: an Anthropic message in `message`, and around it what the program knows.

Most lines are records without a message (titles, attachments, hooks, costs): nobody says them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from clew.core.messages.dialects.anthropic import ANTHROPIC
from clew.core.messages.dialects.claude_people import is_human
from clew.core.messages.dialects.content import parts_of, type_of
from clew.core.messages.dialects.contract import Edit, Role, Slot
from clew.model import Json, Message

_SPOKEN: Final = ("user", "assistant")
_TELLING: Final = ("subtype", "operation", "customTitle", "aiTitle", "lastPrompt", "tag", "summary", "mode")
"""Fields that tell a record from others of its type."""


class ClaudeCodeDialect:
    name = "claude-code"
    pairs_by_name = False
    results_are_messages = False
    is_plain_without_calls = False

    def claims(self, message: Message) -> bool:
        return bool(inner_of(message)) or _is_record(message)

    def role(self, message: Message) -> Role:
        if not (inner := inner_of(message)):
            return "other"
        role = ANTHROPIC.role(inner)
        return "other" if role == "user" and not is_human(message, message["message"]) else role

    def texts(self, message: Message) -> list[str]:
        return ANTHROPIC.texts(inner_of(message))

    def shows_media(self, message: Message) -> bool:
        return ANTHROPIC.shows_media(inner_of(message))

    def is_reasoning_only(self, message: Message) -> bool:
        return ANTHROPIC.is_reasoning_only(inner_of(message))

    def slots(self, message: Message) -> list[Slot]:
        return ANTHROPIC.slots(inner_of(message))

    def only_results(self, message: Message) -> bool:
        return ANTHROPIC.only_results(inner_of(message))

    def pick(self, message: dict[str, Json], slot: Slot) -> Json:
        return ANTHROPIC.pick(inner_of(message), slot)

    def interrupted(self, message: Message, slot: Slot) -> Json:
        return ANTHROPIC.interrupted(inner_of(message), slot)

    def tool_values(self, message: dict[str, Json]) -> Iterable[Json]:
        return ANTHROPIC.tool_values(inner_of(message))

    def gather(self, pieces: Sequence[Json]) -> list[dict[str, Json]]:
        return [{"type": "user", "message": inner} for inner in ANTHROPIC.gather(pieces)]

    def edit(self, message: dict[str, Json], edit: Edit) -> dict[str, Json] | None:
        inner = inner_of(message)
        if not parts_of(inner):
            return message  # a text alone, or nothing: there is nothing to move
        edited = ANTHROPIC.edit(inner, edit)
        return None if edited is None else {**message, "message": edited}


CLAUDE_CODE = ClaudeCodeDialect()


def inner_of(line: Message) -> dict[str, Json]:
    """The message in a line; empty if nobody speaks in it."""
    inner = line.get("message")
    if isinstance(inner, dict) and line.get("type") in _SPOKEN and inner.get("role") in _SPOKEN:
        return inner
    return {}


def note_in(record: Message) -> str:
    """A record in a few words: its type, and what tells it from others of this type."""
    told = [record.get(field) for field in _TELLING] + [type_of(record.get("attachment"))]
    words = [word for word in told if isinstance(word, str) and word]
    return ": ".join([str(record.get("type")), *words[:1]])


def _is_record(message: Message) -> bool:
    return (
        isinstance(message.get("sessionId"), str)
        and isinstance(message.get("type"), str)
        and message.keys().isdisjoint(("role", "message"))
    )
