"""What is said of paths as a whole: the outline of one, and where two of them part."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from clew.model.session import Head

OutlineKind: TypeAlias = Literal["prompt", "compaction", "truncation", "checkpoint"]


class OutlineItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One place of a path that is worth going to."""

    id: str
    """Of the entry; of a checkpoint: the entry at which it was set, `start` before the first one."""
    position: int
    kind: OutlineKind
    at: datetime
    text: str
    """One line: what the person said, what stands for the history before a compaction, or the name of the
    checkpoint."""
    snapshot: str | None = None
    """Of a checkpoint with files: the id of their snapshot."""
    label: str | None = None
    """Of a checkpoint that an agent set by itself, under a name that says nothing to people: the prompt at
    which it did, on one line."""


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """The places of a path that are worth going to, in their order."""

    items: tuple[OutlineItem, ...]
    entries: int
    """How many entries the whole path has."""
    head: Head
    """Where the path ends."""


class ComparedPath(msgspec.Struct, frozen=True, kw_only=True):
    """One of two paths that were compared."""

    session: str
    title: str | None
    head: Head
    """Where the path ends."""
    shared: str | None
    """The last entry that both paths share, by its id on this one; None: there is none."""
    entries_after: int
    """So many entries follow it on this path."""
    snapshot: str | None
    """The newest snapshot of files that a checkpoint on this path has."""


class CommonPart(msgspec.Struct, frozen=True, kw_only=True):
    """What two paths begin with."""

    position: int
    """Of the last entry that they share; -1: they share nothing."""
    id: str | None
    """Of this entry, on the first of the two."""
    entries: int


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two paths: what they share, and what each has behind that."""

    a: ComparedPath
    b: ComparedPath
    common: CommonPart
    same: bool
    """Both hold the same entries."""
