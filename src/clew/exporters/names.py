"""Names of exported files: from the title of a session, safe on every disk."""

from __future__ import annotations

import re
from typing import Final

from blake3 import blake3

MOST_OF_TITLE: Final = 40
"""Letters of a title in a name."""
_LONGEST: Final = 120
"""Letters of a name."""
_BETWEEN: Final = re.compile(r"[^a-z0-9]+")
_READABLE: Final = re.compile(r"(?a)[A-Za-z0-9][\w .#=,;@+-]{0,63}")
_MADE: Final = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_RESERVED: Final = frozenset(
    {"CON", "PRN", "AUX", "NUL", *(f"{port}{number}" for port in ("COM", "LPT") for number in range(10))}
)
"""Windows takes these for devices, whatever follows a dot."""


def file_stem(id: str, title: str | None, short: str | None = None) -> str:
    """Return a name without its ending. An id that a person can read is the name; else the title is, and the
    beginning of the id. `short`: the text that is shown for the id, which no other session has."""
    if _is_readable(id):
        return id
    own = _slug(short or id.rpartition(":")[2][:8])
    return "-".join(part for part in (_slug(title or "", MOST_OF_TITLE), own) if part) or "session"


def free_stem(stem: str, id: str, taken: set[str]) -> str:
    """Return a stem that no other file has, and add it to `taken`. Disks may not tell `A` from `a`."""
    if len(stem) > _LONGEST or stem.casefold() in taken or stem.partition(".")[0].upper() in _RESERVED:
        stem = f"{stem[:_LONGEST]}~{blake3(id.encode()).hexdigest()[:16]}"
    taken.add(stem.casefold())
    return stem


def _is_readable(id: str) -> bool:
    return (
        _READABLE.fullmatch(id) is not None
        and _MADE.fullmatch(id) is None
        and id[-1] not in " ."
        and id.partition(".")[0].upper() not in _RESERVED
    )


def _slug(text: str, most: int = 64) -> str:
    return _BETWEEN.sub("-", text.casefold())[:most].strip("-")
