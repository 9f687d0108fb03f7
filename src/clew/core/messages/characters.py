"""The characters that act instead of being seen: the one table of them, for terminals and exports alike.

A transcript is untrusted. What a model, a tool or a web page wrote can hold terminal sequences, marks that
turn the writing direction, so that code reads otherwise than it runs, and instructions that are not seen.
All code that shows text asks here what to make visible. The joiner U+200D is not among them: emojis need it.
"""

from __future__ import annotations

import re
from typing import Final

_BEYOND_ASCII: Final = (
    "\x7f-\x9f"  # controls
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # writing direction
    "\u2028\u2029"  # line ends
    "\u200b\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # nothing is seen of these
    "\ud800-\udfff"  # halves of surrogate pairs
)

ACTING: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_BEYOND_ASCII}]")
"""One such character; not a tab, nor a line feed."""
_RAW_IN_JSON: Final = re.compile(f"[{_BEYOND_ASCII}]")
"""JSON itself escapes the first 32 characters."""
_NOT_IN_A_LINE: Final = re.compile(f"[\x00-\x1f{_BEYOND_ASCII}]")


def for_a_log(value: object) -> object:
    """A value as it may stand in a line of a log: whatever it is, it begins no line of its own."""
    if isinstance(value, (int, float)):
        return value
    text = str(value)
    return text if text.isprintable() else _NOT_IN_A_LINE.sub(lambda found: ascii(found[0])[1:-1], text)


def picture_of(char: str, opening: str, closing: str) -> str:
    """Such a character as one that is seen: ␛ for a control character, else its code point in brackets."""
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"{opening}U+{code:04X}{closing}"


def escape_json(text: str) -> str:
    """JSON that means the same, in which no such character stands as itself."""
    return text if text.isascii() and "\x7f" not in text else _RAW_IN_JSON.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
