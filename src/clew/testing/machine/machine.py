"""Any backend against the model: Hypothesis plays the whole public surface on both and compares.

A rule does one thing to the model and to the store; what the model refuses, the store must refuse with
the same error. After every rule the sessions it may have touched are compared in full, and the lists and
totals of the store; at the end every hash and counter is computed again from the log.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import TestCase

from hypothesis import strategies as st
from hypothesis.stateful import rule

from clew.backends.contract import Backend
from clew.errors import CheckpointNotFoundError, SessionDeletedError
from clew.model import Entry, Json
from clew.session import Session
from clew.store import Store
from clew.testing.machine import strategies as some
from clew.testing.machine.base import compare_entry
from clew.testing.machine.model_session import Place, path
from clew.testing.machine.runs import WorkingMachine, alive, ends, picks, sessions, some_messages, ways


def make_machine(
    factory: Callable[[], Backend], *, reopen: Callable[[Backend], Backend] | None = None
) -> type[TestCase]:
    """A test case that compares the stores on `factory`'s backends with the model.

    Args:
        factory: Makes a fresh, empty backend.
        reopen: For durable ones: closes a backend and opens the same place again; becomes a rule.
    """
    base = StoreMachine if reopen is None else ReopeningMachine
    machine: Any = type("Machine", (base,), {"factory": staticmethod(factory)})
    if reopen is not None:
        machine.reopen_backend = staticmethod(reopen)
    case: type[TestCase] = machine.TestCase
    return case


class StoreMachine(WorkingMachine):
    """The rules. They are played equally often, so each stands for about as much as the others."""

    # -- sessions

    @rule(
        which=picks,
        id=some.session_ids,
        force=st.booleans(),
        what=st.sampled_from(
            ["create", "session", "delete", "delete", "restore", "restore", "purge", "purge", "clear"]
        ),
    )
    def come_and_go(self, which: int, id: str, force: bool, what: str) -> None:
        if what == "restore" and self.model.trash:
            self.restore(self.model.trash[which % len(self.model.trash)][1].id)
        elif what == "purge" and (self.model.live or self.model.trash):
            self.purge(which, force=force)
        elif what == "delete" and self.model.live:
            self.delete(which, force=force)
        elif what == "clear" and which == 0:  # rarely: it ends what took many steps to build
            self.clear_the_store(force=force)
        else:
            self.create(id, strictly=what == "create")
        self.compare_all()

    @alive
    @rule(
        which=sessions,
        way=ways,
        what=st.sampled_from(["set", "unset", "update", "alias", "move alias", "drop alias"]),
        name=some.names,
        id=some.session_ids,
        value=some.json_values,
    )
    def change_settings(self, which: int, way: int, what: str, name: str, id: str, value: Json) -> None:
        session, s, by = self.hand(which, way)
        match what:
            case "set":
                self.both(
                    lambda: self.model.set_var(session, name, value, by), lambda: s.set_var(name, value)
                )
            case "unset":
                self.same(lambda: self.model.delete_var(session, name, by), lambda: s.delete_var(name))
            case "update":
                title = name if value else None
                self.both(
                    lambda: self.model.update(session, title, (name,), by),
                    lambda: s.update(title=title, tags=[name]),
                )
            case "drop alias":
                self.same(lambda: self.model.remove_alias(session, id, by), lambda: s.remove_alias(id))
            case _:
                move = what == "move alias"
                self.both(
                    lambda: self.model.add_alias(session, id, by, move=move),
                    lambda: s.add_alias(id, move=move),
                )
        self.compare_all()

    # -- messages

    @alive
    @rule(which=sessions, way=ways, messages=some_messages, form=picks, waiting=st.booleans())
    def append(self, which: int, way: int, messages: list[dict[str, Json]], form: int, waiting: bool) -> None:
        session, s, by = self.hand(which, way)
        given = [some.spelled(message, form + number) for number, message in enumerate(messages)]

        def post() -> None:
            s.append_nowait(*given)
            self.store.flush()

        outcome = self.both(
            lambda: self.model.append(session, messages, by=by),
            lambda: self.keeping(messages, lambda: s.append(*given) if waiting else post()),
        )
        if outcome and waiting:
            for node, entry in zip(*outcome, strict=True):
                compare_entry(node, entry, {})
        self.compare(session)

    @alive
    @rule(which=sessions, way=ways, messages=some_messages, key=some.names, expect=ends, again=st.booleans())
    def append_if(
        self, which: int, way: int, messages: list[dict[str, Json]], key: str, expect: int | None, again: bool
    ) -> None:
        """Under a key that may be known, at a head that may be expected; often the same batch again."""
        session, s, by = self.hand(which, way)
        if again and session.keys:
            key = key if key in session.keys else next(iter(session.keys))
            messages = [node.body for node in session.keys[key][which % len(session.keys[key])]]
        place = self.place(session, expect) if expect and expect % 2 else session.head
        outcome = self.both(
            lambda: self.model.append(session, messages, key, "any" if expect is None else place, by),
            lambda: s.append(*messages, key=key, expect=None if expect is None else self.head_of(place)),
        )
        for node, entry in zip(*outcome, strict=True) if outcome else ():
            compare_entry(node, entry, None)  # a batch that is known comes back as it was written
        self.compare(session)

    @alive
    @rule(
        which=sessions,
        way=ways,
        messages=st.lists(some.messages, max_size=3),
        turns=st.none() | st.integers(0, 9),
        kept=st.integers(0, 4),
    )
    def replace(
        self, which: int, way: int, messages: list[dict[str, Json]], turns: int | None, kept: int
    ) -> None:
        session, s, by = self.hand(which, way)
        messages = [*(node.body for node in session.messages()[:kept]), *messages]
        outcome = self.both(
            lambda: self.model.replace(session, messages, turns, by),
            lambda: s.replace(messages, user_turns=turns),
        )
        assert not outcome or len(outcome[1]) == len(messages)
        self.compare(session)

    @alive
    @rule(which=sessions, way=ways, keep=st.integers(0, 4), text=st.none() | some.texts, sum_up=st.booleans())
    def truncate_or_sum_up(self, which: int, way: int, keep: int, text: str | None, sum_up: bool) -> None:
        session, s, by = self.hand(which, way)
        if sum_up:
            self.both(
                lambda: self.model.mark(session, "summary", {"text": text}, by), lambda: s.set_summary(text)
            )
        else:
            outcome = self.both(lambda: self.model.truncate(session, keep, by), lambda: s.truncate(keep))
            assert not outcome or (outcome[0] is None) == (outcome[1] is None)
        self.compare(session)

    @alive
    @rule(which=sessions, way=ways, text=some.words, upto=ends, tokens=ends, listed=st.booleans())
    def compact(
        self, which: int, way: int, text: str, upto: int | None, tokens: int | None, listed: bool
    ) -> None:
        session, s, by = self.hand(which, way)
        length = len(path(session.head))
        last = upto % length if upto is not None and length else None
        messages = [{"role": "user", "content": text}]
        start = length if last is None else last + 1
        body = {"start": start, "tokens": tokens, "messages": messages}
        self.both(
            lambda: self.model.mark(session, "compaction", body, by),
            lambda: s.compact(messages if listed else text, upto=last, tokens=tokens),
        )
        self.compare(session)

    # -- moving

    @alive
    @rule(which=sessions, way=ways, number=picks, form=picks)
    def rewind(self, which: int, way: int, number: int, form: int) -> None:
        session, s, by = self.hand(which, way)
        place = self.place(session, number)
        point = self.as_point(session, place, form)
        outcome = self.both(
            lambda: self.model.move(session, place, by),
            lambda: s.clear() if place is None and form % 2 else s.rewind(point),
        )
        assert not outcome or outcome[1] == self.head_of(place)
        self.compare(session)

    @alive
    @rule(which=sessions, way=ways, steps=st.lists(st.sampled_from(["undo", "redo"]), min_size=1, max_size=4))
    def undo_and_redo(self, which: int, way: int, steps: list[str]) -> None:
        session, s, by = self.hand(which, way)
        for step in steps:
            self.both(partial(getattr(self.model, step), session, by), getattr(s, step))
            self.compare(session)

    @alive
    @rule(
        which=sessions,
        way=ways,
        what=st.sampled_from(["set", "delete", "go"]),
        name=some.names,
        state=some.json_values,
    )
    def checkpoint(self, which: int, way: int, what: str, name: str, state: Json) -> None:
        session, s, by = self.hand(which, way)
        if what != "set" and (known := session.checkpoints):
            name = name if name in known else min(known)
        if what == "set":
            # What a run sets by this method is one to resume from; see `work`.
            set_it = partial(Session.checkpoint, s, name, state=state)
            self.both(lambda: self.model.set_checkpoint(session, name, state, by), set_it)
        elif what == "delete":
            self.same(
                lambda: self.model.delete_checkpoint(session, name, by), lambda: s.delete_checkpoint(name)
            )
        else:
            self.both(lambda: self.model.go(session, name, by), lambda: s.rewind(name))
        self.compare_all()

    @alive
    @rule(which=sessions, way=ways, id=st.none() | some.session_ids, number=ends, form=picks)
    def fork(self, which: int, way: int, id: str | None, number: int | None, form: int) -> None:
        session, s, by = self.hand(which, way)
        place = session.head if number is None else self.place(session, number)
        at = None if number is None else self.as_point(session, place, form)
        outcome = self.both(lambda: self.model.fork(session, id, place, by), lambda: s.fork(id, at=at))
        if outcome:
            made, self.handles[made] = outcome[0], outcome[1]
        self.compare_all()

    @alive
    @rule(
        which=sessions,
        way=ways,
        number=picks,
        form=picks,
        label=st.none() | some.names,
        note=some.json_values,
    )
    def annotate(self, which: int, way: int, number: int, form: int, label: str | None, note: Json) -> None:
        session, s, by = self.hand(which, way)
        place = self.place(session, number)
        annotate = partial(s.annotate, self.as_point(session, place, form), label=label, note=note)
        outcome = self.both(
            lambda: self.model.annotate(session, place, {"label": label, "note": note}, by), annotate
        )
        if outcome:
            compare_entry(*outcome, session.notes[outcome[0]])
        self.compare_all()

    # -- looking

    @alive
    @rule(
        which=sessions,
        last=st.none() | st.integers(0, 5),
        after=ends,
        before=ends,
        newest_first=st.booleans(),
    )
    def read_a_part(
        self, which: int, last: int | None, after: int | None, before: int | None, newest_first: bool
    ) -> None:
        session, s = self.pick(which)
        nodes = path(session.head)
        places: list[Place] = [None, *nodes]
        low = 0 if after is None else after % len(places)
        high = len(places) if before is None else before % len(places)
        between = nodes[low : max(0, high - 1)]
        options: dict[str, Any] = {
            "last": last,
            "after": None if after is None else self.as_point(session, places[low], which),
            "before": None if before is None else self.as_point(session, places[high], which + 1),
            "newest_first": newest_first,
        }

        def cut(wanted: list[Any]) -> list[Any]:
            kept = wanted if last is None else wanted[max(0, len(wanted) - last) :]
            return [node.body for node in (kept[::-1] if newest_first else kept)]

        messages = [node for node in between if node.kind == "message"]
        assert repr(cut(messages)) == repr(s.messages(**options))
        entries: list[Entry] = list(s.entries(**options))
        assert repr(cut(between)) == repr([entry.message for entry in entries])

    @rule(which=sessions, number=picks, id=some.session_ids, name=some.names, limit=st.integers(1, 6))
    def look_around(self, which: int, number: int, id: str, name: str, limit: int) -> None:
        self.check_lists(id, name, limit)
        for s in self.deserted[-2:]:
            uses: list[Callable[[], Any]] = [s.messages, s.undo, lambda: s.append({}), lambda: s.fork(id)]  # noqa: B023
            for use in uses:
                self.refused(SessionDeletedError, use)
        if self.model.live:
            session, s = self.pick(which)
            self.check_budget(session, s, limit)
            self.check_label(session, s, name)
            other, _ = self.pick(number)
            for place in (self.place(other, number), *self.model.purged[-2:]):
                if place is not None and place not in self.model.nodes[session.tree]:
                    rewind = partial(s.outside_lease().rewind, self.head_of(place))
                    self.refused(CheckpointNotFoundError, rewind)


class ReopeningMachine(StoreMachine):
    """The same for a backend that survives being closed."""

    reopen_backend: Callable[[Backend], Backend]

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.backend = self.reopen_backend(self.backend)
        self.store = Store(self.backend, clock=self.clock)
        self.handles = {session: self.store.get(session.id) for session in self.model.live}
        self.runs = {}
        self.deserted = []
        self.compare_all()
