"""What a dialect is: one way in which a model provider, or an agent, writes its messages.

A dialect reads roles, text, tool calls and tool results out of a message, and can rewrite a message
for the model's eyes. It never changes the message that it was given. To add one: a file with a class
that fits `Dialect`, and a line in `registry.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from clew.model import Json, Message

Role: TypeAlias = Literal["user", "assistant", "tool", "system", "other"]

ROLES: Final[Mapping[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}

INTERRUPTED: Final = "[interrupted: no result was recorded]"


class Placement(Enum):
    """Where a provider wants the result of a call. Anything else is answered with an error, for ever."""

    AFTER_CALL = "messages of their own, directly after the message with the call"
    ONE_MESSAGE = "together in one message, directly after the message with the call"
    AFTER_TURN = "first in the user turn that directly follows the assistant turn with the call"
    ANYWHERE = "anywhere after the call"
    INSIDE = "in the assistant's messages, before the human speaks again (the provider ran the tool)"


class Call(msgspec.Struct, frozen=True):
    """A tool call, or the result of one. The two belong together by id; without an id, by name and order."""

    id: str | None
    name: str | None
    kind: str = "tool"
    """A result answers only calls of its own kind."""


class Slot(msgspec.Struct, frozen=True):
    """A call or a result, and where in its message it stands."""

    call: Call
    at: int
    is_result: bool
    placement: Placement


class Edit(msgspec.Struct):
    """What to change in a message; positions are those of `Slot.at`."""

    drop: set[int] = msgspec.field(default_factory=set)
    inside: dict[int, Json] = msgspec.field(default_factory=dict)
    """Pieces to put directly behind the one at this position."""
    add: list[Json] = msgspec.field(default_factory=list)
    """Results to put behind the last result; implies `results_first`."""
    results_first: bool = False

    def __bool__(self) -> bool:
        return bool(self.drop or self.inside or self.add or self.results_first)


class Dialect(Protocol):
    """A piece is what can be moved from message to message: a block, a part, or a whole message."""

    @property
    def name(self) -> str: ...
    @property
    def pairs_by_name(self) -> bool:
        """Ids are optional: a result without one answers a call that has one."""
        ...

    @property
    def results_are_messages(self) -> bool:
        """A result is a message of its own, so a piece is a whole message."""
        ...

    @property
    def is_plain_without_calls(self) -> bool:
        """Its messages without calls and results might as well be of any other dialect."""
        ...

    def claims(self, message: Message) -> bool:
        """Is the message written in this dialect? Asked in the order of the registry."""
        ...

    def role(self, message: Message) -> Role: ...
    def texts(self, message: Message) -> list[str]:
        """What was said; neither tool output nor reasoning."""
        ...

    def shows_media(self, message: Message) -> bool: ...
    def is_reasoning_only(self, message: Message) -> bool: ...
    def slots(self, message: Message) -> list[Slot]: ...
    def only_results(self, message: Message) -> bool:
        """Nothing would be left of the message without its results."""
        ...

    def pick(self, message: dict[str, Json], slot: Slot) -> Json:
        """The piece at this slot."""
        ...

    def tool_values(self, message: dict[str, Json]) -> Iterable[Json]:
        """What tools were asked and answered, for the search: texts, or values with texts in them."""
        ...

    def interrupted(self, message: Message, slot: Slot) -> Json:
        """A result, made up, for a call that got none."""
        ...

    def gather(self, pieces: Sequence[Json]) -> list[dict[str, Json]]:
        """Results as messages of their own."""
        ...

    def edit(self, message: dict[str, Json], edit: Edit) -> dict[str, Json] | None:
        """The changed message, a new one; None when nothing is left of it."""
        ...
