"""Where each record of a Claude Code file goes in the tree, and what is kept of that to go on later."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from clew.importers.contract import NotFollowedError
from clew.importers.reading.recent import Recent, RecentState, packed, unpacked
from clew.model import Json

ENTRIES: Final = 128
"""The places of so many entries, the last ones, are kept when a file is left to be gone on with later,"""
LINKS: Final = 64
"""and of so many records that are none."""
_NOWHERE: Final = -1
_FORGOTTEN: Final = -2
_LOST: Final = ""
"""An entry that a link leads to, and that is forgotten."""
_UNKNOWN: Final = {_NOWHERE: None, _FORGOTTEN: _LOST}


class TreeState(msgspec.Struct, frozen=True, array_like=True):
    """The last records of a file. Numbers count the entries, or the runs, in the lists here."""

    entries: RecentState = RecentState()
    links: RecentState = RecentState()
    places: list[int] = []
    """For each link, the entry that it leads to."""
    moved: dict[str, str] = {}
    """Records whose children go behind another entry."""
    runs: bytes = b""
    """Their ids, packed, as are those of ends and calls."""
    run_of: list[int] = []
    """For each entry."""
    ends: bytes = b""
    """For each run, its last entry."""
    calls: bytes = b""
    run_of_call: list[int] = []
    last: str | None = None


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
    raises NotFollowedError.
    """

    def __init__(self, state: TreeState) -> None:
        self._entries = Recent(ENTRIES, state.entries)
        self._links = Recent(LINKS, state.links)
        names, runs = self._entries.names(), unpacked(state.runs)
        self.places: dict[str, str | None] = {name: name for name in names}
        """The entry that a record is, or that a link leads to."""
        self._moved = dict(state.moved)
        """Records whose children go behind another entry."""
        for link, number in zip(self._links.names(), state.places, strict=True):
            self.places[link] = _UNKNOWN.get(number) if number < 0 else names[number]
        self._runs = {name: runs[run] for name, run in zip(names, state.run_of, strict=True) if run >= 0}
        """The answer that an entry belongs to."""
        self._ends = dict(zip(runs, unpacked(state.ends), strict=True))
        """The last entry of an answer."""
        calls = zip(unpacked(state.calls), state.run_of_call, strict=True)
        self._calls = {call: runs[run] for call, run in calls}
        """The answer in which a tool was called."""
        self.last = state.last
        """The last entry in the order of the file."""
        self.is_whole = state.entries.forgotten is None and state.links.forgotten is None
        """Whether it knows all records of the file so far."""

    def knows(self, uuid: str, at: datetime | None) -> bool:
        """Whether a record with this name was there before."""
        if uuid in self.places:
            return True
        if not self.is_whole and (self._entries.may_have_been(at) or self._links.may_have_been(at)):
            raise NotFollowedError(f"the record {uuid!r} may be one of those before")
        return False

    def entry_at(self, uuid: Json) -> str | None:
        """The entry that a record is, or leads to."""
        entry = self.places.get(uuid) if isinstance(uuid, str) else None
        if entry == _LOST:
            raise NotFollowedError(f"the record {uuid!r} leads to an entry that is too far back")
        return entry

    def has_entry(self, uuid: str) -> bool:
        """Whether a record is an entry, or leads to one."""
        return self.places.get(uuid) is not None

    def require(self, uuid: Json) -> None:
        """NotFollowedError: this record may be in the file, and is not known here."""
        if not self.is_whole and isinstance(uuid, str) and uuid not in self.places:
            raise NotFollowedError(f"the record {uuid!r} is named, which is too far back")

    def behind(self, parent: Json) -> tuple[str | None, bool]:
        """The entry behind which a child of this record goes; False: the record is not known."""
        if type(parent) is not str:
            return None, True
        if parent not in self.places:
            self.require(parent)
            return self.last, self.last is None
        entry = self._moved.get(parent) or self.entry_at(parent)
        run = None if entry is None else self._runs.get(entry)
        return (entry if run is None else self._ends[run]), True

    def add(
        self,
        uuid: str,
        parent: str | None,
        message: dict[str, Json],
        at: datetime | None,
        *,
        is_aside: bool = False,
    ) -> None:
        """An entry, in its place. `is_aside`: it may stand between the results of one answer, as a prompt
        that was queued, or what the program adds to a result. Results that come later follow it."""
        self.places[uuid] = self.last = uuid
        self._entries.add(uuid, at)
        content = message.get("content")
        blocks = content if type(content) is list else []
        if message.get("role") == "assistant":
            run = self._answer(message.get("id"), blocks, parent)
        else:
            run = self._answered(blocks, parent) if blocks else None
            if is_aside and run is None:
                run = self._called_in(self._runs.get(parent or ""))
        if run is not None:
            self._runs[uuid] = run
            self._ends[run] = uuid

    def link(self, uuid: str, entry: str | None, at: datetime | None) -> None:
        """A record that is no entry: what follows it follows that one."""
        self.places[uuid] = entry
        self._links.add(uuid, at)

    def move(self, uuid: str, entry: str) -> None:
        """What follows a record that is known goes behind another entry from now on."""
        self._moved[uuid] = entry

    def _answer(self, id: Json, blocks: list[Json], parent: str | None) -> str | None:
        """The run of a record of an answer."""
        if type(id) is not str:
            return None
        for block in blocks:
            if type(block) is dict and type(call := block.get("id")) is str:
                self._calls[call] = id
        # The same answer again on another branch is another run.
        return id if id not in self._ends or self._runs.get(parent or "") == id else None

    def _called_in(self, run: str | None) -> str | None:
        """The run, if tools were called in it."""
        return run if run is not None and run in self._calls.values() else None

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
        entries, links = self._entries.state(), self._links.state()
        if entries is None or links is None:
            return None
        places, names, link_names = self.places, self._entries.names(), self._links.names()
        number = {name: index for index, name in enumerate(names)}
        runs = list(dict.fromkeys(self._runs[name] for name in names if name in self._runs))
        number_of_run = {run: index for index, run in enumerate(runs)}
        calls = {call: number_of_run[run] for call, run in self._calls.items() if run in number_of_run}
        return TreeState(
            entries=entries,
            links=links,
            places=[
                _NOWHERE if (place := places[name]) is None else number.get(place, _FORGOTTEN)
                for name in link_names
            ],
            moved={name: self._moved[name] for name in (*names, *link_names) if name in self._moved},
            runs=packed(runs),
            run_of=[number_of_run[self._runs[name]] if name in self._runs else -1 for name in names],
            ends=packed(self._ends[run] for run in runs),
            calls=packed(calls),
            run_of_call=list(calls.values()),
            last=self.last,
        )
