"""What a message is and says, whatever its dialect: the shapes of model providers and agents that Clew knows.

No shape is too odd: nothing here raises. `base.py` says what a dialect is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Final

from clew.core.log.rows import NOT_HUMAN
from clew.core.messages.dialects.base import (
    INTERRUPTED,
    ROLES,
    Call,
    Dialect,
    Edit,
    Part,
    Placement,
    Role,
    is_blank,
    says_something,
    texts_in,
)
from clew.core.messages.text import marked_words, own_words
from clew.model import Message

__all__ = [
    "INTERRUPTED",
    "Call",
    "Dialect",
    "Edit",
    "Part",
    "Placement",
    "Role",
    "calls_of",
    "dialect_of",
    "is_human_turn",
    "is_user_turn",
    "prompt_of",
    "results_of",
    "role_of",
    "said_in",
    "speaker_of",
    "text_of",
]

ORDER: Final = (
    "pydantic_ai.PYDANTIC_AI",
    "agent_framework.AGENT_FRAMEWORK",
    "anthropic.CLAUDE_CODE",
    "langchain.LANGCHAIN",
    "llama_index.LLAMA_INDEX",
    "google.GEMINI",
    "google.ADK",
    "bedrock.STRANDS",
    "other.GGCODE",
    "anthropic.ANTHROPIC",
    "bedrock.BEDROCK",
    "openai.RESPONSES",
    "openai.CHAT",
    "other.OTHER",
)
"""The dialects in the order in which they are asked: the telling shapes before the plain ones. The last one
takes every message."""


class _Registry:
    """The dialects, and which of them may claim a message, by the telling fields that it has."""

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self.dialects = tuple(dialects)
        self.telling = frozenset(field for dialect in dialects for field in dialect.fields)
        self._by_fields: dict[frozenset[str], tuple[Dialect, ...]] = {}

    def candidates(self, message: Message) -> tuple[Dialect, ...]:
        present = self.telling.intersection(message)
        found = self._by_fields.get(present)
        if found is None:  # once for each combination of a few fields
            found = tuple(each for each in self.dialects if not each.fields or each.fields & present)
            self._by_fields[present] = found
        return found


@cache
def registry() -> _Registry:
    """Imported with the first message that is more than a text: most programs begin without one."""
    found = []
    for line in ORDER:
        module, name = line.split(".")
        found.append(getattr(import_module(f"{__name__}.{module}"), name))
    return _Registry(found)


def dialect_of(message: Message) -> Dialect:
    candidates = registry().candidates(message)
    for dialect in candidates:
        if dialect.claims(message):
            return dialect
    return candidates[-1]


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
    return dialect.role(message) == "user" and says_something(dialect.parts(message))


def is_human_turn(message: Message, flags: int) -> bool:
    """Whether it counts as a turn of the user. `flags`: those of its entry."""
    return not flags & NOT_HUMAN and is_user_turn(message)


def speaker_of(message: Message, *, injected: bool) -> Role:
    """The role of a message for people. The model goes by its shape: for it `role_of` is right."""
    role = role_of(message)
    return "other" if role == "user" and injected else role


def text_of(message: Message) -> str:
    """What was said, for people to read: no tool output, no reasoning."""
    content = message.get("content")
    if type(content) is str and message.get("role") in ("user", "assistant"):
        return content
    return said_in(dialect_of(message).parts(message))


def said_in(parts: list[Part]) -> str:
    """What the one whose message it is says in it."""
    return "\n".join(
        part.text for part in parts if part.kind == "text" and part.speaker is None and part.text is not None
    )


def prompt_of(message: Message) -> str:
    """What the person said, without what an agent put around it: for titles and previews."""
    content = message.get("content")
    if type(content) is str and message.get("role") in ("user", "assistant"):
        return own_words(content)
    parts = dialect_of(message).parts(message)
    words = own_words(said_in(parts))
    if words or type(content) is str:
        return words
    # Some agents put a remark on what a tool did into its result.
    results = (part.value for part in parts if part.kind == "result")
    marked = (marked_words(text) for value in results for text in texts_in(value))
    return next(filter(None, marked), "")


def calls_of(message: Message) -> list[Call]:
    """The tool calls in the message that wait for a result, in order."""
    return _paired(message, "call")


def results_of(message: Message) -> list[Call]:
    """The calls that the tool results in the message answer, in order."""
    return _paired(message, "result")


def _paired(message: Message, kind: str) -> list[Call]:
    parts = dialect_of(message).parts(message)
    return [
        part.call
        for part in parts
        if part.kind == kind and part.placement is not None and part.call is not None
    ]
