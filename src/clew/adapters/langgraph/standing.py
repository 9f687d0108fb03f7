"""Which checkpoint a thread stands at. The head of its session decides, wherever Clew has moved it.

A checkpoint belongs to a place in the log: the last message that it has. A graph goes on from the checkpoint
whose place is the furthest on the path to the head, and from the newest of several at one place. That is the
newest of all, unless somebody rewound, undid or cleared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

import clew
from clew.adapters.langgraph.documents import LOG, Head
from clew.adapters.langgraph.messages import kept_from

_BEGINNING = -1
_NOWHERE = -2


class HasHead(Protocol):
    @property
    def head(self) -> Head: ...


F = TypeVar("F", bound=HasHead)


class Standing(NamedTuple, Generic[F]):
    """The checkpoint that a thread stands at."""

    found: F
    is_superseded: bool = False
    """There is a later checkpoint that was made of it, on a path that was left."""


class Path:
    """The entries on the path to a place in a tree, without a look at them."""

    def __init__(self, tree: clew.Tree, head: clew.Head) -> None:
        self.end = head.position
        self._last: dict[str, int] = {}
        branches = {branch.id: branch for branch in tree.branches}
        place: clew.Head | None = head
        while place is not None and place.branch:
            self._last[place.branch] = place.position
            branch = branches.get(place.branch)
            place = branch.parent if branch is not None else None

    def depth(self, entry: str) -> int | None:
        """The position of an entry; None: it is not on this path."""
        if not entry:
            return _BEGINNING
        branch, _, position = entry.rpartition(".")
        last = self._last.get(branch)
        return int(position) if last is not None and int(position) <= last else None


def entry_at(head: clew.Head) -> str:
    """The id of the entry at which a session stands; empty: the beginning."""
    return f"{head.branch}.{head.position}" if head.branch else ""


def place_of(head: Head) -> str | None:
    """The entry that a checkpoint belongs to; empty: the beginning; None: an old version did not note it."""
    return next((str(ref[1]) for ref in head.refs.values() if ref[0] == LOG), head.at)


def is_at(session: clew.Session, place: str | None) -> bool:
    """Whether the session stands at this place, but for marks and messages that are not of LangGraph."""
    if place is None or place == entry_at(session.head):
        return True
    for entry in session.entries(newest_first=True):
        if entry.id == place:
            return True
        if entry.kind == "message" and kept_from(entry.raw, entry.id) is not None:
            return False
    return place == ""


def chosen(newest_first: Iterable[F], path: Path, is_input: Callable[[Head], bool]) -> Standing[F] | None:
    """The checkpoint that a thread stands at whose head is at the end of this path.

    A checkpoint of what came in is the beginning of a turn that is not said yet: it counts only where there
    is nothing else.
    """
    best: F | None = None
    depth, is_best_input = _NOWHERE, False
    parents: set[str] = set()
    for found in newest_first:
        head = found.head
        if head.parent:
            parents.add(head.parent)
        place = place_of(head)
        at = None if place is None else path.depth(place)
        if at is None or at < depth or (at == depth and not is_best_input):
            continue
        best, depth, is_best_input = found, at, is_input(head)
        if depth == path.end and not is_best_input:
            break
    if best is None or (is_best_input and depth == _BEGINNING):
        return None
    return Standing(best, best.head.id in parents)
