"""What hides the characters of a secret: escape sequences of terminals, characters without width, and the
percent signs of addresses.

They are no part of what a person or a program reads. So the rules judge a text without them, and a secret is
replaced in the text as it was.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote_to_bytes

_ZERO_WIDTH: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)
"""Soft hyphens, joiners, directions, variations, fillers and tags."""
_ZERO_WIDTH_WRITTEN: Final = r"u(?:00[aA][dD]|200[b-fB-F]|202[a-eA-E]|206[0-9a-fA-F]|[fF][eE][fF]{2})"
_SEQUENCE: Final = re.compile(
    r"\x1b\[[0-9;:?]{0,64}[A-HJKSTfhlmnsu]"  # colours, movements, cleared lines
    r"|\x1b\]\d{1,4};"  # the beginning of a link or of a window title; what follows is text
    r"|\x1b\\|\x07"  # their end
    r"|\x1b[()][A-Z0-2]"  # sets of characters
    r"|\\{1,4}(?:u001[bB]|x1[bB]|033|e)\[[0-9;:]{0,64}[mK]"  # a colour as JSON and programs write it
    rf"|\\{{1,4}}{_ZERO_WIDTH_WRITTEN}"
    # Where they join no two characters of a key, they hide nothing: emoji have them.
    rf"|(?<=[!-~\x07])[{_ZERO_WIDTH}]++(?=[!-~\x1b])"
)
_MAY_HIDE: Final = re.compile(rf"[\x1b\\{_ZERO_WIDTH}]")
_OF_TERMINAL: Final = ("\x1b", "\x07")
_CODED: Final = re.compile(r"%(?:25){0,4}(?P<code>0[9AaDd]|[2-7][0-9A-Fa-f])|%(?:25){0,4}[Ee]2%80%8[B-Fb-f]")
"""A character of an address, coded once or several times; or one without width."""
_SEQUENCE_OR_CODED: Final = re.compile(f"{_SEQUENCE.pattern}|{_CODED.pattern}")

_WRITTEN_IN_JSON: Final = re.compile(
    rb"\\u(?:001b\[|" + _ZERO_WIDTH_WRITTEN.removeprefix("u").encode() + rb")|\\u00[2-7][0-9a-fA-F]"
)
_WITHOUT_WIDTH: Final = re.compile(
    rb"\xc2\xad|\xcd\x8f|\xd8\x9c|\xe1(?:\x85[\x9f\xa0]|\x9e[\xb4\xb5]|\xa0[\x8b-\x8f])"
    rb"|\xe2(?:\x80[\x8b-\x8f\xaa-\xae]|\x81[\xa0-\xaf])|\xe3\x85\xa4|\xef(?:\xb8[\x80-\x8f]|\xbb\xbf|\xbe\xa0)"
    rb"|\xf3\xa0[\x80-\xbf][\x80-\xbf]"
)
_ASCII: Final = bytes(range(128))
# Each way begins with a byte of its own: so the search skips all other bytes quickly.
_GONE_IN_JSON: Final = re.compile(
    rb"\\\\{0,7}(?:u001b\[[0-9;:?]{0,64}[A-HJKSTfhlmnsu]|" + _ZERO_WIDTH_WRITTEN.encode() + rb")"
    rb"|\x1b\[[0-9;:?]{0,64}[A-HJKSTfhlmnsu]|" + _WITHOUT_WIDTH.pattern
)
_LETTER_IN_JSON: Final = re.compile(rb"\\u00([2-7][0-9a-fA-F])")
_CODED_IN_JSON: Final = re.compile(rb"%(?:25){0,4}(?:0[9AaDd]|[2-7][0-9A-Fa-f])")
_MOST_TIMES_CODED: Final = 5

Way = Literal["as it is", "without", "with gaps", "decoded"]
"""How a text is read: with all that is in it, without escape sequences, with a blank for each, or without
them and with the characters that percent signs stand for."""


class Edit(NamedTuple):
    """A secret at `start:end` of a plain text, and what stands for it."""

    start: int
    end: int
    marker: str


class ShownText:
    """A text, and `plain`: what of it is judged."""

    def __init__(self, text: str, way: Way = "without") -> None:
        self.text = text
        self._way = way
        self._spans: list[tuple[int, int]] = []
        """Stretches of the text that `plain` shows in another way."""
        self._widths: list[int] = []
        """How many characters stand for each in `plain`: none or one."""
        self._left_out = [0]
        """Characters of the first n stretches that `plain` lacks."""
        self._at: list[int] = []
        """Where in `plain` each of them stands, or would stand."""
        self.plain = "".join(self._pieces()) if way != "as it is" and hides_something(text, way) else text

    def _pieces(self) -> Iterator[str]:
        last = 0
        pattern = _SEQUENCE_OR_CODED if self._way == "decoded" else _SEQUENCE
        for match in pattern.finditer(self.text):
            start, end = match.span()
            code = match["code"] if self._way == "decoded" else None
            shown = chr(int(code, 16)) if code else " " if self._way == "with gaps" else ""
            self._spans.append((start, end))
            self._widths.append(len(shown))
            self._at.append(start - self._left_out[-1])
            self._left_out.append(self._left_out[-1] + end - start - len(shown))
            yield self.text[last:start]
            yield shown
            last = end
        yield self.text[last:]

    @property
    def differs(self) -> bool:
        """Whether something was left out or decoded."""
        return bool(self._spans)

    def edited(self, edits: Iterable[Edit]) -> ShownText:
        """Return the text with markers for secrets. Sequences of a terminal stay: one that was inside a
        secret stands behind its marker."""
        parts, last = [], 0
        for edit in edits:
            start = self._begin(edit.start)
            end = max(self._end(edit.end), start)
            first = bisect_left(self._spans, (start, start))
            behind = bisect_left(self._spans, (end, end))
            inside = (self.text[begin:stop] for begin, stop in self._spans[first:behind])
            parts += [self.text[last:start], edit.marker, *filter(_stays, inside)]
            last = end
        return ShownText("".join((*parts, self.text[last:])), self._way)

    def _begin(self, at: int) -> int:
        """Where the character at a place of `plain` begins in the text."""
        before = bisect_right(self._at, at)
        if before and self._at[before - 1] == at and self._widths[before - 1]:
            before -= 1
        return at + self._left_out[before]

    def _end(self, at: int) -> int:
        """Where the character before a place of `plain` ends in the text."""
        return at + self._left_out[bisect_left(self._at, at)]


def hides_something(text: str, way: Way) -> bool:
    """Whether a text may read otherwise in some way; False: surely not."""
    return ("%" in text and way == "decoded") or _MAY_HIDE.search(text) is not None


def has_coded(text: str) -> bool:
    """Whether percent signs stand for characters in a text."""
    return "%" in text and _CODED.search(text) is not None


class CodedLine(NamedTuple):
    text: str
    is_coded: bool
    """Percent signs stand for characters in it, or it is a blank one behind such a line."""


def coded_lines(text: str) -> Iterator[CodedLine]:
    """Yield the lines of a text, with their ends."""
    is_coded = False
    for line in text.splitlines(keepends=True):
        is_coded = has_coded(line) or (is_coded and line.isspace())
        yield CodedLine(line, is_coded)


def _stays(sequence: str) -> bool:
    return sequence.startswith(_OF_TERMINAL) or sequence.endswith(("m", "K"))


def without_escapes(text: str) -> str:
    """Return what a person reads of a text."""
    return ShownText(text).plain


def forms_in_json(raw: bytes) -> Iterator[bytes]:
    """Yield what a JSON text hides: without colours and characters of no width, and with coded characters as
    they are read. To be searched only: all else in it is as it was."""
    shown = raw
    if _hides_in_json(raw):
        shown = _LETTER_IN_JSON.sub(_letter, _GONE_IN_JSON.sub(b"", raw))
        yield shown
    if b"%" in shown and _CODED_IN_JSON.search(shown):
        for _ in range(_MOST_TIMES_CODED):
            shown, before = unquote_to_bytes(shown), shown
            if len(shown) == len(before):
                break
        yield _WITHOUT_WIDTH.sub(b"", shown)


def _hides_in_json(raw: bytes) -> bool:
    return (
        b"\x1b" in raw
        or (b"\\u" in raw and _WRITTEN_IN_JSON.search(raw) is not None)
        or (not raw.isascii() and _WITHOUT_WIDTH.search(raw.translate(None, _ASCII)) is not None)
    )


def _letter(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 16)])
