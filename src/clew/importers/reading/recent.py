"""The last names of a long file: what a reader keeps of it to go on later, however large it is.

What comes next in a file names something that stands shortly before it, nearly always. So the last names are
kept, and of all others only how new the newest of them is: a record that comes again has the time that it
had, so one that is newer is none of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

_MILLISECOND: Final = timedelta(milliseconds=1)


def packed(names: Iterable[str]) -> bytes:
    """Ids as one value, in which no words have to be looked for. ValueError: one cannot be kept so."""
    found = list(names)
    text = "".join([f"{name}\n" for name in found])
    if text.count("\n") != len(found):
        raise ValueError("an id has an end of line in it")
    return text.encode()


def unpacked(names: bytes) -> list[str]:
    return names.decode().split("\n")[:-1]


class RecentState(msgspec.Struct, frozen=True, array_like=True):
    names: bytes = b""
    """Packed."""
    ages: list[int | None] = []
    """For each, by how many milliseconds the newest time up to it is older than the newest of all."""
    newest: datetime | None = None
    forgotten: datetime | None = None
    """The newest time of names that are not kept; None: all are."""


class Recent:
    """Names in the order of a file, of which the last `most` are kept in a state."""

    def __init__(self, most: int, state: RecentState) -> None:
        self._most = most
        self._newest = state.newest
        self.forgotten = state.forgotten
        """The newest time of names that were not kept; None: all are known."""
        # One more than is kept: its time is that of what is forgotten.
        self._names: deque[tuple[str, datetime | None]] = deque(maxlen=most + 1)
        for name, age in zip(unpacked(state.names), state.ages, strict=True):
            at = None if age is None or self._newest is None else self._newest - age * _MILLISECOND
            self._names.append((name, at))

    def add(self, name: str, at: datetime | None) -> None:
        if at is not None and (self._newest is None or at > self._newest):
            self._newest = at
        self._names.append((name, self._newest))

    def may_have_been(self, at: datetime | None) -> bool:
        """Whether a name that is not known, and has this time, may be one of those that were forgotten."""
        return self.forgotten is not None and (at is None or at <= self.forgotten)

    def names(self) -> list[str]:
        """Those that are kept."""
        return [name for name, _ in self._names][-self._most :]

    def state(self) -> RecentState | None:
        """None: what would be forgotten has no time. ValueError: as of `packed`."""
        forgotten = self.forgotten
        if len(self._names) > self._most:
            forgotten = self._names[0][1]  # the newest time up to there, what was forgotten before included
            if forgotten is None:
                return None
        ages = [self._age(at) for _, at in self._names][-self._most :]
        return RecentState(packed(self.names()), ages, self._newest, forgotten)

    def _age(self, at: datetime | None) -> int | None:
        return None if at is None or self._newest is None else (self._newest - at) // _MILLISECOND
