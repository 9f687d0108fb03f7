"""What events of Google ADK are and say."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from clew.core.messages.dialects import calls_of, dialect_of, is_user_turn, results_of, role_of, text_of
from clew.core.messages.dialects.base import Edit
from clew.core.messages.repair import repair
from clew.core.messages.search_text import ROLES, searched_text
from clew.exporters.blocks import blocks_of
from tests.core.messages.histories import Message, odd_messages
from tests.support.rows import each_named_row, each_row

CALL = {"function_call": {"id": "c1", "name": "look_up", "args": {"bird": "heron"}}}
RESULT = {"function_response": {"id": "c1", "name": "look_up", "response": {"result": "kingfisher"}}}


def event(author: str, role: str | None = None, *parts: Any, **more: Any) -> Message:
    said = {} if role is None else {"content": {"role": role, "parts": list(parts)}}
    return {
        "invocation_id": "e-1",
        "author": author,
        "id": "x",
        "actions": {"state_delta": {}},
        **said,
        **more,
    }


@each_named_row(
    ("message", "role", "human"),
    {
        "a person": (event("user", "user", {"text": "hi"}), "user", True),
        "an agent": (event("birds", "model", {"text": "hello"}), "assistant", False),
        "a call": (event("birds", "model", CALL), "assistant", False),
        "a result": (event("birds", "user", RESULT), "tool", False),
        "a result that a person brings": (event("user", "user", RESULT), "tool", False),
        "a result and words": (event("user", "user", RESULT, {"text": "so"}), "user", True),
        "a person changes the state": (event("user"), "other", False),
        "an agent changes the state": (event("birds"), "assistant", False),
        "speech": (event("user", input_transcription={"text": "hi", "finished": True}), "user", True),
        "as a server sends it": (
            {"invocationId": "e", "author": "user", "content": {"parts": [{"text": "hi"}]}},
            "user",
            True,
        ),
    },
)
def test_the_author_and_the_parts_tell_who_speaks(message: Message, role: str, human: bool) -> None:
    assert dialect_of(message).name == "adk"
    assert role_of(message) == role
    assert is_user_turn(message) is human


@each_row(
    "message",
    [
        {"author": "user", "content": "a remark"},
        {"author": "user", "invocation_id": "e", "content": "a remark"},
        {"author": {"name": "x"}, "invocation_id": "e", "content": {"parts": []}},
        {"role": "user", "parts": [{"text": "hi"}]},
        {"invocation_id": "e", "content": {"parts": [{"text": "hi"}]}},
    ],
)
def test_what_is_no_event_is_left_to_others(message: Message) -> None:
    assert dialect_of(message).name != "adk"


def test_words_are_told_from_thoughts_and_speech_is_words() -> None:
    message = event(
        "birds",
        "model",
        {"text": "hmm", "thought": True},
        {"text": "a heron"},
        output_transcription={"text": "aloud"},
    )

    assert text_of(message) == "a heron\naloud"


def test_a_call_and_its_result_belong_together() -> None:
    (call,) = calls_of(event("birds", "model", {"text": "wait"}, CALL))
    (result,) = results_of(event("birds", "user", RESULT))

    assert (call.id, call.name) == (result.id, result.name) == ("c1", "look_up")


def test_a_tool_is_found_by_what_it_was_asked_and_answered_and_by_nothing_else() -> None:
    asked = searched_text(event("birds", "model", CALL), 0)
    answered = searched_text(event("birds", "user", RESULT, custom_metadata={"secret": "owl"}), 0)

    assert "heron" in asked.tool
    assert "kingfisher" in answered.tool
    assert "owl" not in answered.tool
    assert ROLES[answered.role] == "tool"


def test_the_context_for_a_model_answers_a_call_that_got_no_result() -> None:
    history = [event("user", "user", {"text": "hi"}), event("birds", "model", CALL)]

    context = repair([*history, event("user", "user", {"text": "well?"})])

    assert [role_of(message) for message in context.messages][:2] == ["user", "assistant"]
    assert [result.name for message in context.messages for result in results_of(message)] == ["look_up"]
    assert all(dialect_of(message).name == "adk" for message in context.messages)


def test_parts_are_taken_out_of_a_copy() -> None:
    message = event("birds", "model", {"text": "wait"}, CALL)
    changed = dialect_of(message).edit(message, Edit(drop={1}))

    assert changed == event("birds", "model", {"text": "wait"})
    assert message == event("birds", "model", {"text": "wait"}, CALL)


def test_an_event_without_words_is_shown_by_what_it_did() -> None:
    (shown,) = blocks_of(event("user", actions={"state_delta": {"seen": 3}, "artifact_delta": {}}))

    assert shown.kind == "data"
    assert '"seen": 3' in shown.text
    assert "artifact_delta" not in shown.text


def test_calls_results_and_words_are_shown_as_such() -> None:
    kinds = [block.kind for block in blocks_of(event("birds", "model", {"text": "wait"}, CALL, RESULT))]

    assert kinds == ["text", "call", "result"]


@given(odd_messages, odd_messages)
def test_no_shape_is_too_odd(message: Message, content: Message) -> None:
    odd = {**message, "author": "user", "invocation_id": "e", "content": content}
    dialect = dialect_of(odd)

    assert role_of(odd) in ROLES
    assert [part for part in dialect.parts(odd) if part.placement and dialect.pick(odd, part) is None] == []
    assert isinstance(blocks_of(odd), list)
    assert searched_text(odd, 0).role in range(len(ROLES))
