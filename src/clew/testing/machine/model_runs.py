"""The model's share of work: who may write, what status that gives, what is noted beside.

As the rest of the model it keeps everything and counts on demand; see clew.testing.machine.model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, NamedTuple, TypeAlias

from clew.errors import (
    ClewError,
    InvalidTransitionError,
    KeyReusedError,
    LeaseHeldError,
    LeaseLostError,
)
from clew.model import Json, Status


class Refused(Exception):
    """The store must refuse this, with an error of this kind."""

    def __init__(self, kind: type[ClewError]) -> None:
        super().__init__(kind.__name__)
        self.kind = kind


@dataclass(eq=False)
class ModelRun:
    """A lease that was granted."""

    epoch: int
    owner: str
    over: bool = False
    """Its time is over: the next writer may end it."""


By: TypeAlias = ModelRun | Literal["outside"] | None
"""By what right a write is made: under this lease, outside of any (`outside_lease`), or under none."""


class ModelEvent(NamedTuple):
    type: str
    stream: str
    id: str | None
    data: Json


class ModelUsage(NamedTuple):
    id: str | None
    input: int
    output: int
    cost: Decimal


@dataclass(eq=False, kw_only=True)
class Worked:
    """What a session knows of the work on it."""

    active: int
    """Grows with every activity."""
    status: Status = "pending"
    epoch: int = 0
    holder: ModelRun | None = None
    run: dict[str, Json] | None = None
    changes: list[tuple[Status, Status, str, int]] = field(default_factory=list)
    """Was, status, by whom, under which epoch."""
    points: int = 0
    """How many checkpoints its runs have set."""
    resume_name: str | None = None
    """The newest of them."""
    events: list[tuple[int, ModelEvent]] = field(default_factory=list)
    """Those that are kept, with their numbers."""
    calls: list[ModelUsage] = field(default_factory=list)

    def change(self, status: Status, by: str, epoch: int = 0) -> None:
        """What is so already, or open already, is no change; what is closed stays so unless it is opened."""
        opens = status == "pending" and self.status not in ("closed", "expired")
        if status == self.status or opens or (self.status == "closed" and status in ("completed", "failed")):
            return
        if self.status == "closed" and status == "running":
            raise Refused(InvalidTransitionError)
        self.changes.append((self.status, status, by, epoch))
        self.status = status


class Working:
    """The part of the model that says who may write."""

    me: str
    """How the process is called."""
    now: Callable[[], int]
    cap: int | None = None
    """How many events of a session stay."""

    # -- by what right

    @contextmanager
    def admitted(self, session: Worked, by: By) -> Iterator[None]:
        """A write to the conversation; when it is refused, nothing has happened."""
        before = session.holder, session.status, len(session.changes)
        if isinstance(by, ModelRun):
            self.beside(session, by)
        elif by is None and session.holder:
            if not session.holder.over:
                raise Refused(LeaseHeldError)
            self.end_lease(session, self.me)
        try:
            yield
        except Refused:
            session.holder, session.status, kept = before
            del session.changes[kept:]
            raise

    def beside(self, session: Worked, by: By) -> None:
        """A write beside the conversation."""
        if isinstance(by, ModelRun) and session.holder is not by:
            raise Refused(LeaseLostError)

    def end_lease(self, session: Worked, by: str) -> None:
        assert session.holder
        session.change("interrupted", by, session.holder.epoch)
        session.holder = None

    def refuse_if_held(self, *sessions: Worked) -> None:
        if any(session.holder and not session.holder.over for session in sessions):
            raise Refused(LeaseHeldError)

    # -- runs

    def take(self, session: Worked, owner: str, request: Json, *, steal: bool) -> ModelRun:
        if session.holder:
            if not steal:
                self.refuse_if_held(session)
            self.end_lease(session, owner)
        elif session.status == "running":
            session.change("interrupted", owner)
        self._begin(session, owner, session.epoch + 1, request)
        session.epoch += 1
        session.holder = ModelRun(session.epoch, owner)
        return session.holder

    def _begin(self, session: Worked, owner: str, epoch: int, request: Json) -> None:
        session.change("running", owner, epoch)
        session.run = {"owner": owner, "epoch": epoch, "request": request, "response": None, "error": None}
        self._active(session)

    def start(self, session: Worked, by: By, request: Json) -> None:
        with self.admitted(session, by):
            self._begin(session, self.me, by.epoch if isinstance(by, ModelRun) else 0, request)

    def finish(self, session: Worked, by: By, *, response: Json = None, error: str | None = None) -> None:
        with self.admitted(session, by):
            who, epoch = (by.owner, by.epoch) if isinstance(by, ModelRun) else (self.me, 0)
            was, wanted = session.status, "completed" if error is None else "failed"
            if was == wanted == "completed" and response is None:
                return
            if session.run is None or was == "pending":
                session.run = {"owner": who, "epoch": epoch, "request": None}
            session.run |= {"response": response, "error": error}
            session.change("completed" if error is None else "failed", who, epoch)
            session.holder = None
            self._active(session)

    def close(self, session: Worked, by: By) -> None:
        with self.admitted(session, by):
            who, epoch = (by.owner, by.epoch) if isinstance(by, ModelRun) else (self.me, 0)
            session.change("closed", who, epoch)
            session.holder = None

    def reopen(self, session: Worked, by: By) -> None:
        with self.admitted(session, by):
            if session.status in ("closed", "expired"):
                session.change("pending", self.me)
                self._active(session)

    def _active(self, session: Worked) -> None:
        session.active = self.now()

    # -- events and usage

    def add_events(self, session: Worked, by: By, given: list[ModelEvent]) -> list[int]:
        """The number of each; one whose id is known is not written again."""
        self.beside(session, by)
        kept = list(session.events)
        numbers = []
        last = kept[-1][0] if kept else 0
        for event in given:
            known = [item for item in kept if event.id is not None and item[1].id == event.id]
            if known and repr(known[0][1]) != repr(event):
                raise Refused(KeyReusedError)
            if not known:
                last += 1
                known = [(last, event)]
                kept += known
            numbers.append(known[0][0])
        if len(kept) != len(session.events) and self.cap is not None:
            kept = kept[-self.cap :]
        session.events = kept
        return numbers

    def add_usage(self, session: Worked, by: By, call: ModelUsage) -> int:
        self.beside(session, by)
        known = [other for other in session.calls if call.id is not None and other.id == call.id]
        if known and known[0] != call:
            raise Refused(KeyReusedError)
        if not known:
            session.calls.append(call)
        return session.calls.index(known[0]) + 1 if known else len(session.calls)
