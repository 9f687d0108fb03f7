"""From the id of a session to the name of its file: safe on every disk, never the same for two."""

from __future__ import annotations

import re
from typing import Final

from blake3 import blake3

LONGEST: Final = 100
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")
_RESERVED: Final = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])\Z")


def encoded(id: str) -> str:
    """Lower-case letters, digits, `-` and `_` stay; every other byte is `%` and two hex digits.

    What Windows keeps for itself (`con`, `com1`) begins with an escape instead; what is too long for
    a file name ends in a hash.
    """
    text = "".join(c if c in _PLAIN else "".join(f"%{byte:02x}" for byte in c.encode()) for c in id)
    if _RESERVED.match(text):
        text = f"%{ord(text[0]):02x}{text[1:]}"
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}~{blake3(id.encode()).hexdigest(16)}"
    return text
