"""How many values a JSON text from elsewhere may hold: decoded, each takes memory, however short it is.

`{},` is 3 bytes as text and 88 in memory. So a text is counted before it is decoded. Long texts and images
inside of it are one value each.
"""

from __future__ import annotations

import re
from typing import Final

MOST_VALUES: Final = 4_000_000
"""Lists, objects, and what is in them. So many take 400 MB at most; a log of a week has fewer in all."""
# It may lack its end.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


class TooManyValuesError(ValueError):
    """A JSON text holds more values than are decoded."""

    def __init__(self) -> None:
        super().__init__(f"more than {MOST_VALUES:,} values: decoded, they would take too much memory")


def check_value_count(text: bytes | str) -> None:
    """Raise TooManyValuesError if decoding the text would take too much memory. Short texts cost nothing."""
    if len(text) <= MOST_VALUES:
        return
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if _marks(raw, 0, len(raw)) > MOST_VALUES and _has_many_outside_strings(raw):
        raise TooManyValuesError


def _has_many_outside_strings(raw: bytes) -> bool:
    found = at = 0
    for number, string in enumerate(_STRING.finditer(raw)):
        start, end = string.span()
        found += _marks(raw, at, start)
        if max(found, number) > MOST_VALUES:  # in JSON, there is a mark between two strings
            return True
        at = end
    return found + _marks(raw, at, len(raw)) > MOST_VALUES


def _marks(raw: bytes, start: int, end: int) -> int:
    count = raw.count
    return (
        count(b",", start, end) + count(b":", start, end) + count(b"[", start, end) + count(b"{", start, end)
    )
