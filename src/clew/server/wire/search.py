"""Searches on the wire."""

from __future__ import annotations

from typing import Annotated

import msgspec

from clew.model.search import Hit, SearchOrder, SearchRole
from clew.server.process.settings import MOST_LISTED
from clew.server.wire.times import Moment


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to search for."""

    q: Annotated[str, msgspec.Meta(max_length=4096)]
    """Words in any order, `"a phrase"`, `prefix*`, `-without`."""
    role: SearchRole | None = None
    """Only messages of this role; `user` is a human."""
    session: tuple[str, ...] = ()
    """Only in this session, or one of these."""
    workspace: str | None = None
    """Only in sessions that work there."""
    project: str | None = None
    """Only in sessions that work in a directory of this name."""
    tag: tuple[str, ...] = ()
    """Only in sessions with all of these tags."""
    agent: str | None = None
    """Only in sessions that this program writes, as `claude-code`."""
    model: str | None = None
    """Only in sessions whose setting `model` is this."""
    since: Moment | None = None
    until: Moment | None = None
    tools: bool = False
    """Also look at the calls and results of tools."""
    order: SearchOrder = "newest"
    """The newest first, or the best of the newest 1,000 that match."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_LISTED)] = 20
    cursor: str | None = None
    """From the page before, of the same search."""


class HitPage(msgspec.Struct, frozen=True):
    """Some messages that were found. `snippet` is text as it was written, never HTML; `marks` are the places
    of the hits in it, as [start, end], counted in characters (Unicode code points)."""

    data: tuple[Hit, ...]
    cursor: str | None
    """Pass it as `cursor` for the next page; null: this was the last."""
