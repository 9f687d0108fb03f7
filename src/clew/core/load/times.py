"""Times and names as other programs give them."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from clew.core.log.ids import MAX_ID_BYTES
from clew.model.session import EPOCH

_LATEST: Final = 2**57


def time_of(at: datetime | None, otherwise: int) -> int:
    """Microseconds; a time that no store can hold is none."""
    if at is None or at.tzinfo is None:
        return otherwise
    since = at - EPOCH
    time = (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
    return time if 0 <= time < _LATEST else otherwise


def is_plain_name(text: str) -> bool:
    """The quick yes for what nearly all names are: `check_id` would take it."""
    return type(text) is str and text.isascii() and text.isprintable() and 0 < len(text) <= MAX_ID_BYTES
