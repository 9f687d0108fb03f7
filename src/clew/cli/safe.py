"""Text of a transcript is untrusted: nothing in it may steer the terminal that shows it.

Whatever a model, a tool or a web page wrote can hold escape sequences, that recolour the screen, set its
title or type for the user; or marks that turn the writing direction, so that code reads otherwise than it
runs. All of them are shown instead of sent.
"""

from __future__ import annotations

import re
from typing import Final

_PICTURES: Final = 0x2400
"""U+2400 and the following show the control characters 0 to 31: ␀ ␁ …"""

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but for tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # writing direction
    "\u2028\u2029\ufff9-\ufffb\U000e0000-\U000e007f"  # line ends, annotations, invisible tags
    "\ud800-\udfff]"
)
_SPACE: Final = re.compile(r"\s+")
_RAW_IN_JSON: Final = re.compile(_UNSAFE.pattern.replace("\x00-\x08\x0b-\x1f", ""))
"""JSON escapes the first 32 itself, and there are no surrogates in it."""


def clean(text: str) -> str:
    """The text with everything visible that was not; tabs and line feeds stay."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(_shown, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The same on one line: white space of any kind and length is one blank."""
    return clean(" ".join(text.split()))


def flat(text: str) -> str:
    """The same for a piece of a line: white space at its ends stays, as one blank."""
    return clean(_SPACE.sub(" ", text))


def clean_json(text: str) -> str:
    """JSON that means the same, without a character that could do harm."""
    return text if text.isascii() and "\x7f" not in text else _RAW_IN_JSON.sub(_escaped, text)


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(_PICTURES + code)
    if code == 0x7F:
        return "␡"
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"<U+{code:04X}>"


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
