"""What a dialect is: one way in which a model provider, or an agent, writes its messages.

A dialect reads roles, text, tool calls and tool results out of a message, and can rewrite a message
for the model's eyes. It never changes the message that it was given. To add one: a file with a class
that fits `Dialect`, and a line in `registry.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


# ── The parts that most dialects share: `content` is a text or a list of typed parts ──────────────

TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text"})
MEDIA_TYPES: Final = frozenset(
    {
        "audio",
        "audio_url",
        "container_upload",
        "document",
        "file",
        "image",
        "image_url",
        "input_audio",
        "input_file",
        "input_image",
        "input_video",
        "video",
        "video_url",
    }
)


def filled(value: Json) -> str | None:
    """The value when it is a text that says something, as an id or a name does."""
    return value if isinstance(value, str) and value else None


def type_of(part: Json) -> str:
    """The part's type; empty for anything that has none."""
    kind = part.get("type") if isinstance(part, dict) else None
    return kind if isinstance(kind, str) else ""


def parts_of(message: Message, field: str = "content") -> list[Json]:
    """The message's parts; none when there is no list of them."""
    parts = message.get(field)
    return parts if isinstance(parts, list) else []


def is_blank(text: str) -> bool:
    return not text or text.isspace()


def texts_in(content: Json) -> list[str]:
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    found = []
    for part in content:
        text = part if isinstance(part, str) else _text_of_part(part)
        if isinstance(text, str):
            found.append(text)
    return found


def _text_of_part(part: Json) -> Json:
    kind = type_of(part)
    if kind in TEXT_TYPES:
        return part.get("text")
    return part.get("refusal") if kind == "refusal" else None


def media_in(content: Json) -> bool:
    return isinstance(content, list) and any(type_of(part) in MEDIA_TYPES for part in content)


# ── What tools were asked and answered, in dialects whose pieces say no more than that ────────────

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


# ── Dialects in which calls and results are elements of one list in the message ───────────────────


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


# ── Dialects in which a tool result is a message of its own ───────────────────────────────────────


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
