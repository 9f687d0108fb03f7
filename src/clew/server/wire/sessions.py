"""Sessions on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from clew.model import Json, SessionInfo, Status
from clew.server.settings import MOST_LISTED

Limit = Annotated[int, msgspec.Meta(ge=1, le=MOST_LISTED)]


class SessionPage(msgspec.Struct, frozen=True):
    """Some sessions, newest activity first."""

    data: tuple[SessionInfo, ...]
    cursor: str | None
    """Pass it as `cursor` for the next page; null: this was the last."""


class SessionsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sessions to list."""

    status: Status | None = None
    workspace: str | None = None
    tag: tuple[str, ...] = ()
    agent: str | None = None
    parent: str | None = None
    subagents: bool = True
    since: datetime | None = None
    until: datetime | None = None
    deleted: bool = False
    limit: Limit = 50
    cursor: str | None = None


class NewSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session to be made."""

    id: str | None = None
    """Null: one that sorts by time."""
    title: str | None = None
    workspace: str | None = None
    tags: tuple[str, ...] = ()
    vendor: str | None = None
    endpoint: str | None = None
    model: str | None = None
    metadata: dict[str, Json] = {}
