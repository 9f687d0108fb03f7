"""S-52: forks of forks. Depth costs nothing but depth, and no stack."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, cast

from clew.backends.contract import Backend
from clew.model import Retention
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, say
from tests.support.storage import Counting
from tests.support.stores import forks_of_forks

CALLS: Final[dict[str, Callable[[Store, Session], object]]] = {
    "tree": lambda store, s: s.tree(),
    "checkpoints": lambda store, s: s.checkpoints(),
    "messages": lambda store, s: s.messages(),
    "the last messages": lambda store, s: s.messages(last=3),
    "entries": lambda store, s: list(s.entries()),
    "context": lambda store, s: s.context(),
    "append": lambda store, s: say(s, "more"),
    "fork": lambda store, s: s.fork(f"{s.id}-fork"),
    "fork further up": lambda store, s: s.fork(f"{s.id}-fork-above", at=1),
    "rewind": lambda store, s: s.rewind(1),
    "undo": lambda store, s: s.undo(),
    "get": lambda store, s: store.get(s.id).info,
    "list": lambda store, s: store.list(limit=10),
    "search": lambda store, s: store.search("nothing like it"),
    "jsonl": lambda store, s: store.export(s.id, "jsonl"),
    "json": lambda store, s: store.export(s.id, "json"),
    "markdown": lambda store, s: store.export(s.id, "markdown", whole=True),
    "html": lambda store, s: store.export(s.id, "html", whole=True),
    "verify": lambda store, s: store.verify(full=True),
    "sweep by count": lambda store, s: store.sweep(rules=Retention(max_messages=3)),
    "sweep by size": lambda store, s: store.sweep(rules=Retention(max_message_bytes=200)),
    "sweep by age": lambda store, s: store.sweep(rules=Retention(message_age=timedelta(seconds=5))),
    "delete": lambda store, s: store.delete(s.id),
}


OF_THE_STORE: Final = frozenset({"search", "verify", "sweep by count", "sweep by size", "sweep by age"})
STACK: Final = 200


@contextmanager
def little_stack() -> Iterator[None]:
    """Functions may call each other a few times more, not as often as a tree is deep."""
    before, frame, used = sys.getrecursionlimit(), sys._getframe(), 0
    while frame.f_back is not None:
        frame, used = frame.f_back, used + 1
    sys.setrecursionlimit(used + STACK)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class TestForkDepth:
    """What a call costs in a tree of forks of forks."""

    def test_s52_the_cost_of_each_call_grows_with_the_depth_and_not_with_its_square(
        self, backend: Backend, clock: Ticking
    ) -> None:
        """Twice as deep: about twice as many questions and rows, not four times."""
        counting = Counting(backend)
        costs: dict[str, list[int]] = {name: [] for name in CALLS}
        with Store(cast("Backend", counting), clock=clock) as store:
            for depth in (30, 60):
                session = forks_of_forks(store, depth)
                for name, call in CALLS.items():
                    before = counting.count
                    call(store, session)
                    costs[name].append(counting.count - before)
        # Those who look at the whole store see the first tree again: three times as much.
        most = {name: (3.6 if name in OF_THE_STORE else 2.5) * cost[0] + 40 for name, cost in costs.items()}
        assert {name: cost for name, cost in costs.items() if cost[1] > most[name]} == {}

    def test_s52_no_call_needs_a_deeper_stack_for_a_deeper_tree(self, store: Store) -> None:
        """More forks of forks than functions may call each other."""
        shallow = forks_of_forks(store, 2)
        for call in CALLS.values():  # what is imported when it is used, is imported now
            call(store, shallow)
        session = forks_of_forks(store, STACK + 20)
        with little_stack():
            for call in CALLS.values():
                call(store, session)
