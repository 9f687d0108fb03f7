"""How long an answer may be, counted as tokens, and where it is cut: between entries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

TOKENS: Final = 6000
"""Of an answer, unless the caller asks for another limit."""
SPARE: Final = 10

_encode: Final = msgspec.json.Encoder().encode


def tokens(value: Any) -> int:
    """About how many tokens a value is as JSON: four bytes each, as `Session.context` counts."""
    return -(-len(_encode(value)) // 4)


def in_list(item: Any) -> int:
    """The same of an item of a list, with its comma: a list is no longer than its items together."""
    return -(-(len(_encode(item)) + 1) // 4)


def room_in(answer: Any, most: int = TOKENS) -> int:
    """How much may come into the empty list of an answer. Numbers in it may grow meanwhile."""
    return most - tokens(answer) - SPARE


def within(items: Iterable[T], most: int) -> list[T]:
    """The first items that together are no longer than this."""
    kept: list[T] = []
    for item in items:
        most -= in_list(item)
        if most < 0:
            break
        kept.append(item)
    return kept


def fitting(items: Sequence[T], most: int = TOKENS) -> list[T]:
    """The same; at least one, if there is one."""
    return within(items, most) or list(items[:1])


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
