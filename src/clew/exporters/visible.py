"""Characters that act instead of being seen, made visible: terminal sequences, writing directions, tags.

A transcript is untrusted. A reversed file name or an invisible instruction must not look like something
else in an export, and a file that is shown in a terminal must not move its cursor.
"""

from __future__ import annotations

import re
from typing import Final

from clew.core.messages.text import ACTING, picture_of

_COLOURS: Final = re.compile(r"\x1b\[[0-9;:]*m")


def visible(text: str) -> str:
    """The text with control characters as pictures, and colours of terminals left out."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    return ACTING.sub(lambda found: picture_of(found[0], "\u27e6", "\u27e7"), text)


def visible_line(text: str) -> str:
    """The same on one line, for titles and names."""
    return " ".join(visible(text).split())
