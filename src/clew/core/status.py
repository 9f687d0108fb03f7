"""Which status may follow which."""

from __future__ import annotations

from typing import Final

from clew.core.rows import CLOSED, COMPLETED, EXPIRED, FAILED, INTERRUPTED, PENDING, RUNNING
from clew.errors import InvalidTransitionError
from clew.model import STATUSES

_ENDED: Final = frozenset({RUNNING, EXPIRED, CLOSED})
LEGAL: Final[dict[int, frozenset[int]]] = {
    PENDING: _ENDED,
    RUNNING: frozenset({COMPLETED, FAILED, INTERRUPTED}),
    COMPLETED: _ENDED,
    FAILED: _ENDED,
    INTERRUPTED: _ENDED,
    EXPIRED: frozenset({RUNNING, PENDING, CLOSED}),
    CLOSED: frozenset({PENDING}),
}


def check_transition(session: str, was: int, wanted: int) -> None:
    if wanted not in LEGAL[was]:
        raise InvalidTransitionError(session, STATUSES[was], STATUSES[wanted])


def status_number(status: str) -> int | None:
    """The number of a status; None: there is none of that name."""
    return STATUSES.index(status) if status in STATUSES else None
