"""Messages that a rule removes: the oldest go, what belongs together stays together, places stay."""

from __future__ import annotations

from typing import Any

import pytest

from clew.core.retention import erase
from clew.model import Retention
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, calling, result, said, say, system, user
from tests.behaviour.values import DAY, HOUR, ONE_DAY
from tests.behaviour.views import done


class TestErasure:
    """Old messages are removed for good; the log, its hashes and every other session do not notice."""

    def test_too_many_messages_the_oldest_are_removed(self, store: Store, s: Session) -> None:
        """Their places, hashes and counters stay; the rest reads as before."""
        say(s, *"abcdefgh")
        before = list(s.entries())
        info = s.info
        store.set_retention(Retention(max_messages=3))

        report = store.sweep()

        assert [(a.verb, a.session, a.messages) for a in report.actions] == [("remove_messages", "s", 5)]
        assert said(s) == ["f", "g", "h"]
        assert s.messages(last=2, newest_first=True) == [user("h"), user("g")]
        after = list(s.entries())
        assert [entry.kind for entry in after] == ["removed"] * 5 + ["message"] * 3
        assert [(e.id, e.hash, e.stamp) for e in after] == [(e.id, e.hash, e.stamp) for e in before]
        assert {bytes(entry.raw) for entry in after[:5]} == {b"{}"}
        assert (s.info.messages, s.info.hash, s.info.head) == (8, info.hash, info.head)
        assert store.sweep().actions == ()

    def test_an_active_session_is_trimmed_again(self, store: Store, s: Session, clock: Ticking) -> None:
        """Though an append makes nothing due."""
        store.set_retention(Retention(max_messages=2))
        store.sweep()
        for word in ("a b c", "d", "e f"):
            say(s, *word.split())
            clock.now += HOUR
            store.sweep()
            assert len(said(s)) == 2
        assert said(s) == ["e", "f"]

    def test_messages_that_are_too_large_together_are_removed(self, store: Store, s: Session) -> None:
        """The newest stay, as many as fit, and the newest of all in any case."""
        say(s, *(letter * 1000 for letter in "abcd"))
        store.set_retention(Retention(max_message_bytes=2500))
        store.sweep()
        assert [text[0] for text in said(s)] == ["c", "d"]
        store.set_retention(Retention(max_message_bytes=1))
        store.sweep()
        assert [text[0] for text in said(s)] == ["d"]

    def test_leading_system_messages_do_not_count_and_stay(self, store: Store, s: Session) -> None:
        """A limit of messages is one of the conversation; age takes them too."""
        s.append(system("be good"), *(user(letter) for letter in "abcd"))
        store.set_retention(Retention(max_messages=2))
        store.sweep()
        assert said(s) == ["be good", "c", "d"]

    def test_old_messages_are_removed(self, store: Store, s: Session, clock: Ticking) -> None:
        """By their own time, in an idle session too; the preview does not tell what they said."""
        s.append(system("be good"), user("old"))
        clock.now += DAY - HOUR
        say(s, "younger")
        store.set_retention(Retention(message_age=ONE_DAY))
        assert store.sweep().actions == ()
        clock.now += 2 * HOUR
        assert [action.messages for action in store.sweep().actions] == [2]
        assert said(s) == ["younger"]
        assert store.sweep().examined == 0
        clock.now += DAY
        store.sweep()

        assert (said(s), s.info.preview, s.info.messages) == ([], "", 3)
        say(s, "new")
        assert (said(s), s.context()) == (["new"], [user("new")])
        clock.now += DAY + HOUR
        store.sweep()
        assert said(s) == []

    def test_branches_left_behind_lose_old_messages_too(
        self, store: Store, s: Session, clock: Ticking
    ) -> None:
        """What only an undo reaches is as old as the rest."""
        say(s, "a", "b", "c")
        s.rewind(0)
        store.set_retention(Retention(message_age=ONE_DAY))
        clock.now += 2 * DAY
        store.sweep()
        s.undo()
        assert [entry.kind for entry in s.entries()] == ["removed"] * 3

    def test_a_tool_call_is_not_parted_from_its_result(self, store: Store, clock: Ticking) -> None:
        """Rather a message more stays, by whichever rule."""
        s = store.create("s")
        s.append(user("q"), calling("1", "2"), result("1"), result("2"), user("thanks"))
        store.set_retention(Retention(max_messages=2))
        store.sweep()
        assert [m["role"] for m in s.messages()] == ["assistant", "tool", "tool", "user"]

        t = store.create("t")
        t.append(user("q"), calling("1"))
        clock.now += DAY
        t.append(result("1"))
        store.set_retention(Retention(message_age=ONE_DAY))
        clock.now += HOUR
        store.sweep()
        assert [m["role"] for m in t.messages()] == ["assistant", "tool"]

    def test_a_call_that_still_waits_stays(self, store: Store, s: Session) -> None:
        """Its result may come tomorrow."""
        s.append(user("q"), calling("1"), result("x"))
        store.set_retention(Retention(max_messages=1))
        store.sweep()
        assert [m["role"] for m in s.messages()] == ["assistant", "tool"]

    def test_what_a_fork_needs_stays(self, store: Store, s: Session) -> None:
        """Shared messages go only when each session of the tree can spare them."""
        say(s, *"abcdefgh")
        fork = s.fork("fork", at=3)
        store.set_retention(Retention(max_messages=2))
        store.sweep()
        assert said(fork) == ["c", "d"]
        assert said(s) == ["c", "d", "g", "h"]

        store.delete("fork")
        say(s, "i")
        store.sweep()
        assert said(s) == ["h", "i"]

    def test_a_call_that_a_fork_needs_keeps_its_result(self, store: Store, s: Session) -> None:
        """The fork stands at the call, and waits; the base, which has its result, cannot spare that."""
        s.append(user("a"), calling("1"), result("1"), *map(user, "bcd"))
        s.fork("fork", at=1)
        store.set_retention(Retention(max_messages=1))
        store.sweep()
        assert [m["role"] for m in s.messages()] == ["assistant", "tool", "user"]

    def test_a_fork_made_while_a_sweep_looks_at_its_tree_is_heeded(
        self, store: Store, s: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It may need what was to be removed, so nothing that was planned without it is done."""
        say(s, *"abcd")
        store.set_retention(Retention(max_messages=1))
        plan = erase.plan

        def overtaken(*args: Any) -> erase.Plan:
            made = plan(*args)
            if store.find("fork") is None:
                s.fork("fork", at=1)
            return made

        monkeypatch.setattr("clew.core.retention.erase.plan", overtaken)
        store.sweep()
        assert (said(s), said(store.get("fork"))) == (["b", "d"], ["b"])

    def test_a_running_fork_protects_its_tree(self, store: Store, s: Session, clock: Ticking) -> None:
        """When its run ends the rule applies."""
        say(s, *"abcd")
        fork = s.fork("fork")
        fork.start("work")
        store.set_retention(Retention(max_messages=1, message_age=ONE_DAY))
        clock.now += 2 * DAY
        assert store.sweep().actions == ()
        fork.complete("done")
        assert [verb for verb, _ in done(store.sweep())] == ["remove_messages"]
        assert said(s) == []

    def test_a_removed_message_is_a_place_like_any_other(self, store: Store, s: Session) -> None:
        """One can rewind to it, fork from it, undo; the hash chain goes on behind it."""
        say(s, *"abcdef")
        store.set_retention(Retention(max_messages=2))
        store.sweep()
        first = next(iter(s.entries()))
        fork = s.fork("fork", at=1)
        say(fork, "x")
        assert said(fork) == ["x"]
        s.rewind(first.id)
        assert (said(s), s.info.preview, s.info.messages) == ([], "", 1)
        assert s.context() == []
        s.undo()
        assert said(s) == ["e", "f"]
        assert s.messages(before=5, after=1) == [user("e")]

    def test_a_context_misses_no_removed_message(self, store: Store, s: Session) -> None:
        """They are neither damage nor over budget; a compaction stands for what it stood for."""
        say(s, *"abcdefgh")
        s.compact("so far", upto=5)
        store.set_retention(Retention(max_messages=4))
        store.sweep()
        context = s.context()

        assert [m["content"] for m in context] == ["so far", "g", "h"]
        assert context.report.repairs == ()
        assert (context.report.compacted, context.report.over_budget) == (2, 0)

    def test_more_messages_than_one_transaction_takes(
        self, store: Store, s: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The report counts them together; the log of removals has a line for each transaction."""
        monkeypatch.setattr("clew.core.retention.erase.AT_ONCE", 4)
        say(s, *"abcdefghijkl")
        store.set_retention(Retention(max_messages=2))
        assert [action.messages for action in store.sweep().actions] == [10]
        assert [removal.messages for removal in store.removals()] == [2, 4, 4]
        assert said(s) == ["k", "l"]
