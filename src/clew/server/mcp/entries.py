"""What entries say, as texts: tool calls in one line with what they came to, or whole, or not at all."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from clew.core.messages.dialects import speaker_of
from clew.errors import CorruptEntryError
from clew.exporters.blocks import Block, blocks_shown
from clew.exporters.tools.summary import summary
from clew.model import Entry, SessionInfo
from clew.server.mcp.text import Text
from clew.server.mcp.view import place_in

Role: TypeAlias = Literal["user", "assistant", "tool", "system", "other"]
Tools: TypeAlias = Literal["fold", "full", "none"]

MOST_HEARD: Final = 20_000
"""Letters of a result that are looked at to say in a line what it came to."""


class ShownEntry(msgspec.Struct, kw_only=True):
    """One entry of a session. All of it but `place`, `role` and `at` is recorded text."""

    place: str
    role: str
    origin: str | None
    at: str
    text: str
    truncated: bool


class Teller:
    """Tells the entries of one session."""

    def __init__(self, info: SessionInfo, text: Text, tools: Tools) -> None:
        self._info = info
        self._text = text
        self._tools = tools
        self._results: dict[str, Block] = {}

    def hear(self, entry: Entry) -> None:
        """Remember the results in an entry, for the lines of the calls that they answer."""
        if self._tools != "fold":
            return
        for block in _blocks(entry):
            if block.kind == "result" and block.call is not None:
                self._results[block.call] = msgspec.structs.replace(block, text=block.text[:MOST_HEARD])

    def tell(self, entry: Entry, most: int) -> ShownEntry:
        """An entry with so many characters of its text."""
        text, is_cut = "\n".join(filter(None, map(self._told, _blocks(entry)))), False
        if len(text) > most:
            text, is_cut = text[:most], True
        return ShownEntry(
            place=place_in(self._info.id, entry.id),
            role=role_of(entry),
            origin=self._text.title(self._info.agent),
            at=entry.time.isoformat(timespec="seconds"),
            text=text,
            truncated=is_cut,
        )

    def _told(self, block: Block) -> str:
        match block.kind:
            case "thinking":
                return ""
            case "call":
                return self._call(block)
            case "result":
                return "" if self._tools == "none" else self._text.clean(block.text)
            case "media":
                kind = block.media.type if block.media is not None else ""
                return f"[{self._text.line(kind or 'media')} {self._text.line(block.text)}]"
            case _:
                return self._text.clean(block.text)

    def _call(self, block: Block) -> str:
        name = self._text.line(block.name or "a tool")
        if self._tools == "none":
            return ""
        if self._tools == "full":
            return f"[call {name}] {self._text.clean(block.text)}"
        result = None if block.call is None else self._results.get(block.call)
        line = summary(
            block.name,
            self._text.value(block.value),
            None if result is None else self._text.value(result.text),
            is_error=result is not None and result.is_error,
            workspace=self._info.workspace,
        )
        return f"[tool] {self._text.line(line, 300)}"


def role_of(entry: Entry) -> Role:
    """Who speaks. Marks, such as compactions, are `other`."""
    if entry.kind != "message":
        return "other"
    try:
        return speaker_of(entry.message, injected=entry.injected)
    except CorruptEntryError:
        return "other"


def _blocks(entry: Entry) -> list[Block]:
    """What cannot be read says so."""
    try:
        if entry.kind == "message":
            return blocks_shown(entry)
        message = entry.message
    except CorruptEntryError as damage:
        return [Block(kind="data", text=f"[cannot be read: {damage.reason}]")]
    said = message.get("summary", message.get("text"))
    return [Block(kind="text", text=f"[{entry.kind}]" + (f" {said}" if isinstance(said, str) else ""))]
