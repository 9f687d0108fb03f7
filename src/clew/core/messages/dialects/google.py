"""Gemini: `{"role", "parts"}`, where a part is told by its key; ids are optional.

Google ADK keeps such messages in its events, with who made them and what else the run knows.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from msgspec.structs import replace

from clew.core.messages.dialects.base import (
    INTERRUPTED,
    BlockDialect,
    Call,
    Part,
    Placement,
    Role,
    WrappedDialect,
    filled,
    is_blank,
    parts_of,
    thought,
    typed_part,
)
from clew.model import Json, Message

_CALLS: Final = ("functionCall", "function_call")
_RESULTS: Final = ("functionResponse", "function_response")
_MEDIA: Final = ("inlineData", "inline_data", "fileData", "file_data")
_KEYS: Final = frozenset({"text", "thought", *_CALLS, *_RESULTS, *_MEDIA})
_SEALED: Final = frozenset({"thought", "thoughtSignature", "thought_signature"})
_NO_CALLERS: Final = ("user", "function", "tool")
_NO_ANSWERERS: Final = ("model", "assistant")


class GeminiDialect(BlockDialect):
    name = "gemini"
    fields = frozenset({"parts"})
    field = "parts"
    pairs_by_name = True

    def claims(self, message: Message) -> bool:
        parts = message.get("parts")
        return isinstance(parts, list) and any(map(_is_ours, parts))

    def role(self, message: Message) -> Role:
        if message.get("role") is None:
            parts = self.parts(message)
            calls = any(part.kind == "call" and part.placement is not None for part in parts)
            return "assistant" if calls else "user"
        return super().role(message)

    def parts(self, message: Message) -> list[Part]:
        role = message.get("role")
        found: list[Part] = []
        for at, part in enumerate(parts_of(message, "parts")):
            if not isinstance(part, dict):
                found.append(typed_part(part, at))
                continue
            text = part.get("text")
            is_text = isinstance(text, str)
            if not is_text or len(part) > 1:
                other = _beside_text(part, at, role)
                if other is not None:
                    found.append(other)
                elif not is_text:
                    found.append(typed_part(part, at))
            if is_text and not part.get("thought"):
                found.append(Part("text", at, text))
        typed = typed_in(message)
        if not typed:
            return found
        sent = [replace(part, speaker="other") if part.kind == "text" else part for part in found]
        return [*(Part("text", 0, text) for text in typed), *sent]

    def interrupted(self, message: Message, part: Part) -> Json:
        call = part.call
        assert call is not None
        key = _RESULTS[0] if _CALLS[0] in message["parts"][part.at] else _RESULTS[1]
        same_id = {"id": call.id} if call.id else {}
        return {key: {**same_id, "name": call.name, "response": {"error": INTERRUPTED}}}


def _beside_text(part: dict[str, Json], at: int, role: Json) -> Part | None:
    """What a part holds that is no plain text. A text may stand beside it."""
    if (result := _value(part, _RESULTS)) is not None:
        response, may_be_paired = result.get("response"), role not in _NO_ANSWERERS
        has_failed = isinstance(response, dict) and response.keys() == {"error"}
        return _tool_part("result", at, result, _answer(response), may_be_paired, has_failed)
    if (call := _value(part, _CALLS)) is not None:
        return _tool_part("call", at, call, call.get("args"), role not in _NO_CALLERS)
    if thinks := part.get("thought"):
        text = part.get("text")
        is_readable = isinstance(text, str) or (thinks is True and part.keys() <= _SEALED)
        return thought(text, at) if is_readable else Part("thinking", at, None, part)
    if (media := _value(part, _MEDIA)) is not None:
        return Part("media", at, None, _file(media))
    return None


def _tool_part(
    kind: Literal["call", "result"],
    at: int,
    tool: Json,
    value: Json,
    may_be_paired: bool,
    has_failed: bool = False,
) -> Part:
    call = Call(filled(tool.get("id")), filled(tool.get("name")))
    placement = Placement.ONE_MESSAGE if may_be_paired and call.name else None
    return Part(kind, at, None, value, call, placement, has_failed)


def _answer(response: Json) -> Json:
    """Most functions answer with a text alone in an object."""
    if isinstance(response, dict) and len(response) == 1:
        (only,) = response.values()
        return only if isinstance(only, str) else response
    return response


def _file(media: dict[str, Json]) -> Json:
    source = {
        "media_type": media.get("mimeType", media.get("mime_type")),
        "data": media.get("data"),
        "url": media.get("fileUri", media.get("file_uri")),
    }
    return {"type": "file", "name": media.get("displayName"), "source": source}


DISPLAYED: Final = "displayContent"
"""The key of a message of Gemini CLI that has what its user typed. The parts are what the model got for it,
with the content of each file that was named."""


def typed_in(message: Message) -> list[str]:
    """What the user typed, if the parts of the message are something else."""
    if message.get("role") != "user" or not isinstance(message.get("parts"), list):
        return []
    parts = message.get(DISPLAYED)
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts_of(message, DISPLAYED)]
    found = [parts] if isinstance(parts, str) else [text for text in texts if isinstance(text, str)]
    return found if any(not is_blank(text) for text in found) else []


def _is_ours(part: Json) -> bool:
    # Other agents have `parts` too, but give them a type.
    return isinstance(part, dict) and "type" not in part and not _KEYS.isdisjoint(part)


def _value(part: Json, keys: tuple[str, ...]) -> dict[str, Json] | None:
    for key in keys:
        if isinstance(value := part.get(key), dict):
            return value
    return None


GEMINI: Final = GeminiDialect()


# -- Google ADK

_HUMAN: Final = "user"
_TRANSCRIPTS: Final = (
    "input_transcription",
    "inputTranscription",
    "output_transcription",
    "outputTranscription",
)


class AdkDialect(WrappedDialect):
    """Events. One may have no content: it changed the state, handed over to another agent, or rewound the
    session."""

    name = "adk"
    fields = frozenset({"author"})
    around: ClassVar[dict[str, Json]] = {"author": _HUMAN, "invocation_id": ""}

    def claims(self, message: Message) -> bool:
        if not isinstance(message.get("author"), str):
            return False
        invocation = message.get("invocation_id", message.get("invocationId"))
        return isinstance(invocation, str) and isinstance(message.get("content"), (dict, type(None)))

    def unwrap(self, message: Message) -> dict[str, Json]:
        content = message.get("content")
        if not isinstance(content, dict):
            return {"parts": []}
        return {**content, "parts": parts_of(content, "parts")}

    def wrap(self, message: dict[str, Json], inner: dict[str, Json]) -> dict[str, Json]:
        return {**message, "content": inner}

    def role(self, message: Message) -> Role:
        content = self.unwrap(message)
        # Results come back as words of the user's side, whatever the author is.
        if self.wrapped.role({**content, "role": "user"}) == "tool":
            return "tool"
        if message["author"] != _HUMAN:
            return "assistant"
        return "user" if content["parts"] or _transcripts(message) else "other"

    def parts(self, message: Message) -> list[Part]:
        parts = super().parts(message)
        parts += [Part("text", len(parts), text) for text in _transcripts(message)]
        if not message.get("content") and (deeds := _deeds(message)):
            parts.append(Part("other", len(parts), value=deeds))
        return parts


def _transcripts(message: Message) -> list[str]:
    """What was said aloud."""
    said = [message[field].get("text") for field in _TRANSCRIPTS if isinstance(message.get(field), dict)]
    return [text for text in said if isinstance(text, str)]


def _deeds(message: Message) -> dict[str, Json]:
    """What an event did without a word: the actions in it, an error, an output."""
    actions = message.get("actions")
    found = dict(actions) if isinstance(actions, dict) else {}
    for field in ("error_code", "errorCode", "error_message", "errorMessage", "output"):
        found[field] = message.get(field)
    return {name: value for name, value in found.items() if value not in (None, "", [], {})}


ADK: Final = AdkDialect(GEMINI)
