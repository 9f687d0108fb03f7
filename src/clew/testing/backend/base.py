"""What every part of the suite stands on: fixtures, a clock, messages and rows to write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pytest

from clew.backends.contract import Backend, Transaction
from clew.core.log.rows import FAILED, MESSAGE, Details, EntryRow, HeadRow, SessionQuery, SessionRow
from clew.model import Json
from clew.session import Session
from clew.store import Store

START: Final = 1_750_000_000_000_000
"""When the clock of a test starts: a day in June 2025."""


class Ticking:
    """A clock for tests: each look at it is `step` microseconds after the one before.

    A test moves it with `clock.now += …` while other threads look: no look takes that back."""

    def __init__(self, now: int = START, step: int = 997) -> None:
        self._mutex = threading.Lock()
        self._now = now
        self.step = step

    @property
    def now(self) -> int:
        return self._now

    @now.setter
    def now(self, now: int) -> None:
        with self._mutex:
            self._now = now

    def __call__(self) -> int:
        with self._mutex:
            self._now += self.step
            return self._now


class Conformance:
    """The base of all parts of the suite. A subclass gives a fixture `backend`."""

    @pytest.fixture
    def backend(self) -> Backend:
        raise NotImplementedError("a conformance class needs a fixture `backend`: a fresh, empty Backend")

    @pytest.fixture
    def clock(self) -> Ticking:
        return Ticking()

    @pytest.fixture
    def store(self, backend: Backend, clock: Ticking) -> Iterator[Store]:
        with Store(backend, clock=clock) as store:
            yield store

    @pytest.fixture
    def s(self, store: Store) -> Session:
        return store.session("s")


# Messages


def user(text: str) -> dict[str, Json]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Json]:
    return {"role": "assistant", "content": text}


def system(text: str) -> dict[str, Json]:
    return {"role": "system", "content": text}


def calling(*ids: str) -> dict[str, Json]:
    """An assistant's turn that calls a tool once for each id."""
    calls = [{"id": id, "type": "function", "function": {"name": "run", "arguments": "{}"}} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(id: str, text: str = "done") -> dict[str, Json]:
    return {"role": "tool", "tool_call_id": id, "content": text}


def say(session: Session, *texts: str) -> None:
    """Append user messages."""
    session.append(*map(user, texts))


def texts(messages: Sequence[dict[str, Json]]) -> list[Json]:
    """The contents of messages: enough to tell them apart."""
    return [message["content"] for message in messages]


def said(session: Session) -> list[Json]:
    """The contents of the whole history."""
    return texts(session.messages())


# What a session shows, and what changes it

CHANGES: dict[str, Callable[[Session], Any]] = {
    "replace": lambda s: s.replace([user("new")]),
    "replace with nothing": lambda s: s.replace([]),
    "replace, turns set": lambda s: s.replace([user("new")], user_turns=7),
    "clear": lambda s: s.clear(),
    "truncate": lambda s: s.truncate(1),
    "compact": lambda s: s.compact("short"),
    "set_summary": lambda s: s.set_summary("sum"),
    "rewind": lambda s: s.rewind(0),
}


def state(s: Session) -> tuple[Any, ...]:
    """What a session shows of its path."""
    info = s.info
    counts = (info.messages, info.user_turns, info.entries, info.bytes, info.hash, info.preview)
    return s.head, s.messages(), list(s.context()), s.summary, list(s.entries()), counts


class Broken(Exception):
    """What a turn is left with."""


def fail(session: Session, *work: Callable[[], Any], error: BaseException | None = None) -> None:
    """A turn that does this, and then fails."""
    with session.turn():
        for step in work:
            step()
        raise error or Broken("half-way")


# Rows, for the tests of the storage contract

ALL_BYTES: Final = bytes(range(256))


def a_tip(branch: int = 0, position: int = -1, messages: int = 0, size: int = 0) -> HeadRow:
    """A place whose counters are all different, so that none can stand for another."""
    return HeadRow(branch, position, bytes(range(32)), messages, 101, size, 102, 103, 104)


def a_session(id: str, **changes: Any) -> SessionRow:
    """A session's row, every field with a value of its own unless `changes` says otherwise."""
    fields: dict[str, Any] = {
        "sid": 0,
        "id": id,
        "tree": 0,
        "created": START,
        "updated": START + 1,
        "deleted": None,
        "head": a_tip(),
        "grows": False,
        "title": "Ünï \U0001f469\u200d\U0001f680 title",
        "has_title": True,
        "preview": "what was said",
        "workspace": "/w/ö",
        "moves": 201,
        "undo": 202,
        "redo": 203,
        "forks": 204,
        "status": FAILED,
        "epoch": 205,
        "fence": 2**62 + 206,
        "due": 207,
    }
    return SessionRow(**{**fields, **changes})


def an_entry(position: int, body: bytes = b"{}", kind: int = MESSAGE, flags: int = 0) -> EntryRow:
    """An entry whose counters are all different."""
    digest = position.to_bytes(4, "big") * 8
    return EntryRow(position, kind, START + position, flags, digest, 301, 302, 303, 304, 305, 306, body, 307)


def add(tx: Transaction, id: str, details: Details | None = None, **changes: Any) -> SessionRow:
    """Store a session; its row as it must come back."""
    row = a_session(id, **changes)
    sid = tx.add_session(row, details or Details())
    found = tx.get_session(sid)
    assert found is not None
    return found


def query(limit: int = 1000, **filters: Any) -> SessionQuery:
    return SessionQuery(limit=limit, **filters)
