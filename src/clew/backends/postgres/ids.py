"""The numbers of sessions, branches and packs: made here, without asking the database.

    number = home << 20 | place        home = tick << 8 | lane

All sessions and branches of a tree have the same home, so that a number tells the shard. `tick` counts
sixteenths of a second since 2025, `lane` is a random number of this process: numbers grow, and two processes
seldom choose the same. When they do, the primary key refuses the second, which takes another lane. The first
session of a tree has place 0; for the others each process counts up from a random place. A new random place
for each would collide within any transaction that makes thousands of them.
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Iterator
from typing import Final

PLACE_BITS: Final = 20
LANE_BITS: Final = 8
TREES: Final = 10_000
"""For so many trees the last place is remembered."""
_TICKS: Final = 16
_SINCE: Final = 1_735_689_600


def home_of(number: int) -> int:
    """The distribution key of the session, branch or pack with this number."""
    return number >> PLACE_BITS


class Ids:
    """Gives out numbers. Used by one thread at a time."""

    def __init__(self) -> None:
        self._tick = 0
        self._made = 0
        self._places: dict[int, int] = {}
        self._chances: Iterator[int] = iter(())
        self.change_lane()

    def change_lane(self) -> None:
        """After a collision, and in a forked child."""
        self._lane = self._random(LANE_BITS)
        self._places.clear()

    def _random(self, bits: int) -> int:
        for chance in self._chances:
            return chance & ((1 << bits) - 1)
        # Many at once: a call to the system for every append is time, and lets another thread in.
        self._chances = iter(array("I", os.urandom(4096)))
        return self._random(bits)

    def root(self) -> int:
        """For a new tree, or for a pack."""
        self._tick = max(self._tick + 1, int((time.time() - _SINCE) * _TICKS))
        return (self._tick << LANE_BITS | self._lane) << PLACE_BITS

    def within(self, tree: int) -> int:
        """For one more session or branch of a tree."""
        home = home_of(tree)
        place = self._places.get(home)
        if place is None:
            if len(self._places) >= TREES:
                self._places.clear()
            place = self._random(PLACE_BITS)
        place = place + 1 & (1 << PLACE_BITS) - 1 or 1
        self._places[home] = place
        return home << PLACE_BITS | place

    def made(self) -> int:
        """A number that grows: the order of what this process stores."""
        self._made = max(self._made + 1, time.time_ns() // 1000)
        return self._made

    def version(self, after: int) -> int:
        """A version of a row that no other process chooses, and that is above the one before it.

        Not a plain counter: after a failover that lost commits, the count would come again with other
        content.
        """
        return max(after + 1, (time.time_ns() // 1000) << 8 | self._random(8))
