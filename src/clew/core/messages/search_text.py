"""What of a message is searched, and the rows in which storage keeps it.

Apart from `words.py`, whose expressions take 6 ms to compile: every backend imports these rows, and needs no
words before the first search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from clew.core.log.records import Integer
from clew.core.log.rows import NOT_HUMAN
from clew.core.messages.dialects import Dialect, Part, Role, dialect_of, said_in, speaker_of, text_of
from clew.core.messages.dialects.base import type_of
from clew.model import Json

if TYPE_CHECKING:
    from clew.core.messages.words import Query


class TextPlace(NamedTuple):
    """Where a text stands. They compare in the order of their time."""

    time: int
    branch: int
    position: int


class TextRow(msgspec.Struct, frozen=True, gc=False):
    """The text of one entry, as `searched_text` finds it."""

    place: TextPlace
    role: int
    said: str
    tool: str


class TextQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which texts to find: newest first."""

    query: Query
    limit: int
    tools: bool = False
    """Look at what tools were asked and answered, too."""
    role: int | None = None
    branches: frozenset[int] | None = None
    """Only on these."""
    since: int | None = None
    until: int | None = None
    """since <= time < until; a few more from just outside may come."""
    before: TextPlace | None = None
    """Only those behind this one in the order of the answer."""


class SearchTerm(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A word or phrase to look for; see `Term` in words.py."""

    words: Annotated[tuple[Annotated[str, Meta(max_length=512)], ...], Meta(max_length=10_000)]
    prefix: bool


Terms: TypeAlias = Annotated[tuple[SearchTerm, ...], Meta(max_length=256)]


class PageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A whole search, as it can be sent to where the store is."""

    wanted: Terms
    unwanted: Terms = ()
    limit: Annotated[int, Meta(ge=1, le=1000)]
    order: Literal["newest", "best"] = "newest"
    tools: bool = False
    role: Annotated[int, Meta(ge=0, le=16)] | None = None
    sessions: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    workspace: str | None = None
    project: str | None = None
    tags: tuple[str, ...] = ()
    where: tuple[tuple[str, str], ...] = ()
    since: Integer | None = None
    until: Integer | None = None
    cursor: Annotated[str, Meta(max_length=4096)] | None = None


# -- what was said, and, apart from it, what tools were asked and answered

ROLES: Final[tuple[Role, ...]] = ("user", "assistant", "tool", "system", "other")
"""In storage a role is its number here."""

_NOT_TEXT: Final = frozenset(
    {
        "id", "type", "role", "tool_call_id", "tool_use_id", "call_id", "tool_id", "status", "signature",
        "thoughtSignature", "thought_signature", "encrypted_content", "mimeType", "mime_type", "media_type",
        "cache_control", "is_error", "index",
    }
)  # fmt: skip
_MEDIA: Final = frozenset({"inlineData", "inline_data", "source", "image_url", "input_audio", "file_data"})
_CALL_FIELDS: Final = ("tool_calls", "function_call")
_DEEPEST: Final = 40


class Searched(NamedTuple):
    """The text of a message. Reasoning, ids and media are in neither part."""

    role: int
    said: str
    tool: str


def searched_text(message: dict[str, Json], flags: int) -> Searched:
    """What a message can be found by. `flags`: those of its entry. No shape is too odd: nothing here
    raises."""
    role = speaker_of(message, injected=bool(flags & NOT_HUMAN))
    number = ROLES.index(role)
    if role != "tool" and type(message.get("content")) is str and not any(map(message.get, _CALL_FIELDS)):
        return Searched(number, text_of(message), "")
    dialect = dialect_of(message)
    parts = dialect.parts(message)
    said = "" if role == "tool" else said_in(parts)
    return Searched(number, said, "\n".join(_tool_texts(dialect, parts, is_tool=role == "tool")))


def _tool_texts(dialect: Dialect, parts: Iterable[Part], *, is_tool: bool) -> Iterator[str]:
    """The names of tools, what they were asked, what they answered."""
    for part in parts:
        if part.call is None:
            if is_tool and part.kind == "text":
                yield part.text or ""
            continue
        if part.call.name:
            yield part.call.name
        if part.kind == "result" and isinstance(part.value, list):
            yield from _answered(dialect.inside(part))
        else:
            yield from _strings(part.value, 0)


def _answered(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        if part.kind == "text" or part.kind == "media":
            yield part.text or ""
        elif part.kind != "thinking":
            yield from _strings(part.value, 0)


def _strings(value: Json, depth: int) -> Iterator[str]:
    """Every text in a value."""
    if isinstance(value, str):
        yield value
    elif depth > _DEEPEST:
        return
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each, depth + 1)
    elif isinstance(value, dict) and type_of(value) not in ("thinking", "redacted_thinking", "reasoning"):
        for name, each in value.items():
            if name not in _NOT_TEXT and name not in _MEDIA:
                yield from _strings(each, depth + 1)
