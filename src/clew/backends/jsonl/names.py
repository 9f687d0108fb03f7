"""From the id of a session to the name of its file: safe on every disk, never the same for two; and which
names are taken for those of files of a store."""

from __future__ import annotations

import os
import re
from typing import Final

from blake3 import blake3

LONGEST: Final = 100
MOST: Final = 255
"""Bytes of a name: what all disks take."""
SHORT: Final = MOST // 4
"""So many characters are no more than that, whatever they are."""
ROOM: Final = 75
"""For what is put behind the name of a log."""
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")
_OURS: Final = re.compile(r"[a-z0-9_%-]{1,100}(~[0-9a-f]{32})?(~[0-9]{1,19}){0,2}\.jsonl")
_PACK: Final = re.compile(r"[0-9]{1,19}-[0-9a-f]{16}\.pack")
_APART: Final = frozenset("/\\:" if os.name == "nt" else "/\\")
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


def is_ours(name: str) -> bool:
    """Whether a log that we make may have this name."""
    return _OURS.fullmatch(name) is not None


def is_log(name: str) -> bool:
    """Whether a file of this name, which somebody put beside the logs, is taken for one: any name that can be
    shown, for the name of a log is only a help for people."""
    is_plain = name.endswith(".jsonl") and name.isprintable() and name[0] != "." and _APART.isdisjoint(name)
    return is_plain and (len(name) < SHORT or len(name.encode()) <= MOST)


def shortened(name: str) -> str:
    """As much of the name of a log as leaves room for more."""
    return name.encode()[: MOST - ROOM].decode(errors="ignore")


def pack_file(pack: int, checksum: int) -> str:
    """The name of the file of a pack."""
    return f"{pack:d}-{checksum:016x}.pack"


def is_pack(name: str) -> bool:
    return _PACK.fullmatch(name) is not None
