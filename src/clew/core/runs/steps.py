"""Which status may follow which."""

from __future__ import annotations

from typing import Final

from clew.core.log.rows import CLOSED, COMPLETED, EXPIRED, FAILED, INTERRUPTED, PENDING, RUNNING
from clew.errors import InvalidTransitionError
from clew.model import STATUSES

_FROM_REST: Final = frozenset({RUNNING, COMPLETED, FAILED, EXPIRED, CLOSED})
LEGAL: Final[dict[int, frozenset[int]]] = {
    PENDING: _FROM_REST,
    RUNNING: frozenset({COMPLETED, FAILED, INTERRUPTED, CLOSED}),
    COMPLETED: _FROM_REST - {COMPLETED},
    FAILED: _FROM_REST - {FAILED},
    INTERRUPTED: _FROM_REST,
    EXPIRED: _FROM_REST - {EXPIRED} | {PENDING},
    CLOSED: frozenset({PENDING}),
}


def status_after(session: str, was: int, wanted: int) -> int:
    """The status after a step that asks for `wanted`: the same, if there is nothing to change.

    Who opens an open session finds it open. A run that ends after the session was closed leaves it closed.
    """
    if wanted == was or (wanted == PENDING and wanted not in LEGAL[was]):
        return was
    if was == CLOSED and wanted in (COMPLETED, FAILED):
        return was
    if wanted not in LEGAL[was]:
        raise InvalidTransitionError(session, STATUSES[was], STATUSES[wanted])
    return wanted


def status_number(status: str) -> int | None:
    """The number of a status; None: there is none of that name."""
    return STATUSES.index(status) if status in STATUSES else None
