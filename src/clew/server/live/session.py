"""PURE: what a client that has one path of a session must be told, so that it has the path to the head now.

Paths of one session have a common beginning, and part for good where they part. So a client is told up to
which position what it has is right, and then every entry behind that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from clew.core.log.tree import Segment

NOWHERE: Final = -1


class Step(msgspec.Struct, frozen=True):
    """From the path that a client has to the path to the head."""

    common: int
    """Both paths are the same up to this position."""
    is_move: bool
    """The client has entries behind it, which are not on the path."""
    last: int
    """The position of the head: all behind `common` up to it is to be told."""

    @property
    def is_nothing(self) -> bool:
        return not self.is_move and self.common == self.last


def step(has: Sequence[Segment], now: Sequence[Segment]) -> Step:
    """`has`: the path that the client has; `now`: the path to the head. Root first."""
    common = common_position(has, now)
    return Step(common, last_of(has) != common, last_of(now))


def common_position(one: Sequence[Segment], other: Sequence[Segment]) -> int:
    """The last position up to which two paths are the same; -1: they have nothing in common."""
    common = NOWHERE
    for a, b in zip(one, other, strict=False):
        if a.branch != b.branch:
            break
        common = min(a.last, b.last)
        if a.last != b.last:
            break
    return common


def last_of(path: Sequence[Segment]) -> int:
    return path[-1].last if path else NOWHERE


def cut(path: Sequence[Segment], last: int) -> list[Segment]:
    """The path up to a position."""
    return [Segment(part.branch, part.first, min(part.last, last)) for part in path if part.first <= last]
