"""`context()`: the newest part of a history, inside a budget, well-formed, with a report."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.conversation.window import ContextBuilder, estimate_tokens
from clew.core.messages.dialects import is_user_turn
from clew.core.messages.repair import repair
from clew.errors import InvalidQueryError
from clew.model import Context
from tests.core.messages.histories import (
    History,
    Message,
    blocks,
    chat_call,
    chat_result,
    damaged_histories,
    faults,
    item_call,
    item_result,
    item_says,
    parts,
    reasoning,
    says,
    sound_histories,
    text_block,
    tool_result,
    tool_use,
)
from tests.support.rows import each_named_row, each_row

ASK, MORE = says("user", "fix it"), says("user", "and now?")
DONE = says("assistant", "done")
RULES = says("system", "be brief")
STEP = [chat_call("a", "b"), chat_result("a"), chat_result("b")]


def weight(message: Message) -> int:
    """A tokenizer that makes every message count otherwise."""
    return 1 + len(str(message)) % 7


def context_of(
    history: History,
    *,
    pinned: History | None = None,
    max_messages: int | None = None,
    max_tokens: int | None = None,
    count_tokens: Callable[[Message], int] | None = weight,
    pinned_on_path: bool = True,
    compacted: int = 0,
    keep: bool = False,
) -> Context:
    """Read the history as a session does: backwards, and once more for the lead."""
    builder = ContextBuilder(
        pinned=pinned or [],
        max_messages=max_messages,
        max_tokens=max_tokens,
        count_tokens=count_tokens,
        pinned_on_path=pinned_on_path,
    )
    for message in reversed(history):
        if not builder.offer(message):
            break
    if builder.needs_lead:
        older = history[: len(history) - builder.window_size]
        asked = [message for message in older if is_user_turn(message)]
        if asked:
            builder.lead(asked[-1])
    total = len(history) + compacted + (len(pinned or []) if pinned_on_path else 0)
    return builder.finish(total=total, compacted=compacted, open_tail="keep" if keep else "close")


# ── For any history and any budget ────────────────────────────────────────────────────────────────

budgets = st.fixed_dictionaries(
    {"max_messages": st.none() | st.integers(1, 12), "max_tokens": st.none() | st.integers(1, 50)}
)
pins = st.sampled_from([[], [RULES], [RULES, ASK], [RULES, *STEP], [chat_call("z")]])


@given(damaged_histories(), pins, budgets, st.booleans(), st.integers(0, 5))
def test_P15_the_context_is_well_formed_inside_its_budget_and_the_report_adds_up(
    history: History, pinned: History, budget: dict[str, Any], on_path: bool, compacted: int
) -> None:
    """Each message is weighed once, and those that were given are never changed."""
    history, pinned = [dict(message) for message in history], [dict(message) for message in pinned]
    before = copy.deepcopy((history, pinned))
    weighed: list[Message] = []

    def count(message: Message) -> int:
        weighed.append(message)  # also keeps it, so that no id is used twice
        return weight(message)

    options = {"pinned_on_path": on_path, "compacted": compacted, "count_tokens": count, **budget}
    context = context_of(history, pinned=pinned, **options)

    assert (history, pinned) == before
    assert len({id(message) for message in weighed}) == len(weighed)
    assert faults(context) == []
    report = context.report
    assert report.messages == len(context)
    assert report.tokens == sum(map(weight, context))
    assert budget["max_messages"] is None or report.messages <= budget["max_messages"]
    assert budget["max_tokens"] is None or report.tokens <= budget["max_tokens"]
    assert report.compacted == compacted
    assert report.left_out >= report.compacted + report.over_budget
    assert report.left_out <= len(history) + len(pinned) + compacted
    if budget == {"max_messages": None, "max_tokens": None}:
        assert report.over_budget == 0


@given(damaged_histories(), pins)
def test_without_a_budget_the_context_is_the_repaired_history(history: History, pinned: History) -> None:
    context = context_of(history, pinned=pinned)

    assert list(context) == repair([*pinned, *history]).messages


@given(sound_histories(), budgets)
def test_a_sound_history_is_cut_but_not_repaired(history: History, budget: dict[str, Any]) -> None:
    """Late results apart: those of a responses history need not follow their calls."""
    context = context_of(history, **budget)

    assert all(any(message is given for given in history) for message in context if not is_user_turn(message))


@given(sound_histories(), st.integers(1, 12))
def test_a_cut_leaves_out_the_oldest_and_at_most_one_step_more(history: History, limit: int) -> None:
    context = context_of(history, max_messages=limit)

    if len(history) <= limit:
        assert len(context) == len(history)
    elif context:
        window = context if context[0] is history[-len(context)] else context[1:]
        assert all(message == given for message, given in zip(window[::-1], history[::-1], strict=False))


# ── The window ────────────────────────────────────────────────────────────────────────────────────

THREE_EACH = {"count_tokens": lambda message: 3}
SUMMARY = says("user", "we fixed it")
ANSWERS = [reasoning(), item_call("a"), item_result("a"), reasoning("rs_2"), item_says("assistant", "done")]
MANY_CALLS = [chat_call(str(number)) for number in range(20)]
LONG = says("user", "x" * 100)
MIXED = blocks("user", tool_result("a"), text_block("and hurry"))


@each_named_row(
    ("history", "options", "expected", "over_budget"),
    {
        "the newest": ([ASK, DONE, MORE, DONE], {"max_messages": 2}, [MORE, DONE], 2),
        "tokens": ([DONE, ASK, DONE], {"max_tokens": 7, **THREE_EACH}, [ASK, DONE], 1),
        "a budget for nothing": ([RULES, ASK, DONE], {"max_tokens": 2, **THREE_EACH}, [], 3),
        "no history": ([], {}, [], 0),
        "a result without its call": ([ASK, *STEP, DONE], {"max_messages": 3}, [ASK, DONE], 3),
        "an answer without its reasoning": (ANSWERS, {"max_messages": 4}, ANSWERS[3:], 3),
        "open calls": ([ASK, chat_call("a")], {"max_messages": 2, "keep": True}, [ASK, chat_call("a")], 0),
        "a pinned message": ([ASK, DONE, MORE], {"pinned": [RULES], "max_messages": 2}, [RULES, MORE], 2),
        "too many pinned messages": ([ASK, DONE], {"pinned": [RULES] * 3, "max_messages": 2}, [ASK, DONE], 3),
        "a compaction": (
            [MORE, DONE],
            {"pinned": [SUMMARY], "pinned_on_path": False, "compacted": 40},
            [SUMMARY, MORE, DONE],
            0,
        ),
        "a pinned call": (STEP[1:], {"pinned": STEP[:1], "pinned_on_path": False}, STEP, 0),
        "inside an exchange": ([ASK, *STEP, *STEP, DONE], {"max_messages": 5}, [ASK, *STEP, DONE], 3),
        "a lead instead of the oldest": ([ASK, *STEP, *STEP, DONE], {"max_messages": 4}, [ASK, DONE], 6),
        "a tail of notes": ([ASK, DONE, *[RULES] * 4], {"max_messages": 3}, [ASK, RULES, RULES], 3),
        "a lead or a window": ([ASK, DONE], {"max_messages": 1}, [DONE], 1),
        "a long lead": (
            [LONG, DONE, DONE],
            {"max_tokens": 60, "count_tokens": lambda message: len(message["content"]) * 5},
            [DONE, DONE],
            1,
        ),
        "a half exchange": ([ASK, DONE, MORE, DONE], {"max_messages": 3}, [MORE, DONE], 2),
    },
)
def test_L001_3_L002_16_the_newest_whole_steps_that_fit_are_taken_and_led_by_their_question(
    history: History, options: dict[str, Any], expected: History, over_budget: int
) -> None:
    context = context_of(history, **options)

    assert context == expected
    assert context.report.repairs == ()
    assert context.report.over_budget == over_budget
    assert context.report.left_out == over_budget + options.get("compacted", 0)


@each_row("last", [[DONE], [parts("model", {"text": "1"}), parts("model", {"text": "2"})]])
def test_words_beside_a_result_stay_when_its_call_goes_out(last: History) -> None:
    """In the window, or as its lead."""
    context = context_of([ASK, blocks("assistant", tool_use("a")), MIXED, *last], max_messages=2)

    assert context == [blocks("user", text_block("and hurry")), last[-1]]


def test_an_orphan_in_the_middle_costs_only_itself() -> None:
    history = [DONE, ASK, *STEP, MORE, chat_result("ghost"), DONE]

    context = context_of(history, max_messages=7)

    assert context == [ASK, *STEP, MORE, DONE]
    assert len(context.report.repairs) == 1
    assert (context.report.over_budget, context.report.left_out) == (1, 2)


@each_row(
    ("history", "limit", "roles"),
    [
        ([ASK, DONE, MORE, chat_call("a")], 3, ["user", "assistant", "tool"]),
        ([ASK, *MANY_CALLS], 10, ["user", *["assistant", "tool"] * 4]),
    ],
)
def test_made_up_results_count_and_push_out_the_oldest(
    history: History, limit: int, roles: list[str]
) -> None:
    context = context_of(history, max_messages=limit)

    assert [message["role"] for message in context] == roles
    assert context.report.over_budget == len(history) - 1 - roles.count("tool")


def test_offer_says_when_to_stop_reading() -> None:
    builder = ContextBuilder(max_messages=1)

    assert [builder.offer(message) for message in (DONE, ASK, ASK)] == [True, False, False]
    assert builder.finish(total=2, compacted=0) == [DONE]


def test_the_estimate_is_a_token_for_four_bytes_of_json_and_four_for_the_message() -> None:
    assert estimate_tokens({}) == 5
    assert estimate_tokens(says("user", "héllo")) == 13
    assert estimate_tokens(says("user", "\ud83d")) > 4
    assert context_of([ASK], count_tokens=None).report.tokens == estimate_tokens(ASK)


@each_row("value", [0, -1, True, 1.5, "9"])
@each_row("name", ["max_messages", "max_tokens"])
def test_a_budget_that_means_nothing_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidQueryError, match=name):
        ContextBuilder(**{name: value})


def test_no_lead_is_asked_for_in_vain() -> None:
    """Nothing older was left out, or what is pinned fills the budget."""
    whole = ContextBuilder(max_messages=5)
    full = ContextBuilder(pinned=[RULES], max_messages=1)

    assert (whole.offer(DONE), whole.needs_lead) == (True, False)
    assert (full.offer(DONE), full.needs_lead) == (False, False)


def test_the_lead_is_given_once() -> None:
    builder = ContextBuilder(max_messages=2)
    builder.lead(ASK)

    with pytest.raises(ValueError, match="given already"):
        builder.lead(ASK)


# ── Cost ──────────────────────────────────────────────────────────────────────────────────────────


class Counted(dict[str, Any]):
    """A message that counts how often it is looked at."""

    looks = 0

    def get(self, key: str, default: Any = None) -> Any:
        Counted.looks += 1
        return super().get(key, default)


def looks_for(count: int) -> int:
    history: History = [Counted(chat_call(str(number))) for number in range(count)]
    Counted.looks = 0
    context_of([ASK, *history], max_messages=count, count_tokens=lambda message: 1)
    return Counted.looks


def test_the_work_grows_no_faster_than_the_window() -> None:
    assert looks_for(2000) <= 11 * looks_for(200)
