"""Which session a thread is, and which checkpoint it stands at.

A checkpoint belongs to a place in the log: the last message that it has. The head of the session decides
where a thread stands: at the checkpoint whose place is the furthest on the path to the head, and of several
at one place at the newest. That is the newest checkpoint of all, unless a rewind, an undo or a clear moved
the head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import get_checkpoint_id

import clew
from clew.adapters.common.history import entry_at
from clew.adapters.common.sessions import find_own, open_own, session_id
from clew.adapters.langgraph.documents import LOG, Head, Place
from clew.adapters.langgraph.messages import kept_from

FRAMEWORK: Final = "langgraph"


class Unsettled(Exception):
    """Clew has rewound or forked a thread: it cannot go on before `Moving` has written what it needs."""

    def __init__(self, thread: Thread) -> None:
        super().__init__(thread.id)
        self.thread = thread


class Thread(msgspec.Struct, frozen=True):
    """A thread of LangGraph, and the id of its session."""

    id: str
    session: str

    def find(self, store: clew.Store) -> clew.Session | None:
        """The session, if there is one. SessionTakenError if it belongs to another framework."""
        return find_own(store, self.session, FRAMEWORK)

    def open(self, store: clew.Store) -> clew.Session:
        """The session, created if there is none. SessionTakenError if it belongs to another framework."""
        return open_own(store, self.session, self.metadata())

    @classmethod
    def kept_as(cls, info: clew.SessionInfo) -> Thread:
        """The thread of a session. A fork that Clew made has its own id as its name, not the name of its
        base."""
        name = info.metadata.get("thread_id")
        return cls(name if isinstance(name, str) and session_id(name) == info.id else info.id, info.id)

    def metadata(self) -> dict[str, Any]:
        return {"framework": FRAMEWORK, "thread_id": self.id}


def is_waiting(session: clew.Session) -> bool:
    """Whether Clew made this fork of a thread, and no saver has given it its checkpoints yet."""
    info = session.info
    return info.forked_from is not None and info.metadata.get("thread_id") != Thread.kept_as(info).id


# -- configs


def thread_named(thread_id: Any) -> Thread:
    return Thread(str(thread_id), session_id(str(thread_id)))


def thread_of(config: RunnableConfig) -> Thread:
    return thread_named(config["configurable"]["thread_id"])


def place_of(config: RunnableConfig) -> Place:
    return Place(config["configurable"].get("checkpoint_ns") or "", get_checkpoint_id(config) or "")


def with_id(config: RunnableConfig, id: str) -> RunnableConfig:
    asked = config["configurable"]
    ns = asked.get("checkpoint_ns", "")
    return {"configurable": {"thread_id": asked["thread_id"], "checkpoint_ns": ns, "checkpoint_id": id}}


# -- the checkpoint that a thread stands at

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
    """There is a later checkpoint that continues this one, on a path that was left."""


class Path:
    """The path to a place in a tree, by its branches: no entry is read for it."""

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


def last_entry_of(head: Head) -> str | None:
    """The entry that a checkpoint belongs to; empty: the beginning; None: it is not known."""
    return next((str(ref[1]) for ref in head.refs.values() if ref[0] == LOG), head.at)


def is_at(session: clew.Session, place: str | None) -> bool:
    """Whether the session stands at this place; marks and messages of other programs behind it do not
    count."""
    if place is None or place == entry_at(session.head):
        return True
    for entry in session.entries(newest_first=True):
        if entry.id == place:
            return True
        if entry.kind == "message" and kept_from(entry.raw, entry.id) is not None:
            return False
    return place == ""


def chosen(newest_first: Iterable[F], path: Path, is_input: Callable[[Head], bool]) -> Standing[F] | None:
    """The checkpoint that a thread stands at, if the head of its session is at the end of this path.

    A checkpoint of an input begins a turn whose messages are not in the log yet: it counts only where there
    is no other.
    """
    best: F | None = None
    depth, is_best_input = _NOWHERE, False
    parents: set[str] = set()
    for found in newest_first:
        head = found.head
        if head.parent:
            parents.add(head.parent)
        place = last_entry_of(head)
        at = None if place is None else path.depth(place)
        if at is None or at < depth or (at == depth and not is_best_input):
            continue
        best, depth, is_best_input = found, at, is_input(head)
        if depth == path.end and not is_best_input:
            break
    if best is None or (is_best_input and depth == _BEGINNING):
        return None
    return Standing(best, best.head.id in parents)
