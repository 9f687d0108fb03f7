"""What an importer must do: read a file of another program as sessions. READ THIS FIRST when you write one.

An importer is a module with the functions of `Reader`. It opens files read-only, reads them in a stream,
and decides nothing about the store: `clew.importers.run` brings what it finds into one, once, and the
next time only what is new. Whatever a file says that has no field here goes into `metadata`, `notes`
or the message itself: nothing is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from clew.model.source import (
    Problem,
    SourceCheckpoint,
    SourceEntry,
    SourceEvent,
    SourceRun,
    SourceSession,
    SourceUsage,
)

__all__ = [
    "NotFollowedError",
    "OnBytes",
    "OnProblem",
    "Place",
    "Problem",
    "Reader",
    "SourceCheckpoint",
    "SourceEntry",
    "SourceEvent",
    "SourceRun",
    "SourceSession",
    "SourceUsage",
]

OnProblem: TypeAlias = Callable[[Problem], None]
OnBytes: TypeAlias = Callable[[int], None]
"""Told how many more bytes were read."""


class Place(msgspec.Struct, frozen=True):
    """Where a reader stopped in a file, and what it needs to go on from there."""

    offset: int
    """In bytes: always just behind an end of line. 0 where it means nothing, as in a database."""
    lines: int
    """How many lines lie before it."""
    state: bytes = b""
    """The reader's own: small, whatever the size of the file, and of nothing but what stands before the
    place. The ledger forgets it when the revision of the reader changes (`REVISIONS`)."""


class NotFollowedError(Exception):
    """What comes after a place needs all that stands before it to be understood: read the whole file."""


class Reader(Protocol):
    """A module of clew.importers."""

    NAME: str
    """As in `format=`, such as "claude-code". A module may also have

    CALLS_HAVE_ONE_ID = True: the ids of its calls mean the same in all its files;
    KNOWS_FOLDERS = True: `recognises` knows directories as a whole, too;
    IS_TEXT = True: its files are neither JSON nor SQLite;
    END_WAITS = True: `follow` leaves out a last message that may be written again; an import takes it by
    `read`, as nobody may ever ask for it again;
    in_order(files): files in the order in which to read them, if only their content tells;
    informs(path): files whose sessions this one tells of: they are read again when this one has changed;
    listed(path, key): what a list that many sessions share says of one of them, see `entry_of`;
    follow(path, place, on_problem, on_bytes): like `read`, but only what stands behind the place (None: all
    of it), and never a last line that has no end yet. It yields sessions, and last of all the new `Place`,
    or none if the file cannot be followed. What it yields behind a place has the same ids, uids and numbers
    of lines as a read of the whole file would give. No name tells where something stands: a log can
    lose lines that were read, and grow otherwise. NotFollowedError: it takes the whole file.

    An unchanged file is not read again. What `clew.importers.reading` opens for a reader counts as part of
    the file; whatever else it looks at, it notes with the functions of `clew.importers.reading.seen`.
    """

    def recognises(self, path: Path, beginning: bytes) -> bool:
        """Whether a file (or directory, see KNOWS_FOLDERS) is of this format, by its content. `beginning` is
        empty for a directory."""

    def known_places(self, home: Path) -> list[Path]:
        """Files and directories where the program keeps its sessions, whether or not they are there."""

    def files(self, path: Path) -> list[Path]:
        """The files to read at a path: itself, or those in a directory, oldest first as far as their names
        tell. No file is opened. What is no file, as a pipe, is passed over."""

    def read(self, path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
        """The sessions of one file, parents first."""
