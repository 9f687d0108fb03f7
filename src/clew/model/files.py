"""The values of files: snapshots of a directory tree, what a restore does, what differs.

A path is relative to the root, with `/` between names; names that are not UTF-8 come as Python's file
functions give them (surrogateescape), so that they can be passed back.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

SkipReason: TypeAlias = Literal[
    "fifo", "socket", "device", "unreadable", "too large", "other mount", "nested repository", "changing",
    "store", "name", "read error", "secret",
]  # fmt: skip
"""`unreadable`: this user may not read it. `read error`: the system could not; only a safety snapshot lists
that, any other one is refused. `secret`: by its name it holds nothing else; `include` takes it."""
KeptReason: TypeAlias = Literal[
    "changed", "ignored", "unknown", "in the way", "repository",
    "fifo", "socket", "device", "unreadable", "too large", "other mount", "nested repository", "changing",
    "store", "name", "read error", "secret",
]  # fmt: skip
SnapshotKind: TypeAlias = Literal["snapshot", "checkpoint", "safety"]
FileKind: TypeAlias = Literal["file", "link", "directory"]
FileVerb: TypeAlias = Literal["create", "overwrite", "delete", "mode"]
DiffStatus: TypeAlias = Literal["added", "removed", "modified", "mode", "type", "renamed", "unrecorded"]
"""`unrecorded`: one side does not say whether the file was there: it had to be skipped, it is ignored now, or
the agent did not record it at that point, as agents record only the files that they change."""
OnConflict: TypeAlias = Literal["keep", "overwrite", "refuse"]
OnProgress: TypeAlias = Callable[["FileProgress"], object]


class FileProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a snapshot or a restore has come; given to the callback from time to time."""

    phase: Literal["scan", "store", "restore", "check"]
    """`check`: `verify` looks at sessions; `files` is their number, `bytes` the size of their entries."""
    files: int
    bytes: int
    total_files: int | None
    """None while it is not known."""


class Skipped(msgspec.Struct, frozen=True):
    """What a snapshot does not hold, and why; a directory with all in it. Ignored files are not listed."""

    path: str
    reason: SkipReason


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a directory tree at a moment."""

    id: str
    kind: SnapshotKind
    """`snapshot`: kept until it is deleted; `checkpoint`: kept while a checkpoint names it; `safety`:
    taken by a restore before it changed anything, kept while it can be undone."""
    root: str
    """Absolute, symlinks resolved; empty: its files came with an import."""
    tree: str
    """The hash of the whole tree: equal hashes, equal trees."""
    created_at: datetime
    files: int
    links: int
    directories: int
    bytes: int
    """Size of all files."""
    new_bytes: int
    """Content that the store did not hold before."""
    skipped: tuple[Skipped, ...]
    include: tuple[str, ...] = ()
    """The patterns it was taken with: what is looked at again, is looked at by the same rules."""
    exclude: tuple[str, ...] = ()
    max_file_bytes: int | None = None


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a restore does, or would do, to a path."""

    path: str
    verb: FileVerb
    kind: FileKind
    """Of what is there afterwards; of a deletion, of what is deleted."""
    size: int
    """Of the file as it is in the snapshot; 0 for anything else."""
    old_size: int
    """Of the file that is there now."""
    conflict: bool = False
    """It changed since the last snapshot of this root: it holds work that no snapshot has."""


class FileFailure(msgspec.Struct, frozen=True):
    """What could not be done to a path, and why."""

    path: str
    reason: str


class KeptFile(msgspec.Struct, frozen=True):
    """What a restore left as it is, and why."""

    path: str
    """Of a directory: with all that is in it, but for what `changes` names."""
    reason: KeptReason
    """`changed`: since the last snapshot, and `on_conflict="keep"` was asked for; `ignored`: by a rule of
    now, or of the snapshot; `unknown`: no snapshot of this directory knows it; `in the way`: it holds, or
    is, what cannot be replaced; `repository`: the user's `.git`; else why the safety snapshot, or the
    one that is restored, could not hold it, as in `Skipped`."""


class RestoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a restore did to every path; of a dry run: what it would do."""

    id: str | None
    """Names the restore, for `undo_restore`; None: a dry run, or nothing was to be done."""
    dry_run: bool
    snapshot: str
    root: str
    safety: str | None
    """The snapshot of the state before; it brings back every byte."""
    changes: tuple[FileChange, ...]
    conflicts: tuple[str, ...]
    """Paths that changed since the last snapshot of this root: only the safety snapshot has that work."""
    kept: tuple[KeptFile, ...]
    """What was left as it is, and why: also what no snapshot holds, such as ignored files."""
    failed: tuple[FileFailure, ...]
    """What could not be done: also files that changed while the restore ran, and were left alone."""

    @property
    def restored(self) -> tuple[str, ...]:
        """Paths that are as in the snapshot again."""
        return tuple(change.path for change in self.changes if change.verb != "delete")

    @property
    def deleted(self) -> tuple[str, ...]:
        """Paths that the snapshot does not have."""
        return tuple(change.path for change in self.changes if change.verb == "delete")


class PendingRestore(msgspec.Struct, frozen=True, kw_only=True):
    """A restore that was cut off half-way."""

    id: str
    root: str
    snapshot: str
    safety: str
    at: datetime
    session: str | None
    """The session whose head was to move with the files."""


class SnapshotFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a snapshot holds at a path: a file, a link, or a directory that is empty."""

    path: str
    kind: FileKind
    size: int
    """Of a file its length, of a link that of its target."""
    executable: bool = False
    hash: str
    """Equal hashes, equal contents."""


class FileDiff(msgspec.Struct, frozen=True, kw_only=True):
    """How one path differs."""

    path: str
    status: DiffStatus
    old_path: str | None = None
    """Of a renamed file: where it was."""
    old_size: int | None = None
    size: int | None = None
    text: str | None = None
    """The unified diff, if it was asked for and both sides are text."""


class FileVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint at which a file was not as it was at the one before."""

    checkpoint: str
    position: int
    at: datetime
    verb: Literal["created", "changed", "deleted"]
    size: int | None
    hash: str | None


class GcReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `gc` removed; of a dry run: what it would remove."""

    dry_run: bool
    snapshots: int
    objects: int
    bytes: int
    merged: int = 0
    """Stored bytes that merging of packs saved (`gc(merge=True)`)."""


class VerifyProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is missing or damaged, and where."""

    kind: Literal["session", "branch", "entry", "record", "snapshot", "object"]
    text: str
    """A sentence that says it all."""
    session: str | None = None
    """The id of the session; of what several sessions share, that of the oldest of them."""
    branch: str | None = None
    position: int | None = None


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `verify` found."""

    objects: int
    bytes: int
    problems: tuple[str, ...]
    """One sentence for each thing that is missing or damaged, with the paths that need it."""
    details: tuple[VerifyProblem, ...] = ()
    """The same problems, in the same order, as values."""
    sessions: int = 0
    """Sessions that were looked at, those in the trash too."""
    entries: int = 0
    """Entries that were looked at; of a full look: read, and compared with their hashes."""
    complete: bool = True
    """False: the time was over, or more was found than is listed, before all was looked at."""

    @property
    def ok(self) -> bool:
        """Nothing is wrong with what was looked at."""
        return not self.problems
