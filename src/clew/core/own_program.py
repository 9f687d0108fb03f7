"""The words that start Clew again: in settings of other programs, in the file of a service, as a child."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Final

_FLAGS: Final = re.compile("-[A-Za-z]+")
_LARGEST_SCRIPT: Final = 64 * 1024
"""Bytes of a `clew` that are read to see what it starts; those that installers write have some hundred."""


def own_program() -> tuple[str, ...]:
    """Return the words that start this Clew, from any directory.

    They name the program `clew` beside the interpreter, or the interpreter itself. Never `python -m clew`
    alone: `-m` looks in the current directory first, and that may be the repository of somebody who put a
    `clew.py` or a `click.py` into it.
    """
    beside = os.path.join(os.path.dirname(_interpreter()), "clew")
    return (beside,) if _starts_clew(beside) else own_module("clew")


def own_module(name: str) -> tuple[str, ...]:
    """Return the words that run a module of this Clew from any directory, as `python -m` does."""
    return (_interpreter(), "-P", "-m", name)


def runs_the_current_directory(words: Sequence[object]) -> bool:
    """Report whether these words run `python -m clew` in a way that looks in the current directory first, as
    earlier versions of Clew wrote them into settings."""
    texts = [word if isinstance(word, str) else "" for word in words]
    if "clew" not in texts:
        return False
    flags = [word for word in texts[: texts.index("clew")] if _FLAGS.fullmatch(word)]
    is_module = bool(flags) and flags[-1].endswith("m") and texts[texts.index("clew") - 1] == flags[-1]
    return is_module and not set("".join(flags)) & {"P", "I"}


def _interpreter() -> str:
    """Its links are not followed: the one of a virtual environment is a link."""
    return os.path.abspath(sys.executable)


def _starts_clew(path: str) -> bool:
    """Report whether this is the program of this package, and not another of its name."""
    if not os.access(path, os.X_OK):
        return False
    try:
        with open(path, "rb") as file:
            return b"clew.cli" in file.read(_LARGEST_SCRIPT)
    except OSError:
        return False
