"""What tools were asked and answered, in dialects whose pieces say no more than that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from clew.core.messages.dialects.contract import Role, Slot
from clew.model import Json, Message

_CALLS: Final = ("tool_calls", "function_call")


class Pieced(Protocol):
    """What is needed of a dialect."""

    def role(self, message: Message) -> Role: ...
    def slots(self, message: Message) -> list[Slot]: ...
    def pick(self, message: dict[str, Json], slot: Slot) -> Json: ...


def pieces_of(dialect: Pieced, message: dict[str, Json]) -> Iterator[Json]:
    """All of a message that is a tool's; of others the calls and results in it."""
    if dialect.role(message) == "tool":
        yield message
        return
    for field in _CALLS:
        yield message.get(field)
    for slot in dialect.slots(message):
        piece = dialect.pick(message, slot)
        if piece is not message:
            yield piece
