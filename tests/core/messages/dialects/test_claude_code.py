"""Lines of Claude Code transcripts: who speaks in them, what is said, what is searched and shown."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clew.core.messages.dialects import calls_of, dialect_of, is_user_turn, results_of, role_of, text_of
from clew.core.messages.dialects.anthropic import CLAUDE_CODE
from clew.core.messages.dialects.base import Edit
from clew.core.messages.repair import repair
from clew.core.messages.search_text import searched_text
from clew.exporters.blocks import blocks_of
from tests.core.messages.histories import odd_messages, text_block, thinking, tool_result, tool_use
from tests.support.rows import each_row

Line = dict[str, Any]

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
LOOK_UP = {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"bird": "heron"}}


def line(role: str, content: Any, **more: Any) -> Line:
    around = {"uuid": "u-1", "parentUuid": None, "sessionId": "s-1", "timestamp": "2026-11-15T08:00:00Z"}
    return {"type": role, "message": {"role": role, "content": content}, **around, **more}


@each_row(
    ("message", "role", "human"),
    [
        (line("user", "hi"), "user", True),
        (line("user", [text_block("hi")]), "user", True),
        (line("user", [IMAGE]), "user", True),
        (line("user", [tool_result("c1")]), "tool", False),
        (line("user", [tool_result("c1"), text_block("and?")]), "other", False),
        (line("user", "hi", isMeta=True), "other", False),
        (line("user", "hi", isSidechain=True), "other", False),
        (line("user", "hi", isCompactSummary=True), "other", False),
        (line("user", "<command-name>/clear</command-name>"), "other", False),
        (line("user", "<system-reminder>be kind</system-reminder>"), "other", False),
        (line("user", "<system-reminder>be kind</system-reminder> hi"), "user", True),
        (line("user", "[Request interrupted by user]"), "other", False),
        (line("user", "  "), "other", False),
        (line("assistant", [text_block("hello")]), "assistant", False),
        (line("assistant", [tool_use("c1")], isSidechain=True), "assistant", False),
        ({"type": "summary", "summary": "About herons", "leafUuid": "u-1"}, "other", False),
        ({"type": "custom-title", "customTitle": "Herons"}, "other", False),
        ({"type": "file-history-snapshot", "messageId": "u-1", "snapshot": {}}, "other", False),
        ({"type": "system", "content": "Compacted", "uuid": "u-2", "sessionId": "s-1"}, "other", False),
    ],
)
def test_who_speaks(message: Line, role: str, human: bool) -> None:
    assert role_of(message) == role
    assert is_user_turn(message) is human


def test_what_is_said_and_called_is_that_of_the_message_inside() -> None:
    asked = line("assistant", [thinking(), text_block("I look."), LOOK_UP])
    answered = line("user", [tool_result("c1")])

    assert text_of(asked) == "I look."
    assert [(call.id, call.name) for call in calls_of(asked)] == [("c1", "look_up")]
    assert [call.id for call in results_of(answered)] == ["c1"]


@each_row(
    "message",
    [
        {"type": "user", "message": {"content": "hi"}},
        {"type": "user", "message": "hi"},
        {"type": "system", "message": {"role": "user", "content": "hi"}},
        {"type": ["user"], "message": {"role": "user", "content": "hi"}},
        {"role": "user", "content": "hi"},
        {"role": "user", "content": "hi", "type": "message", "sessionId": "s-1"},
        {"type": "summary", "summary": "About herons"},
    ],
)
def test_other_shapes_are_left_to_others(message: Line) -> None:
    assert dialect_of(message) is not CLAUDE_CODE


def test_of_a_result_only_what_the_tool_answered_is_searched() -> None:
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "kingfisher"}
    found = searched_text(line("user", [result], toolUseResult={"stdout": "kingfisher"}, cwd="/birds"), 0)

    assert (found.said, found.tool) == ("", "kingfisher")


def test_a_line_is_shown_as_its_message() -> None:
    shown = blocks_of(line("assistant", [text_block("I look."), LOOK_UP]))

    assert [block.text for block in shown if block.kind == "text"] == ["I look."]
    assert [block.name for block in shown if block.kind == "call"] == ["look_up"]


@each_row(
    ("record", "note"),
    [
        (
            {"type": "attachment", "attachment": {"type": "environment", "snapshot": {}}},
            "attachment: environment",
        ),
        ({"type": "system", "subtype": "stop_hook_summary", "content": "…"}, "system: stop_hook_summary"),
        ({"type": "queue-operation", "operation": "enqueue", "content": "hi"}, "queue-operation: enqueue"),
        ({"type": "custom-title", "customTitle": "Herons"}, "custom-title: Herons"),
        ({"type": "cost-state", "subtype": 7}, "cost-state"),
    ],
)
def test_a_record_is_shown_in_a_few_words_and_says_nothing(record: Line, note: str) -> None:
    record = {**record, "sessionId": "s-1"}

    assert [(block.kind, block.text) for block in blocks_of(record)] == [("data", note)]
    assert (role_of(record), text_of(record), calls_of(record)) == ("other", "", [])
    assert searched_text(record, 0)[1:] == ("", "")


def test_a_call_without_a_result_is_mended_as_lines() -> None:
    history = [line("user", "hi"), line("assistant", [tool_use("c1")]), line("user", "go on")]
    before = copy.deepcopy(history)

    mended = repair(history).messages

    assert history == before
    assert [call.id for message in mended for call in results_of(message)] == ["c1"]
    assert all(CLAUDE_CODE.claims(message) for message in mended)


def test_an_edit_leaves_the_line_around_the_message() -> None:
    message = line("user", [tool_result("c1"), text_block("and?")])
    edited = CLAUDE_CODE.edit(message, Edit(drop={0}))

    assert edited == line("user", [text_block("and?")])
    assert CLAUDE_CODE.edit(line("user", [tool_result("c1")]), Edit(drop={0})) is None
    assert CLAUDE_CODE.edit(line("user", "hi"), Edit(results_first=True)) == line("user", "hi")


@given(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["user", "assistant"]), "message": odd_messages},
        optional={name: st.none() | st.booleans() | st.text() for name in ("isMeta", "toolUseResult")},
    )
)
def test_no_line_is_too_odd(message: Line) -> None:
    message["message"] = {**message["message"], "role": message["type"]}

    assert role_of(message) in ("user", "assistant", "tool", "system", "other")
    assert isinstance(text_of(message), str)
    assert isinstance(is_user_turn(message), bool)
    assert searched_text(message, 0) is not None
    assert isinstance(calls_of(message) + results_of(message), list)
    assert isinstance(blocks_of(message), list)
