"""Entries on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from clew.core.log.ids import MAX_POSITION
from clew.model import ContextReport, EntryKind, Head, Json, OutlineItem

View: TypeAlias = Literal["raw", "blocks", "html", "line"]
"""How entries are given: the messages as they are stored, blocks for people to read, one piece of HTML, or
one line of text."""

Speaker: TypeAlias = Literal["user", "assistant", "tool", "system", "other", "mark"]
BlockKind: TypeAlias = Literal["text", "thinking", "call", "result", "media", "data"]
PageSize: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=200)]
ManyMessages: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1000)]
GivenMessage: TypeAlias = Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "object"})]
"""The JSON text of an object, as it came."""


class ToolLine(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call in one line, as `Edit auth.py +3 −1`."""

    text: str
    """All of it."""
    verb: str
    subject: str
    outcome: str
    failed: bool
    family: str
    """`shell`, `read`, `write`, `edit`, `search`, `agent`, `plan`, `web`; empty: any other tool."""


class MediaView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An image or a file inside a message."""

    type: str
    """As `image/png`; empty when the message does not say."""
    name: str
    bytes: int | None = None
    data: str | None = None
    """In base64, if it is small."""
    link: str | None = None
    """Where to get it, if it is not small, or is a PDF."""
    url: str | None = None
    """Where it lies, if it lies elsewhere. A page should not load it without being asked."""


class BlockView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a message, for people to read."""

    kind: BlockKind
    text: str = ""
    """Of a call: its arguments; of media: a name."""
    name: str | None = None
    """Of a call or a result: the tool."""
    call: str | None = None
    """What a call and its result have in common."""
    is_error: bool = False
    is_json: bool = False
    media: MediaView | None = None
    line: ToolLine | None = None
    """Of a call, and of a result whose call is known: what it did. That of the result knows the outcome."""
    html: str = ""
    """The same for a page: only known tags and attributes, nothing that acts or loads."""


class LargeBody(msgspec.Struct, frozen=True, kw_only=True):
    """Where to get a message that is too large for a page."""

    link: str
    bytes: int


class EntryView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry: a message, or a mark such as a compaction. What it holds depends on `view`."""

    id: str
    position: int
    kind: EntryKind
    at: datetime
    hash: str
    """Names this entry and all that came before it."""
    replaced: bool = False
    """Lone surrogates were replaced when it was stored."""
    injected: bool = False
    """It has the shape of a user's message, but a program wrote it."""
    redacted: int = 0
    """So many secrets were replaced before it was stored."""
    epoch: int = 0
    """Of the lease under which it was written."""
    annotations: dict[str, Json] | msgspec.UnsetType = msgspec.UNSET
    message: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """`view=raw`: the message as it is stored, byte for byte; of a mark: its content."""
    speaker: Speaker | msgspec.UnsetType = msgspec.UNSET
    prompt: str | msgspec.UnsetType = msgspec.UNSET
    """What a person says in it, without what an agent put around it."""
    blocks: tuple[BlockView, ...] | msgspec.UnsetType = msgspec.UNSET
    """`view=blocks`."""
    html: str | msgspec.UnsetType = msgspec.UNSET
    """`view=html`: one piece, for a page."""
    line: str | msgspec.UnsetType = msgspec.UNSET
    """`view=line`."""
    large: LargeBody | msgspec.UnsetType = msgspec.UNSET
    """Instead of all these, if the message is too large for a page."""


class DamagedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that cannot be read."""

    position: int
    reason: str


class EntryPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some entries of a path."""

    data: list[EntryView]
    cursor: str | None
    """Pass it as `cursor`, with the other parameters as they were, for the next page; null: this was the
    last."""
    head: Head
    """Where the path ends."""
    damaged: list[DamagedEntry] = []
    """Entries that would be on this page, but cannot be read."""


class EntriesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entries, and how. A point is a position, the name of a checkpoint or the id of an entry."""

    before: str | None = None
    """Only those before this point."""
    after: str | None = None
    """Only those after this point."""
    at: str | None = None
    """On the path to this point of the tree, not on that to the head."""
    last: PageSize | None = None
    """The last so many, in their order; the next page has those before them."""
    limit: PageSize = 50
    label: str | None = None
    """Only those with this label."""
    newest_first: bool = False
    damaged: Literal["skip", "raise"] = "skip"
    """`skip`: leave out entries that cannot be read, and name them in `damaged`; `raise`: an error."""
    view: View = "raw"
    large: bool = False
    """Give large messages too, instead of links to them."""
    cursor: str | None = None


class EntryQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to give one entry."""

    view: View = "raw"


class MessagesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which messages. Points as for entries."""

    before: str | None = None
    after: str | None = None
    at: str | None = None
    last: ManyMessages | None = None
    """The last so many, in their order; the next page has those before them."""
    limit: ManyMessages = 200
    newest_first: bool = False
    cursor: str | None = None


class MessagePage(msgspec.Struct, frozen=True, kw_only=True):
    """Messages as they were appended, without the marks between them."""

    data: list[GivenMessage]
    cursor: str | None


class ContextQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The budget of a model."""

    max_messages: Annotated[int, msgspec.Meta(ge=0)] | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """By an estimate of Clew's own."""
    at: str | None = None
    """The context that the session would have if it stood at this point."""
    repair: bool = True
    """false: the messages as they are stored, also calls without results, and results without calls."""


class ContextView(msgspec.Struct, frozen=True, kw_only=True):
    """The messages for a model, and what was left out or repaired."""

    data: list[dict[str, Any]]
    report: ContextReport


class NewEntries(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages to append, all of them or none."""

    messages: Annotated[list[GivenMessage], msgspec.Meta(min_length=1)]
    """JSON objects of any shape; each is kept byte for byte."""
    strict: bool = False
    """Refuse lone surrogates instead of replacing them."""
    at: datetime | None = None
    """When they were said, with a time zone; null: now."""


class EntryMark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry that was written, without what it says."""

    id: str
    position: int
    kind: EntryKind
    at: datetime
    hash: str
    replaced: bool = False
    redacted: int = 0


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """One entry for each message, and where the session stands behind them."""

    data: list[EntryMark]
    head: Head


class SummaryView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The summary of a conversation so far."""

    summary: str | None


class AnnotationsView(msgspec.Struct, frozen=True, kw_only=True):
    """What stands beside an entry."""

    id: str
    annotations: dict[str, Json]


class OutlineQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of which path."""

    at: str | None = None
    """Of the path to this point of the tree, not of that to the head."""
    after: Annotated[int, msgspec.Meta(ge=-1, le=MAX_POSITION)] | None = None
    """Only what lies behind this position: for one who has the lines before."""


class OutlineView(msgspec.Struct, frozen=True, kw_only=True):
    """The places of a path that are worth going to, in their order."""

    data: list[OutlineItem]
    entries: int
    """How many entries the whole path has."""
    head: Head
    """Where it ends."""
