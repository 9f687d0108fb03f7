"""What a message of Pydantic AI is and says."""

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

CALL = {"part_kind": "tool-call", "tool_name": "look_up", "args": {"bird": "heron"}, "tool_call_id": "c"}
RESULT = {
    "part_kind": "tool-return",
    "tool_name": "look_up",
    "content": "kingfisher",
    "tool_call_id": "c",
    "timestamp": "2026-11-15T00:00:00Z",
    "outcome": "success",
}
PICTURE = {"kind": "binary", "data": "iVBO", "media_type": "image/png"}


def request(*parts: Any) -> dict[str, Any]:
    return {"parts": list(parts), "kind": "request", "run_id": "r"}


def response(*parts: Any) -> dict[str, Any]:
    return {"parts": list(parts), "kind": "response"}


def part(kind: str, content: Any) -> dict[str, Any]:
    return {"content": content, "part_kind": kind}


@each_named_row(
    ("message", "role", "text"),
    {
        "a user": (request(part("user-prompt", "hi")), "user", "hi"),
        "words and a picture": (request(part("user-prompt", ["a", PICTURE])), "user", "a"),
        "a picture alone": (request(part("user-prompt", [PICTURE])), "user", ""),
        "text with metadata": (
            request(part("user-prompt", [{"kind": "text-content", "content": "marked"}])),
            "user",
            "marked",
        ),
        "a system prompt before the user": (
            request(part("system-prompt", "be brief"), part("user-prompt", "hi")),
            "user",
            "hi",
        ),
        "system alone": (request(part("system-prompt", "be brief")), "system", "be brief"),
        "a result": (request(RESULT), "tool", ""),
        "a result and a word": (request(RESULT, part("user-prompt", "and?")), "user", "and?"),
        "feedback of the framework": (request(part("retry-feedback", "no")), "other", ""),
        "an answer": (response(part("text", "yes")), "assistant", "yes"),
        "thought": (response(part("thinking", "hm"), part("text", "yes")), "assistant", "yes"),
        "a call": (response(CALL), "assistant", ""),
        "speech": (
            response({"part_kind": "speech", "speaker": "assistant", "transcript": "aloud"}),
            "assistant",
            "aloud",
        ),
        "nothing": (response(), "assistant", ""),
    },
)
def test_who_speaks_and_what_is_said(message: dict[str, Any], role: str, text: str) -> None:
    assert dialect_of(message).name == "pydantic-ai"
    assert (role_of(message), text_of(message)) == (role, text)
    assert is_user_turn(message) == (role == "user")


@each_row(
    "message",
    [
        {"kind": "request"},
        {"kind": "request", "parts": "x"},
        {"kind": "request", "parts": [{"text": "x"}]},
        {"kind": "letter", "parts": [part("text", "x")]},
        {"role": "user", "kind": "request", "parts": [part("text", "x")]},
    ],
)
def test_other_shapes_are_left_to_others(message: dict[str, Any]) -> None:
    assert dialect_of(message).name != "pydantic-ai"


def test_calls_and_results_are_paired() -> None:
    server = [{**CALL, "part_kind": "builtin-tool-call"}, {**RESULT, "part_kind": "builtin-tool-return"}]

    assert [(call.id, call.name) for call in calls_of(response(CALL))] == [("c", "look_up")]
    assert [(call.id, call.name) for call in results_of(request(RESULT))] == [("c", "look_up")]
    assert [call.kind for call in calls_of(response(*server))] == ["server"]
    assert [call.kind for call in results_of(response(*server))] == ["server"]


def test_a_call_without_a_result_gets_one_for_the_model() -> None:
    messages = [request(part("user-prompt", "go")), response(CALL), request(part("user-prompt", "on"))]

    repaired = repair(messages).messages

    assert repaired[2]["parts"][0]["part_kind"] == "tool-return"
    assert repaired[2]["parts"][0]["outcome"] == "interrupted"
    assert messages[2]["parts"] == [part("user-prompt", "on")]


def test_tools_are_searched_by_what_was_asked_and_answered_only() -> None:
    asked, answered = searched_text(response(CALL), 0), searched_text(request(RESULT), 0)

    assert asked.tool.split() == ["look_up", "heron"]
    assert answered.tool.split() == ["look_up", "kingfisher"]


def test_people_are_shown_every_part() -> None:
    shown = blocks_of(
        response(part("thinking", "hm"), part("text", "yes"), CALL, part("file", PICTURE), part("new", 1))
    )
    failed = blocks_of(request({**RESULT, "outcome": "failed"}, part("user-prompt", ["see", PICTURE])))

    assert [block.kind for block in shown] == ["thinking", "text", "call", "media", "data"]
    assert [block.kind for block in failed] == ["result", "text", "media"]
    assert failed[0].is_error
    assert (failed[0].name, failed[0].text) == ("look_up", "kingfisher")


KINDS = ["tool-call", "tool-return", "user-prompt", "system-prompt", "text", "thinking", "file", "speech"]


@given(odd_messages, st.sampled_from(KINDS))
def test_no_shape_is_too_odd(message: dict[str, Any], kind: str) -> None:
    odd = {**message, "part_kind": kind}
    for whole in (request(odd, message), response(odd), request(part(kind, message)), request(message)):
        role_of(whole), text_of(whole), calls_of(whole), results_of(whole), searched_text(whole, 0)
        blocks_of(whole)
        repair([whole, response(CALL)])
        assert isinstance(is_user_turn(whole), bool)
