"""Words of a command, as a shell takes them: for commands that people copy."""

from __future__ import annotations

import re
from typing import Final

_PLAIN: Final = re.compile(r"[\w@+:,./-][\w@%+=:,./#-]*")
"""Text that no shell changes. At the beginning = and % mean something to zsh and fish."""
_BLANKS: Final = re.compile(r"(\s+)")
_SPECIAL: Final = re.compile(r"[!-/:-@\[-`{-~]")


def typed(id: str) -> str:
    """An id as it is to be typed in a command: quoted if a shell would take it apart, and behind `--` if it
    would be taken for an option."""
    return f"-- {quoted(id)}" if id.startswith("-") else quoted(id)


def quoted(text: str) -> str:
    """A text as a word of a command, the same for bash, zsh, fish and others: within single quotes fish
    takes a backslash for one, so what holds quotes or backslashes has a backslash before each of them."""
    if _PLAIN.fullmatch(text):
        return text
    if text and not {"'", "\\"} & set(text):
        return f"'{text}'"
    parts = _BLANKS.split(text)
    return (
        "".join(f"'{part}'" if part.isspace() else _SPECIAL.sub(r"\\\g<0>", part) for part in parts) or "''"
    )
