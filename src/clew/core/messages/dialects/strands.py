"""Records of a Strands session: a Bedrock message in `message`, and what a guardrail put in its place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from clew.core.messages.dialects.bedrock import BEDROCK
from clew.core.messages.dialects.content import parts_of
from clew.core.messages.dialects.contract import Edit, Role, Slot
from clew.model import Json, Message

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
