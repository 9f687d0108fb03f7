"""Moments and lengths of time as people and programs write them: `7d`, `2026-11-01`, RFC 3339."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import Final

_SPANS: Final = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def span(text: str) -> timedelta | None:
    """90m, 12h, 7d, 2w; None: it is none of these."""
    number, unit = text[:-1], text[-1:]
    if unit not in _SPANS or not (number.isascii() and number.isdecimal()) or len(number) > 9:
        return None
    return timedelta(seconds=int(number) * _SPANS[unit])


def moment(text: str, now: datetime, tz: tzinfo | None = None) -> datetime | None:
    """The moment that a text names: how long before `now`, or a day or a time of ISO 8601, in this time zone
    (None: that of the machine) if it names none. None: it is no time."""
    try:
        length = span(text)
        if length is not None:
            return now - length
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None:
            return found
        return found.astimezone() if tz is None else found.replace(tzinfo=tz)
    except (ValueError, OverflowError):
        return None
