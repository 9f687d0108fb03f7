"""Reports of copying, backing up, repairing, verifying, importing and exporting."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from clew.model.source import LoadState, Problem

# ── The values of copying, backing up and repairing a store ───────────────────────────────────────

OnCopyConflict: TypeAlias = Literal["refuse", "skip", "rename"]
OnCopyProgress: TypeAlias = Callable[["CopyProgress"], object]


class CopyProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a copy has come; given to the callback after every transaction."""

    phase: Literal["files", "sessions"]
    session: str | None
    """The session that is being copied; None while files are."""
    sessions: int
    """Sessions that are done, those that were there already included."""
    entries: int
    """Entries that were written so far."""
    bytes: int
    """Their size, and that of the objects of snapshots."""


class CopyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a copy wrote. All zero: everything was there already."""

    sessions: int
    """Sessions that were new, or had something new."""
    unchanged: int
    """Sessions of which all was there already."""
    entries: int
    events: int
    calls: int
    """Records of usage."""
    snapshots: int
    objects: int
    bytes: int
    """Size of entries and objects."""
    skipped: tuple[str, ...] = ()
    """Sessions that were left out, because the target holds something else in their place."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Sessions that have another id in the target: (id, id in the target)."""


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """A backup that is whole and durable."""

    path: str
    bytes: int
    sessions: int
    """Sessions in it, those in the trash too."""


class LostRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that `repair` could not bring over, and why."""

    kind: Literal["session", "branch", "entry", "record", "events", "usage", "snapshot", "object"]
    reason: str
    session: str | None = None
    """The id of the session; of what several sessions share, that of the oldest of them."""
    branch: str | None = None
    position: int | None = None
    """Of an entry: its place in the history, which is kept for it."""
    name: str | None = None
    """Of a record, a snapshot or an object."""


class RepairReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a repair brought over to the new store, and what it could not."""

    location: str
    """The new store."""
    sessions: int
    entries: int
    """Entries that are whole in the new store."""
    snapshots: int
    objects: int
    lost: tuple[LostRecord, ...]

    @property
    def ok(self) -> bool:
        """Nothing is lost."""
        return not self.lost


# ── The values of export and import ───────────────────────────────────────────────────────────────

ExportFormat: TypeAlias = Literal[
    "jsonl",
    "json",
    "markdown",
    "html",
    "claude-code",
    "codex",
    "pi",
    "picoclaw",
    "ggcode",
    "tingly-box",
    "ductwork",
    "openrouter",
    "gemini-cli",
    "opencode",
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
    is_copy: bool = False
    """It is a copy, as a fork is: not a subagent."""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    """Of its newest entry; None: it has no entry with a time."""


class ImportedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was found to hold sessions, and what came of it."""

    path: str
    format: str
    sessions: tuple[ImportedSession, ...]
    problems: tuple[Problem, ...] = ()
    """Of an unchanged file: those of the last time that it was read."""
    read: bool = True
    """False: it is as it was at the last import, and was not opened."""


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
    """That hold sessions,"""
    files_read: int = 0
    """and so many of them were read: the others are as they were at the last import."""
    bytes: int = 0
    """Of all of them."""
    sources: tuple[ImportedFile, ...] = ()
    """The same file by file: first those that were read."""
    redacted: int = 0
    """Secrets that were replaced in what was brought: see `Store.redaction`."""
    gone: tuple[str, ...] = ()
    """Of a sync: files that were found to be gone. Their sessions stay."""

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
    """The file that is read; empty while texts are indexed."""
    files: int
    """Read so far,"""
    all_files: int
    """of so many."""
    bytes: int
    all_bytes: int
    """Of the files on disk; one that is compressed has more in it; while texts are indexed, messages."""
    format: str = ""
    """Of the file."""
    phase: Literal["reading", "indexing"] = "reading"
    """Indexing: what was read is made findable."""


OnImportProgress: TypeAlias = Callable[[ImportProgress], None]


class FoundPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A place on this machine where a program keeps sessions."""

    format: str
    path: str
    files: int
    bytes: int
