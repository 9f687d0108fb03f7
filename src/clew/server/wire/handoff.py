"""Handing a session on, on the wire: to an agent by a command, to people by a link."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import msgspec

WEEK: Final = 7 * 24 * 3600
CENTURY: Final = 100 * 366 * 24 * 3600


class NewShare(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to share, and for how long."""

    session: str
    """By id or alias."""
    at: str | None = None
    """Only what leads to this point: a position, the name of a checkpoint or the id of an entry. null: as the
    session is now."""
    live: bool = False
    """Follow the session instead; then there is no `at`."""
    redact: bool = True
    """Replace secrets."""
    expires_in: Annotated[int, msgspec.Meta(ge=1, le=CENTURY)] | None = WEEK
    """Seconds; null: it does not end."""


class ShareView(msgspec.Struct, frozen=True, kw_only=True):
    """A share, without its secret."""

    id: str
    session: str
    head: str | None
    """The entry up to which it is shared; null: live."""
    live: bool
    redact: bool
    created_at: datetime
    expires_at: datetime | None
    expired: bool


class MadeShare(msgspec.Struct, frozen=True, kw_only=True):
    """A new share."""

    share: ShareView
    url: str
    """Where a browser shows it. Its fragment is the secret, which is told here and never again."""


class SharesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which shares."""

    session: str | None = None
    """Only those of this session."""


class ShareList(msgspec.Struct, frozen=True, kw_only=True):
    """Shares, in the order in which they were made."""

    data: list[ShareView]


class ResumeCommandQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From where."""

    at: str | None = None
    """Go on from this point, in a copy: a position, the name of a checkpoint or the id of an entry."""


class AgentCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The command with which an agent goes on with a copy of the session."""

    agent: str
    command: str


class ResumeView(msgspec.Struct, frozen=True, kw_only=True):
    """How to go on with a session. Nothing is started or written before a person runs a command."""

    command: str | None
    """For a shell on the machine of the store; null: there is none."""
    directory: str | None
    """Where the session worked."""
    note: str
    """What to know before, or why there is no command; may be empty."""
    agents: list[AgentCommand]
    """Agents that can go on with any session: each gets a copy."""
