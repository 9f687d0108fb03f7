"""Times as other programs write them."""

from __future__ import annotations

from datetime import UTC, datetime

from clew.model import Json


def moment_of(text: Json) -> datetime | None:
    """The time in an ISO text; one without a zone is UTC. None: there is none."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
