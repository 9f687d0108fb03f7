"""Calls that still wait for their results, and cuts of a history that may still go on."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

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
    parts,
    says,
    sound_histories,
    tool_result,
    tool_use,
)
from tests.support.rows import each_row

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


@given(sound_histories() | damaged_histories(), st.data())
def test_a_part_of_a_history_tells_the_same_as_all_of_it(history: History, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(history)))
    found = open_calls(history[start:], complete=False)
    assert found is None or found == open_calls(history, complete=True)


def test_a_call_of_the_last_step_holds_a_cut_back() -> None:
    history = [USER, chat_call("a")]
    assert safe_cut(history, 2, complete=True) == 2
    assert safe_cut(history, 2, complete=True, goes_on=True) == 1
    assert safe_cut([*history, USER], 3, complete=True, goes_on=True) == 3


def test_a_cut_is_looked_for_as_far_back_as_it_takes() -> None:
    late = [chat_call("a"), *[says("assistant", "hm")] * 20, chat_result("a"), USER]
    placed = list(enumerate([USER, *late]))
    asked: list[int] = []

    def before(most: int) -> list[tuple[int, dict[str, Any]]]:
        asked.append(most)
        return placed[:22][-most:]

    assert nearest_cut(before, placed[22:], 22, goes_on=True, reach=2) == 1
    assert asked == [2, 8, 32]
