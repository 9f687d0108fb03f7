"""What an importer reads out of a file: a session of another program, on its way into a store.

`clew.importers.contract` says how they are made; `Store.load` takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from clew.model.session import Json

LoadState: TypeAlias = Literal["new", "grown", "unchanged", "trashed"]
"""Unchanged: all of it was there already. Trashed: it was deleted here, and stays so."""


class SourceLine(msgspec.Struct, frozen=True, gc=False):
    """A line of a file: nothing but JSON values, save that a text may hold a lone surrogate."""

    number: int
    """From 1 on."""
    offset: int
    """Where it begins, in the file as it reads uncompressed."""
    record: dict[str, Json]
    raw: bytes = b""
    """As it stands in the file, without its end of line. Empty: it had to be mended."""


class SourceEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    id: str
    type: str
    data: Json = None
    stream: str = ""
    at: datetime | None = None
    line: SourceLine | None = None
    """As for an entry."""
    formerly: str | None = None
    """As for an entry."""


class SourceUsage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One model call, as the file records it. A call that several lines repeat has one id."""

    id: str
    model: str | None = None
    vendor: str | None = None
    endpoint: str | None = None
    source: str | None = None
    """Who called: an agent, a summariser, a tool."""
    input_tokens: int = 0
    """The whole prompt: what was read from a cache or written to one is part of it."""
    output_tokens: int = 0
    """The whole answer, with its reasoning."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_1h_tokens: int = 0
    """Of those written to a cache, those that stay there for an hour: they cost more. Not kept."""
    mode: Literal["batch", "fast", "flex", "priority"] | None = None
    """How the vendor served it, where that has a price of its own. Not kept."""
    cost: str | None = None
    """In dollars; None or 0: the file does not tell. Then it is estimated, if the price list knows it."""
    at: datetime | None = None
    formerly: str | None = None
    """As for an entry."""
    is_sum: bool = False
    """No call, but the sum of some: no price list tells what it cost, as prices depend on each call."""


class SourceEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One message, or one mark, in its place."""

    uid: str
    """Its name in this session: the same whenever the file is read again."""
    parent: str | None
    """The entry before it; None: it is the first. Parents come before their children."""
    message: dict[str, Json]
    """As it stands in the file, in the shape of its vendor. Of a mark: what `compact` or `set_summary`
    takes, as {"text": ...} or {"messages": [...]}; of a compaction also "tokens", and "from", the uid of
    the first entry before it that stays in the model's view."""
    kind: Literal["message", "compaction", "summary"] = "message"
    at: datetime | None = None
    usage: SourceUsage | None = None
    notes: Mapping[str, Json] = {}
    """Kept beside the message, as annotations."""
    human: bool | None = None
    """False: no person wrote it, though it has the shape of a user's message; the entry is `injected`. None:
    its shape tells."""
    decoded: bool = False
    """The reader's word that its message, its notes and the data of its events hold nothing but what a
    decoder of JSON gave: then they are not looked through again."""
    events: tuple[SourceEvent, ...] = ()
    """What the file tells beside the conversation, between the entry before and this one: so no reader has
    to keep them all."""
    line: SourceLine | None = None
    """The line that it stands in, if it has one of its own: with it the file can be written again, byte for
    byte."""
    formerly: str | None = None
    """The name that earlier versions gave it. What the store has under that name is the same one only if it
    also says the same in the same place."""


class SourceCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    entry: str | None
    """The uid of the entry that it names; None: before the first."""
    at: datetime | None = None
    state: Json = None
    files: Mapping[str, str | bytes | None] = {}
    """Files that the program kept: their paths below the workspace, and for each its content, or as text the
    place of a copy; None: it was not there. The state must be an object then. `clew.importers.run` makes a
    snapshot."""
    is_complete: bool = False
    """Whether `files` has all files that there were: then no files is worth a snapshot too."""
    snapshot: str | None = None
    """The id of a snapshot of this store that becomes the checkpoint's: one of no directory, so that
    the caller who restores it says where."""
    moves: bool = False
    """If the name is in use for another place, and was given earlier than `at`: it moves here."""


class SourceRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a program says of the work in a session: its status, and from where it can go on."""

    status: Literal["pending", "running", "completed", "failed", "interrupted", "expired", "closed"]
    task: str | None = None
    request: Json = None
    response: Json = None
    error: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    checkpoint: str | None = None
    """The name of the one from which the work goes on: `resume()` finds it."""
    iteration: int | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    model: str | None = None
    system_prompt: Json = None


class SourceSession(msgspec.Struct, frozen=True, kw_only=True):
    """One session of a file. `entries` is read once, and before what follows it in this list."""

    id: str
    """For the store, such as "claude-code:0b1c…": the same whenever the file is read again."""
    entries: Iterable[SourceEntry]
    head: Callable[[], str | None] = lambda: None
    """Asked after the entries were read: the uid at which the program itself would go on; None: at the
    last entry; "": before the first."""
    title: str | None = None
    workspace: str | None = None
    model: str | None = None
    vendor: str | None = None
    endpoint: str | None = None
    created_at: datetime | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Json] = {}
    aliases: tuple[str, ...] = ()
    """Names that lead to it too: the program's own id. One that another session has stays there."""
    parent: str | None = None
    """The id of the session that this one is a subagent of; or, with `is_copy`, a fork of."""
    is_copy: bool = False
    """The program forked it: it is a session in its own right, not a subagent."""
    copies: tuple[str, ...] = ()
    """The ids of sessions that have some of the same messages: the program copied one to go on with it."""
    shares_calls: bool = True
    """A call that the parent or one of the copies has counted under the same id is the same call, and is not
    counted again. False: ids of calls mean something in their own session only."""
    checkpoints: Callable[[], Iterable[SourceCheckpoint]] = lambda: ()
    """Asked after the entries were read, as are those below."""
    events: Callable[[], Iterable[SourceEvent]] = lambda: ()
    usage: Callable[[], Iterable[SourceUsage]] = lambda: ()
    """Calls that belong to no entry."""
    vars: Callable[[], Mapping[str, Json]] = dict
    run: Callable[[], SourceRun | None] = lambda: None
    """None: the program says nothing of it. Then a conversation that ends with an answer is completed."""
    turn: Callable[[], Literal["", "open", "ended"] | None] = lambda: None
    """Whether the program has something to do, or waits for a word of its user, as the last record says that
    tells of it; "": it is not sure; None: no record tells of it."""
    updates: Callable[[], Mapping[str, Json]] = dict
    """What only the end of the file says: title, workspace, model, vendor, endpoint, tags, aliases,
    expires_at (a datetime, or "never"), and metadata, which is added to the one above."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something in a file that could not be read; the rest was."""

    path: str
    line: int | None
    """From 1 on."""
    reason: str


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a session of a source, or would."""

    id: str
    """In the store."""
    state: LoadState
    entries: int
    """Added, on whatever branch."""
    messages: int
    """On its path; of a dry run: in the source."""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    """None: nothing in it has a time."""
