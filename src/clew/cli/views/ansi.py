"""Colours that tools printed, kept as styles; all else that acts on a terminal is taken out or shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from rich.text import Text

from clew.cli.text import clean, plain

_COLOUR: Final = re.compile(r"\x1b\[([0-9;]{0,40})m")
_NAMES: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_FLAGS: Final = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 9: "strike"}
_OFF: Final = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 29: ("strike",)}


def translated(lines: Iterable[str]) -> Iterator[Text]:
    """The lines of an output, with its colours as styles. Of a line that was written over itself, as a bar
    of progress is, the last state."""
    state = _State()
    for line in lines:
        yield _line(line.rstrip("\r").rpartition("\r")[2], state)


def _line(line: str, state: _State) -> Text:
    text = Text()
    at = 0
    for found in _COLOUR.finditer(line):
        text.append(clean(plain(line[at : found.start()])), style=state.style)
        state.take(found[1])
        at = found.end()
    text.append(clean(plain(line[at:])), style=state.style)
    return text


class _State:
    def __init__(self) -> None:
        self._colour = ""
        self._flags: set[str] = set()

    @property
    def style(self) -> str:
        return " ".join([*sorted(self._flags), self._colour]).strip()

    def take(self, codes: str) -> None:
        numbers = [int(code[:4]) if code else 0 for code in codes.split(";")]
        while numbers:
            number = numbers.pop(0)
            if number in (38, 48):
                self._take_other(number, numbers)
            elif number == 0:
                self._colour, self._flags = "", set()
            elif number in _FLAGS:
                self._flags.add(_FLAGS[number])
            elif number in _OFF:
                self._flags -= set(_OFF[number])
            elif 30 <= number <= 37:
                self._colour = _NAMES[number - 30]
            elif 90 <= number <= 97:
                self._colour = f"bright_{_NAMES[number - 90]}"
            elif number == 39:
                self._colour = ""

    def _take_other(self, number: int, rest: list[int]) -> None:
        """38;5;n and 38;2;r;g;b; backgrounds are left out."""
        kind = rest.pop(0) if rest else 0
        values, rest[:] = rest[: 1 if kind == 5 else 3], rest[1 if kind == 5 else 3 :]
        if number != 38 or not values or max(values) > 255:
            return
        if kind == 5:
            self._colour = f"color({values[0]})"
        elif kind == 2 and len(values) == 3:
            self._colour = "#{:02x}{:02x}{:02x}".format(*values)
