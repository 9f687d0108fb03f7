"""What every rule of the machine stands on: playing on both sides, and comparing them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from clew.backends.contract import Backend
from clew.model import Entry, Head
from clew.session import Session
from clew.store import Store
from clew.testing.conformance_base import Ticking, user
from clew.testing.conformance_chain import check_store
from clew.testing.model import Model, ModelSession, Node, Place, Refused, path

T = TypeVar("T")

NOTHING = Head("", -1)


class MachineBase(RuleBasedStateMachine):
    """A store, the model of it, and the ways to compare the two."""

    factory: Callable[[], Backend]

    @initialize()
    def start(self) -> None:
        """One session with a short history: most runs should not have to build one first."""
        self.clock = Ticking()
        self.backend = self.factory()
        self.store = Store(self.backend, clock=self.clock)
        self.model = Model()
        self.handles: dict[ModelSession, Session] = {}
        self.deserted: list[Session] = []
        """Handles on sessions that are in the trash or purged."""
        session = self.model.create("s")
        self.handles[session] = self.store.create("s")
        messages = [user("first"), user("second")]
        self.model.append(session, messages, None, "any")
        self.handles[session].append(*messages)
        self.compare(session)

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        try:
            if sys.exception() is None:  # a rule that failed has said what is wrong
                self.compare_all()
                check_store(self.store)
        finally:
            self.store.close()

    # -- playing on both sides

    def pick(self, number: int) -> tuple[ModelSession, Session]:
        session = self.model.live[number % len(self.model.live)]
        return session, self.handles[session]

    def both(self, expected: Callable[[], T], actual: Callable[[], Any]) -> tuple[T, Any] | None:
        """The results of both, or None if both refused."""
        try:
            wanted = expected()
        except Refused as refusal:
            self.refused(refusal.kind, actual)
            return None
        return wanted, actual()

    def refused(self, kind: type[Exception], actual: Callable[[], Any]) -> None:
        try:
            result = actual()
        except kind:
            return
        raise AssertionError(f"{kind.__name__} expected, not {result!r}")

    def place(self, session: ModelSession, number: int) -> Place:
        """Some stored entry of the session's tree, or the empty beginning."""
        places: list[Place] = [None, *self.model.nodes[session.tree]]
        return places[-1 - number % len(places)]

    def as_point(self, session: ModelSession, place: Place, form: int) -> Any:
        """A place as a user may give it: as head, entry, id, or position if it is on the path."""
        if place is None:
            return NOTHING
        assert place.entry is not None
        on_path = path(session.head)
        forms: list[Any] = [place.entry, place.entry.id, Head(*_split(place.entry.id))]
        if place in on_path:
            forms.append(on_path.index(place))
        return forms[form % len(forms)]

    # -- comparing

    def compare(self, session: ModelSession) -> None:
        """Everything that can be seen of a session."""
        s = self.handles[session]
        nodes = path(session.head)
        entries = list(s.entries())
        assert len(nodes) == len(entries)
        for node, entry in zip(nodes, entries, strict=True):
            compare_entry(node, entry)
        bodies = [node.body for node in session.messages()]
        assert repr(bodies) == repr(s.messages())
        assert self.head_of(session.head) == s.head
        assert session.summary() == s.summary
        assert session.variables == s.vars()
        self.compare_info(session, s)
        self.compare_view(session, s)
        known = {found.name: (found.head, found.state) for found in s.checkpoints()}
        wanted = {name: session.checkpoint(name) or (None, None) for name in session.checkpoint_names()}
        assert {name: (self.head_of(place), state) for name, (place, state) in wanted.items()} == known

    def compare_info(self, session: ModelSession, s: Session) -> None:
        info = s.info
        messages = session.messages()
        size = sum(len(node.entry.raw) for node in messages if node.entry)
        counts = (len(messages), session.turns(), len(path(session.head)), size)
        origin = info.forked_from and (info.forked_from.session, info.forked_from.head)
        wanted_origin = session.origin and (session.origin[0], self.head_of(session.origin[1]))
        assert counts == (info.messages, info.user_turns, info.entries, info.bytes)
        assert (session.id, session.title, session.preview()) == (info.id, info.title, info.preview)
        assert (session.tags, tuple(session.aliases)) == (info.tags, info.aliases)
        assert wanted_origin == origin

    def compare_view(self, session: ModelSession, s: Session) -> None:
        context = s.context()
        start, instead = session.cut()
        view = session.in_view()
        cut_off = sum(node.kind == "message" for node in path(session.head)[:start])
        assert repr(instead + [node.body for node in view]) == repr(list(context))
        assert (cut_off, 0, cut_off) == (
            context.report.compacted,
            context.report.over_budget,
            context.report.left_out,
        )

    def head_of(self, place: Place) -> Head:
        if place is None:
            return NOTHING
        assert place.entry is not None
        return Head(*_split(place.entry.id))

    @invariant()
    def lists_and_totals_agree(self) -> None:
        assert [session.id for session in self.model.listed()] == [info.id for info in self.store.list()]
        trash = sorted(self.model.trash, key=lambda item: (-item[0], item[1].id.encode()))
        assert [session.id for _, session in trash] == [info.id for info in self.store.list(deleted=True)]
        nodes = [node for tree in self.model.nodes.values() for node in tree]
        stats = self.store.stats()
        assert (len(self.model.live), len(self.model.trash)) == (stats.sessions, stats.deleted)
        assert len(nodes) == stats.entries
        assert sum(node.kind == "message" for node in nodes) == stats.messages

    def compare_all(self) -> None:
        for session in self.model.live:
            self.compare(session)

    def check_lists(self, id: str, tag: str, limit: int) -> None:
        found = self.model.find(id)
        assert self.store.find(id) == (found and self.handles[found])
        listed = self.model.listed()
        tagged = [session.id for session in listed if tag in session.tags]
        assert tagged == [info.id for info in self.store.list(tag=tag)]
        filled = [session for session in listed if session.messages()]
        assert self.store.latest() == (self.handles[filled[0]] if filled else None)
        page = self.store.list(limit=limit)
        ids = [info.id for info in page]
        while page.cursor is not None:
            page = self.store.list(limit=limit, cursor=page.cursor)
            ids += [info.id for info in page]
        assert [session.id for session in listed] == ids

    def check_label(self, session: ModelSession, s: Session, label: str) -> None:
        labelled = [node for node in path(session.head) if node.notes.get("label") == label]
        for node, entry in zip(labelled, s.entries(label=label), strict=True):
            compare_entry(node, entry)

    def check_budget(self, session: ModelSession, s: Session, limit: int) -> None:
        """No more than fit, in their order; all if all fit; the newest is there unless others are pinned."""
        pinned = session.cut()[1]
        view = [repr(message) for message in pinned + [node.body for node in session.in_view()]]
        context = s.context(max_messages=limit)
        found = [repr(message) for message in context]
        left = iter(view)
        assert len(found) == context.report.messages <= limit
        assert len(view) > limit or found == view
        assert all(message in left for message in found)
        assert pinned or found[-1:] == view[-1:]

    # -- sessions that come and go

    def create(self, id: str, *, strictly: bool) -> None:
        known = self.model.find(id)
        if known and not strictly:
            assert self.store.session(id) == self.handles[known] == self.store.get(id)
            return
        make = self.store.create if strictly else self.store.session
        outcome = self.both(lambda: self.model.create(id), lambda: make(id))
        if outcome:
            session, self.handles[session] = outcome[0], outcome[1]

    def delete(self, which: int) -> None:
        session, s = self.pick(which)
        self.model.delete(session, self.model.now())
        assert self.store.delete(session.id) is True
        self.deserted.append(s)

    def restore(self, id: str) -> None:
        outcome = self.both(lambda: self.model.restore(id), lambda: self.store.restore_deleted(id))
        if outcome:
            session, self.handles[session] = outcome[0], outcome[1]
            self.deserted = [s for s in self.deserted if s != outcome[1]]

    def purge(self, which: int) -> None:
        known = [*self.model.live, *(session for _, session in self.model.trash)]
        id = known[which % len(known)].id  # an alias of that name leads elsewhere: the id comes first
        for session in [session for session in known if session.id == id]:
            if session in self.model.live:
                self.deserted.append(self.handles[session])
            self.model.purge(session)
        assert self.store.delete(id, purge=True) is True

    def clear_the_store(self) -> None:
        now = self.model.now()
        count = len(self.model.live)
        for session in list(self.model.live):
            self.deserted.append(self.handles[session])
            self.model.delete(session, now)
        assert self.store.clear(confirm=True) == count


def compare_entry(node: Node, entry: Entry, *, annotated: bool = True) -> None:
    """An entry says what it must say, and says it for ever: id, bytes, time and hash never change."""
    assert not annotated or node.notes == entry.annotations
    assert node.kind == entry.kind
    assert repr(node.body) == repr(entry.message)
    if node.entry is None:
        node.entry = entry
    known = node.entry
    assert (known.id, known.position, known.raw) == (entry.id, entry.position, entry.raw)
    assert (known.stamp, known.digest, known.replaced) == (entry.stamp, entry.digest, entry.replaced)


def _split(id: str) -> tuple[str, int]:
    branch, _, position = id.rpartition(".")
    return branch, int(position)
