"""Checks of the arguments of public methods: one spelling for each kind.

Ids are checked by `clew.core.log.ids`.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

from clew.errors import InvalidError, InvalidQueryError
from clew.model import microseconds

MOST: Final = 2**63 - 1
"""What storage can count to."""
_END_OF_TIME: Final = microseconds(datetime.max.replace(tzinfo=UTC))


def check_count(
    value: int,
    what: str,
    *,
    least: int = 0,
    most: int | None = None,
    error: type[InvalidError] = InvalidError,
) -> int:
    """A whole number, at least `least` and, if that is given, at most `most`."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not is_number or value < least or (most is not None and value > most):
        bounds = f"from {least} on" if most is None else f"from {least} to {most}"
        raise error(f"{what} must be a number {bounds}, not {shown(value)}")
    return value


def check_limit(limit: int, *, most: int | None = None, clip: int = 2**31) -> int:
    """How many things to return at most: from 1 to `most`, or from 1 on and clipped."""
    return min(check_count(limit, "limit", least=1, most=most, error=InvalidQueryError), clip)


def check_after(after: int | None) -> int:
    """The number after which to read; 0 when it is None: from the start."""
    if after is None:
        return 0
    if isinstance(after, bool) or not isinstance(after, int) or after < 0:
        raise InvalidQueryError(
            f"after must be a number from 0 on, or a value that was returned, not {shown(after)}"
        )
    return min(after, MOST)


def check_seconds(value: float, what: str, *, least: float | None = None, most: float = math.inf) -> float:
    """A duration in seconds: from `least` on, or above 0."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not (value > 0 if least is None else value >= least) or value > most:
        first = "above 0" if least is None else f"from {least:g} on"
        last = "" if most == math.inf else f" and at most {most:g}"
        raise InvalidError(f"{what} must be a number of seconds {first}{last}, not {shown(value)}")
    return float(value)


def check_time(at: datetime, what: str, error: type[InvalidError] = InvalidError) -> int:
    """The microseconds since 1970 of a datetime with a time zone."""
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise error(f"{what} must be a datetime with a time zone, not {at!r}")
    time = microseconds(at)
    if not 0 <= time <= _END_OF_TIME:
        raise error(f"{what} must lie between the years 1970 and 9999, not {at!r}")
    return time


def shown(value: object) -> str:
    """A refused value for a message: short, whatever it is."""
    if isinstance(value, int) and value.bit_length() > 200:
        text = hex(value)  # Python refuses to print integers of very many digits otherwise
    else:
        text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
