"""Turns: what is appended in one stays, or is off the path again; never half of it."""

from __future__ import annotations

import pytest

from clew.errors import LeaseHeldError, NothingToUndoError
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Broken, fail, said, say, user
from clew.testing.chain import check_store
from tests.behaviour.rows import each_session
from tests.behaviour.views import status_of


class TestTurns:
    """An exception rewinds to where the turn began; nothing is lost by it."""

    def test_a_turn_that_succeeds_stays(self, store: Store, s: Session) -> None:
        """It leaves no step behind that could be undone."""
        say(s, "a")
        with s.turn() as turn:
            assert turn is s
            say(s, "b")
        say(s, "c")

        assert said(s) == ["a", "b", "c"]
        with pytest.raises(NothingToUndoError):
            s.undo()
        check_store(store)

    def test_what_is_appended_in_a_turn_is_there_at_once(self, store: Store, s: Session) -> None:
        """Durable and visible to everybody, before the turn is over."""
        with s.turn():
            say(s, "a")
            assert said(store.get("s")) == ["a"]

    @each_session("error", [Broken("half-way"), KeyboardInterrupt(), SystemExit(1)])
    def test_a_turn_that_fails_is_off_the_path(self, store: Store, s: Session, error: BaseException) -> None:
        """The exception comes out as it was; the next append continues what was before the turn."""
        say(s, "a")
        head = s.head
        with pytest.raises(type(error)) as caught:
            fail(s, lambda: say(s, "b"), lambda: say(s, "c"), error=error)
        assert caught.value is error
        assert not hasattr(error, "__notes__")
        assert (said(s), s.head, s.info.messages) == (["a"], head, 1)
        say(s, "d")
        assert said(s) == ["a", "d"]
        check_store(store)

    def test_an_aborted_turn_can_be_brought_back(self, s: Session) -> None:
        """`undo` leads to where it ended; its entries can be gone to."""
        say(s, "a")
        with pytest.raises(Broken):
            fail(s, lambda: s.append(user("b"), user("c")))
        s.undo()
        assert said(s) == ["a", "b", "c"]
        entry = list(s.entries())[1]
        s.redo()
        assert said(s) == ["a"]
        s.rewind(entry)
        assert said(s) == ["a", "b"]

    def test_a_turn_on_an_empty_session(self, store: Store, s: Session) -> None:
        """It was empty, so it is empty again."""
        with pytest.raises(Broken):
            fail(s, lambda: say(s, "a"))
        assert (said(s), s.head.position, s.info.user_turns) == ([], -1, 0)
        s.undo()
        assert said(s) == ["a"]
        check_store(store)

    def test_a_turn_in_which_nothing_was_written_leaves_no_trace(self, s: Session) -> None:
        """There is nothing to go back from, so nothing to undo."""
        say(s, "a")
        before = s.info
        with pytest.raises(Broken):
            fail(s)
        assert s.info == before
        with pytest.raises(NothingToUndoError):
            s.undo()

    def test_a_turn_takes_back_more_than_appends(self, s: Session) -> None:
        """Compactions, summaries, a cleared history: all that moves the head. Variables stay."""
        say(s, "a", "b")
        s.set_summary("before")
        with pytest.raises(Broken):
            fail(
                s,
                lambda: s.compact("short"),
                lambda: s.set_summary("after"),
                s.clear,
                lambda: say(s, "c"),
                lambda: s.set_var("v", 1),
            )
        assert (said(s), s.summary, s.get_var("v")) == (["a", "b"], "before", 1)
        assert [message["content"] for message in s.context()] == ["a", "b"]

    def test_turns_can_be_nested(self, s: Session) -> None:
        """An inner one that failed takes nothing from the outer one, an outer one takes all."""
        with s.turn():
            say(s, "a")
            with pytest.raises(Broken):
                fail(s, lambda: say(s, "b"))
            say(s, "c")
        assert said(s) == ["a", "c"]

        def inner() -> None:
            with s.turn():
                say(s, "e")

        with pytest.raises(Broken):
            fail(s, lambda: say(s, "d"), inner)
        assert said(s) == ["a", "c"]

    def test_a_turn_of_a_run(self, s: Session) -> None:
        """It is rewound under the lease; the run goes on, or fails with what the turn failed with."""
        with s.run() as run:
            say(run, "a")
            with run.turn() as turn:
                assert turn is run
            with pytest.raises(Broken):
                fail(run, lambda: say(run, "b"))
            say(run, "c")
        assert (said(s), s.info.status) == (["a", "c"], "completed")
        with pytest.raises(Broken), s.run() as run:
            fail(run, lambda: say(run, "d"))
        assert said(s) == ["a", "c"]
        assert status_of(s) == ("failed", "Broken: half-way")

    def test_a_turn_whose_lease_was_lost_is_not_taken_back(self, s: Session) -> None:
        """The path belongs to another worker now; the exception keeps its type and says so in a note."""
        with pytest.raises(Broken) as caught, s.run() as run:
            fail(run, lambda: say(run, "a"), lambda: say(s.run(owner="thief", steal=True), "b"))
        assert said(s) == ["a", "b"]
        assert any("turn" in note and "lease" in note for note in caught.value.__notes__)

    def test_a_turn_of_a_session_that_was_deleted_meanwhile(self, store: Store, s: Session) -> None:
        """The exception keeps its type; what comes back from the trash is as it was deleted."""
        with pytest.raises(Broken) as caught:
            fail(s, lambda: say(s, "a"), lambda: store.delete("s"))
        assert any("deleted" in note for note in caught.value.__notes__)
        assert said(store.restore_deleted("s")) == ["a"]

    def test_a_turn_from_outside_a_lease_is_refused_with_its_first_write(self, s: Session) -> None:
        """It touches nothing of what the worker does."""
        run = s.run()
        with pytest.raises(LeaseHeldError):
            fail(s, lambda: say(run, "a"), lambda: say(s, "b"))
        assert said(s) == ["a"]
