"""What messages of Bedrock are and say, and those of Strands, which are Bedrock's in a record."""

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

CALL = {"toolUse": {"toolUseId": "c1", "name": "look_up", "input": {"bird": "heron"}}}
RESULT = {"toolResult": {"toolUseId": "c1", "status": "success", "content": [{"text": "kingfisher"}]}}
IMAGE = {"image": {"format": "png", "source": {"bytes": {"__bytes_encoded__": True, "data": "iVBORw0KGgo="}}}}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "long legs", "signature": "sealed"}}}


def plain(role: str, *content: Any) -> Message:
    return {"role": role, "content": list(content)}


def record(message: Message, redacted: Message | None = None) -> Message:
    """As a Strands session keeps it."""
    times = {"created_at": "2026-11-15T00:00:00+00:00", "updated_at": "2026-11-15T00:00:00+00:00"}
    return {"message": message, "message_id": 0, "redact_message": redacted, **times}


SPEAKERS = {
    "a person": (plain("user", {"text": "hi"}), "user", True),
    "a model": (plain("assistant", {"text": "hello"}), "assistant", False),
    "a call": (plain("assistant", {"text": "let me see"}, CALL), "assistant", False),
    "a result": (plain("user", RESULT), "tool", False),
    "a result and words": (plain("user", RESULT, {"text": "so"}), "user", True),
    "an image": (plain("user", IMAGE), "user", True),
    "guarded words": (plain("user", {"guardContent": {"text": {"text": "hi"}}}), "user", True),
}


@each_named_row(("message", "role", "human"), SPEAKERS)
def test_the_role_and_the_blocks_tell_who_speaks(message: Message, role: str, human: bool) -> None:
    assert (dialect_of(message).name, dialect_of(record(message)).name) == ("bedrock", "strands")
    assert (role_of(message), role_of(record(message))) == (role, role)
    assert (is_user_turn(message), is_user_turn(record(message))) == (human, human)


@each_row("wrap", [dict, record])
def test_words_calls_and_results_are_told_apart(wrap: Any) -> None:
    asked = wrap(plain("assistant", THOUGHT, {"text": "let me see"}, CALL))
    answered = wrap(plain("user", RESULT))

    assert text_of(asked) == "let me see"
    assert text_of(answered) == ""
    assert [(call.id, call.name) for call in calls_of(asked)] == [("c1", "look_up")]
    assert [result.id for result in results_of(answered)] == ["c1"]
    assert searched_text(asked, 0) == (ROLES.index("assistant"), "let me see", "look_up\nheron")
    assert searched_text(answered, 0) == (ROLES.index("tool"), "", "kingfisher")


def test_cited_words_are_words() -> None:
    cited = {"citationsContent": {"content": [{"text": "herons wade"}], "citations": [{"title": "Birds"}]}}
    assert text_of(plain("assistant", cited)) == "herons wade"


def test_what_a_guardrail_put_there_counts() -> None:
    message = record(plain("user", {"text": "something bad"}), plain("user", {"text": "[blocked]"}))

    assert text_of(message) == "[blocked]"
    assert searched_text(message, 0).said == "[blocked]"
    assert [block.text for block in blocks_of(message)] == ["[blocked]"]


def test_messages_of_others_are_left_to_them() -> None:
    typed = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    called = {
        "role": "assistant",
        "content": [{"text": "hi"}],
        "tool_calls": [{"id": "c", "type": "function"}],
    }
    line = {"type": "user", "message": {"role": "user", "content": "hi"}, "uuid": "u"}

    assert dialect_of(typed).name not in ("bedrock", "strands")
    assert dialect_of(called).name == "chat"
    assert dialect_of(line).name == "claude-code"


@each_row("wrap", [dict, record])
def test_people_see_all_of_a_message(wrap: Any) -> None:
    error = {"toolResult": {"toolUseId": "c2", "status": "error", "content": [{"json": {"why": "gone"}}]}}
    document = {"document": {"name": "birds", "format": "pdf", "source": {"location": {"uri": "s3://b/k"}}}}
    cache = {"cachePoint": {"type": "default"}}
    blocks = blocks_of(wrap(plain("user", THOUGHT, CALL, RESULT, error, IMAGE, document, cache, {"odd": 1})))

    kinds = ["thinking", "call", "result", "result", "media", "media", "data"]
    assert [block.kind for block in blocks] == kinds
    thought, call, result, failed, image, file, _ = blocks
    assert (thought.text, call.name, call.call, result.text) == ("long legs", "look_up", "c1", "kingfisher")
    assert failed.is_error
    assert "gone" in failed.text
    assert image.media is not None
    assert (image.media.type, image.media.data) == ("image/png", "iVBORw0KGgo=")
    assert file.media is not None
    assert file.media.url == "s3://b/k"


@each_row("wrap", [dict, record])
def test_a_call_without_a_result_gets_one_for_the_model(wrap: Any) -> None:
    history = [wrap(plain("user", {"text": "hi"})), wrap(plain("assistant", CALL))]

    repaired = repair([*history, wrap(plain("user", {"text": "well?"}))]).messages

    results = [result.id for message in repaired for result in results_of(message)]
    assert results == ["c1"]
    assert repaired[:2] == history


def test_an_edit_leaves_the_record_around_the_message() -> None:
    message = record(plain("user", RESULT, {"text": "so"}))
    edited = dialect_of(message).edit(message, Edit(drop={0}))

    assert edited == record(plain("user", {"text": "so"}))
    assert dialect_of(message).edit(message, Edit(drop={0, 1})) is None


@given(odd_messages)
def test_no_shape_is_too_odd(message: Message) -> None:
    for each in (message, record(message), record(plain("user", message, [], None, 1, {"toolUse": message}))):
        assert role_of(each) in ROLES
        assert isinstance(text_of(each), str)
        assert isinstance(searched_text(each, 0).tool, str)
        assert isinstance(blocks_of(each), list)
        assert isinstance(calls_of(each) + results_of(each), list)
