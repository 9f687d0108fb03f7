"""The values of export and import."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

ExportFormat: TypeAlias = Literal["jsonl"]
ImportFormat: TypeAlias = Literal["jsonl"]


class ImportedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was found in a file."""

    id: str
    """Of the session in the store."""
    source: str
    """The file."""
    state: Literal["new", "grown", "unchanged"]
    """Unchanged: all of it was there already."""
    messages: int
    """On its path."""


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an import brought into the store, or would bring."""

    sessions: tuple[ImportedSession, ...]
    dry_run: bool
