"""Dialects in which a tool result is a message of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from clew.core.messages.dialects.contract import Edit, Role, Slot
from clew.core.messages.dialects.tools import pieces_of
from clew.model import Json, Message


class ItemDialect(ABC):
    pairs_by_name = False
    results_are_messages = True
    is_plain_without_calls = False

    @abstractmethod
    def role(self, message: Message) -> Role: ...
    @abstractmethod
    def slots(self, message: Message) -> list[Slot]: ...

    def only_results(self, message: Message) -> bool:
        return any(slot.is_result for slot in self.slots(message))

    def pick(self, message: dict[str, Json], slot: Slot) -> Json:
        return message

    def tool_values(self, message: dict[str, Json]) -> Iterable[Json]:
        return pieces_of(self, message)

    def gather(self, pieces: Sequence[Json]) -> list[dict[str, Json]]:
        return list(pieces)

    def edit(self, message: dict[str, Json], edit: Edit) -> dict[str, Json] | None:
        return None if edit.drop else message
