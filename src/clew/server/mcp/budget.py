"""How long an answer may be, counted as tokens, and where it is cut: between entries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

TOKENS: Final = 6000
"""Of an answer, unless the caller asks for another limit."""
ROOM: Final = 200
"""Kept for what stands around the entries of an answer."""

_encode: Final = msgspec.json.Encoder().encode


def tokens(value: Any) -> int:
    """About how many tokens a value is as JSON: four bytes each, as `Session.context` counts."""
    return -(-len(_encode(value)) // 4)


def fitting(items: Iterable[T], most: int = TOKENS) -> list[T]:
    """The first items that together are no longer than this; at least one, if there is one."""
    room = most - ROOM
    kept: list[T] = []
    for item in items:
        room -= tokens(item)
        if room < 0 and kept:
            break
        kept.append(item)
    return kept


def cut(text: str, most: int) -> tuple[str, bool]:
    """The first so many characters, and whether some are left out."""
    return (text, False) if len(text) <= most else (text[:most], True)


def cut_to_tokens(text: str, most: int) -> tuple[str, bool]:
    """The longest beginning that is no more tokens than this, as JSON; and whether some is left out."""
    if tokens(text) <= most:
        return text, False
    low, high = 0, min(len(text), 4 * most)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens(text[:middle]) <= most else (low, middle - 1)
    return text[:low], True
