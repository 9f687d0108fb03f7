"""The dialects, in the order in which they are asked: the telling shapes before the plain ones."""

from __future__ import annotations

from functools import cache

from clew.core.log.rows import NOT_HUMAN
from clew.core.messages.dialects.base import (
    INTERRUPTED,
    ROLES,
    Call,
    Dialect,
    Edit,
    Placement,
    Role,
    Slot,
    is_blank,
    texts_in,
)
from clew.core.messages.text import marked_words, own_words
from clew.model import Message

__all__ = [
    "INTERRUPTED",
    "Call",
    "Dialect",
    "Edit",
    "Placement",
    "Role",
    "Slot",
    "calls_of",
    "dialect_of",
    "is_human_turn",
    "is_user_turn",
    "prompt_of",
    "results_of",
    "role_of",
    "speaker_of",
    "text_of",
]


def dialect_of(message: Message) -> Dialect:
    known = dialects()
    for dialect in known:
        if dialect.claims(message):
            return dialect
    return known[-1]


@cache
def dialects() -> tuple[Dialect, ...]:
    """Imported with the first message that is more than a text: most programs have seen none when they begin.
    The last one takes whatever is left."""
    from clew.core.messages.dialects.agent_framework import AGENT_FRAMEWORK
    from clew.core.messages.dialects.anthropic import ANTHROPIC, CLAUDE_CODE
    from clew.core.messages.dialects.bedrock import BEDROCK, STRANDS
    from clew.core.messages.dialects.ggcode import GGCODE
    from clew.core.messages.dialects.google import ADK, GEMINI
    from clew.core.messages.dialects.langchain import LANGCHAIN
    from clew.core.messages.dialects.llama_index import LLAMA_INDEX
    from clew.core.messages.dialects.openai import CHAT, RESPONSES
    from clew.core.messages.dialects.other import OTHER
    from clew.core.messages.dialects.pydantic_ai import PYDANTIC_AI

    return (
        PYDANTIC_AI,
        AGENT_FRAMEWORK,
        CLAUDE_CODE,
        LANGCHAIN,
        LLAMA_INDEX,
        GEMINI,
        ADK,
        STRANDS,
        GGCODE,
        ANTHROPIC,
        BEDROCK,
        RESPONSES,
        CHAT,
        OTHER,
    )


# ── What a message is and says, whatever its dialect. No shape is too odd: nothing here raises ────


def role_of(message: Message) -> Role:
    """Who speaks. A user message that carries nothing but tool results is the tool's."""
    role = message.get("role")
    # Nearly every message is a plain text with a role; this runs on every append.
    if type(message.get("content")) is str and type(role) is str and role in ROLES:
        return ROLES[role]
    return dialect_of(message).role(message)


def is_user_turn(message: Message) -> bool:
    """A human spoke: words, or an image, a file, a recording; not a tool's results alone."""
    content = message.get("content")
    if type(content) is str and "role" in message and not is_blank(content):
        return bool(message["role"] == "user")
    dialect = dialect_of(message)
    if dialect.role(message) != "user":
        return False
    return dialect.shows_media(message) or not all(map(is_blank, dialect.texts(message)))


def text_of(message: Message) -> str:
    """What was said, for people to read: no tool output, no reasoning."""
    content = message.get("content")
    if type(content) is str and message.get("role") in ("user", "assistant"):
        return content
    return "\n".join(dialect_of(message).texts(message))


def prompt_of(message: Message) -> str:
    """What the person said, without what an agent put around it: for titles and previews."""
    words = own_words(text_of(message))
    if words or type(message.get("content")) is str:
        return words
    # Some agents put a remark on what a tool did into its result.
    values = dialect_of(message).tool_values(dict(message))
    texts = [
        text
        for value in values
        for text in texts_in(value.get("content") if isinstance(value, dict) else value)
    ]
    return next(filter(None, map(marked_words, texts)), "")


def calls_of(message: Message) -> list[Call]:
    """The tool calls in the message, in order."""
    return [slot.call for slot in dialect_of(message).slots(message) if not slot.is_result]


def results_of(message: Message) -> list[Call]:
    """The calls that the tool results in the message answer, in order."""
    return [slot.call for slot in dialect_of(message).slots(message) if slot.is_result]


# ── The message shapes of the model providers and of the agents that we know ──────────────────────


# ── Who speaks in a stored message: its shape tells, unless it was stored as what no person said ───


def is_human_turn(message: Message, flags: int) -> bool:
    """Whether it counts as a turn of the user. `flags`: those of its entry."""
    return not flags & NOT_HUMAN and is_user_turn(message)


def speaker_of(message: Message, *, injected: bool) -> Role:
    """The role of a message for people. The model goes by its shape: for it `role_of` is right."""
    role = role_of(message)
    return "other" if role == "user" and injected else role
