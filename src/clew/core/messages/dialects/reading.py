"""What a message is and says, whatever its dialect. No shape is too odd: nothing here raises."""

from __future__ import annotations

from clew.core.messages.dialects.content import is_blank, texts_in
from clew.core.messages.dialects.contract import ROLES, Call, Role
from clew.core.messages.dialects.registry import dialect_of
from clew.core.messages.prompts import marked_words, own_words
from clew.model import Message


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
