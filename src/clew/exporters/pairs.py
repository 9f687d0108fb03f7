"""Results inside of the calls that they answer, for people to read.

A session has them as messages of their own, often several entries later. A reader wants to see what a call
came to where it was made. What is between a call and its result is held back, at most as long as the
assistant works on one prompt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from clew.exporters.blocks import Block
from clew.exporters.transcript import Turn

MOST_HELD: Final = 1000
"""Entries. A call that has no result by then is told without one."""


class _Held:
    __slots__ = ("blocks", "had_results", "open", "turn")

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.blocks: list[Block] = []
        self.open = 0
        """Calls without a result so far."""
        self.had_results = False


class _Call:
    __slots__ = ("at", "held", "is_open")

    def __init__(self, held: _Held, at: int) -> None:
        self.held = held
        self.at = at
        self.is_open = True


def paired(turns: Iterable[Turn]) -> Iterator[Turn]:
    """The same turns, each result moved into its call. One that consisted of results alone is left out; a
    result whose call is not on the same stretch of the session stays where it is."""
    waiting: deque[_Held] = deque()
    calls = _Calls()
    segment = None
    for turn in turns:
        if turn.segment != segment:
            yield from _all(waiting)
            calls, segment = _Calls(), turn.segment
        held = _Held(turn)
        for block in turn.blocks:
            calls.take(held, block)
        if turn.prompt or len(waiting) >= MOST_HELD:
            yield from _all(waiting)
            calls.forget()
        waiting.append(held)
        while waiting and not waiting[0].open:
            yield from _told(waiting.popleft())
    yield from _all(waiting)


def _all(waiting: deque[_Held]) -> Iterator[Turn]:
    while waiting:
        yield from _told(waiting.popleft())


def _told(held: _Held) -> Iterator[Turn]:
    turn = held.turn
    if held.blocks or not held.had_results or turn.notes or turn.checkpoints:
        yield msgspec.structs.replace(turn, blocks=tuple(held.blocks))


def place_of(turn: Turn) -> str:
    """Where an entry stands, as a part of names: its segment and its position."""
    return f"{turn.segment}-{turn.position}"


class _Calls:
    """The calls that wait for a result, and the results that were found last."""

    def __init__(self) -> None:
        self._by_id: dict[str, _Call] = {}
        self._by_name: dict[str | None, deque[_Call]] = {}
        self._last: _Call | None = None
        self._told: dict[str, str] = {}

    def forget(self) -> None:
        self._told.clear()
        self._by_id.clear()
        self._by_name.clear()
        self._last = None

    def take(self, held: _Held, block: Block) -> None:
        """Put a block where it belongs: into its call, or behind the others of its turn."""
        if block.kind == "call":
            call = _Call(held, len(held.blocks))
            held.open += 1
            held.blocks.append(block)
            if block.call is not None:
                self._by_id[block.call] = call
            else:
                self._by_name.setdefault(block.name, deque()).append(call)
            return
        found = self._answered(block)
        if found is None:
            if self._is_repeated(block):
                held.had_results = True
            else:
                held.blocks.append(block)
            return
        if block.kind == "result":
            if block.call is not None:
                self._told[block.call] = block.text
            seconds = (held.turn.time - found.held.turn.time).total_seconds()
            place = "" if found.held is held else place_of(held.turn)
            block = msgspec.structs.replace(block, place=place, seconds=seconds)
        held.had_results = held.had_results or found.held is not held
        asked = found.held.blocks[found.at]
        found.held.blocks[found.at] = msgspec.structs.replace(asked, answers=(*asked.answers, block))
        if found.is_open:
            found.is_open = False
            found.held.open -= 1
        self._last = found

    def _is_repeated(self, block: Block) -> bool:
        """Some programs write a result down twice."""
        return block.kind == "result" and block.call is not None and self._told.get(block.call) == block.text

    def _answered(self, block: Block) -> _Call | None:
        """The call that a result, or a picture in a result, belongs to."""
        if block.kind == "result":
            if block.call is not None and (found := self._by_id.pop(block.call, None)) is not None:
                return found
            named = self._by_name.get(block.name)
            return named.popleft() if named else None
        if block.kind == "media" and block.call is not None and self._last is not None:
            asked = self._last.held.blocks[self._last.at]
            return self._last if asked.call == block.call else None
        return None
