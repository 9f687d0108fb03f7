"""What a message of the Agent Framework is and says."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clew.core.messages.dialects import calls_of, dialect_of, is_user_turn, results_of, role_of, text_of
from clew.core.messages.repair import repair
from clew.core.messages.search_text import searched_text
from clew.exporters.blocks import blocks_of
from tests.core.messages.histories import odd_messages
from tests.support.rows import each_named_row, each_row

CALL = {"type": "function_call", "call_id": "c", "name": "look_up", "arguments": {"bird": "heron"}}
RESULT = {
    "type": "function_result",
    "call_id": "c",
    "result": "kingfisher",
    "items": [{"type": "text", "text": "kingfisher"}],
}
PICTURE = {"type": "data", "uri": "data:image/png;base64,iVBO", "media_type": "image/png"}


def says(role: str, *contents: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "contents": list(contents)}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


THOUGHT = {"type": "text_reasoning", "text": "hm"}


@each_named_row(
    ("message", "role", "said"),
    {
        "a user": (says("user", text("hi")), "user", "hi"),
        "a picture": (says("user", PICTURE), "user", ""),
        "system": (says("system", text("be brief")), "system", "be brief"),
        "a thought": (says("assistant", THOUGHT, text("yes")), "assistant", "yes"),
        "a call": (says("assistant", CALL), "assistant", ""),
        "a result": (says("tool", RESULT), "tool", ""),
        "nothing": (says("assistant"), "assistant", ""),
    },
)
def test_who_speaks_and_what_is_said(message: dict[str, Any], role: str, said: str) -> None:
    assert dialect_of(message).name == "agent-framework"
    assert (role_of(message), text_of(message)) == (role, said)
    assert is_user_turn(message) == (role == "user")


@each_row(
    "message",
    [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]},
        {"type": "message", "role": "user", "contents": ["x"]},
        {"role": "user", "contents": [text("x")]},
    ],
)
def test_other_shapes_are_left_to_others(message: dict[str, Any]) -> None:
    assert dialect_of(message).name != "agent-framework"


def test_calls_and_results_are_paired() -> None:
    server = [
        {"type": "mcp_server_tool_call", "call_id": "s", "tool_name": "search"},
        {"type": "mcp_server_tool_result", "call_id": "s", "output": [text("found")]},
    ]

    assert [(call.id, call.name) for call in calls_of(says("assistant", CALL))] == [("c", "look_up")]
    assert [call.id for call in results_of(says("tool", RESULT))] == ["c"]
    assert [call.kind for call in calls_of(says("assistant", *server))] == ["server"]
    assert [call.kind for call in results_of(says("assistant", *server))] == ["server"]


def test_a_call_without_a_result_gets_one_for_the_model() -> None:
    messages = [says("user", text("go")), says("assistant", CALL), says("user", text("on"))]

    repaired = repair(messages).messages

    assert [message["role"] for message in repaired] == ["user", "assistant", "tool", "user"]
    assert repaired[2]["contents"][0]["call_id"] == "c"
    assert repair([messages[0], messages[1], says("tool", RESULT)]).repairs == []


def test_tools_are_searched_by_what_was_asked_and_answered_only() -> None:
    assert searched_text(says("assistant", CALL), 0).tool.split() == ["look_up", "heron"]
    assert searched_text(says("tool", RESULT), 0).tool.split() == ["kingfisher"]


def test_people_are_shown_every_content() -> None:
    shown = blocks_of(says("assistant", THOUGHT, text("yes"), CALL, PICTURE, {"type": "usage", "n": 1}))
    failed = blocks_of(says("tool", {**RESULT, "exception": "too far"}))

    assert [block.kind for block in shown] == ["thinking", "text", "call", "media", "data"]
    assert [(block.kind, block.text, block.is_error) for block in failed] == [("result", "too far", True)]


KINDS = ["text", "text_reasoning", "function_call", "function_result", "data", "uri", "shell_tool_result"]


@given(odd_messages, st.sampled_from(KINDS), st.sampled_from(["user", "assistant", "tool"]))
def test_no_shape_is_too_odd(message: dict[str, Any], kind: str, role: str) -> None:
    odd = {**message, "type": kind}
    for whole in (says(role, odd), says(role, odd, message), says(role, message)):
        role_of(whole), text_of(whole), calls_of(whole), results_of(whole), searched_text(whole, 0)
        blocks_of(whole)
        repair([whole, says("assistant", CALL)])
        assert isinstance(is_user_turn(whole), bool)
