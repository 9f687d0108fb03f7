"""Gemini: `{"role", "parts"}`, where a part is told by its key; ids are optional."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from clew.core.messages.dialects.base import (
    INTERRUPTED,
    BlockDialect,
    Call,
    Edit,
    Placement,
    Role,
    Slot,
    filled,
    parts_of,
)
from clew.model import Json, Message

_CALLS: Final = ("functionCall", "function_call")
_RESULTS: Final = ("functionResponse", "function_response")
_MEDIA: Final = ("inlineData", "inline_data", "fileData", "file_data")
_KEYS: Final = frozenset({"text", "thought", *_CALLS, *_RESULTS, *_MEDIA})


class GeminiDialect(BlockDialect):
    name = "gemini"
    field = "parts"
    pairs_by_name = True

    def claims(self, message: Message) -> bool:
        parts = message.get("parts")
        return isinstance(parts, list) and any(map(_is_ours, parts))

    def role(self, message: Message) -> Role:
        if message.get("role") is None:
            return "assistant" if any(not slot.is_result for slot in self.slots(message)) else "user"
        return super().role(message)

    def texts(self, message: Message) -> list[str]:
        spoken = [part for part in parts_of(message, "parts") if not self.is_reasoning(part)]
        texts = [part.get("text") if isinstance(part, dict) else part for part in spoken]
        return [text for text in texts if isinstance(text, str)]

    def shows_media(self, message: Message) -> bool:
        return any(_value(part, _MEDIA) for part in parts_of(message, "parts"))

    def is_reasoning(self, block: Json) -> bool:
        return isinstance(block, dict) and bool(block.get("thought"))

    def slot(self, block: Json, at: int, role: str | None) -> Slot | None:
        is_result = _value(block, _RESULTS) is not None
        value = _value(block, _RESULTS if is_result else _CALLS)
        if value is None or role in (("model", "assistant") if is_result else ("user", "function", "tool")):
            return None
        call = Call(filled(value.get("id")), filled(value.get("name")))
        return Slot(call, at, is_result, Placement.ONE_MESSAGE) if call.name else None

    def interrupted(self, message: Message, slot: Slot) -> Json:
        key = _RESULTS[0] if _CALLS[0] in message["parts"][slot.at] else _RESULTS[1]
        same_id = {"id": slot.call.id} if slot.call.id else {}
        return {key: {**same_id, "name": slot.call.name, "response": {"error": INTERRUPTED}}}


def _is_ours(part: Json) -> bool:
    # Other agents have `parts` too, but give them a type.
    return isinstance(part, dict) and "type" not in part and not _KEYS.isdisjoint(part)


def _value(part: Json, keys: tuple[str, ...]) -> Json:
    if isinstance(part, dict):
        for key in keys:
            if isinstance(value := part.get(key), dict):
                return value
    return None


GEMINI = GeminiDialect()


# ── Adk ───────────────────────────────────────────────────────────────────────────────────────────
# Events of Google ADK: a Gemini message in `content`, who made it in `author`, and what else the run knows.
#
# An event may have no content: it changed the state, handed over to another agent, or rewound the session.

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
