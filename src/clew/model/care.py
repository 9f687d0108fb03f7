"""The values of copying, backing up and repairing a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

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
