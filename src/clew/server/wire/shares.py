"""Shares on the wire."""

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
