"""Dialects in which calls and results are elements of one list in the message."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from clew.core.messages.dialects.content import is_blank, parts_of
from clew.core.messages.dialects.contract import ROLES, Edit, Role, Slot
from clew.core.messages.dialects.tools import pieces_of
from clew.model import Json, Message


class BlockDialect(ABC):
    pairs_by_name = False
    results_are_messages = False
    is_plain_without_calls = False
    field = "content"

    @abstractmethod
    def slot(self, block: Json, at: int, role: str | None) -> Slot | None:
        """The call or result in this block, if the block is one and the role may carry it."""

    @abstractmethod
    def texts(self, message: Message) -> list[str]: ...
    @abstractmethod
    def shows_media(self, message: Message) -> bool: ...
    @abstractmethod
    def is_reasoning(self, block: Json) -> bool: ...

    def slots(self, message: Message) -> list[Slot]:
        role = message.get("role")
        slots = (self.slot(block, at, role) for at, block in enumerate(parts_of(message, self.field)))
        return [slot for slot in slots if slot is not None]

    def role(self, message: Message) -> Role:
        role = ROLES.get(str(message.get("role")), "other")
        if role != "user" or not any(slot.is_result for slot in self.slots(message)):
            return role
        speaks = self.shows_media(message) or not all(is_blank(text) for text in self.texts(message))
        return "user" if speaks else "tool"

    def is_reasoning_only(self, message: Message) -> bool:
        blocks = parts_of(message, self.field)
        return any(map(self.is_reasoning, blocks)) and all(
            self.is_reasoning(block) or self._is_blank_text(block) for block in blocks
        )

    def _is_blank_text(self, block: Json) -> bool:
        texts = self.texts({self.field: [block]})
        return bool(texts) and all(map(is_blank, texts))

    def only_results(self, message: Message) -> bool:
        results = sum(slot.is_result for slot in self.slots(message))
        return 0 < results == len(parts_of(message, self.field))

    def pick(self, message: dict[str, Json], slot: Slot) -> Json:
        return message[self.field][slot.at]

    def tool_values(self, message: dict[str, Json]) -> Iterable[Json]:
        return pieces_of(self, message)

    def gather(self, pieces: Sequence[Json]) -> list[dict[str, Json]]:
        return [{"role": "user", self.field: list(pieces)}]

    def edit(self, message: dict[str, Json], edit: Edit) -> dict[str, Json] | None:
        results = {slot.at for slot in self.slots(message) if slot.is_result}
        kept: list[tuple[bool, Json]] = []
        for at, block in enumerate(message[self.field]):
            if at not in edit.drop:
                kept.append((at in results, block))
            if at in edit.inside:
                kept.append((False, edit.inside[at]))
        blocks = [block for _, block in kept]
        if edit.results_first or edit.add:
            first = [block for is_result, block in kept if is_result]
            rest = [block for is_result, block in kept if not is_result]
            blocks = [*first, *edit.add, *rest]
        return {**message, self.field: blocks} if blocks else None
