"""Whatever no dialect claims: passed through untouched."""

from __future__ import annotations

from clew.core.messages.dialects.base import ItemDialect, Role, Slot
from clew.model import Json, Message


class OtherDialect(ItemDialect):
    name = "other"

    def claims(self, message: Message) -> bool:
        return True

    def role(self, message: Message) -> Role:
        return "other"

    def texts(self, message: Message) -> list[str]:
        return []

    def shows_media(self, message: Message) -> bool:
        return False

    def is_reasoning_only(self, message: Message) -> bool:
        return False

    def slots(self, message: Message) -> list[Slot]:
        return []

    def interrupted(self, message: Message, slot: Slot) -> Json:
        raise AssertionError("a message without calls has none to answer")


OTHER = OtherDialect()
