"""The values of export and import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from clew.model.source import LoadState, Problem

ExportFormat: TypeAlias = Literal[
    "jsonl", "json", "markdown", "html", "picoclaw", "ggcode", "tingly", "ductwork"
]
ImportFormat: TypeAlias = str
"""The name of an importer, such as "claude-code"; `clew.importers.READERS` has all."""


class ImportedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was found in a file."""

    id: str
    """Of the session in the store."""
    source: str
    """The file."""
    state: LoadState
    messages: int
    """On its path."""
    format: str = "jsonl"
    entries: int = 0
    """Added, on whatever branch."""
    parent: str | None = None
    """The session that it is a subagent, or a copy, of."""


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an import brought into the store, or would bring."""

    sessions: tuple[ImportedSession, ...]
    dry_run: bool
    problems: tuple[Problem, ...] = ()
    """What could not be read, with its place; all else was."""
    left_out: tuple[str, ...] = ()
    """Files and directories of which something that looks like a session was not taken, each once; `problems`
    says why."""
    files: int = 1
    """That were read."""
    bytes: int = 0
    """Of them."""

    @property
    def ok(self) -> bool:
        """All could be read."""
        return not self.problems

    @property
    def new(self) -> int:
        """Sessions that the store did not have."""
        return sum(session.state == "new" for session in self.sessions)

    @property
    def grown(self) -> int:
        """Sessions to which something was added."""
        return sum(session.state == "grown" for session in self.sessions)

    @property
    def unchanged(self) -> int:
        """Sessions to which nothing was added."""
        return len(self.sessions) - self.new - self.grown

    @property
    def entries(self) -> int:
        """Added in all."""
        return sum(session.entries for session in self.sessions)


class ImportProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far an import is."""

    path: str
    """The file that is read."""
    files: int
    """Read so far,"""
    all_files: int
    """of so many."""
    bytes: int
    all_bytes: int
    """Of the files on disk; one that is compressed has more in it."""


OnImportProgress: TypeAlias = Callable[[ImportProgress], None]


class FoundPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A place on this machine where a program keeps sessions."""

    format: str
    path: str
    files: int
    bytes: int
