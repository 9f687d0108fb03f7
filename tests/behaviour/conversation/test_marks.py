"""Clearing, truncating, compacting, summing up: the view changes, the log only grows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clew.errors import (
    EntryNotFoundError,
    InvalidError,
)
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import (
    CHANGES,
    assistant,
    calling,
    result,
    said,
    say,
    state,
    texts,
    user,
)
from clew.testing.chain import check_chain
from tests.behaviour.rows import each_session
from tests.support.rows import each_row


class TestMarks:
    """Each of these is one step that undo takes back; none removes anything (P11, P12)."""

    @each_session("change", CHANGES.values(), ids=CHANGES.keys())
    def test_every_change_can_be_undone_and_redone_and_removes_no_entry(
        self, store: Store, s: Session, change: Callable[[Session], Any]
    ) -> None:
        """P11: undo brings back exactly what was, redo exactly what came; each entry can be gone back to."""
        entries = s.append(user("a"), assistant("b"), user("c"))
        s.set_summary("before")
        before, stored = state(s), store.stats()
        change(s)
        after = state(s)
        assert after != before
        assert store.stats().messages >= stored.messages
        assert store.stats().entries >= stored.entries

        s.undo()
        assert state(s) == before
        s.redo()
        assert state(s) == after
        for entry in entries:
            s.rewind(entry)
            assert s.head.position == entry.position
        assert said(s) == ["a", "b", "c"]
        for _ in range(4):
            s.undo()
        assert state(s) == before
        say(s, "d")
        assert said(s) == ["a", "b", "c", "d"]
        check_chain(store, s)

    @each_session("change", CHANGES.values(), ids=CHANGES.keys())
    def test_every_change_works_on_an_empty_session(
        self, store: Store, s: Session, change: Callable[[Session], Any]
    ) -> None:
        """Except for a rewind to what is not there."""
        if change is CHANGES["rewind"]:
            return
        change(s)
        say(s, "next")

        assert said(s)[-1] == "next"
        check_chain(store, s)

    # -- clear

    def test_clear_starts_over(self, s: Session) -> None:
        """An empty path: no messages, no summary, no turns; title and variables stay."""
        say(s, "a")
        s.set_summary("sum")
        s.set_var("v", 1)
        head = s.clear()

        assert head == s.head
        assert head.position == -1
        assert (s.messages(), s.summary, s.info.user_turns, s.info.entries) == ([], None, 0, 0)
        assert (s.info.title, s.get_var("v")) == ("a", 1)
        (entry,) = s.append(user("b"))
        assert entry.position == 0

    # -- truncate

    def test_truncate_shortens_the_view_and_not_the_history(self, s: Session) -> None:
        """`context()` begins with the last few; `messages()` still gives all."""
        say(s, *"abcdef")
        entry = s.truncate(2)

        assert entry is not None
        assert entry.kind == "truncation"
        assert texts(s.context()) == ["e", "f"]
        assert said(s) == list("abcdef")
        say(s, "g")
        assert texts(s.context()) == ["e", "f", "g"]

    @pytest.mark.parametrize("keep", [6, 7, 100])
    def test_there_may_be_nothing_to_truncate(self, s: Session, keep: int) -> None:
        """Then nothing is written and None comes back, also the second time."""
        say(s, *"abcdef")
        before = s.info
        assert s.truncate(keep) is None
        assert s.info == before
        s.truncate(2)
        before = s.info
        assert s.truncate(2) is None
        assert s.info == before

    def test_truncate_to_nothing(self, s: Session) -> None:
        """`keep_last=0` empties the view."""
        say(s, "a", "b")
        s.truncate(0)
        assert s.context() == []
        say(s, "c")
        assert texts(s.context()) == ["c"]
        assert said(s) == ["a", "b", "c"]

    @pytest.mark.parametrize("keep", [1, 2, 3])
    def test_truncate_cuts_no_call_from_its_result(self, s: Session, keep: int) -> None:
        """More is kept where the cut would part them."""
        s.append(user("a"), user("b"), calling("1", "2"), result("1"), result("2"), assistant("done"))
        s.truncate(keep)
        view = s.context()

        assert view.report.repairs == ()
        assert view[-1] == assistant("done")
        assert list(view) == ([assistant("done")] if keep == 1 else s.messages(last=4))

    # -- compact

    def test_compact_lets_the_view_begin_with_something_shorter(self, s: Session) -> None:
        """A text becomes a user message; messages are taken as they are; the history stays."""
        say(s, "a", "b")
        entry = s.compact("short", tokens=12)
        say(s, "c")
        assert entry.kind == "compaction"
        assert entry.message["tokens"] == 12
        assert list(s.context()) == [user("short"), user("c")]

        s.compact([{"role": "system", "content": "sum"}, '{"role":"user","content":"x"}'])
        assert list(s.context()) == [{"role": "system", "content": "sum"}, user("x")]
        assert said(s) == ["a", "b", "c"]
        assert s.info.messages == 3

    def test_compact_may_stop_before_the_end(self, s: Session) -> None:
        """`upto` is the last point that the text stands for; what follows stays in view."""
        entries = s.append(*map(user, "abcd"))
        s.compact("short", upto=entries[1])
        assert texts(s.context()) == ["short", "c", "d"]
        s.compact("shorter", upto=2)
        assert texts(s.context()) == ["shorter", "d"]

    def test_compact_keeps_calls_that_wait_for_results(self, s: Session) -> None:
        """An agent that compacts between call and result finds the call still in view."""
        s.append(user("a"), assistant("b"), user("go"), calling("1"))
        s.compact("short")
        s.append(result("1"))
        view = s.context()

        assert view.report.repairs == ()
        assert calling("1") in view
        assert view[-1] == result("1")

    def test_compact_to_nothing_lets_the_model_begin_anew(self, store: Store, s: Session) -> None:
        """An empty list stands for all before it, the system prompt too; undo brings it back."""
        s.append({"role": "system", "content": "be good"}, user("a"), assistant("b"))
        entry = s.compact([])

        assert (entry.kind, entry.message) == ("compaction", {"start": 3, "tokens": None, "messages": []})
        assert (list(s.context()), s.context().report.compacted) == ([], 3)
        say(s, "c")
        assert texts(s.context()) == ["c"]
        assert said(s) == ["be good", "a", "b", "c"]
        s.undo()
        assert texts(s.context()) == ["be good", "a", "b"]
        check_chain(store, s)

    def test_compact_speaks_the_dialect_of_the_session(self, s: Session) -> None:
        """Where the messages have `parts`, the text becomes a part."""
        s.append({"role": "user", "parts": [{"text": "a"}]})
        s.compact("short")

        assert list(s.context()) == [{"role": "user", "parts": [{"text": "short"}]}]

    @each_row("bad", ["", "  \n", None, {}, b"text", [5], [{"a": float("nan")}], ["text"]], ids=repr)
    def test_an_empty_compaction_is_refused(self, s: Session, bad: Any) -> None:
        """The history would be lost to the model; nothing is changed."""
        say(s, "a")
        before = s.info
        with pytest.raises(InvalidError):
            s.compact(bad)

        assert s.info == before

    def test_compact_up_to_an_unknown_point_is_refused(self, s: Session) -> None:
        """EntryNotFoundError; nothing is changed."""
        say(s, "a")
        with pytest.raises(EntryNotFoundError):
            s.compact("short", upto=5)

        assert s.info.entries == 1

    def test_a_rewind_to_before_a_mark_undoes_its_effect(self, s: Session) -> None:
        """Marks lie on the path: before them the view is the old one, and stays so on a new branch."""
        say(s, "a", "b")
        s.compact("short")
        s.set_summary("sum")
        say(s, "c")
        s.rewind(1)
        assert texts(s.context()) == ["a", "b"]
        assert s.summary is None
        say(s, "d")
        assert texts(s.context()) == ["a", "b", "d"]

    # -- summary

    def test_the_latest_summary_counts(self, s: Session) -> None:
        """It is on the path, beside the messages; None takes it away."""
        assert s.summary is None
        say(s, "a")
        entry = s.set_summary("one")
        assert (entry.kind, entry.message) == ("summary", {"text": "one"})
        s.set_summary("tw\0o \U0001f600")
        assert s.summary == "tw\0o \U0001f600"
        s.set_summary(None)
        assert s.summary is None
        s.undo()
        assert s.summary == "tw\0o \U0001f600"
        assert said(s) == ["a"]

    def test_a_summary_is_a_text(self, s: Session) -> None:
        """Nothing else; the log is not touched."""
        wrong: list[Any] = [5, b"x", ["x"], {}]
        for bad in wrong:
            with pytest.raises(InvalidError):
                s.set_summary(bad)

        assert s.info.entries == 0
