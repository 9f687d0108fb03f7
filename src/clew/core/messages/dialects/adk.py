"""Events of Google ADK: a Gemini message in `content`, who made it in `author`, and what else the run knows.

An event may have no content: it changed the state, handed over to another agent, or rewound the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from clew.core.messages.dialects.content import parts_of
from clew.core.messages.dialects.contract import Edit, Role, Slot
from clew.core.messages.dialects.gemini import GEMINI
from clew.model import Json, Message

_HUMAN: Final = "user"
_TRANSCRIPTS: Final = (
    "input_transcription",
    "inputTranscription",
    "output_transcription",
    "outputTranscription",
)


class AdkDialect:
    name = "adk"
    pairs_by_name = GEMINI.pairs_by_name
    results_are_messages = GEMINI.results_are_messages
    is_plain_without_calls = False

    def claims(self, message: Message) -> bool:
        if not isinstance(message.get("author"), str):
            return False
        invocation = message.get("invocation_id", message.get("invocationId"))
        return isinstance(invocation, str) and isinstance(message.get("content"), (dict, type(None)))

    def role(self, message: Message) -> Role:
        content = content_of(message)
        # Results come back as words of the user's side, whoever is the author.
        if GEMINI.role({**content, "role": "user"}) == "tool":
            return "tool"
        if message["author"] != _HUMAN:
            return "assistant"
        return "user" if content["parts"] or transcripts_of(message) else "other"

    def texts(self, message: Message) -> list[str]:
        return GEMINI.texts(content_of(message)) + transcripts_of(message)

    def shows_media(self, message: Message) -> bool:
        return GEMINI.shows_media(content_of(message))

    def is_reasoning_only(self, message: Message) -> bool:
        return GEMINI.is_reasoning_only(content_of(message))

    def slots(self, message: Message) -> list[Slot]:
        return GEMINI.slots(content_of(message))

    def only_results(self, message: Message) -> bool:
        return GEMINI.only_results(content_of(message))

    def pick(self, message: dict[str, Json], slot: Slot) -> Json:
        return GEMINI.pick(content_of(message), slot)

    def interrupted(self, message: Message, slot: Slot) -> Json:
        return GEMINI.interrupted(content_of(message), slot)

    def tool_values(self, message: dict[str, Json]) -> Iterable[Json]:
        return GEMINI.tool_values(content_of(message))

    def gather(self, pieces: Sequence[Json]) -> list[dict[str, Json]]:
        return [
            {"author": _HUMAN, "invocation_id": "", "content": content} for content in GEMINI.gather(pieces)
        ]

    def edit(self, message: dict[str, Json], edit: Edit) -> dict[str, Json] | None:
        if not parts_of(content_of(message), "parts"):
            return message  # there is nothing to move
        content = GEMINI.edit(content_of(message), edit)
        return None if content is None else {**message, "content": content}


def content_of(message: Message) -> dict[str, Json]:
    """The Gemini message in an event; one without parts, if there is none."""
    content = message.get("content")
    return {**content, "parts": parts_of(content, "parts")} if isinstance(content, dict) else {"parts": []}


def transcripts_of(message: Message) -> list[str]:
    """What was said aloud."""
    said = [message[field].get("text") for field in _TRANSCRIPTS if isinstance(message.get(field), dict)]
    return [text for text in said if isinstance(text, str)]


def deeds_of(message: Message) -> dict[str, Json]:
    """What an event did without a word: the actions in it, an error, an output."""
    actions = message.get("actions")
    found = dict(actions) if isinstance(actions, dict) else {}
    for field in ("error_code", "errorCode", "error_message", "errorMessage", "output"):
        found[field] = message.get(field)
    return {name: value for name, value in found.items() if value not in (None, "", [], {})}


ADK = AdkDialect()
