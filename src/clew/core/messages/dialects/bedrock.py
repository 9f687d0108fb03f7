"""Bedrock's Converse: `{"role", "content"}`, where a block is told by its key and has no type.

Strands speaks it whatever the provider is, and other frameworks that began on Bedrock do too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

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

MEDIA: Final = ("image", "document", "video", "audio")
_KEYS: Final = frozenset(
    {"text", "toolUse", "toolResult", "reasoningContent", "cachePoint", "guardContent", "citationsContent"}
    | set(MEDIA)
)


class BedrockDialect(BlockDialect):
    name = "bedrock"

    def claims(self, message: Message) -> bool:
        content = message.get("content")
        if not isinstance(content, list) or message.get("role") not in ("user", "assistant"):
            return False
        return not message.get("tool_calls") and any(map(_is_ours, content))

    def texts(self, message: Message) -> list[str]:
        return [text for block in parts_of(message) for text in texts_of(block)]

    def shows_media(self, message: Message) -> bool:
        return any(inner(block, key) is not None for block in parts_of(message) for key in MEDIA)

    def is_reasoning(self, block: Json) -> bool:
        return inner(block, "reasoningContent") is not None

    def slot(self, block: Json, at: int, role: str | None) -> Slot | None:
        is_result = role == "user"
        value = inner(block, "toolResult" if is_result else "toolUse")
        key = None if value is None else filled(value.get("toolUseId"))
        if value is None or key is None:
            return None
        name = None if is_result else filled(value.get("name"))
        return Slot(Call(key, name), at, is_result, Placement.AFTER_TURN)

    def interrupted(self, message: Message, slot: Slot) -> Json:
        content: Json = [{"text": INTERRUPTED}]
        return {"toolResult": {"toolUseId": slot.call.id, "status": "error", "content": content}}

    def tool_values(self, message: dict[str, Json]) -> Iterator[Json]:
        """What tools were asked and answered: names, arguments, contents."""
        for block in parts_of(message):
            if (call := inner(block, "toolUse")) is not None:
                yield [call.get("name"), call.get("input")]
            for part in parts_of(inner(block, "toolResult") or {}):
                if isinstance(part, dict):
                    yield [part.get("text"), part.get("json")]


def inner(block: Json, key: str) -> dict[str, Json] | None:
    """What a block holds under its key, if it is such a block."""
    value = block.get(key) if isinstance(block, dict) else None
    return value if isinstance(value, dict) else None


def texts_of(block: Json) -> Iterator[str]:
    """What is said in a block: plainly, with citations, or for a guardrail to look at."""
    if not isinstance(block, dict):
        return
    if isinstance(text := block.get("text"), str):
        yield text
    if (guarded := inner(inner(block, "guardContent"), "text")) is not None:
        yield from texts_of(guarded)
    for part in parts_of(inner(block, "citationsContent") or {}):
        yield from texts_of(part)


def _is_ours(block: Json) -> bool:
    return isinstance(block, dict) and "type" not in block and not _KEYS.isdisjoint(block)


BEDROCK = BedrockDialect()


# ── Strands ───────────────────────────────────────────────────────────────────────────────────────
# Records of a Strands session: a Bedrock message in `message`, and what a guardrail put in its place.

_FIELDS: Final = ("message_id", "redact_message", "created_at")


class StrandsDialect:
    name = "strands"
    pairs_by_name = BEDROCK.pairs_by_name
    results_are_messages = BEDROCK.results_are_messages
    is_plain_without_calls = False

    def claims(self, message: Message) -> bool:
        inner = message.get("message")
        if not isinstance(inner, dict) or not all(field in message for field in _FIELDS):
            return False
        return isinstance(inner.get("content"), list)

    def role(self, message: Message) -> Role:
        return BEDROCK.role(shown_in(message))

    def texts(self, message: Message) -> list[str]:
        return BEDROCK.texts(shown_in(message))

    def shows_media(self, message: Message) -> bool:
        return BEDROCK.shows_media(shown_in(message))

    def is_reasoning_only(self, message: Message) -> bool:
        return BEDROCK.is_reasoning_only(shown_in(message))

    def slots(self, message: Message) -> list[Slot]:
        return BEDROCK.slots(shown_in(message))

    def only_results(self, message: Message) -> bool:
        return BEDROCK.only_results(shown_in(message))

    def pick(self, message: dict[str, Json], slot: Slot) -> Json:
        return BEDROCK.pick(shown_in(message), slot)

    def interrupted(self, message: Message, slot: Slot) -> Json:
        return BEDROCK.interrupted(shown_in(message), slot)

    def tool_values(self, message: dict[str, Json]) -> Iterable[Json]:
        return BEDROCK.tool_values(shown_in(message))

    def gather(self, pieces: Sequence[Json]) -> list[dict[str, Json]]:
        return [
            {"message": inner, "message_id": None, "redact_message": None, "created_at": None}
            for inner in BEDROCK.gather(pieces)
        ]

    def edit(self, message: dict[str, Json], edit: Edit) -> dict[str, Json] | None:
        if not parts_of(shown_in(message)):
            return message  # there is nothing to move
        inner = BEDROCK.edit(shown_in(message), edit)
        return None if inner is None else {**message, _shown_field(message): inner}


def shown_in(message: Message) -> dict[str, Json]:
    """The message that counts: what a guardrail put in the place of the first one, if it did."""
    inner: dict[str, Json] = message[_shown_field(message)]
    return inner


def _shown_field(message: Message) -> Literal["message", "redact_message"]:
    return "redact_message" if isinstance(message.get("redact_message"), dict) else "message"


STRANDS = StrandsDialect()
