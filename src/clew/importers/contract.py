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

from clew.model.source import Problem, SourceCheckpoint, SourceEntry, SourceEvent, SourceSession, SourceUsage

__all__ = [
    "OnBytes",
    "OnProblem",
    "Problem",
    "Reader",
    "SourceCheckpoint",
    "SourceEntry",
    "SourceEvent",
    "SourceSession",
    "SourceUsage",
]

OnProblem: TypeAlias = Callable[[Problem], None]
OnBytes: TypeAlias = Callable[[int], None]
"""Told how many more bytes were read."""


class Reader(Protocol):
    """A module of clew.importers."""

    NAME: str
    """As in `format=`, such as "claude-code". A module may also have

    CALLS_HAVE_ONE_ID = True: the ids of its calls mean the same in all its files;
    KNOWS_FOLDERS = True: `recognises` knows directories as a whole, too;
    IS_TEXT = True: its files are neither JSON nor SQLite;
    in_order(files): files in the order in which to read them, if only their content tells;
    informs(path): files whose sessions this one tells of: they are read again when this one has changed;
    listed(path, key): what a list that many sessions share says of one of them, see `entry_of`.

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
