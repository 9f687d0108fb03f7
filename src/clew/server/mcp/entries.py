"""What entries say, as texts: tool calls in one line with what they came to, or whole, or not at all."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from clew.core.messages.dialects import speaker_of, text_of
from clew.errors import CorruptEntryError
from clew.exporters.blocks import Block, blocks_shown
from clew.exporters.tools.output import decoded
from clew.exporters.tools.summary import summary
from clew.model import Entry, Message, SessionInfo
from clew.server.mcp.budget import cut
from clew.server.mcp.places import place_in
from clew.server.mcp.text import SECRET, Text

Role: TypeAlias = Literal["user", "assistant", "tool", "system", "other"]
Tools: TypeAlias = Literal["fold", "full", "none"]

MOST_HEARD: Final = 200_000
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
                text = block.text[: MOST_HEARD + SECRET]
                self._results[block.call] = msgspec.structs.replace(block, text=text)

    def tell(self, entry: Entry, most: int) -> ShownEntry:
        """An entry with so many characters of its text."""
        told: list[str] = []
        room, is_cut = most, False
        for block in _blocks(entry):
            if room < 0:
                is_cut = True
                break
            text, is_part = self._told(block, room)
            if text:
                told.append(text)
                room -= len(text) + 1
            is_cut = is_cut or is_part
        text, is_longer = cut("\n".join(told), most)
        return ShownEntry(
            place=place_in(self._info.id, entry.id),
            role=role_of(entry),
            origin=self._text.title(self._info.agent),
            at=entry.time.isoformat(timespec="seconds"),
            text=text,
            truncated=is_cut or is_longer,
        )

    def _told(self, block: Block, most: int) -> tuple[str, bool]:
        match block.kind:
            case "thinking":
                return "", False
            case "call":
                return self._call(block, most)
            case "result":
                return ("", False) if self._tools == "none" else self._text.part(block.text, most)
            case "media":
                kind = block.media.type if block.media is not None else ""
                return f"[{self._text.line(kind or 'media')} {self._text.line(block.text)}]", False
            case _:
                return self._text.part(block.text, most)

    def _call(self, block: Block, most: int) -> tuple[str, bool]:
        if self._tools == "none":
            return "", False
        if self._tools == "full":
            given, is_cut = self._text.part(block.text, most)
            return f"[call {self._text.line(block.name or 'a tool')}] {given}", is_cut
        result = None if block.call is None else self._results.get(block.call)
        line = summary(
            None if block.name is None else self._text.clean(block.name),
            self._text.value(decoded(block.value)),
            None if result is None else self._text.clean(result.text)[:MOST_HEARD],
            is_error=result is not None and result.is_error,
            workspace=self._info.workspace,
        )
        return f"[tool] {self._text.line(line, 300)}", False


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
    said = [message.get("text"), *(text_of(one) for one in _inner(message))]
    return [
        Block(
            kind="text", text="\n".join([f"[{entry.kind}]", *(one for one in said if isinstance(one, str))])
        )
    ]


def _inner(message: Message) -> list[Message]:
    """The messages that a compaction puts in the place of those before it."""
    found = message.get("messages")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
