"""What a dialect is: one way in which a model provider, or an agent, writes its messages.

A dialect reads a message once, as a list of `Part`s: texts, thoughts, tool calls, tool results, media.
Contexts, searches and exports all go by these parts, so that the knowledge of a vendor's format stands in one
file. A dialect can also rewrite a message for the model's eyes. It never changes the message that it was
given, and no shape is too odd for it: nothing here raises.

To add one: a file with a class that fits `Dialect`, and a line in `ORDER` (docs/how-to/add-a-dialect.md).
Most are a `BlockDialect` (calls and results stand in a list in the message), an `ItemDialect` (a result is a
message of its own) or a `WrappedDialect` (a message of another dialect, and what a program knows around it).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import ClassVar, Final, Literal, Protocol, TypeAlias

import msgspec

from clew.model import Json, Message

Role: TypeAlias = Literal["user", "assistant", "tool", "system", "other"]
PartKind: TypeAlias = Literal["text", "thinking", "call", "result", "media", "other"]

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
    """Which tool call, or the result of which. The two belong together by id; without an id, by name and
    order."""

    id: str | None
    name: str | None
    kind: str = "tool"
    """A result answers only calls of its own kind."""


class Part(msgspec.Struct, frozen=True, gc=False):
    """One part of a message: the only reading of it that there is."""

    kind: PartKind
    at: int = 0
    """Where the piece stands that this is a part of; `Edit` goes by it."""
    text: str | None = None
    """Of a text or a thought: its words; None: a thought that only its provider can read. Of media and other
    parts: what to show instead of `value`."""
    value: Json = None
    """Of a call: its arguments. Of a result: its content, which `Dialect.inside` reads. Of media: the part in
    the shape of OpenAI's or Anthropic's typed parts. Of other parts: all of it."""
    call: Call | None = None
    """Of a call or a result."""
    placement: Placement | None = None
    """Of a call or a result that its provider pairs with the other; None: it stands for itself."""
    is_error: bool = False
    """Of a result: the tool failed."""
    speaker: Role | None = None
    """Who says it, if not the one whose message it is; "other": it is no part of the conversation."""

    @property
    def is_result(self) -> bool:
        return self.kind == "result"


class Edit(msgspec.Struct):
    """What to change in a message; positions are those of `Part.at`."""

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
    def fields(self) -> frozenset[str]:
        """It claims no message that has none of these fields; empty: ask it about every message."""
        ...

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
    def parts(self, message: Message) -> list[Part]:
        """The parts of the message, in the order in which people should read them."""
        ...

    def inside(self, result: Part) -> Iterable[Part]:
        """The parts of a result's content."""
        ...

    def only_results(self, message: Message) -> bool:
        """Nothing would be left of the message without its results."""
        ...

    def pick(self, message: dict[str, Json], part: Part) -> Json:
        """The piece that this is a part of."""
        ...

    def interrupted(self, message: Message, part: Part) -> Json:
        """A result, made up, for a call that got none."""
        ...

    def gather(self, pieces: Sequence[Json]) -> list[dict[str, Json]]:
        """Results as messages of their own."""
        ...

    def edit(self, message: dict[str, Json], edit: Edit) -> dict[str, Json] | None:
        """The changed message, a new one; None when nothing is left of it."""
        ...


# -- three kinds of dialects


class BlockDialect(ABC):
    """Calls and results are elements of one list in the message."""

    fields: frozenset[str] = frozenset()
    pairs_by_name = False
    results_are_messages = False
    is_plain_without_calls = False
    field = "content"

    @abstractmethod
    def parts(self, message: Message) -> list[Part]: ...
    @abstractmethod
    def interrupted(self, message: Message, part: Part) -> Json: ...

    def inside(self, result: Part) -> Iterable[Part]:
        return typed_parts(result.value)

    def role(self, message: Message) -> Role:
        role = ROLES.get(str(message.get("role")), "other")
        if role != "user":
            return role
        parts = self.parts(message)
        if not any(part.kind == "result" and part.placement is not None for part in parts):
            return role
        return "user" if says_something(parts) else "tool"

    def only_results(self, message: Message) -> bool:
        results = sum(part.kind == "result" and part.placement is not None for part in self.parts(message))
        return 0 < results == len(parts_of(message, self.field))

    def pick(self, message: dict[str, Json], part: Part) -> Json:
        return message[self.field][part.at]

    def gather(self, pieces: Sequence[Json]) -> list[dict[str, Json]]:
        return [{"role": "user", self.field: list(pieces)}]

    def edit(self, message: dict[str, Json], edit: Edit) -> dict[str, Json] | None:
        results = {
            part.at for part in self.parts(message) if part.kind == "result" and part.placement is not None
        }
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


class ItemDialect(ABC):
    """A tool result is a message of its own."""

    fields: frozenset[str] = frozenset()
    pairs_by_name = False
    results_are_messages = True
    is_plain_without_calls = False

    @abstractmethod
    def parts(self, message: Message) -> list[Part]: ...
    @abstractmethod
    def interrupted(self, message: Message, part: Part) -> Json: ...

    def inside(self, result: Part) -> Iterable[Part]:
        return typed_parts(result.value)

    def only_results(self, message: Message) -> bool:
        return any(part.kind == "result" and part.placement is not None for part in self.parts(message))

    def pick(self, message: dict[str, Json], part: Part) -> Json:
        return message

    def gather(self, pieces: Sequence[Json]) -> list[dict[str, Json]]:
        return list(pieces)

    def edit(self, message: dict[str, Json], edit: Edit) -> dict[str, Json] | None:
        return None if edit.drop else message


