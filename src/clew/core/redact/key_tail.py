"""The end of a private key whose beginning was cut off: as `tail` and editors show it.

Only the last line says what it is. The lines before it are looked at backwards, from there, as long as they
are of base64.
"""

from __future__ import annotations

import re
from string import ascii_letters, digits
from typing import Final

KEY_END: Final = re.compile(r"-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----")

_BASE64: Final = f"{ascii_letters}{digits}+/="
_PIECE: Final = 256
_LONGEST: Final = 65_536
"""Characters of a key that are replaced at most."""
_WHOLE_LINE: Final = 40
"""Characters that a line of a key has, but for the last ones. A shorter one before these is no part of it."""
_SHORT_LINES: Final = 2
_LEAST: Final = 40
_NEW_LINE: Final = re.compile(r"(?:\r?\n|(?:\\{1,4}r)?\\{1,4}n)[ \t>|│]{0,16}(?:\d{1,7}[\t:→│|] ?)?\Z| \Z")
"""A line end, also as programs write it, and what an editor or a tool puts before a line; or a blank, where
lines were joined."""
_LONGEST_NEW_LINE: Final = 48


def is_key_tail(match: re.Match[str]) -> bool:
    """Whether base64 enough to be part of a key stands before the end of one."""
    return match.start() - begin_of_key(match) >= _LEAST


def begin_of_key(match: re.Match[str]) -> int:
    """Where the lines of base64 begin that stand before the end of a key."""
    text, at = match.string, match.start()
    begin, lines, has_whole = at, 0, False
    while match.start() - at < _LONGEST:
        line = _begin_of_line(text, at)
        size = at - line
        if size < _WHOLE_LINE and (has_whole or lines >= _SHORT_LINES):
            break
        has_whole = has_whole or size >= _WHOLE_LINE
        begin = line if size else begin
        lines += size > 0 or lines == 0
        new_line = _NEW_LINE.search(text, max(0, line - _LONGEST_NEW_LINE), line)
        if new_line is None:
            break
        at = new_line.start()
    return begin


def _begin_of_line(text: str, end: int) -> int:
    """Where base64 begins that ends here."""
    at = end
    while end - at < _LONGEST:
        piece = text[max(0, at - _PIECE) : at]
        rest = len(piece.rstrip(_BASE64))
        at -= len(piece) - rest
        if rest or not piece:
            break
    # In \n the letter belongs to the line end.
    return at + 1 if at and text[at - 1] == "\\" and text[at : at + 1] in ("n", "r") and at < end else at
