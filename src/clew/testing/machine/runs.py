"""The rules of the machine for work: leases that are taken, lost and run out, what is noted beside."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from clew.model import Entry, Json, Retention
from clew.run import Run
from clew.session import Session
from clew.testing.machine import strategies as some
from clew.testing.machine.base import FITTING, LEASE, LOST, OUTSIDE, PLAIN, MachineBase, compare_entry
from clew.testing.machine.model_runs import ModelEvent, ModelRun, ModelUsage
from clew.testing.machine.model_session import Node

picks = st.integers(0, 20)
"""Which of several; taken modulo their number, so that it shrinks to the first."""
sessions = st.sampled_from([0, 0, 0, 1, 1, 2])
"""Which session: few of them, so that there is a story to tell of each."""
some_messages = st.lists(some.messages, min_size=1, max_size=3)
ends = st.none() | picks
ways = st.sampled_from([FITTING] * 5 + [PLAIN, OUTSIDE, LOST, LOST])
"""By what right a write is made."""
alive = precondition(lambda self: bool(self.model.live))


class Abandoned(Exception):
    """What a turn is left with."""


class WorkingMachine(MachineBase):
    """Runs, turns, status, events and usage."""

    # -- runs

    @alive
    @rule(which=sessions, owner=some.words, request=some.json_values, steal=st.booleans())
    def take(self, which: int, owner: str, request: Json, steal: bool) -> None:
        session, s = self.pick(which)
        outcome = self.both(
            lambda: self.model.take(session, owner, request, steal=steal),
            lambda: s.run(request, owner=owner, lease=LEASE, steal=steal),
        )
        if outcome:
            taken, run = outcome
            assert (run.epoch, run.owner, run.lost) == (taken.epoch, taken.owner, False)
            self.runs.setdefault(session, []).append((taken, run))
        self.compare(session)

    @alive
    @rule(
        which=sessions,
        way=ways,
        what=st.sampled_from(["start", "complete", "complete", "fail", "close", "reopen", "reopen"]),
        value=some.json_values,
        text=some.words,
    )
    def change_status(self, which: int, way: int, what: str, value: Json, text: str) -> None:
        session, s, by = self.hand(which, way)
        match what:
            case "start":
                self.both(lambda: self.model.start(session, by, value), lambda: s.start(value))
            case "complete":
                self.both(lambda: self.model.finish(session, by, response=value), lambda: s.complete(value))
            case "fail":
                self.both(lambda: self.model.finish(session, by, error=text), lambda: s.fail(text))
            case "close":
                self.both(lambda: self.model.close(session, by), s.close)
            case _:
                self.both(lambda: self.model.reopen(session, by), s.reopen)
        self.compare(session)

    @rule(look=st.booleans())
    def let_time_pass(self, look: bool) -> None:
        """Longer than any lease lasts. Who looks for runs that were left ends them."""
        self.clock.now += (LEASE + 1) * 1_000_000
        for session in self.model.live:
            if session.holder:
                session.holder.over = True
        if look:
            for session in self.model.live:
                if session.holder:
                    self.model.end_lease(session, self.model.me)
            found = [session.id for session in self.model.listed() if session.status == "interrupted"]
            assert found == [s.id for s in self.store.interrupted()]
        self.compare_all()

    @alive
    @rule(
        which=sessions,
        lost=st.booleans(),
        name=st.none() | some.names,
        state=some.json_values,
        iteration=st.none() | st.integers(0, 99),
    )
    def set_point_to_resume(
        self, which: int, lost: bool, name: str | None, state: Json, iteration: int | None
    ) -> None:
        session, s, by = self.hand(which, LOST if lost else FITTING)
        if isinstance(by, ModelRun) and isinstance(s, Run):
            run = s
            self.same(
                lambda: self.model.set_progress(session, name, state, iteration, by),
                lambda: run.checkpoint(name, state=state, iteration=iteration).name,
            )
            self.compare_all()

    @alive
    @rule(which=sessions, way=ways, messages=some_messages, fails=st.booleans())
    def turn(self, which: int, way: int, messages: list[dict[str, Json]], fails: bool) -> None:
        session, s, by = self.hand(which, way)

        def expected() -> list[Node]:
            began = session.head
            nodes = self.model.append(session, messages, by=by)
            if fails:
                self.model.abort(session, began, by)
            return nodes

        outcome = self.both(expected, lambda: _turn(s, messages, fails))
        for node, entry in zip(*outcome, strict=True) if outcome else ():
            compare_entry(node, entry, {})
        self.compare(session)

    # -- beside

    @alive
    @rule(which=sessions, way=ways, given=st.lists(some.events, min_size=1, max_size=4))
    def add_events(self, which: int, way: int, given: list[dict[str, Any]]) -> None:
        session, s, by = self.hand(which, way)
        events = [ModelEvent(e["type"], e.get("stream", ""), e.get("id"), e.get("data")) for e in given]
        self.same(
            lambda: self.model.add_events(session, by, events),
            lambda: [event.cursor for event in self._add(s, given)],
        )
        self.compare(session)

    def _add(self, s: Session, given: list[dict[str, Any]]) -> list[Any]:
        if len(given) == 1:
            [event] = given
            options = {name: event[name] for name in ("stream", "id") if name in event}
            return [s.add_event(event["type"], event.get("data"), **options)]
        return s.add_events(given)

    @rule(cap=st.none() | st.integers(1, 5))
    def cap_events(self, cap: int | None) -> None:
        """It holds for what is added from now on."""
        self.model.cap = cap
        self.store.set_retention(Retention(max_events=cap))

    @alive
    @rule(
        which=sessions,
        way=ways,
        id=st.none() | some.names,
        tokens=st.tuples(st.integers(0, 9), st.integers(0, 9)),
        cost=some.costs,
    )
    def add_usage(self, which: int, way: int, id: str | None, tokens: tuple[int, int], cost: str) -> None:
        session, s, by = self.hand(which, way)
        call = ModelUsage(id, *tokens, Decimal(cost))
        self.same(
            lambda: self.model.add_usage(session, by, call),
            lambda: (
                s.add_usage(
                    model="of no price list",
                    input_tokens=call.input,
                    output_tokens=call.output,
                    cost=cost,
                    id=id,
                ).number
            ),
        )
        self.compare(session)


def _turn(s: Session, messages: list[dict[str, Json]], fails: bool) -> list[Entry]:
    entries: list[Entry] = []
    with suppress(Abandoned), s.turn():
        entries = s.append(*messages)
        if fails:
            raise Abandoned
    return entries
