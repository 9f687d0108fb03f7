"""A dry run: what a load would leave, counted without writing it.

The head of a session is one path of what its source tells, and two files may tell of one session. So each
entry is known with the messages on the path to it, and what one file would bring is known to the next.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from clew.backends.contract import Reader
from clew.core.conversation.points import tip_at
from clew.core.load.entries import Item, Memory
from clew.core.log.rows import MESSAGE


class Trial:
    """What the loads of one dry run would have brought so far, by the ids of sessions."""

    def __init__(self) -> None:
        self._brought: dict[str, tuple[array[int], array[int]]] = {}
        """Hashes of the names of entries, and the messages on the path to each."""
        self._settings: dict[str, dict[str, str]] = {}
        """What stands for the settings that were given, as in a `State`."""

    def __contains__(self, id: str) -> bool:
        return id in self._brought

    def keep(self, id: str, counts: dict[int, int]) -> None:
        self._brought[id] = array("q", counts), array("q", counts.values())

    def sets(self, id: str, settings: Mapping[str, str]) -> bool:
        """Whether a source gives other settings than those before it."""
        known = self._settings.setdefault(id, {})
        is_other = any(known.get(name) != value for name, value in settings.items())
        known.update(settings)
        return is_other

    def find(self, id: str) -> dict[int, int]:
        names, counts = self._brought.get(id, ((), ()))
        return dict(zip(names, counts, strict=True))


class PathCounts:
    """Messages on the path to each entry of one session, those that would be brought included."""

    def __init__(self, trial: Trial, id: str, memory: Memory) -> None:
        self._trial = trial
        self._id = id
        self._memory = memory
        self._counts = trial.find(id)

    def __contains__(self, name: str) -> bool:
        return hash(name) in self._counts

    def add(self, reader: Reader, items: Sequence[Item], before: str | None) -> None:
        """`before`: the entry behind which one goes whose parent is not here."""
        for item in items:
            count = self.at(reader, item.parent)
            if count is None and item.parent is not None:
                count = self.at(reader, before)
            self._counts[hash(item.name)] = (count or 0) + (item.kind == MESSAGE)
            before = item.name

    def at(self, reader: Reader, name: str | None) -> int | None:
        """Messages on the path to an entry; None: it is not here."""
        if name is None:
            return None
        count = self._counts.get(hash(name))
        if count is not None:
            return count
        place = self._memory.place(name)
        return None if place is None else tip_at(reader, *place).messages

    def keep(self) -> None:
        self._trial.keep(self._id, self._counts)
