"""What storage is told and asked about the text of entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from clew.core.messages.query import Query


class TextPlace(NamedTuple):
    """Where a text stands. They compare in the order of their time."""

    time: int
    branch: int
    position: int


class TextRow(msgspec.Struct, frozen=True, gc=False):
    """The text of one entry, as `searched_text` finds it."""

    place: TextPlace
    role: int
    said: str
    tool: str


class TextQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which texts to find: newest first."""

    query: Query
    limit: int
    tools: bool = False
    """Look at what tools were asked and answered, too."""
    role: int | None = None
    branches: frozenset[int] | None = None
    """Only on these."""
    since: int | None = None
    until: int | None = None
    """since <= time < until; a few more from just outside may come."""
    before: TextPlace | None = None
    """Only those behind this one in the order of the answer."""
