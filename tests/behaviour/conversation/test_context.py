"""What a model gets: within the budget, well-formed whatever a crash left behind (P15)."""

from __future__ import annotations

from typing import Any

import pytest

from clew.backends.contract import Backend
from clew.model import Context, Json
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import assistant, calling, result, said, say, system, texts, user
from tests.behaviour.rows import each_session
from tests.support.storage import Watched


def by_letters(message: dict[str, Json]) -> int:
    """A token counter that tests can follow."""
    return len(message["content"] or "")


class TestContext:
    """`context()` repairs in the view, never in the log, and tells what it did."""

    def test_a_short_history_is_its_own_context(self, s: Session) -> None:
        """A plain list of the messages; the report says that nothing was left out."""
        messages = [system("be kind"), user("a"), calling("1"), result("1"), assistant("b")]
        s.append(*messages)
        context = s.context()

        assert isinstance(context, Context)
        assert isinstance(context, list)
        assert context == messages
        report = context.report
        assert (report.messages, report.left_out, report.compacted, report.over_budget) == (5, 0, 0, 0)
        assert report.repairs == ()
        assert report.tokens > 0

    def test_the_context_at_a_point_is_what_it_was_there(self, s: Session) -> None:
        """Wherever the session stands now: before a compaction, and on a branch that was left."""
        s.append(user("a"), assistant("b"))
        there = s.head
        s.compact("in short")
        s.rewind(0)
        s.append(user("c"))

        assert texts(s.context()) == ["a", "c"]
        assert texts(s.context(at=there)) == ["a", "b"]
        assert s.context(at=there).report.messages == 2

    def test_a_budget_of_messages_keeps_the_newest(self, s: Session) -> None:
        """And says how many did not fit."""
        say(s, *(f"{number}" for number in range(10)))
        context = s.context(max_messages=4)

        assert texts(context) == ["6", "7", "8", "9"]
        assert (context.report.messages, context.report.left_out, context.report.over_budget) == (4, 6, 6)
        assert said(s) == [f"{number}" for number in range(10)]

    def test_a_budget_of_tokens_is_counted_by_the_caller(self, s: Session) -> None:
        """`count_tokens` weighs each message; the sum stays within the budget and is reported."""
        say(s, "aaaa", "bbb", "cc", "d")
        context = s.context(max_tokens=6, count_tokens=by_letters)

        assert texts(context) == ["bbb", "cc", "d"]
        assert context.report.tokens == 6
        assert texts(s.context(max_tokens=5, count_tokens=by_letters)) == ["cc", "d"]

    def test_tokens_are_estimated_without_a_counter(self, s: Session) -> None:
        """A budget works without a tokenizer; more budget, more messages."""
        s.append(*[user("word " * 100) for _ in range(20)])
        sizes = [len(s.context(max_tokens=limit)) for limit in (200, 1000, 2000, 100_000)]

        assert sizes == sorted(sizes)
        assert 0 < sizes[0] < sizes[-1] == 20

    def test_the_smaller_of_two_budgets_decides(self, s: Session) -> None:
        """Neither is ever exceeded."""
        say(s, "aa", "bb", "cc", "dd")

        assert texts(s.context(max_messages=3, max_tokens=4, count_tokens=by_letters)) == ["cc", "dd"]
        assert texts(s.context(max_messages=1, max_tokens=4, count_tokens=by_letters)) == ["dd"]

    def test_the_system_prompt_stays(self, s: Session) -> None:
        """What the system said at the beginning is kept at the front, within the budget."""
        s.append(system("be kind"), system("be brief"), *map(user, "abcdef"))

        assert texts(s.context(max_messages=4)) == ["be kind", "be brief", "e", "f"]

    def test_the_system_prompt_stays_after_a_truncation(self, s: Session) -> None:
        """An agent that forgets old turns does not forget who it is."""
        s.append(system("be kind"), *map(user, "abc"))
        s.truncate(2)

        assert texts(s.context()) == ["be kind", "b", "c"]
        assert texts(s.context(max_messages=2)) == ["be kind", "c"]

    @each_session("budget", range(1, 9))
    def test_a_budget_cuts_no_call_from_its_result(self, s: Session, budget: int) -> None:
        """P15: at any budget the context is well-formed without a repair, and within it."""
        s.append(
            user("a"), calling("1", "2"), result("1"), result("2"), calling("3"), result("3"), assistant("z")
        )
        context = s.context(max_messages=budget)

        assert len(context) <= budget
        assert context.report.repairs == ()
        assert _is_well_formed(context)
        assert context[-1] == assistant("z")

    def test_what_says_nothing_is_not_in_the_context(self, s: Session) -> None:
        """Runs that were stopped leave empty messages, which providers refuse; the log keeps them."""
        blank = {"type": "text", "text": " "}
        s.append(
            {"role": "system", "content": "started", "notice": True},
            user("a"),
            {"role": "assistant", "content": ""},
            {"role": "assistant", "content": [blank]},
            {"role": "model", "parts": [{"text": ""}]},
            {"role": "system", "parts": [{"text": "the model was changed"}]},
            {"role": "assistant", "content": [blank, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": None},
            {"role": "system", "content": "speak French"},
            {"role": "user", "content": "oui", "notice": True},
        )
        context = s.context()

        assert texts(context) == ["a", [{"type": "text", "text": "b"}], "speak French", "oui"]
        assert context.report.left_out == 6
        assert context.report.over_budget == 0
        assert len(context.report.repairs) == 7
        assert len(s.messages()) == 10

    @pytest.mark.parametrize("budget", [1, 2, 3])
    def test_what_says_nothing_takes_no_room(self, s: Session, budget: int) -> None:
        """A budget is for what the model gets."""
        notice = {"role": "system", "content": "!", "notice": True}
        s.append(notice, *map(user, "abc"))
        for _ in range(5):
            s.append(assistant(""), notice)

        assert texts(s.context(max_messages=budget)) == ["a", "b", "c"][-budget:]
        assert texts(s.context(max_tokens=budget, count_tokens=by_letters)) == ["a", "b", "c"][-budget:]

    def test_what_says_nothing_does_not_take_the_place_of_the_newest_message(self, s: Session) -> None:
        """Nor does it stand for the user turn that the window begins with."""
        s.append(user("a"), user("b"), assistant("c"), user(""))

        assert texts(s.context(max_messages=1)) == ["c"]
        s.append(user("d"), user(""), assistant("e"))
        assert texts(s.context(max_messages=2)) == ["d", "e"]

    def test_a_call_cut_off_by_a_crash_gets_a_result(self, s: Session) -> None:
        """P15: a marked "interrupted" result in the view; the log keeps the open call as it is."""
        s.append(user("a"), calling("1", "2"), result("1"))
        context = s.context()

        assert _is_well_formed(context)
        assert len(context) == 4
        assert "interrupted" in context[3]["content"].lower()
        assert len(context.report.repairs) == 1
        assert s.messages() == [user("a"), calling("1", "2"), result("1")]
        say(s, "go on")
        assert _is_well_formed(s.context())

    @each_session(
        "odd",
        [
            [result("1")],
            [result("1"), calling("1")],
            [calling("1"), result("1"), result("1")],
            [calling("1"), result("2")],
            [calling("1"), user("never mind"), result("1")],
            [calling("1", "2"), result("2"), result("1")],
            [calling("1"), result("1"), calling("1"), result("1")],
            [calling("1"), calling("2"), result("2"), result("1")],
        ],
        ids=["orphan", "backwards", "twice", "other", "late", "out of order", "id again", "crossed"],
    )
    def test_odd_histories_are_stored_as_given_and_repaired_in_view(self, s: Session, odd: list[Any]) -> None:
        """I-15, P15: every call one result, no result without a call; the log is not touched."""
        messages = [user("a"), *odd, assistant("z")]
        s.append(*messages)

        assert s.messages() == messages
        assert _is_well_formed(s.context())
        assert s.messages() == messages

    def test_a_context_can_be_had_as_it_is_stored(self, s: Session) -> None:
        """Without repairs: from the last cut on, calls without results and results without calls too."""
        broken = [user("go"), calling("1", "2"), result("1"), result("9"), assistant("")]
        say(s, "a", "b")
        s.compact([{"role": "system", "content": "sum"}])
        s.append(*broken)
        view = s.context(repair=False)

        assert list(view) == [{"role": "system", "content": "sum"}, *broken]
        assert (view.report.repairs, view.report.compacted) == ((), 2)
        assert list(s.context()) != list(view)
        assert list(s.context(repair=False, max_messages=3)) == [view[0], user("go"), assistant("")]

    def test_a_call_id_may_come_again_after_a_rewind(self, s: Session) -> None:
        """I-15: what lies on a branch left behind has no part in the view."""
        s.append(user("a"), calling("1"), result("1", "old"))
        s.rewind(0)
        s.append(calling("1"), result("1", "new"))
        context = s.context()

        assert context.report.repairs == ()
        assert texts(context) == ["a", None, "new"]

    def test_provider_signatures_pass_unchanged(self, s: Session) -> None:
        """I-17: thinking blocks and encrypted reasoning come out as they went in."""
        thinking = {"type": "thinking", "thinking": "…", "signature": "Eq\u0000/+=="}
        call = {"type": "tool_use", "id": "1", "name": "run", "input": {"n": 10**25}}
        messages = [
            user("a"),
            {"role": "assistant", "content": [thinking, call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x"}]},
        ]
        s.append(*messages)

        assert s.context() == messages

    def test_the_report_adds_up_after_a_compaction(self, s: Session) -> None:
        """Messages of the path are in the context, compacted away, or over the budget."""
        say(s, *"abcdef")
        s.compact("short")
        say(s, *"ghij")
        whole = s.context().report
        assert (whole.messages, whole.left_out, whole.compacted, whole.over_budget) == (5, 6, 6, 0)
        cut = s.context(max_messages=3)
        assert texts(cut) == ["short", "i", "j"]
        assert (cut.report.left_out, cut.report.compacted, cut.report.over_budget) == (8, 6, 2)

    def test_the_report_adds_up_after_a_truncation(self, s: Session) -> None:
        """What the truncation cut off counts as compacted."""
        say(s, *"abcdef")
        s.truncate(2)
        report = s.context().report

        assert (report.messages, report.left_out, report.compacted, report.over_budget) == (2, 4, 4, 0)

    def test_the_later_of_two_cuts_counts(self, s: Session) -> None:
        """A truncation after a compaction, and the other way round."""
        say(s, *"abcd")
        s.truncate(2)
        s.compact("short", upto=2)
        assert texts(s.context()) == ["short", "d"]
        say(s, *"efg")
        s.truncate(2)
        assert texts(s.context()) == ["f", "g"]

    def test_a_context_is_the_callers(self, s: Session) -> None:
        """I-14: changing a context changes nothing stored, compactions neither."""
        say(s, "a")
        s.compact([user("short")])
        say(s, "b")
        context = s.context()
        for message in context:
            message["content"] = "changed"

        assert texts(s.context()) == ["short", "b"]

    def test_no_more_is_read_than_the_budget_holds(self, backend: Backend, s: Session) -> None:
        """P16: the context of a long history costs its budget, not the history."""
        s.append(*[user(f"{number}") for number in range(2000)])
        asked: list[int] = []

        def note(name: str, args: tuple[Any, ...]) -> None:
            if name == "read_messages":
                asked.append(args[2] - args[1])

        view = Store(Watched(backend, note)).get("s").context(max_messages=20)

        assert texts(view) == [f"{number}" for number in range(1980, 2000)]
        assert len(asked) <= 4


def _is_well_formed(messages: list[dict[str, Json]]) -> bool:
    """Every call is followed, before anybody else speaks, by exactly one result, and no result by none."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return False
            waiting.remove(message["tool_call_id"])
        elif waiting:
            return False
        waiting += [call["id"] for call in message.get("tool_calls", ())]
    return not waiting
