"""A command line that is being typed: its words, and how the last one goes on.

A shell hands it over as it stands there, with its quotes. Whatever is added to it is text, and stays text:
nothing in an id may end a quotation, run a command or become another word.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

Shell = Literal["bash", "zsh", "fish"]

_ACTING: Final = re.compile(r'[$`"\\]')
"""What acts between double quotes."""
_PLAIN: Final = re.compile(r"[\w@%+=:,./#-]")
"""What no shell changes within a word."""
_NOT_PLAIN: Final = re.compile(r"[^\w@%+=:,./#-]")
_ESCAPED_IN: Final[dict[Shell, dict[str, str]]] = {
    "bash": {"'": "", '"': '$`"\\'},
    "zsh": {"'": "", '"': '$`"\\'},
    "fish": {"'": "'\\", '"': '"$\\'},
}
"""Within which quotes a backslash is one, and before what."""


class Line(NamedTuple):
    """What was typed, up to the cursor."""

    words: tuple[str, ...]
    """Those before the last one."""
    last: str
    """The one that is being typed, as the command would get it; it may be empty."""
    raw: str
    """The same as it is typed."""
    quote: str
    """The quotation that is open at its end, or nothing."""


def read_line(text: str, shell: Shell) -> Line | None:
    """The words of a line. None: the shell would change the last one, so nobody knows what it will be."""
    words: list[str] = []
    word, start, quote, is_plain, at = "", 0, "", True, 0
    while at < len(text):
        letter = text[at]
        step = 1
        if quote and letter == quote:
            quote = ""
        elif letter == "\\" and (not quote or text[at + 1 : at + 2] in _ESCAPED_IN[shell][quote]):
            word += text[at + 1 : at + 2]
            step = 2
        elif quote:
            is_plain = is_plain and not (quote == '"' and letter in "$`!")
            word += letter
        elif letter in "'\"":
            quote = letter
        elif letter in " \t\n":
            if at > start:
                words.append(word)
            word, start, is_plain = "", at + 1, True
        else:
            is_plain = is_plain and _PLAIN.match(letter) is not None and not (letter == "#" and at == start)
            word += letter
        at += step
    if not is_plain:
        return None
    return Line(tuple(words), word, text[start:], quote)


def rest_of(line: Line, value: str) -> str | None:
    """What to put behind the last word in bash, so that the command gets `value`. None: that cannot be said
    within the quotation that is open."""
    if not value.startswith(line.last) or not value.isprintable():
        return None
    rest = value[len(line.last) :]
    match line.quote:
        case "'":
            return None if "'" in rest else rest
        case '"':
            return None if "!" in rest else _ACTING.sub(r"\\\g<0>", rest)
    escaped = _NOT_PLAIN.sub(r"\\\g<0>", rest)
    return f"\\{escaped}" if not line.raw and rest.startswith("#") else escaped
