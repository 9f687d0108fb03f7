"""What an importer must do: read a file of another program as sessions. READ THIS FIRST when you write one.

An importer is a module with the functions of `Reader`. It opens files read-only, reads them in a stream,
and decides nothing about the store: `clew.importers.landing` brings what it finds into one, once, and the
next time only what is new. Whatever a file says that has no field here goes into `metadata`, `notes`
or the message itself: nothing is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import msgspec

from clew.model import Json


class SourceUsage(msgspec.Struct, frozen=True, kw_only=True):
    """One model call, as the file tells of it. A call that several lines repeat has one id."""

    id: str
    model: str | None = None
    vendor: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost: str | None = None
    at: datetime | None = None


class SourceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One message, or one mark, in its place."""

    uid: str
    """Its name in this session: the same whenever the file is read again."""
    parent: str | None
    """The entry before it; None: it is the first. Parents come before their children."""
    message: dict[str, Json]
    """As it stands in the file, in the shape of its vendor. Of a mark: what `compact` or `set_summary`
    takes, as {"text": ...} or {"messages": [...]}."""
    kind: Literal["message", "compaction", "summary"] = "message"
    at: datetime | None = None
    usage: SourceUsage | None = None
    notes: Mapping[str, Json] = {}
    """Kept beside the message, as annotations."""


class SourceCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    entry: str | None
    """The uid of the entry that it names; None: before the first."""
    at: datetime | None = None
    state: Json = None


class SourceEvent(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    type: str
    data: Json = None
    stream: str = ""
    at: datetime | None = None


class SourceSession(msgspec.Struct, frozen=True, kw_only=True):
    """One session of a file. `entries` is read once, and before what follows it in this list."""

    id: str
    """For the store, such as "claude-code:0b1c…": the same whenever the file is read again."""
    entries: Iterable[SourceEntry]
    head: Callable[[], str | None] = lambda: None
    """Asked after the entries were read: the uid at which the program itself would go on; None: at the
    last entry."""
    title: str | None = None
    workspace: str | None = None
    model: str | None = None
    vendor: str | None = None
    created_at: datetime | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Json] = {}
    aliases: tuple[str, ...] = ()
    parent: str | None = None
    """The id of the session that this one is a subagent, or a copy, of."""
    checkpoints: Callable[[], Iterable[SourceCheckpoint]] = lambda: ()
    """Asked after the entries were read, as are those below."""
    events: Callable[[], Iterable[SourceEvent]] = lambda: ()
    usage: Callable[[], Iterable[SourceUsage]] = lambda: ()
    """Calls that belong to no entry."""
    vars: Callable[[], Mapping[str, Json]] = dict


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something in a file that could not be read; the rest was."""

    path: str
    line: int | None
    """From 1 on."""
    reason: str


OnProblem: TypeAlias = Callable[[Problem], None]
OnBytes: TypeAlias = Callable[[int], None]
"""Told how many more bytes were read."""


class Reader(Protocol):
    """A module of clew.importers."""

    NAME: str
    """As in `format=`, such as "claude-code"."""

    def recognises(self, path: Path, beginning: bytes) -> bool:
        """Whether a file (or directory: then `beginning` is empty) is of this format, by its content."""

    def known_places(self, home: Path) -> list[Path]:
        """Files and directories where the program keeps its sessions, whether or not they are there."""

    def files(self, path: Path) -> list[Path]:
        """The files to read at a path: itself, or those in a directory, oldest first."""

    def read(self, path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
        """The sessions of one file, parents first."""
