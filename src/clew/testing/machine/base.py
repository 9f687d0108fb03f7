"""What every rule of the machine stands on: playing on both sides, and comparing them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, TypeVar

from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from clew.backends.contract import Backend
from clew.errors import CheckpointNotFoundError, LeaseLostError
from clew.model import STATUSES, Entry, Head, Json
from clew.run import Run
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, user
from clew.testing.chain import check_store
from clew.testing.machine.model import Model
from clew.testing.machine.model_runs import By, ModelRun, Refused
from clew.testing.machine.model_session import ModelSession, Node, Place, path

T = TypeVar("T")

NOTHING = Head("", -1)
FITTING, PLAIN, OUTSIDE, LOST = range(4)
"""Ways to write; see `hand`."""

LEASE: Final = 86_400
"""Seconds; so long that no heartbeat comes while an example is played: time passes by a rule."""


class MachineBase(RuleBasedStateMachine):
    """A store, the model of it, and the ways to compare the two."""

    factory: Callable[[], Backend]

    @initialize()
    def start(self) -> None:
        """One session with a short history and a run that is over: most examples should not have to
        build that first."""
        self.clock = Ticking()
        self.backend = self.factory()
        self.store = Store(self.backend, clock=self.clock)
        self.model = Model(self.store._engine.host.name)
        self.handles: dict[ModelSession, Session] = {}
        self.deserted: list[Session] = []
        """Handles on sessions that are in the trash or purged."""
        self.runs: dict[ModelSession, list[tuple[ModelRun, Run]]] = {}
        """Every run of a session since the store was opened, the last one last."""
        session = self.model.create("s")
        self.handles[session] = self.store.create("s")
        messages = [user("first"), user("second")]
        self.model.append(session, messages)
        self.handles[session].append(*messages)
        taken = self.model.take(session, "first", "request", steal=False)
        run = self.handles[session].run("request", owner="first", lease=LEASE)
        self.model.finish(session, taken, response="response")
        run.complete("response")
        self.runs[session] = [(taken, run)]
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

    def hand(self, number: int, way: int) -> tuple[ModelSession, Session, By]:
        """A session, a handle to write to it with, and by what right it writes: mostly as the one that
        may, sometimes from outside the lease, or under a lease that was lost."""
        session, s = self.pick(number)
        runs = self.runs.get(session, [])
        if way == OUTSIDE:
            return session, s.outside_lease(), "outside"
        if runs and (way == LOST or (way == FITTING and session.holder is runs[-1][0])):
            by, run = runs[0 if way == LOST else -1]
            return session, run, by
        return session, s, None

    def both(self, expected: Callable[[], T], actual: Callable[[], Any]) -> tuple[T, Any] | None:
        """The results of both, or None if both refused."""
        try:
            wanted = expected()
        except Refused as refusal:
            self.refused(refusal.kind, actual)
            return None
        return wanted, actual()

    def same(self, expected: Callable[[], T], actual: Callable[[], Any]) -> None:
        """Both say the same, or both refuse."""
        outcome = self.both(expected, actual)
        assert not outcome or outcome[0] == outcome[1]

    def keeping(self, messages: list[dict[str, Json]], append: Callable[[], T]) -> T:
        """An append; a writer whose lease was lost must get these messages back."""
        try:
            return append()
        except LeaseLostError as lost:
            if repr(list(lost.messages)) != repr(messages):
                raise AssertionError(f"{messages!r} came back as {lost.messages!r}") from lost
            raise

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
            compare_entry(node, entry, session.notes.get(node, {}))
        bodies = [node.body for node in session.messages()]
        assert repr(bodies) == repr(s.messages())
        assert self.head_of(session.head) == s.head
        assert session.summary() == s.summary
        assert session.variables == s.vars()
        self.compare_info(session, s)
        self.compare_view(session, s)
        self.compare_checkpoints(session, s)
        self.compare_work(session, s)

    def compare_checkpoints(self, session: ModelSession, s: Session) -> None:
        known = {
            found.name: (
                found.head,
                found.state,
                found.run and (found.run.epoch, found.run.number, found.run.iteration),
            )
            for found in s.checkpoints()
        }
        points = session.checkpoints
        assert known == {name: (self.head_of(p.place), p.state, p.run) for name, p in points.items()}
        newest = session.resumed()
        if newest is None or newest.run is None:
            self.refused(CheckpointNotFoundError, s.resume)
            return
        point = s.resume()
        assert (point.head, point.state) == (self.head_of(newest.place), newest.state)
        assert (point.iteration, point.ahead) == (newest.run[2], newest.place is not session.head)
        bodies = [node.body for node in path(newest.place) if node.kind == "message"]
        assert repr(bodies) == repr(point.messages)

    def compare_work(self, session: ModelSession, s: Session) -> None:
        """Status, lease, run, events and usage."""
        info, lease = s.info, s.lease
        assert (info.status, info.epoch) == (session.status, session.epoch)
        holder = session.holder if session.holder and not session.holder.over else None
        assert (lease and (lease.epoch, lease.owner)) == (holder and (holder.epoch, holder.owner))
        run = info.run and {name: getattr(info.run, name) for name in session.run or {}}
        assert repr(run) == repr(session.run)
        changes = [(change.was, change.status, change.by, change.epoch) for change in s.status_changes()]
        assert changes == session.changes
        events = [(e.cursor, (e.type, e.stream, e.id, e.data)) for e in s.events()]
        assert repr(events) == repr([(number, tuple(event)) for number, event in session.events])
        counts = s.count_events()
        assert (counts.kept, counts.added) == (len(events), events[-1][0] if events else 0)
        usage = s.usage()
        assert (usage.calls, usage.input_tokens, usage.output_tokens, usage.cost) == _sums([session])

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
        said = [node.body for node in view if _is_said(node.body)]
        cut_off = sum(node.kind == "message" for node in path(session.head)[:start])
        assert repr(instead + said) == repr(list(context))
        assert (cut_off, 0, cut_off + len(view) - len(said)) == (
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
        statuses = [session.status for session in self.model.live]
        assert dict(stats.by_status) == {status: statuses.count(status) for status in STATUSES}
        usage = self.store.usage()
        sums = _sums([*self.model.live, *(session for _, session in self.model.trash)])
        assert (usage.calls, usage.input_tokens, usage.output_tokens, usage.cost) == sums
        assert (stats.calls, stats.input_tokens, stats.output_tokens) == sums[:3]

    def compare_all(self) -> None:
        for session in self.model.live:
            self.compare(session)

    def check_lists(self, id: str, tag: str, limit: int) -> None:
        found = self.model.find(id)
        assert self.store.find(id) == (found and self.handles[found])
        listed = self.model.listed()
        tagged = [session.id for session in listed if tag in session.tags]
        assert tagged == [info.id for info in self.store.list(tag=tag)]
        for status in STATUSES:
            having = [session.id for session in listed if session.status == status]
            assert having == [info.id for info in self.store.list(status=status)]
        filled = [session for session in listed if session.messages()]
        assert self.store.latest() == (self.handles[filled[0]] if filled else None)
        page = self.store.list(limit=limit)
        ids = [info.id for info in page]
        while page.cursor is not None:
            page = self.store.list(limit=limit, cursor=page.cursor)
            ids += [info.id for info in page]
        assert [session.id for session in listed] == ids

    def check_label(self, session: ModelSession, s: Session, label: str) -> None:
        labelled = [node for node in path(session.head) if session.notes.get(node, {}).get("label") == label]
        for node, entry in zip(labelled, s.entries(label=label), strict=True):
            compare_entry(node, entry, session.notes[node])

    def check_budget(self, session: ModelSession, s: Session, limit: int) -> None:
        """No more than fit, in their order; all if all fit; the newest is there unless others are pinned."""
        pinned = session.cut()[1]
        said = [node.body for node in session.in_view() if _is_said(node.body)]
        view = [repr(message) for message in pinned + said]
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

    def delete(self, which: int, *, force: bool) -> None:
        session, _ = self.pick(which)
        self.both(
            lambda: self.model.delete(session, self.model.now(), force=force),
            lambda: self.store.delete(session.id, force=force),
        )
        if session not in self.model.live:
            self.desert(session)

    def desert(self, session: ModelSession) -> None:
        """Its handles and runs lead nowhere from now on."""
        self.deserted += [run for _, run in self.runs.get(session, [])[-1:]]
        self.deserted.append(self.handles[session])

    def restore(self, id: str) -> None:
        outcome = self.both(lambda: self.model.restore(id), lambda: self.store.restore_deleted(id))
        if outcome:
            session, self.handles[session] = outcome[0], outcome[1]
            self.deserted = [s for s in self.deserted if s != outcome[1]]

    def purge(self, which: int, *, force: bool) -> None:
        known = [*self.model.live, *(session for _, session in self.model.trash)]
        id = known[which % len(known)].id  # an alias of that name leads elsewhere: the id comes first
        named = [session for session in known if session.id == id]

        def expected() -> None:
            if not force:
                self.model.refuse_if_held(*named)
            for session in named:
                if session in self.model.live:
                    self.desert(session)
                self.model.purge(session)

        self.both(expected, lambda: self.store.delete(id, purge=True, force=force))

    def clear_the_store(self, *, force: bool) -> None:
        def expected() -> int:
            now, count = self.model.now(), len(self.model.live)
            if not force:
                self.model.refuse_if_held(*self.model.live)
            for session in list(self.model.live):
                self.desert(session)
                self.model.delete(session, now, force=force)
            return count

        outcome = self.both(expected, lambda: self.store.clear(confirm=True, force=force))
        assert not outcome or outcome[0] == outcome[1]


def _sums(sessions: list[ModelSession]) -> tuple[int, int, int, Decimal]:
    calls = [call for session in sessions for call in session.calls]
    tokens = sum(call.input for call in calls), sum(call.output for call in calls)
    return len(calls), *tokens, sum((call.cost for call in calls), Decimal(0))


def compare_entry(node: Node, entry: Entry, notes: Mapping[str, Json] | None) -> None:
    """An entry says what it must say, and says it for ever: id, bytes, time and hash never change. `notes`:
    what its session noted; None: nothing is said of it."""
    assert notes is None or notes == entry.annotations
    assert (node.kind, node.epoch) == (entry.kind, entry.epoch)
    assert repr(node.body) == repr(entry.message)
    if node.entry is None:
        node.entry = entry
    known = node.entry
    assert (known.id, known.position, known.raw) == (entry.id, entry.position, entry.raw)
    assert (known.stamp, known.digest, known.replaced) == (entry.stamp, entry.digest, entry.replaced)


def _split(id: str) -> tuple[str, int]:
    branch, _, position = id.rpartition(".")
    return branch, int(position)


def _is_said(message: dict[str, Json]) -> bool:
    """A provider takes no message without a word, so the context has none."""
    return bool(message["content"].strip())
