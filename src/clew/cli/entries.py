"""What an entry says, in one line or whole: who speaks, and its pieces as text."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import msgspec

import clew
from clew.core.messages.dialects import role_of
from clew.exporters.blocks import Block, blocks_of
from clew.model import Json

Kind = Literal["text", "thinking", "call", "result", "media", "data"]
SHORT: Final = 120
RANKED: Final[tuple[tuple[Kind, ...], ...]] = (("text",), ("call",), ("result", "media", "thinking", "data"))


class Piece(NamedTuple):
    kind: Kind
    text: str


def who(entry: clew.Entry) -> str:
    """The role of a message; of a mark its kind; of what no person said under the user's name: injected."""
    if entry.kind != "message":
        return entry.kind
    if entry.injected:
        return "injected"
    message = entry.message
    role = role_of(message)
    return role if role != "other" else str(message.get("role") or message.get("type") or "other")


def pieces(entry: clew.Entry) -> list[Piece]:
    """Everything that an entry says, in order."""
    if entry.kind == "removed":
        return [Piece("text", "(removed by a retention rule)")]
    if entry.kind == "message":
        return [Piece(block.kind, _text(block)) for block in blocks_of(entry.message)]
    return [Piece("text", text) for text in _mark(entry.message)]


def first_words(entry: clew.Entry) -> str:
    """One line: what was said, else which tools were called, else what they gave."""
    found = pieces(entry)
    for kinds in RANKED:
        said = " ".join(f"→ {text}" if kind == "call" else text for kind, text in found if kind in kinds)
        if said.strip():
            return said
    return ""


def _text(block: Block) -> str:
    if block.kind == "call":
        return f"{block.name or 'call'} {_compact(block)}".rstrip()
    if block.kind == "media":
        return f"[{block.media.type or block.text if block.media else block.text}]"
    return block.text


def _compact(block: Block) -> str:
    """Arguments on one line if they are short."""
    if not block.is_json or len(block.text) > SHORT:
        return block.text
    return msgspec.json.format(block.text, indent=0)


def _mark(content: dict[str, Json]) -> list[str]:
    """The texts of a compaction or a summary; other marks say nothing but that they are there."""
    found = []
    for value in content.values():
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, list):
            said = (
                block.text for message in value if isinstance(message, dict) for block in blocks_of(message)
            )
            found += said
    return [text for text in found if text.strip()]
