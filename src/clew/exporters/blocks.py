"""A message as blocks for people to read: what was said, thought, called, answered and shown.

Nothing of a message is passed over in silence: what its dialect does not know is shown as its JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import msgspec

from clew.core.messages.dialects import Dialect, Part, dialect_of
from clew.core.messages.dialects.base import is_blank
from clew.exporters.media import Media, media_in
from clew.model import Json, Message

BlockKind: TypeAlias = Literal["text", "thinking", "call", "result", "media", "data"]

SEALED: Final = "(sealed by the provider)"
"""Instead of reasoning that only its provider can read."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    kind: BlockKind
    text: str = ""
    """Of a call: its arguments; of media: a name, if there is one."""
    name: str | None = None
    """Of a call or a result: the tool."""
    call: str | None = None
    """What a call and its result have in common."""
    is_error: bool = False
    is_json: bool = False
    media: Media | None = None


def blocks_of(message: Message) -> list[Block]:
    """In the order in which they stand in the message; without those that say nothing."""
    dialect = dialect_of(message)
    found: list[Block] = []
    for part in dialect.parts(message):
        found += _shown(dialect, part)
    return found


def _shown(dialect: Dialect, part: Part) -> Iterable[Block]:
    kind, text = part.kind, part.text
    if kind == "text":
        return () if text is None or is_blank(text) else (Block(kind="text", text=text),)
    if kind == "call":
        return (_tool(part, "call", *_as_text(part.value)),)
    if kind == "result":
        return _result(dialect, part)
    if kind == "thinking" and part.value is None:
        shown = SEALED if text is None else text
        return () if is_blank(shown) else (Block(kind="thinking", text=shown),)
    if kind == "media" and text is None and (media := media_in(part.value)) is not None:
        return (Block(kind="media", text=media.name, media=media),)
    return (_data(part.value) if text is None else Block(kind="data", text=text),)


def _result(dialect: Dialect, part: Part) -> Iterable[Block]:
    if not isinstance(part.value, list):
        return (_tool(part, "result", *_as_text(part.value)),)
    inside = [block for each in dialect.inside(part) for block in _shown(dialect, each)]
    text = "\n".join(block.text for block in inside if block.kind != "media")
    return (_tool(part, "result", text, False), *(block for block in inside if block.kind == "media"))


def _tool(part: Part, kind: BlockKind, text: str, is_json: bool) -> Block:
    name, key = (part.call.name, part.call.id) if part.call else (None, None)
    return Block(kind=kind, name=name, text=text, is_json=is_json, call=key, is_error=part.is_error)


def _as_text(value: Json) -> tuple[str, bool]:
    """A value as a text, indented if it is JSON, and whether it is."""
    if value is None:
        return "", False
    if not isinstance(value, str):
        return _indented(value), True
    if value[:1] in "{[" and len(value) < 1_000_000:
        try:
            return _indented(msgspec.json.decode(value)), True
        except msgspec.DecodeError:
            pass
    return value, False


def _data(value: Json) -> Block:
    return Block(kind="data", text=_indented(value), is_json=True)


def _indented(value: Json) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
