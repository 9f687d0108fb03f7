"""Moves of a session's head, in words: what the places are called, what a rewind or an undo did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import clew
from clew.cli.names import branch_names, entry_name
from clew.cli.text import ago, count, one_line
from clew.core.log.labels import mark_of
from clew.model import MoveInfo

_NOUNS: Final = {
    "clear": "the clearing of the conversation",
    "replace": "the replacement of messages",
    "compact": "the compaction",
    "truncate": "the truncation",
    "summary": "the new summary",
}
START: Final = "the beginning"


class Places:
    """What the places of a tree are called: `9f3a.12`, and the checkpoints that stand there."""

    def __init__(self, tree: clew.Tree) -> None:
        self._names = branch_names(branch.id for branch in tree.branches)
        self._checkpoints: dict[clew.Head, list[str]] = {}
        for one in tree.checkpoints:
            if one.session == tree.session:
                self._checkpoints.setdefault(one.head, []).append(one.name)

    def name(self, head: clew.Head) -> str:
        """What `ID@NAME` takes."""
        return entry_name(self._names, head) if head.position >= 0 else START

    def checkpoints(self, head: clew.Head) -> list[str]:
        return self._checkpoints.get(head, [])

    def words(self, head: clew.Head) -> str:
        """With the name of a checkpoint, if one stands there that a person named."""
        named = [name for name in self.checkpoints(head) if mark_of(name) is None]
        return f"{one_line(named[0])} ({self.name(head)})" if named else self.name(head)


def origin(moves: Sequence[MoveInfo], what: str) -> MoveInfo | None:
    """The rewind, compaction or other operation that the next undo takes back, or redo does again; None:
    there is none. Moves are newest first, as `Session.moves` gives them."""
    by_number = {move.number: move for move in moves}
    found = next((move for move in moves if move.next == what), None)
    while found is not None and found.takes_back is not None:
        found = by_number.get(found.takes_back)
    return found


def noun(move: MoveInfo, places: Places) -> str:
    """`the rewind to plan (9f3a.3)`."""
    words = f"the rewind to {places.words(move.went_to)}" if move.kind == "rewind" else _NOUNS[move.kind]
    return words if move.root is None else f"{words} with the files"


def difference(before: int, after: int) -> str:
    """`6 messages, 2 more`."""
    changed = abs(after - before)
    than = f"{changed:,} more" if after > before else f"{changed:,} fewer" if changed else "as many as before"
    return f"{count(after, 'message')}, {than}"


def history_rows(moves: Sequence[MoveInfo], places: Places) -> Iterator[tuple[object, ...]]:
    """For a table: what undo or redo comes to, number, when, what, from where, to where."""
    for move in moves:
        named = "".join(f" ◆ {mark_of(name) or one_line(name)}" for name in places.checkpoints(move.went_to))
        yield (
            f"{move.next} ▸" if move.next else "",
            move.number,
            ago(move.at),
            kind(move) + (" +files" if move.root is not None else ""),
            places.name(move.came_from),
            places.name(move.went_to) + named,
        )


def kind(move: MoveInfo) -> str:
    """`rewind`, `undo of 4`."""
    return move.kind if move.takes_back is None else f"{move.kind} of {move.takes_back}"
