"""Text of a transcript is untrusted: nothing in it may steer the terminal that shows it.

Whatever a model, a tool or a web page wrote can hold escape sequences, that recolour the screen, set its
title or type for the user; or marks that turn the writing direction, so that code reads otherwise than it
runs. All of them are shown instead of sent.
"""

from __future__ import annotations

import re
from typing import Final

from clew.core.messages.characters import ACTING

_PICTURES: Final = 0x2400
"""U+2400 and the following show the control characters 0 to 31: ␀ ␁ …"""

_SPACE: Final = re.compile(r"\s+")


def clean(text: str) -> str:
    """The text with everything visible that was not; tabs and line feeds stay."""
    if text.isascii() and text.isprintable():
        return text
    return ACTING.sub(_shown, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The same on one line: white space of any kind and length is one blank."""
    return clean(" ".join(text.split()))


def flat(text: str) -> str:
    """The same for a piece of a line: white space at its ends stays, as one blank."""
    return clean(_SPACE.sub(" ", text))


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(_PICTURES + code)
    if code == 0x7F:
        return "␡"
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"<U+{code:04X}>"
