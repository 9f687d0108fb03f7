"""What a terminal showed: colours as classes of `span`s, all else as text.

Of the sequences only those of colours and weight mean something here. Those that move the cursor within a
line or hide it are left out, and any other is shown, as everywhere. The page's policy allows no style but its
own, so the 256 and the 16 million colours become the nearest of sixteen.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache
from typing import Final

from clew.core.messages.text import visible

MOST_COLOURED: Final = 400_000
MOST_SPANS: Final = 20_000
"""Letters, and changes of colour. More than that is shown in one colour."""

_COLOUR: Final = re.compile(r"\x1b\[([0-9;:]{0,60})m")
_UNSEEN: Final = re.compile(r"\x1b\[\??[0-9;]{0,12}[ABCDEFGKhln]|\x1b\(B|\x1b[=>]")

_WEIGHTS: Final = {1: "bo", 2: "di", 3: "it", 4: "un", 9: "st"}
_ENDS: Final = {22: ("bo", "di"), 23: ("it",), 24: ("un",), 29: ("st",)}

_SIXTEEN: Final = (
    (0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0), (0, 0, 238), (205, 0, 205), (0, 205, 205),
    (229, 229, 229), (127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0), (92, 92, 255), (255, 0, 255),
    (0, 255, 255), (255, 255, 255),
)  # fmt: skip


def terminal(text: str) -> str:
    """The output of a program, as the inside of an element."""
    if "\x1b" not in text:
        return html.escape(visible(text))
    text = _UNSEEN.sub("", text.replace("\r\n", "\n"))
    if len(text) > MOST_COLOURED or text.count("\x1b[") > MOST_SPANS:
        return html.escape(visible(text))
    look = _Look()
    parts: list[str] = []
    done = 0
    for found in _COLOUR.finditer(text):
        parts.append(look.drawn(text[done : found.start()]))
        look.change(found[1])
        done = found.end()
    parts.append(look.drawn(text[done:]))
    return "".join(parts)


class _Look:
    """Which colours and weights are on."""

    def __init__(self) -> None:
        self._weights: set[str] = set()
        self._reset()

    def _reset(self) -> None:
        self._front: int | None = None
        self._back: int | None = None
        self._turned = False
        self._weights.clear()

    def drawn(self, text: str) -> str:
        if not text:
            return ""
        inside = html.escape(visible(text))
        front, back = (self._back, self._front) if self._turned else (self._front, self._back)
        names = sorted(self._weights)
        names += [f"f{front}"] if front is not None else []
        names += [f"g{back}"] if back is not None else []
        names += ["rv"] if self._turned and back is None else []
        return f'<span class="{" ".join(names)}">{inside}</span>' if names else inside

    def change(self, told: str) -> None:
        codes = told.split(";")
        at = 0
        while at < len(codes):
            head, _, rest = codes[at].partition(":")
            code = int(head) if head else 0
            at += 1
            if rest:
                self._exact(code, [int(part) if part else 0 for part in rest.split(":")])
            elif code in (38, 48, 58):
                colour, used = _wide([int(one) if one.isdecimal() else 0 for one in codes[at:]])
                self._colour(code, colour)
                at += used
            else:
                self._one(code)

    def _exact(self, code: int, parts: list[int]) -> None:
        """A code whose numbers are its own: they are never taken for codes."""
        if code == 4:
            self._one(4 if parts[0] else 24)  # how it is underlined makes no difference
        elif code in (38, 48):
            has_space = parts[0] == 2 and len(parts) > 4
            self._colour(code, _wide([2, *parts[2:]] if has_space else parts)[0])

    def _colour(self, code: int, colour: int | None) -> None:
        if code == 38:
            self._front = colour
        elif code == 48:
            self._back = colour

    def _one(self, code: int) -> None:
        if code == 0:
            self._reset()
        elif code in _WEIGHTS:
            self._weights.add(_WEIGHTS[code])
        elif code in _ENDS:
            self._weights.difference_update(_ENDS[code])
        elif code in (7, 27):
            self._turned = code == 7
        elif 30 <= code <= 37 or 90 <= code <= 97:
            self._front = code - 30 if code < 90 else code - 82
        elif 40 <= code <= 47 or 100 <= code <= 107:
            self._back = code - 40 if code < 100 else code - 92
        elif code == 39:
            self._front = None
        elif code == 49:
            self._back = None


def _wide(codes: list[int]) -> tuple[int | None, int]:
    """A colour of 256, or by its red, green and blue; and how many numbers it took."""
    if len(codes) >= 2 and codes[0] == 5:
        return _of_256(codes[1]), 2
    if len(codes) >= 4 and codes[0] == 2:
        return _nearest(codes[1], codes[2], codes[3]), 4
    return None, len(codes)


def _of_256(number: int) -> int | None:
    if number < 16:
        return number
    if number < 232:
        red, rest = divmod(number - 16, 36)
        green, blue = divmod(rest, 6)
        return _nearest(*(0 if level == 0 else 55 + 40 * level for level in (red, green, blue)))
    grey = min(255, 8 + 10 * (number - 232))
    return _nearest(grey, grey, grey)


@lru_cache(maxsize=1024)
def _nearest(red: int, green: int, blue: int) -> int:
    def distance(at: int) -> int:
        r, g, b = _SIXTEEN[at]
        return (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2

    return min(range(16), key=distance)
