"""What a saver knows without looking at the store, and which session a thread is."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Final

import msgspec

import clew
from clew.adapters.common.sessions import find_own, open_own, session_id
from clew.adapters.langgraph import lists
from clew.adapters.langgraph.documents import Head
from clew.adapters.langgraph.log import Paths, read_path
from clew.adapters.langgraph.messages import Kept

FRAMEWORK: Final = "langgraph"
_MOST_HEADS: Final = 512
_MOST_SWEPT: Final = 10_000


class Memory:
    """What a saver knows without looking. All of it is checked, or can not change."""

    def __init__(self) -> None:
        self.paths = Paths()
        self.chains = lists.Chains()
        self._heads: OrderedDict[tuple[str, str], tuple[bytes, Head]] = OrderedDict()
        self._removals: list[clew.Removal] | None = None
        self._swept: set[str] = set()
        self._lock = threading.Lock()

    def is_current(self, store: clew.Store) -> bool:
        """Whether no rule of the store removed anything since the last look. If one did, all is forgotten:
        what was removed must not live on in here."""
        removals = store.removals(limit=1)
        with self._lock:
            if self._removals == removals:
                return True
            is_first, self._removals = self._removals is None, removals
            self._swept.clear()
            if is_first:
                return True
            self._heads.clear()
        self.paths.clear()
        self.chains.clear()
        return False

    def claim_sweep(self, session: str) -> bool:
        """Whether to look for checkpoints of a thread with copies of messages that a rule removed.

        True once for each thread, and again after each time that a rule of the store removed something.
        """
        with self._lock:
            if not self._removals or session in self._swept:
                return False
            if len(self._swept) >= _MOST_SWEPT:
                self._swept.clear()
            self._swept.add(session)
            return True

    def head(self, session: str, name: str) -> tuple[bytes, Head] | None:
        with self._lock:
            return self._heads.get((session, name))

    def remember_head(self, session: str, name: str, document: bytes, head: Head) -> None:
        with self._lock:
            self._heads[session, name] = document, head
            self._heads.move_to_end((session, name))
            while len(self._heads) > _MOST_HEADS:
                self._heads.popitem(last=False)

    def path(self, session: clew.Session, entry: str) -> list[Kept]:
        """The path to an entry; read if it is not known."""
        if not entry:
            return []
        path = self.paths.known(session.id, entry)
        if path is None:
            path = read_path(session, entry)
            self.paths.remember(session.id, path)
        return path


class Unsettled(Exception):
    """Clew has moved a thread: it cannot go on before something was written. See langgraph_moving."""

    def __init__(self, thread: Thread) -> None:
        super().__init__(thread.id)
        self.thread = thread


class Thread(msgspec.Struct, frozen=True):
    """A thread of LangGraph, and the session that it is."""

    id: str
    session: str

    def find(self, store: clew.Store) -> clew.Session | None:
        """The session, if there is one. SessionTakenError if it is none of LangGraph's."""
        return find_own(store, self.session, FRAMEWORK)

    def open(self, store: clew.Store) -> clew.Session:
        """The session, made if there is none. SessionTakenError if it is none of LangGraph's."""
        return open_own(store, self.session, self.metadata())

    @classmethod
    def kept_as(cls, info: clew.SessionInfo) -> Thread:
        """The thread that a session is. A fork that Clew made is named by its own id, not as its base is."""
        name = info.metadata.get("thread_id")
        return cls(name if isinstance(name, str) and session_id(name) == info.id else info.id, info.id)

    def metadata(self) -> dict[str, Any]:
        return {"framework": FRAMEWORK, "thread_id": self.id}


def is_waiting(session: clew.Session) -> bool:
    """Whether Clew made this fork of a thread, and no saver has seen to it that it has its checkpoints."""
    info = session.info
    return info.forked_from is not None and info.metadata.get("thread_id") != Thread.kept_as(info).id
