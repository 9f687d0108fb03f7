"""Times in queries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec

from clew.errors import InvalidQueryError
from clew.model import times

Moment = Annotated[
    str,
    msgspec.Meta(
        max_length=64,
        description="RFC 3339, as 2026-11-01T12:00:00Z, a day (UTC), or how long ago: 90m, 12h, 7d, 2w",
        examples=["2026-11-01T12:00:00Z", "7d"],
    ),
]


def moment_of(text: str | None, name: str) -> datetime | None:
    """The moment that a parameter names; None: it is not given."""
    if text is None:
        return None
    # A plus sign that was not percent-encoded arrives as a blank.
    found = times.moment(text.replace(" ", "+") if "T" in text else text, datetime.now(UTC), UTC)
    if found is None:
        raise InvalidQueryError(
            f"{name} is a time such as 2026-11-01T12:00:00Z, 2026-11-01, 12h or 7d, not {text[:40]!r}"
        )
    return found
