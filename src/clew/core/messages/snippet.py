"""The beginning of a text, for titles and previews."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_ELLIPSIS: Final = "…"
_ZERO_WIDTH_JOINER: Final = "\u200d"

# Controls that are not white space, halves of surrogate pairs, and the marks that switch the writing
# direction until another mark that the cut might lose.
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]"
)


def snippet(text: str, limit: int) -> str:
    """At most `limit` code points of `text` on one line, cut between characters as people see them."""
    if limit <= 0:
        return ""
    line = _line(text, limit)
    if len(line) <= limit:
        return line
    cut = limit - len(_ELLIPSIS)
    while cut > 0 and _joins(line, cut):
        cut -= 1
    return line[:cut].rstrip() + _ELLIPSIS


def _line(text: str, limit: int) -> str:
    """The text on one line; of a long text no more than shows whether it exceeds the limit."""
    read = 2 * limit + 32
    while True:
        line = " ".join(text[:read].split())
        if not line.isprintable():  # seldom, and the test is much faster than the substitution
            line = " ".join(_UNPRINTABLE.sub("", text[:read]).split())
        if len(line) > limit or read >= len(text):
            return line
        read *= 8


def _joins(text: str, cut: int) -> bool:
    """Do the code points on both sides of the cut make one visible character?"""
    after = text[cut]
    if after == _ZERO_WIDTH_JOINER or text[cut - 1] == _ZERO_WIDTH_JOINER:
        return True
    if unicodedata.category(after) in ("Mn", "Mc", "Me"):
        return True
    return _is_modifier(after) or (_is_flag_half(after) and _flag_halves_before(text, cut) % 2 == 1)


def _is_modifier(char: str) -> bool:
    """Skin tones, the tags of regional flags, the later letters of a Hangul syllable."""
    return (
        "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
        or "\u1160" <= char <= "\u11ff"
    )


def _is_flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flag_halves_before(text: str, cut: int) -> int:
    start = cut
    while start > 0 and _is_flag_half(text[start - 1]):
        start -= 1
    return cut - start
