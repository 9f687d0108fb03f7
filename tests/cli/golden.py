"""What a person sees, letter by letter, kept in files: `tests/cli/screens/NAME-WIDTH.txt`.

A screen that is meant to change is written anew with CLEW_WRITE_SCREENS=1; look at the difference then.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

SCREENS = Path(__file__).parent / "screens"
SGR = re.compile(r"\x1b\[[0-9;]*m")
_NAME = re.compile(r"(?<![\w-])[0-9a-f]{4}(?=\.\d+\b)")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\dZ)?")


def settled(printed: str) -> str:
    """Without colours, and with the same letters where every run has others: the names of branches, in the
    order in which they come, and moments."""
    text = SGR.sub("", printed)
    names = dict.fromkeys(_NAME.findall(text))
    letters = {name: chr(ord("a") + number) * 4 for number, name in enumerate(names)}
    text = _NAME.sub(lambda found: letters[found[0]], text)
    return _MOMENT.sub(lambda found: "TIME".center(len(found[0]), "~"), text)


def check_screen(name: str, width: int, printed: str) -> None:
    file = SCREENS / f"{name}-{width}.txt"
    text = settled(printed)
    if os.environ.get("CLEW_WRITE_SCREENS"):
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")
    assert max(map(len, text.splitlines())) <= width
