"""How far a log is in the index: the row that says so."""

from __future__ import annotations

from typing import NamedTuple

TAIL = 24
"""So many bytes of the first and of the last line are remembered: their checksums are among them."""


class LogRow(NamedTuple):
    """The columns of `logs`, in their order."""

    log: int
    name: str
    sid: int
    applied: int
    """Bytes of it that are in the index."""
    lines: int
    inode: int
    tail_at: int
    tail: bytes
    dirty: int
    """It holds what was dropped."""
    stale: int
    """Bytes of lines that say anew what others said before: a scrub takes the older ones away."""
    safe: int
    """Bytes of it that were acknowledged as durable: what is wrong with them is damage, and not torn."""
    head: bytes = b""
    """How its first line begins, if that has a mark."""
