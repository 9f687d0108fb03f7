"""Ids, and the checks of arguments: limits, counts, positions, seconds."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Final

from clew.errors import InvalidError, InvalidQueryError
from clew.model import Head, microseconds

# ── Ids: what users may call a session, and how an entry's id leads to its place ──────────────────

MAX_ID_BYTES: Final = 512
MAX_POSITION: Final = 2**32 - 1
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,63}\Z")


def check_id(id: str, what: str = "session id") -> str:
    """Any non-empty text of at most 512 bytes without NUL is an id; nothing else is."""
    if not isinstance(id, str):
        raise InvalidError(f"{what} must be text, not {type(id).__name__}")
    if not id:
        raise InvalidError(f"{what} must not be empty")
    try:
        size = len(id.encode())
    except UnicodeEncodeError as exc:
        raise InvalidError(f"{what} {id!r} is not valid Unicode (lone surrogate)") from exc
    if size > MAX_ID_BYTES:
        raise InvalidError(f"{what} has {size} bytes; at most {MAX_ID_BYTES} are allowed: {id[:40]!r}…")
    if "\0" in id:
        raise InvalidError(f"{what} {id!r} holds a NUL character")
    return id


def is_id(text: str) -> bool:
    """Whether `check_id` would take it."""
    try:
        check_id(text)
    except InvalidError:
        return False
    return True


def is_filter_key(key: str) -> bool:
    """Whether metadata of this name can be filtered on."""
    return _KEY.match(key) is not None


def check_filter_key(key: str) -> str:
    if not isinstance(key, str) or not is_filter_key(key):
        raise InvalidQueryError(
            f"{key!r} cannot be filtered on: keys are up to 64 letters, digits, '_.-', no digit first"
        )
    return key


def entry_id(uid: str, position: int) -> str:
    return f"{uid}.{position}"


def parse_entry_id(text: str) -> Head | None:
    """The place that an entry id names, or None if it is no entry id."""
    uid, dot, digits = text.rpartition(".")
    if not (dot and uid and digits.isascii() and digits.isdigit()):
        return None
    position = int(digits) if len(digits) <= 18 else -1
    return Head(uid, position) if 0 <= position <= MAX_POSITION and str(position) == digits else None


# ── Checks of the arguments of public methods: one spelling for each kind ─────────────────────────
# Ids are checked by `clew.core.log.ids`.

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
