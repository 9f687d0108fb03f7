"""Texts that make a regular expression work as hard as it can, made from the expression itself.

An expression is slow where it reads the same characters again and again: a long run that it may read from
each of its places, or in several ways. So each of its repetitions is filled with a run of what it repeats,
behind what stands before it, and the end never fits.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

_parser: Any = importlib.import_module("re._parser")  # the parser that `re` itself uses
_constants: Any = importlib.import_module("re._constants")

_CANDIDATES = ("a1- \n\t.\"'_/=:AZ\\é\x00", '_a1-. \n"', "-.1 \"a\t\nA=/:'\\Z@é\x00")
"""Characters to fill sets with; a set of many gets the first one that fits."""
_LONG = 64
"""Repetitions of fewer are no matter."""
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}


def hard_texts(pattern: re.Pattern[Any], size: int) -> Iterator[str]:
    """Of about this size, each once."""
    tree = _parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE & ~re.DEBUG)
    units: dict[tuple[str, str], None] = {}
    for candidates in _CANDIDATES:
        whole = _sample(tree, candidates)
        units["", whole] = units["", whole[:-1]] = None
        for before, unit in _repeated(tree, "", candidates):
            units[before, unit] = units["", unit] = units["", before + unit] = None
    for before, unit in units:
        if unit:
            yield before + unit * (size // len(unit)) + "\x00"


def _repeated(tree: Any, before: str, candidates: str) -> Iterator[tuple[str, str]]:
    """Each repetition: what stands before it, and what is repeated."""
    for op, argument in tree:
        name = str(op)
        if name in _REPEATS:
            _, most, inner = argument
            if most >= _LONG:
                yield before, _sample(inner, candidates)
            yield from _repeated(inner, before, candidates)
        elif name == "SUBPATTERN":
            yield from _repeated(argument[3], before, candidates)
        elif name == "ATOMIC_GROUP":
            yield from _repeated(argument, before, candidates)
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from _repeated(argument[1], before, candidates)
        elif name == "BRANCH":
            for way in argument[1]:
                yield from _repeated(way, before, candidates)
        before += _one(name, argument, candidates)


def _sample(tree: Any, candidates: str) -> str:
    return "".join(_one(str(op), argument, candidates) for op, argument in tree)


def _one(name: str, argument: Any, candidates: str) -> str:
    """A short text that fits one part of an expression."""
    if name == "LITERAL":
        return chr(argument)
    if name in ("NOT_LITERAL", "ANY"):
        return next(char for char in candidates if ord(char) != argument)
    if name == "IN":
        return _of_set(argument, candidates)
    if name in _REPEATS:
        least, most, inner = argument
        return _sample(inner, candidates) * max(int(least), min(int(most), 1))
    if name == "SUBPATTERN":
        return _sample(argument[3], candidates)
    if name == "ATOMIC_GROUP":
        return _sample(argument, candidates)
    if name == "BRANCH":
        return _sample(argument[1][0], candidates)
    return ""


def _of_set(members: Any, candidates: str) -> str:
    is_negated = str(members[0][0]) == "NEGATE"
    for char in candidates:
        if any(_fits(str(op), argument, char) for op, argument in members) != is_negated:
            return char
    op, argument = members[0]
    return chr(argument[0] if str(op) == "RANGE" else argument)


def _fits(name: str, argument: Any, char: str) -> bool:
    if name == "LITERAL":
        return bool(ord(char) == argument)
    if name == "RANGE":
        return bool(argument[0] <= ord(char) <= argument[1])
    if name == "CATEGORY":
        return re.fullmatch(_CATEGORIES[str(argument)], char) is not None
    return False
