"""Escape sequences of terminals in a text: colours, links, cleared lines.

They are no part of what a person reads. So the rules judge a text without them, and a secret is replaced in
the text as it was, with its sequences.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

_SEQUENCE: Final = re.compile(
    r"\x1b\[[0-9;:?]{0,64}[A-HJKSTfhlmnsu]"  # colours, movements, cleared lines
    r"|\x1b\]\d{1,4};"  # the beginning of a link or of a window title; what follows is text
    r"|\x1b\\|\x07"  # their end
    r"|\x1b[()][A-Z0-2]"  # sets of characters
    r"|\\{1,4}(?:u001[bB]|x1[bB]|033|e)\[[0-9;:]{0,64}[mK]"  # a colour as JSON and programs write it
)
ESCAPE: Final = b"u001b["
"""What begins a colour in JSON."""
_SEQUENCE_IN_JSON: Final = re.compile(rb"\\{1,8}u001b\[[0-9;:?]{0,64}[A-HJKSTfhlmnsu]")


class Edit(NamedTuple):
    """A secret at `start:end` of a plain text, and what stands for it."""

    start: int
    end: int
    marker: str


class Colored:
    """A text that may have escape sequences, and what of it is judged.

    Args:
        gap: What stands in `plain` for each sequence: nothing, or one character. None: the sequence itself.
    """

    def __init__(self, text: str, gap: str | None = "") -> None:
        self.text = text
        self._gap = gap
        is_read = gap is not None and ("\x1b" in text or "\\" in text)
        self._sequences = [match.span() for match in _SEQUENCE.finditer(text)] if is_read else []
        self.plain = _SEQUENCE.sub(gap or "", text) if self._sequences else text
        self._left_out = [0]
        """Characters of the first n sequences that `plain` lacks."""
        self._at: list[int] = []
        """Where in `plain` each sequence would stand."""
        for start, end in self._sequences:
            self._at.append(start - self._left_out[-1])
            self._left_out.append(self._left_out[-1] + end - start - len(gap or ""))

    @property
    def has_sequences(self) -> bool:
        return bool(self._sequences)

    def edited(self, edits: Iterable[Edit]) -> Colored:
        """Return the text with markers for secrets. All sequences stay: one that was inside a secret stands
        behind its marker."""
        parts, last = [], 0
        for edit in edits:
            start, end = self._begin(edit.start), max(self._end(edit.end), self._begin(edit.start))
            first = bisect_left(self._sequences, (start, start))
            behind = bisect_left(self._sequences, (end, end))
            inside = (self.text[begin:stop] for begin, stop in self._sequences[first:behind])
            parts += [self.text[last:start], edit.marker, *inside]
            last = end
        return Colored("".join((*parts, self.text[last:])), self._gap)

    def _begin(self, at: int) -> int:
        """Where the character at a place of `plain` begins in the text."""
        before = bisect_left(self._at, at) if self._gap else bisect_right(self._at, at)
        return at + self._left_out[before]

    def _end(self, at: int) -> int:
        """Where the character before a place of `plain` ends in the text."""
        return at + self._left_out[bisect_left(self._at, at)]


def without_escapes(text: str) -> str:
    """Return what a person reads of a text."""
    return Colored(text).plain


def without_escapes_in_json(raw: bytes) -> bytes:
    """Return JSON without colours, to be searched only: the text between them is as it was."""
    return _SEQUENCE_IN_JSON.sub(b"", raw)
