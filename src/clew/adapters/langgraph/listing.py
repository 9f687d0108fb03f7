"""Listings: the newest checkpoints first, of one thread or of all, with as few looks as there are answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush, heapreplace
from typing import Any, NamedTuple
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import get_checkpoint_id

from clew.adapters.langgraph.documents import escaped
from clew.adapters.langgraph.memory import Thread
from clew.adapters.langgraph.reading import PAGE, Found

_TICKS_TO_1970 = 0x01B21DD213814000
"""Ids count tenths of microseconds, from the year 1582 on."""


class Listing:
    """What is asked for by `list`, and how much of it was given."""

    def __init__(
        self,
        config: RunnableConfig | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> None:
        asked = config["configurable"] if config is not None else {}
        self.ns: str | None = asked.get("checkpoint_ns")
        self._id: str | None = asked.get("checkpoint_id")
        self._before = get_checkpoint_id(before) if before else None
        self._limit = limit
        self.count = 0
        self.page = PAGE if limit is None else max(1, min(limit, PAGE))
        """How many checkpoints of a thread to read first."""

    @property
    def is_full(self) -> bool:
        return self._limit is not None and self.count >= self._limit

    def has(self, found: Found) -> bool:
        if self._id and found.id != self._id:
            return False
        return not self._before or found.id < self._before

    def begin(self, prefix: str) -> str | None:
        """The name behind which the listing begins; newest first, so what is before comes behind."""
        if self._id:
            return prefix + escaped(self._id) + "\U0010ffff"
        return prefix + escaped(self._before) if self._before else None


class Active(NamedTuple):
    """A thread, and when it was active last, in microseconds since 1970."""

    thread: Thread
    at: int


class _Open(NamedTuple):
    """A thread of which something was read; the one with the newest checkpoint is the least."""

    found: Found
    number: int
    thread: Thread
    rest: Iterator[Found]

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return (other[0].id, self.number) < (self.found.id, other[1])


def newest_of_all(
    threads: Iterable[Active], checkpoints_of: Callable[[Thread], Iterator[Found]]
) -> Iterator[tuple[Thread, Found]]:
    """The checkpoints of all threads, newest first.

    `threads` come with the newest activity first. Who puts a checkpoint is active after it was made, so a
    thread that was active before the newest checkpoint so far has no newer one, and need not be read yet.
    Where ids or clocks tell otherwise, all threads are read.
    """
    upcoming = enumerate(threads)
    following = next(upcoming, None)
    is_in_order = True
    opened: list[_Open] = []
    while True:
        while following is not None:
            number, active = following
            if opened and is_in_order and active.at < _made_at(opened[0].found.id, active.at + 1):
                break
            rest = checkpoints_of(active.thread)
            first = next(rest, None)
            if first is not None:
                is_in_order = is_in_order and _made_at(first.id, active.at + 1) <= active.at
                heappush(opened, _Open(first, number, active.thread, rest))
            following = next(upcoming, None)
        if not opened:
            return
        newest = opened[0]
        yield newest.thread, newest.found
        older = next(newest.rest, None)
        if older is None:
            heappop(opened)
        else:
            heapreplace(opened, newest._replace(found=older))


def _made_at(id: str, otherwise: int) -> int:
    """When a checkpoint was made, in microseconds since 1970, as its id tells; else another time."""
    try:
        uuid = UUID(id)
    except ValueError:
        return otherwise
    if uuid.version != 6:
        return otherwise
    number = uuid.int
    ticks = number >> 96 << 28 | (number >> 80 & 0xFFFF) << 12 | number >> 64 & 0xFFF
    return (ticks - _TICKS_TO_1970) // 10
