"""What a person sees, letter by letter, kept in files: `tests/cli/screens/NAME.txt`, one below the other for
terminals of several widths.

`make screens` writes anew what is meant to change; look at the difference then.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from rich.cells import cell_len

SCREENS = Path(__file__).parent / "screens"
SGR = re.compile(r"\x1b\[[0-9;]*m")
_NAME = re.compile(r"(?<![\w-])[0-9a-f]{4}(?=\.\d+\b)")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\dZ)?( to \d\d:\d\d)?")

_MINUTE = re.compile(r"(?<![\d-])\d\d-\d\d \d\d:\d\d\b")


def settled(printed: str) -> str:
    """Without colours, and with the same letters where every run has others: the names of branches, in the
    order in which they come, and moments."""
    text = SGR.sub("", printed)
    names = dict.fromkeys(_NAME.findall(text))
    letters = {name: chr(ord("a") + number) * 4 for number, name in enumerate(names)}
    text = _NAME.sub(lambda found: letters[found[0]], text)
    text = _MOMENT.sub(lambda found: "TIME".center(len("2026-11-16 12:00"), "~"), text)
    return _MINUTE.sub("~~~TIME~~~~", text)


def check_screen(name: str, screens: Mapping[int, str]) -> None:
    """What was printed on terminals of these widths."""
    for width, printed in screens.items():
        assert max(map(cell_len, SGR.sub("", printed).splitlines())) <= width
    text = "".join(f"{'=' * width}\n{settled(printed)}" for width, printed in screens.items())
    file = SCREENS / f"{name}.txt"
    if are_written():
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")


def are_written() -> bool:
    """Whether screens are written instead of compared: by `make screens`, and never by a build server."""
    return "CLEW_WRITE_SCREENS" in os.environ and "CI" not in os.environ
