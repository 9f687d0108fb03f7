"""The subagents of a session: which call started which, and whether a page has room for them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Final

from clew.core.messages.dialects import prompt_of
from clew.errors import CorruptError
from clew.exporters.blocks import Block
from clew.exporters.changes import text_at
from clew.model import Json, SessionInfo

if TYPE_CHECKING:
    from clew.store import Store

MOST_AGENTS: Final = 200
"""Subagents of one session that are looked for."""
MOST_MESSAGES: Final = 4_000
"""Of all subagents that one page holds."""
DEEPEST: Final = 4
"""Subagents of subagents."""
_PROMPTS: Final = ("prompt", "message", "task", "instructions", "description", "objective")
_LOOKED_AT: Final = 400
"""Letters of a prompt that are compared."""


class Subagents:
    """Those of one session. Each is given out once: to the call that started it, or at the end."""

    def __init__(self, store: Store, id: str) -> None:
        self._store = store
        self._id = id
        found = store.list(where={"parent": id}, limit=MOST_AGENTS).sessions
        self._left: dict[str, SessionInfo] = {
            info.id: info for info in sorted(found, key=lambda info: info.created_at) if info.id != id
        }
        self.count = len(self._left)
        self.all = tuple(self._left.values())
        self._by_call = {
            call: info.id for info in self._left.values() if (call := _call_of(info)) is not None
        }
        self._prompts: dict[str, str] | None = None

    def cost(self) -> Decimal:
        """What their calls cost, as far as that is known, with those of their own subagents."""
        total, seen, todo = Decimal(0), {self._id}, [info.id for info in self.all]
        while todo and len(seen) <= MOST_AGENTS:
            if (id := todo.pop()) in seen:
                continue
            seen.add(id)
            todo += [info.id for info in self._store.list(where={"parent": id}, limit=MOST_AGENTS)]
            try:
                total += self._store.get(id).usage().cost
            except CorruptError:
                continue  # the page says which one cannot be read
        return total

    def started_by(self, call: Block) -> list[SessionInfo]:
        """The subagents that this call started, as far as anything tells."""
        if not self._left:
            return []
        found = [self._by_call[call.call]] if call.call in self._by_call else list(self._named(call))
        if not found and (prompt := _prompt(call.value)):
            found = [id for id, own in self._own_prompts().items() if own and own == prompt][:1]
        return [self._left.pop(id) for id in found if id in self._left]

    def rest(self) -> list[SessionInfo]:
        """Those that no call is known to have started."""
        left = list(self._left.values())
        self._left.clear()
        return left

    def _named(self, call: Block) -> Iterator[str]:
        """Those whose own ids stand in the result of a call."""
        told = "\n".join(answer.text for answer in call.answers if answer.kind == "result")
        for id in self._left:
            name = id.rpartition("/")[2].rpartition(":")[2].removeprefix("agent-")
            if len(name) > 6 and name in told:
                yield id

    def _own_prompts(self) -> dict[str, str]:
        if self._prompts is None:
            self._prompts = {id: self._first_prompt(id) for id in self._left}
        return self._prompts

    def _first_prompt(self, id: str) -> str:
        try:
            for entry in islice(self._store.get(id).entries(damaged="skip"), 3):
                if entry.kind == "message" and (words := prompt_of(entry.message)):
                    return _flat(words)
        except CorruptError:
            pass  # it can still be named
        return ""


def _call_of(info: SessionInfo) -> str | None:
    """The id of the call that started a subagent, if its program wrote it down."""
    meta = info.metadata.get("agent_meta")
    for told in (meta, info.metadata):
        if isinstance(told, dict) and isinstance(call := told.get("toolUseId", told.get("tool_use_id")), str):
            return call
    return None


def _prompt(arguments: Json) -> str:
    return _flat(text_at(arguments, _PROMPTS)) if isinstance(arguments, dict) else ""


def _flat(text: str) -> str:
    return " ".join(text[: 2 * _LOOKED_AT].split())[:_LOOKED_AT]
