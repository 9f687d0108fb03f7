"""Messages that no other dialect claims: passed through untouched."""

from __future__ import annotations

from typing import Final

from clew.core.messages.dialects.base import ItemDialect, Part, Role
from clew.model import Json, Message

_AROUND_A_TEXT: Final = frozenset({"role", "type", "id", "timestamp", "content"})


class OtherDialect(ItemDialect):
    name = "other"

    def claims(self, message: Message) -> bool:
        return True

    def role(self, message: Message) -> Role:
        return "other"

    def parts(self, message: Message) -> list[Part]:
        content = message.get("content")
        if isinstance(content, str) and message.keys() <= _AROUND_A_TEXT:
            return [Part("text", 0, content, speaker="other")]
        return [Part("other", 0, value=dict(message))]

    def interrupted(self, message: Message, part: Part) -> Json:
        raise AssertionError("a message without calls has none to answer")


OTHER: Final = OtherDialect()
