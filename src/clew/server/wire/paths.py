"""Paths as a whole on the wire."""

from __future__ import annotations

import msgspec

from clew.model import Head, OutlineItem


class OutlineQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of which path."""

    at: str | None = None
    """Of the path to this point of the tree, not of that to the head."""


class OutlineView(msgspec.Struct, frozen=True, kw_only=True):
    """The places of a path that are worth going to, in their order."""

    data: list[OutlineItem]
    entries: int
    """How many entries the whole path has."""
    head: Head
    """Where it ends."""
