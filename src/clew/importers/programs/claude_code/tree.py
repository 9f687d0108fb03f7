"""Where each record of a Claude Code file goes in the tree, and what is kept of that to go on later."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from typing import Final

import msgspec

from clew.importers.contract import NotFollowedError
from clew.model import Json

ENTRIES: Final = 256
"""The places of so many entries, the last ones, are kept when a file is left to be gone on with later,"""
LINKS: Final = 64
"""and of so many records that are none."""


_MILLISECOND: Final = timedelta(milliseconds=1)


class _Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    uuid: str
    age: int | None
    """Milliseconds by which the newest time up to it lies before the newest of all, rounded down."""
    run: str | None
    moved: str | None
    """The entry that what follows it follows, if that is another one."""


class _Link(msgspec.Struct, frozen=True, array_like=True, gc=False):
    uuid: str
    age: int | None
    place: str | None


class TreeState(msgspec.Struct, frozen=True, array_like=True):
    """The last records of a file: what comes next names one of them, nearly always."""

    entries: list[_Entry] = []
    links: list[_Link] = []
    ends: dict[str, str] = {}
    calls: dict[str, str] = {}
    last: str | None = None
    newest: datetime | None = None
    """The newest time of all records, those that were forgotten included,"""
    forgotten: datetime | None = None
    """and of those alone; None: none was."""


class Tree:
    """Where each record of a file goes, whatever its `parentUuid` says.

    - Progress, hooks and meta lines are links: a record that names one as its parent goes behind the message
      before it.
    - A model's answer is several records with one `message.id`, and the results of its calls hang off the
      record that made the call, while the chain goes on from the last one. A walk from parent to parent would
      lose results. So an answer and its results are one run, in the order of the file, and what follows any
      of them follows the last.
    - A parent that is not in the file, or comes later (a cycle), is taken to be the record before.

    A tree that was made from a state knows the last records only. Where it would have to know others, it
    raises NotFollowedError. A record that comes again has the time that it had: so one that is newer than all
    that were forgotten is none of them.
    """

    def __init__(self, state: TreeState | None = None) -> None:
        state = state or TreeState()
        self.places: dict[str, str | None] = {}
        """The entry that a record is, or that a link leads to."""
        self._runs: dict[str, str] = {}
        """The answer that an entry belongs to."""
        self._ends: dict[str, str] = dict(state.ends)
        """The last entry of an answer."""
        self._calls: dict[str, str] = dict(state.calls)
        """The answer in which a tool was called."""
        self.last = state.last
        """The last entry in the order of the file."""
        self._forgotten = state.forgotten
        self._newest = state.newest
        self._entries: deque[tuple[str, datetime | None]] = deque(maxlen=ENTRIES + 1)
        """The last ones, each with the newest time up to it,"""
        self._links: deque[tuple[str, datetime | None]] = deque(maxlen=LINKS + 1)
        """and the last links. One more than is kept: its time is that of what is forgotten."""
        for link in state.links:
            self.places[link.uuid] = link.place
            self._links.append((link.uuid, self._before(link.age)))
        for entry in state.entries:
            self.places[entry.uuid] = entry.moved or entry.uuid
            self._entries.append((entry.uuid, self._before(entry.age)))
            if entry.run is not None:
                self._runs[entry.uuid] = entry.run

    @property
    def is_whole(self) -> bool:
        """Whether it knows all records of the file so far."""
        return self._forgotten is None

    def knows(self, uuid: str, at: datetime | None) -> bool:
        """Whether a record with this name was there before."""
        if uuid in self.places:
            return True
        if self._forgotten is not None and (at is None or at <= self._forgotten):
            raise NotFollowedError(f"the record {uuid!r} may be one of those before")
        return False

    def entry_at(self, uuid: Json) -> str | None:
        """The entry that a record is, or leads to."""
        return self.places.get(uuid) if isinstance(uuid, str) else None

    def require(self, uuid: Json) -> None:
        """NotFollowedError: this record may be in the file, and is not known here."""
        if self._forgotten is not None and isinstance(uuid, str) and uuid not in self.places:
            raise NotFollowedError(f"the record {uuid!r} is named, which is too far back")

    def behind(self, parent: Json) -> tuple[str | None, bool]:
        """The entry behind which a child of this record goes; False: the record is not known."""
        if type(parent) is not str:
            return None, True
        if parent not in self.places:
            self.require(parent)
            return self.last, self.last is None
        entry = self.places[parent]
        if entry is None:
            return None, True
        run = self._runs.get(entry)
        if run is None:
            if self._forgotten is not None:
                self.require(entry)
            return entry, True
        return self._ends[run], True

    def add(self, uuid: str, parent: str | None, message: dict[str, Json], at: datetime | None) -> None:
        """An entry, in its place."""
        self.places[uuid] = self.last = uuid
        self._entries.append((uuid, self._time(at)))
        content = message.get("content")
        blocks = content if type(content) is list else []
        if message.get("role") == "assistant":
            run = self._answer(message.get("id"), blocks, parent)
        else:
            run = self._answered(blocks, parent) if blocks else None
        if run is not None:
            self._runs[uuid] = run
            self._ends[run] = uuid

    def link(self, uuid: str, entry: str | None, at: datetime | None) -> None:
        """A record that is no entry: what follows it follows that one."""
        self.places[uuid] = entry
        self._links.append((uuid, self._time(at)))

    def move(self, uuid: str, entry: str) -> None:
        """What follows a record that is known follows another entry from now on."""
        self.places[uuid] = entry

    def _time(self, at: datetime | None) -> datetime | None:
        """The newest so far."""
        if at is not None and (self._newest is None or at > self._newest):
            self._newest = at
        return self._newest

    def _before(self, age: int | None) -> datetime | None:
        return None if age is None or self._newest is None else self._newest - age * _MILLISECOND

    def _age(self, time: datetime | None) -> int | None:
        return None if time is None or self._newest is None else (self._newest - time) // _MILLISECOND

    def _answer(self, id: Json, blocks: list[Json], parent: str | None) -> str | None:
        """The run of a record of an answer."""
        if type(id) is not str:
            return None
        for block in blocks:
            if type(block) is dict and type(call := block.get("id")) is str:
                self._calls[call] = id
        # The same answer again on another branch is another run.
        return id if id not in self._ends or self._runs.get(parent or "") == id else None

    def _answered(self, blocks: list[Json], parent: str | None) -> str | None:
        """The run of a record with results: that of the answer in which the tools were called."""
        for block in blocks:
            if type(block) is dict and block.get("type") == "tool_result":
                run = self._calls.get(str(block.get("tool_use_id")))
                if run is not None and self._runs.get(parent or "") == run:
                    return run
        return None

    def state(self) -> TreeState | None:
        """What is kept of it; None: what would be forgotten has no time."""
        forgotten = [self._forgotten]
        for recent in (self._entries, self._links):
            if len(recent) == recent.maxlen:
                forgotten.append(recent[0][1])
                if forgotten[-1] is None:
                    return None
        places, age = self.places, self._age
        entries = [
            _Entry(uuid, age(at), self._runs.get(uuid), None if places[uuid] == uuid else places[uuid])
            for uuid, at in list(self._entries)[-ENTRIES:]
        ]
        runs = {entry.run for entry in entries if entry.run is not None}
        return TreeState(
            entries=entries,
            links=[_Link(uuid, age(at), places[uuid]) for uuid, at in list(self._links)[-LINKS:]],
            ends={run: self._ends[run] for run in runs},
            calls={call: run for call, run in self._calls.items() if run in runs},
            last=self.last,
            newest=self._newest,
            forgotten=max((time for time in forgotten if time is not None), default=None),
        )
