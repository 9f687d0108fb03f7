"""The tree of a Claude Code file: where each record goes, whatever its `parentUuid` says.

- Progress, hooks and meta lines are links: whoever names one as parent goes behind the message before it.
- A model's answer is several records with one `message.id`, and the results of its tool calls hang off the
  record that made the call while the chain goes on from the last one. A walk from parent to parent would
  lose results. So an answer and its results are one run, in the order of the file, and whatever follows any
  of them follows the last.
- A parent that is not in the file, or comes later (a cycle), is taken to be the record before.
"""

from __future__ import annotations

from clew.model import Json


class Tree:
    def __init__(self) -> None:
        self.places: dict[str, str | None] = {}
        """The entry that a record is, or that a link leads to."""
        self._runs: dict[str, str] = {}
        """The answer that an entry belongs to."""
        self._ends: dict[str, str] = {}
        """The last entry of an answer."""
        self._calls: dict[str, str] = {}
        """The answer in which a tool was called."""
        self.last: str | None = None
        """The last entry in the order of the file."""

    def entry_at(self, uuid: Json) -> str | None:
        """The entry that a record is, or leads to."""
        return self.places.get(uuid) if isinstance(uuid, str) else None

    def behind(self, parent: Json) -> tuple[str | None, bool]:
        """The entry behind which a child of this record goes; False: the record is not known."""
        if type(parent) is not str:
            return None, True
        if parent not in self.places:
            return self.last, self.last is None
        entry = self.places[parent]
        run = None if entry is None else self._runs.get(entry)
        return (entry if run is None else self._ends[run]), True

    def add(self, uuid: str, parent: str | None, message: dict[str, Json]) -> None:
        """An entry, in its place."""
        self.places[uuid] = self.last = uuid
        content = message.get("content")
        blocks = content if type(content) is list else []
        if message.get("role") == "assistant":
            run = self._answer(message.get("id"), blocks, parent)
        else:
            run = self._answered(blocks, parent) if blocks else None
        if run is not None:
            self._runs[uuid] = run
            self._ends[run] = uuid

    def link(self, uuid: str, entry: str | None) -> None:
        """A record that is no entry: what follows it follows that one."""
        self.places[uuid] = entry

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
