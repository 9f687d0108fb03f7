"""Following a store: every change is told, to those too who come back later."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

import clew
from clew.backends.contract import STORE_WIDE, Backend
from clew.backends.memory import MemoryBackend
from clew.errors import InvalidQueryError
from clew.model import utc
from clew.store import Store
from clew.testing.backend.base import Ticking, say
from tests.behaviour.values import DAY


class TestWatch:
    """`watch` tells where sessions stand; it passes nothing over."""

    def test_what_was_there_before_is_no_news(self, store: Store) -> None:
        """Without a cursor the first change is the first that happens from now on."""
        say(store.session("old"), "x")

        assert list(store.watch(wait=False)) == []

    def test_each_kind_of_change_is_told(self, store: Store) -> None:
        """Created, written to, moved, started, deleted: each says where the session stands then."""
        watching = store.watch(every=0.001)
        s = store.create("new")
        told = [next(watching)]
        acts: list[Callable[[], object]] = [
            lambda: say(s, "hello"), s.clear, s.undo, lambda: s.start("do it"), lambda: store.delete("new")
        ]  # fmt: skip
        for act in acts:
            act()
            told.append(next(watching))

        assert {change.session for change in told} == {"new"}
        assert [(change.kind, change.messages, change.status) for change in told] == [
            ("created", 0, "pending"),
            ("changed", 1, "pending"),
            ("changed", 0, "pending"),
            ("changed", 1, "pending"),
            ("changed", 1, "running"),
            ("deleted", 1, "running"),
        ]

    def test_changes_come_in_the_order_of_their_time(self, store: Store) -> None:
        """Oldest first, each with the head that the session has."""
        watching = store.watch(every=0.001)
        for id in ("b", "c", "a"):
            say(store.session(id), "x")

        changes = list(islice(watching, 3))

        assert [change.session for change in changes] == ["b", "c", "a"]
        assert [change.head for change in changes] == [store.get(id).head for id in ("b", "c", "a")]
        assert changes == sorted(changes, key=lambda change: change.at)

    def test_what_happened_behind_a_cursor_is_told_to_who_comes_back(self, store: Store) -> None:
        """More than fits a page; what came shortly before the cursor may be told again."""
        watching = store.watch(every=0.001)
        say(store.session("first"), "x")
        cursor = next(watching).cursor
        ids = {f"s{number}" for number in range(450)}
        for id in ids:
            store.create(id)

        assert {change.session for change in store.watch(cursor, wait=False)} - {"first"} == ids

    def test_a_state_is_told_once(self, store: Store) -> None:
        """Somebody who goes on watching hears nothing again."""
        watching = store.watch(every=0.001)
        for number in range(20):
            say(store.session("ab"[number % 2]), "x")
            say(store.session("c"), "x")
            assert {next(watching).session, next(watching).session} == {"ab"[number % 2], "c"}

    @pytest.mark.parametrize(
        "how", ["imported", "grown", "copied", "closed", "expired", "restored", "deserted", "dated"]
    )
    def test_what_happens_to_a_session_whose_activity_lies_in_the_past_is_told(
        self, timed: Store, wall: Ticking, steady: Ticking, tmp_path: Path, how: str
    ) -> None:
        """To who watches, once, and to who comes back with a cursor from before it."""
        wall.step = 1
        elsewhere = Store(MemoryBackend(), clock=wall)
        say(elsewhere.session("s"), "a")
        file = tmp_path / "s.jsonl"
        elsewhere.export("s", "jsonl", path=file)
        if how not in ("imported", "copied"):
            timed.import_path(file)
        if how == "grown":
            say(elsewhere.get("s"), "b")
            elsewhere.export("s", "jsonl", path=file)
        elif how == "restored":
            timed.delete("s")
        elif how == "deserted":
            timed.get("s").run()
        elif how == "expired":
            timed.get("s").update(idle_timeout=5.0)
        acts: dict[str, Callable[[], object]] = {
            "imported": lambda: timed.import_path(file),
            "grown": lambda: timed.import_path(file),
            "copied": lambda: clew.copy(elsewhere, timed),
            "closed": lambda: timed.get("s").close(),
            "expired": lambda: timed.sweep(),
            "restored": lambda: timed.restore_deleted("s"),
            "deserted": lambda: timed.interrupted(),
            "dated": lambda: timed.get("s").append(
                {"role": "user", "content": "b"}, at=utc(wall.now - 2 * DAY)
            ),
        }
        for time in (wall, steady):
            time.now += DAY
        say(timed.session("other"), "x")
        watching = timed.watch(every=0.001)
        say(timed.session("other"), "y")
        cursor = next(watching).cursor
        for time in (wall, steady):
            time.now += DAY
        acts[how]()
        say(timed.session("other"), "z")

        told = [change.session for change in islice(watching, 2)]
        assert told == ["s", "other"]
        assert "s" in {change.session for change in timed.watch(cursor, wait=False)}
        say(timed.session("other"), "end")
        assert next(watching).session == "other"

    def test_nothing_is_kept_for_watchers_of_a_purged_session(self, store: Store, backend: Backend) -> None:
        """P18: not even that it was there."""
        store.session("s").close()
        store.delete("s", purge=True)

        with backend.read() as reader:
            assert reader.scan_records(STORE_WIDE, "notice") == []

    def test_a_watcher_ends_with_the_store(self, store: Store) -> None:
        """Closing the store ends the iteration, without an error."""
        watching = store.watch(every=0.001)
        store.close()

        assert list(watching) == []

    def test_a_cursor_of_something_else_is_refused(self, store: Store) -> None:
        """With the value that was given."""
        with pytest.raises(InvalidQueryError, match="nonsense"):
            store.watch("nonsense")
