"""Calls that still wait for their results, and cuts of a history that may still go on."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given

from clew.core.messages.tool_calls import PATIENCE, nearest_cut, open_calls, safe_cut
from tests.core.messages.histories import (
    History,
    blocks,
    chat_call,
    chat_result,
    damaged_histories,
    function_call,
    function_response,
    item_call,
    item_result,
    item_says,
    parts,
    reasoning,
    says,
    search,
    search_result,
    sound_histories,
    text_block,
    tool_result,
    tool_use,
)
from tests.support.rows import each_named_row, each_row

USER = says("user", "go on")


def waiting(*history: dict[str, Any]) -> list[str | None]:
    found = open_calls(history, complete=True)
    assert found is not None
    return [call.id or call.name for call in found]


@each_row(
    ("history", "found"),
    [
        ([], []),
        ([USER], []),
        ([USER, chat_call("a")], ["a"]),
        ([USER, chat_call("a", "b"), chat_result("a")], ["b"]),
        ([USER, chat_call("a", "b"), chat_result("b"), chat_result("a")], []),
        ([chat_call("a"), USER], ["a"]),
        ([chat_call("a"), *[USER] * PATIENCE], ["a"]),
        ([chat_call("a"), *[USER] * (PATIENCE + 1)], []),
        ([chat_call("a"), chat_call("b"), chat_result("b")], ["a"]),
        ([chat_call("a"), chat_result("x"), chat_call("b")], ["b"]),
        ([blocks("assistant", tool_use("a"), tool_use("b")), blocks("user", tool_result("a"))], ["b"]),
        ([parts("model", function_call("f")), parts("user", function_response("f"))], []),
        ([parts("model", function_call("f"), function_call("g"))], ["f", "g"]),
    ],
)
def test_calls_that_wait_are_found(history: History, found: list[str]) -> None:
    assert waiting(*history) == found


def test_a_result_answers_only_calls_of_its_own_kind() -> None:
    asked = item_call("a", "custom_tool_call")
    assert waiting(asked, item_result("a")) == ["a"]
    assert waiting(asked, item_result("a", "custom_tool_call_output")) == []
    assert waiting(chat_call("a"), blocks("user", tool_result("a"))) == ["a"]


def test_two_calls_of_one_id_need_two_results() -> None:
    assert waiting(chat_call("a"), chat_call("a"), chat_result("a")) == ["a"]
    assert waiting(chat_call("a"), chat_result("a"), chat_call("a"), chat_result("a")) == []


def test_older_messages_are_asked_for_only_where_they_can_tell() -> None:
    assert open_calls([chat_result("a")], complete=False) is None
    assert open_calls([USER], complete=False) is None
    whole = [chat_call("a"), chat_result("a"), chat_call("b")]
    assert open_calls(whole[1:], complete=False) is not None
    assert open_calls([USER] * (PATIENCE + 1), complete=False) == []


SEARCHED_TWICE = [
    blocks("assistant", block) for block in (search("a"), search_result("a"), search("a"), search("b"))
]
CALLED_TWICE = [
    blocks("assistant", block)
    for block in (tool_use("a"), *[text_block("hm")] * (PATIENCE + 1), tool_use("a"))
]

ANSWERED_TWICE = [
    USER,
    chat_call("a", "b", "c"),
    *map(chat_result, "c"),
    chat_call("b"),
    *map(chat_result, "bb"),
]


@given(sound_histories() | damaged_histories())
@example(SEARCHED_TWICE)
@example(ANSWERED_TWICE)
@example(CALLED_TWICE)
def test_a_part_of_a_history_tells_the_same_as_all_of_it(history: History) -> None:
    whole = open_calls(history, complete=True)
    for start in range(len(history) + 1):
        found = open_calls(history[start:], complete=False)
        assert found is None or found == whole, f"from message {start}"


CALLED_TWO = [USER, chat_call("a", "b"), chat_result("a"), chat_result("b"), USER]
THOUGHT = [USER, reasoning(), item_call("a"), item_result("a"), reasoning(), item_says("assistant", "ok")]
TWICE = [USER, chat_call("a"), chat_result("a"), chat_result("a"), USER]
COMPLETE = {"complete": True}
PART = {"complete": False}
GOES_ON = {"complete": True, "goes_on": True}


@each_named_row(
    ("history", "options", "cuts"),
    {
        "a call and its results": (CALLED_TWO, COMPLETE, [0, 1, 1, 1, 4, 5]),
        "reasoning and its answer": (THOUGHT, COMPLETE, [0, 1, 1, 1, 4, 4, 6]),
        "an orphan": ([USER, USER, chat_result("ghost"), USER], COMPLETE, [0, 1, 2, 3, 4]),
        "the call is known": (CALLED_TWO, PART, [0, 1, 1, 1, 4, 5]),
        "what comes before the call is not known": (CALLED_TWO[1:], PART, [None, None, None, 3, 4]),
        "the call is older": (CALLED_TWO[2:], PART, [None, None, 2, 3]),
        "a second result asks for no older messages": (TWICE, PART, [0, 1, 1, 3, 4, 5]),
        "the last step has ended": ([USER, chat_call("a")], COMPLETE, [0, 1, 2]),
        "the last step goes on": ([USER, chat_call("a")], GOES_ON, [0, 1, 1]),
        "nobody waits for it": ([USER, chat_call("a"), USER], GOES_ON, [0, 1, 2, 3]),
        "its result is there": ([USER, chat_call("a"), chat_result("a"), USER], GOES_ON, [0, 1, 1, 3, 4]),
        "it waits behind another result": (
            [USER, chat_call("a"), chat_result("other")],
            GOES_ON,
            [0, 1, 1, 1],
        ),
        "a result further back": ([USER, chat_result("a")], {**PART, "goes_on": True}, [None, None, 2]),
        "a result without a call": ([USER, chat_result("a")], GOES_ON, [0, 1, 2]),
    },
)
def test_L001_3_a_cut_keeps_more_rather_than_part_a_call_from_its_result(
    history: History, options: dict[str, bool], cuts: list[int | None]
) -> None:
    """Wherever it is wished for; None where only older messages can tell."""
    assert [safe_cut(history, wished, **options) for wished in range(len(history) + 1)] == cuts


def test_a_cut_is_looked_for_as_far_back_as_it_takes() -> None:
    late = [chat_call("a"), *[says("assistant", "hm")] * 20, chat_result("a"), USER]
    placed = list(enumerate([USER, *late]))
    asked: list[int] = []

    def before(most: int) -> list[tuple[int, dict[str, Any]]]:
        asked.append(most)
        return placed[:22][-most:]

    assert nearest_cut(before, placed[22:], 22, goes_on=True, reach=2) == 1
    assert asked == [2, 8, 32]
