"""Snapshots of files, and restores, on the wire."""

from __future__ import annotations

from typing import Annotated

import msgspec

from clew.model.files import FileDiff, FileVersion, OnConflict, PendingRestore, Snapshot, SnapshotFile
from clew.server.process.settings import MOST_LISTED

MOST_FILES = 1000
FileLimit = Annotated[int, msgspec.Meta(ge=1, le=MOST_FILES)]


class SnapshotsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which snapshots to list."""

    root: str | None = None
    """Only those of this directory of the server's machine."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_LISTED)] = 50
    cursor: str | None = None


class SnapshotPage(msgspec.Struct, frozen=True):
    """Some snapshots, newest first."""

    data: list[Snapshot]
    cursor: str | None
    """Pass it as `cursor` for the next page; null: this was the last."""


class SnapshotList(msgspec.Struct, frozen=True):
    """The snapshots of a session, oldest first."""

    data: list[Snapshot]


class FilesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which files of a snapshot to list."""

    path: str = ""
    """Only what is in this directory, however deep; or only this file."""
    deep: bool = True
    """false: only what is directly in it, with every directory in it, empty or not."""
    limit: FileLimit = 200
    cursor: str | None = None


class ListedFile(SnapshotFile, frozen=True, kw_only=True):
    """A file of a snapshot, a link, or a directory: one that is empty, unless `deep` is false."""

    url: str | None
    """Where its content is; null of a directory. Right also where `path` cannot be written in Unicode."""


class FilePage(msgspec.Struct, frozen=True):
    """Some files of a snapshot, by the bytes of their names."""

    data: list[ListedFile]
    cursor: str | None
    """Pass it as `cursor` for the next page; null: this was the last."""


class DiffQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to compare."""

    a: str
    """The id of a snapshot."""
    b: str
    """The id of another one."""
    text: bool = False
    """With unified diffs of text files of up to 1 MiB."""
    renames: bool = True
    """Pair files that were moved."""
    limit: FileLimit = 200
    cursor: str | None = None


class DiffPage(msgspec.Struct, frozen=True):
    """Some files that differ, by their paths."""

    data: list[FileDiff]
    cursor: str | None
    """Pass it as `cursor` for the next page; null: this was the last."""


class FileHistoryQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which file is meant."""

    path: Annotated[str, msgspec.Meta(min_length=1)]
    """Below the root of the snapshots."""


class FileHistory(msgspec.Struct, frozen=True):
    """The checkpoints at which a file was not as at the one before, oldest first."""

    data: list[FileVersion]


# -- restores


class RestoreRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which files to restore, and where."""

    snapshot: str
    dry_run: bool
    """True: only say what would be done. It has to be said: begin with true."""
    root: str | None = None
    """A directory of the server's machine; null: where the snapshot was taken."""
    paths: tuple[str, ...] | None = None
    """Only these files, and what is below these directories."""
    on_conflict: OnConflict = "overwrite"
    """What to do with files that changed since the last snapshot: overwrite, keep or refuse."""


class RestoreStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do about a restore."""

    dry_run: bool
    """True: only say what would be done. It has to be said: begin with true."""
    root: str | None = None
    """Its directory; it has to be named if another user began the restore."""


class PendingRestores(msgspec.Struct, frozen=True):
    """Restores that were cut off half-way, oldest first."""

    data: list[PendingRestore]
