"""Appending from many threads, and without waiting."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import (
    ClewError,
    HeadMovedError,
    KeyReusedError,
    SessionDeletedError,
    StoreClosedError,
)
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import assistant, said, say, user
from clew.testing.chain import check_chain
from tests.behaviour.threads import in_threads


class TestAppendThreads:
    """Nothing is lost, repeated or parted, whoever else writes at the same moment."""

    def test_of_several_writers_with_one_expectation_one_wins(self, store: Store, s: Session) -> None:
        """P9: the others are told, and nothing of theirs is written."""
        head = s.head
        outcomes: list[str] = []

        def work(name: str) -> None:
            try:
                s.append(user(name), expect=head)
                outcomes.append(name)
            except HeadMovedError:
                outcomes.append("refused")

        in_threads(work, [f"{number}" for number in range(6)])
        winners = [name for name in outcomes if name != "refused"]

        assert len(outcomes) == 6
        assert said(s) == winners
        assert len(winners) == 1
        check_chain(store, s)

    def test_many_threads_append_to_one_session(self, store: Store, s: Session) -> None:
        """P3: every message once, each thread's in its own order, batches in one piece."""

        def work(name: str) -> None:
            for number in range(8):
                s.append(user(f"{name} {number} a"), user(f"{name} {number} b"))

        in_threads(work, ["p", "q", "r", "t"])
        history = said(s)

        assert len(history) == 4 * 8 * 2
        for name in "pqrt":
            mine = [text for text in history if text.startswith(name)]
            assert mine == [f"{name} {number} {half}" for number in range(8) for half in "ab"]
        assert all(history[n][:-2] == history[n + 1][:-2] for n in range(0, 64, 2))
        check_chain(store, s)

    def test_many_threads_append_to_sessions_of_their_own(self, store: Store) -> None:
        """They share transactions and nothing else; one that fails does not harm the others."""
        failures: list[ClewError] = []

        def work(name: str) -> None:
            mine = store.session(name)
            for number in range(8):
                mine.append(user(f"{number}"), key=f"{number}")
                try:
                    mine.append(user("other"), key=f"{number}")
                except KeyReusedError as exc:
                    failures.append(exc)

        in_threads(work, ["p", "q", "r", "t"])

        assert len(failures) == 32
        for name in "pqrt":
            assert said(store.get(name)) == [f"{number}" for number in range(8)]

    # -- without waiting

    def test_append_nowait_is_done_after_flush(self, store: Store, s: Session) -> None:
        """In the order of the calls; what follows a flush follows them."""
        for number in range(30):
            s.append_nowait(user(f"{number}"), assistant(f"{number}"))
        store.flush()
        say(s, "last")

        assert said(s) == [text for number in range(30) for text in (f"{number}", f"{number}")] + ["last"]
        check_chain(store, s)

    def test_events_that_were_sent_without_waiting_are_read_back(self, store: Store, s: Session) -> None:
        """By every handle of the store."""
        for number in range(20):
            s.add_event_nowait("tick", number, stream="clock", id=f"{number}")
            assert store.get("s").events(stream="clock")[-1].data == number
        s.add_event_nowait("tick", 19, stream="clock", id="19")
        assert s.count_events().added == 20

    def test_a_read_of_events_that_would_wait_for_itself_does_not_wait(
        self, store: Store, s: Session
    ) -> None:
        """The writer may wait for a reader, or run below one: each sees what is there."""

        def looking(look: Store) -> int:
            s.add_event_nowait("a")
            return len(s.events())

        def writing(inside: Store) -> int:
            inside.get("s").append(user("b"))
            return len(s.events())

        assert store.read(looking) <= 1
        s.add_event_nowait("c")
        store.transact(writing)
        assert [event.type for event in s.events()] == ["a", "c"]

    def test_flush_tells_what_went_wrong_once(self, store: Store, s: Session) -> None:
        """P4: the first failure since the last flush; the others were written."""
        other = store.create("other")
        store.delete("s")
        other.append_nowait(user("a"))
        s.append_nowait(user("lost"))
        s.append_nowait(user("lost too"))
        other.append_nowait(user("b"))
        with pytest.raises(SessionDeletedError):
            store.flush()
        store.flush()

        assert said(other) == ["a", "b"]

    def test_append_nowait_heeds_keys(self, store: Store, s: Session) -> None:
        """The second of two with one key writes nothing; with other messages the flush raises."""
        s.append_nowait(user("a"), key="k")
        s.append_nowait(user("a"), key="k")
        store.flush()
        s.append_nowait(user("b"), key="k")
        with pytest.raises(KeyReusedError):
            store.flush()

        assert said(s) == ["a"]

    def test_a_closed_store_takes_nothing(self, store: Store, s: Session) -> None:
        """`close` writes what is on its way and may be called again; then every call is refused."""
        s.append_nowait(user("a"))
        store.close()
        store.close()

        calls: list[Any] = [lambda: s.append(user("b")), lambda: s.append_nowait(user("b")), s.messages]
        for call in [*calls, lambda: s.info, store.list, store.stats, lambda: store.session("t")]:
            with pytest.raises(StoreClosedError):
                call()

    def test_close_raises_what_flush_would(self, store: Store, s: Session) -> None:
        """P4: a failure that nobody asked for is not lost; the store is closed all the same."""
        store.delete("s")
        s.append_nowait(user("lost"))
        with pytest.raises(SessionDeletedError):
            store.close()
        store.close()

        with pytest.raises(StoreClosedError):
            store.list()
