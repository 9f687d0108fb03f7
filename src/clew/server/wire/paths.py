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


class CompareQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which two paths. A point is a position, the name of a checkpoint or the id of an entry."""

    a: str
    """A session, by id or alias."""
    b: str
    """The other one; may be the same."""
    a_at: str | None = None
    """The path to this point of `a`, not to its head."""
    b_at: str | None = None
    """The same of `b`."""