class WrappedDialect(ABC):
    """A message of another dialect stands in a field, and around it what a program knows."""

    fields: frozenset[str] = frozenset()
    is_plain_without_calls = False
    around: ClassVar[dict[str, Json]] = {}
    """What stands around a message that has to be made up."""

    def __init__(self, wrapped: BlockDialect) -> None:
        self.wrapped = wrapped
        self.pairs_by_name = wrapped.pairs_by_name
        self.results_are_messages = wrapped.results_are_messages

    @abstractmethod
    def unwrap(self, message: Message) -> dict[str, Json]:
        """The message inside; one without parts, if there is none."""

    @abstractmethod
    def wrap(self, message: dict[str, Json], inner: dict[str, Json]) -> dict[str, Json]:
        """The message with another one inside."""

    def role(self, message: Message) -> Role:
        return self.wrapped.role(self.unwrap(message))

    def parts(self, message: Message) -> list[Part]:
        return self.wrapped.parts(self.unwrap(message))

    def inside(self, result: Part) -> Iterable[Part]:
        return self.wrapped.inside(result)

    def only_results(self, message: Message) -> bool:
        return self.wrapped.only_results(self.unwrap(message))

    def pick(self, message: dict[str, Json], part: Part) -> Json:
        return self.wrapped.pick(self.unwrap(message), part)

    def interrupted(self, message: Message, part: Part) -> Json:
        return self.wrapped.interrupted(self.unwrap(message), part)

    def gather(self, pieces: Sequence[Json]) -> list[dict[str, Json]]:
        return [self.wrap(self.around, inner) for inner in self.wrapped.gather(pieces)]

    def edit(self, message: dict[str, Json], edit: Edit) -> dict[str, Json] | None:
        inner = self.unwrap(message)
        if not parts_of(inner, self.wrapped.field):
            return message  # a text alone, or nothing: there is nothing to move
        edited = self.wrapped.edit(inner, edit)
        return None if edited is None else self.wrap(message, edited)


# -- what most dialects share: content that is a text, or a list of typed parts

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


def typed_parts(content: Json) -> list[Part]:
    """The parts of a content that is a text, or a list of parts with types."""
    if isinstance(content, str):
        return [Part("text", 0, content)]
    if isinstance(content, list):
        return [typed_part(part, at) for at, part in enumerate(content)]
    return [] if content is None else [Part("other", 0, value=content)]


def typed_part(part: Json, at: int = 0) -> Part:
    """One element of such a list, as OpenAI and Anthropic write them. Calls and results are not paired."""
    if isinstance(part, str):
        return Part("text", at, part)
    kind = type_of(part)
    if kind in TEXT_TYPES and isinstance(text := part.get("text"), str):
        return Part("text", at, text)
    if kind == "tool_use" or kind.endswith("_tool_use"):
        called = Call(filled(part.get("id")), filled(part.get("name")))
        return Part("call", at, None, part.get("input"), called)
    if kind == "tool_result" or kind.endswith("_tool_result"):
        answered = Call(filled(part.get("tool_use_id")), filled(part.get("tool_name")))
        return Part("result", at, None, part.get("content"), answered, is_error=bool(part.get("is_error")))
    if kind in ("thinking", "reasoning"):
        return thought(part.get("thinking", part.get("text", part.get("reasoning"))), at)
    if kind == "redacted_thinking":
        return Part("thinking", at)
    if kind in MEDIA_TYPES:
        return Part("media", at, _text_of_document(part), part)
    if kind == "refusal" and isinstance(refusal := part.get("refusal"), str):
        return Part("text", at, refusal)
    if kind == "subtask" and isinstance(prompt := part.get("prompt"), str):
        return Part("text", at, prompt)  # OpenCode: what the user has a subagent do
    return Part("other", at, value=part)


def thought(text: Json, at: int = 0) -> Part:
    return Part("thinking", at, text if isinstance(text, str) else None)


def _text_of_document(part: Json) -> str | None:
    """Anthropic's documents may be a plain text, which is shown as one."""
    source = part.get("source")
    is_text = part.get("type") == "document" and type_of(source) == "text"
    return str(source.get("data")) if is_text else None


def says_something(parts: Iterable[Part]) -> bool:
    """Whether the one whose message it is says a word, or shows an image, a file, a recording."""
    for part in parts:
        if part.kind == "media" or (part.kind == "text" and part.speaker is None and not is_blank(part.text)):
            return True
    return False


def is_reasoning(parts: Sequence[Part]) -> bool:
    """Whether these are thoughts, and nothing that came of them."""
    found = False
    for part in parts:
        if part.kind == "thinking" and part.speaker is None:
            found = True
        elif part.kind != "text" or not is_blank(part.text):
            return False
    return found


def texts_in(content: Json) -> list[str]:
    """What is said in a content that is a text, or a list of parts with types."""
    return [part.text for part in typed_parts(content) if part.kind == "text" and part.text is not None]


# -- looking into messages whose shape is not known yet


def filled(value: Json) -> str | None:
    """The value when it is a text that says something, as an id or a name does."""
    return value if isinstance(value, str) and value else None


def type_of(part: Json) -> str:
    """The part's type; empty for anything that has none."""
    kind = part.get("type") if isinstance(part, dict) else None
    return kind if isinstance(kind, str) else ""


def parts_of(message: Message, field: str = "content") -> list[Json]:
    """The elements of a field; none when there is no list of them."""
    parts = message.get(field)
    return parts if isinstance(parts, list) else []


def is_blank(text: str | None) -> bool:
    return not text or text.isspace()
