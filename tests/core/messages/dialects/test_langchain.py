"""LangChain's messages, as they lie in a log: who speaks, what is said, called and answered."""

from __future__ import annotations

from typing import Any

from clew.core.messages.dialects import calls_of, dialect_of, is_user_turn, results_of, role_of, text_of
from clew.core.messages.dialects.langchain import LANGCHAIN
from clew.core.messages.search_text import searched_text
from clew.core.messages.tool_calls import is_reasoning_only
from clew.exporters.blocks import blocks_of
from tests.support.rows import each_row

CALL = {"name": "look_up", "args": {"bird": "heron"}, "id": "c1", "type": "tool_call"}
HUMAN: dict[str, Any] = {"type": "human", "content": "where is it", "id": "1"}
AI: dict[str, Any] = {"type": "ai", "content": "let me see", "tool_calls": [CALL], "id": "2"}
TOOL: dict[str, Any] = {"type": "tool", "content": "a kingfisher", "tool_call_id": "c1", "name": "look_up"}
BLOCKS: dict[str, Any] = {
    "type": "ai",
    "content": [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "so"},
        {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"bird": "heron"}},
    ],
    "tool_calls": [CALL],
}


@each_row(
    ("message", "role", "human"),
    [
        (HUMAN, "user", True),
        ({**HUMAN, "type": "HumanMessageChunk"}, "user", True),
        ({**HUMAN, "content": "  "}, "user", False),
        ({**HUMAN, "content": [{"type": "image_url", "image_url": {"url": "x"}}]}, "user", True),
        (AI, "assistant", False),
        ({**AI, "type": "AIMessageChunk"}, "assistant", False),
        (TOOL, "tool", False),
        ({"type": "function", "content": "r", "name": "f"}, "tool", False),
        ({"type": "system", "content": "be good"}, "system", False),
        ({"type": "chat", "content": "hm", "role": "narrator"}, "other", False),
        ({"type": "chat", "content": "hm", "role": "assistant"}, "assistant", False),
        ({"type": "remove", "content": "", "id": "1"}, "other", False),
    ],
)
def test_who_speaks(message: dict[str, Any], role: str, human: bool) -> None:
    assert dialect_of(message) is LANGCHAIN
    assert role_of(message) == role
    assert is_user_turn(message) is human


@each_row(
    "message",
    [
        {"type": "human"},
        {"type": "human", "content": None},
        {"type": "tool", "role": "tool", "content": "x"},
        {"type": ["human"], "content": "x"},
        {"type": "message", "role": "user", "content": "x"},
        {"type": "text", "content": "x"},
    ],
)
def test_what_is_not_langchains_is_left_to_others(message: dict[str, Any]) -> None:
    assert dialect_of(message) is not LANGCHAIN


def test_what_is_said_called_and_answered() -> None:
    assert [text_of(message) for message in (HUMAN, AI, TOOL, BLOCKS)] == [
        "where is it",
        "let me see",
        "",
        "so",
    ]
    assert [(call.id, call.name) for call in calls_of(AI)] == [("c1", "look_up")]
    assert [(call.id, call.name) for call in results_of(TOOL)] == [("c1", "look_up")]
    assert calls_of({**AI, "tool_calls": ["odd", {}, None]}) == []
    assert results_of({"type": "tool", "content": "x"}) == []


def test_what_can_be_searched() -> None:
    assert searched_text(TOOL, 0).tool == "look_up\na kingfisher"
    assert "heron" in searched_text(AI, 0).tool
    assert "hm" not in searched_text(BLOCKS, 0).tool


def test_what_people_read() -> None:
    assert [(block.kind, block.text or block.name) for block in blocks_of(TOOL)] == [
        ("result", "a kingfisher")
    ]
    assert [block.kind for block in blocks_of(BLOCKS)] == ["thinking", "text", "call"]
    thought = {**AI, "additional_kwargs": {"reasoning_content": "hm"}}
    assert [block.kind for block in blocks_of(thought)] == ["thinking", "text", "call"]
    assert [(block.kind, block.text) for block in blocks_of(HUMAN)] == [("text", "where is it")]


def test_thoughts_alone_are_no_answer() -> None:
    thinking = {"type": "ai", "content": [{"type": "thinking", "thinking": "hm"}]}
    assert is_reasoning_only(thinking)
    assert not is_reasoning_only({**thinking, "tool_calls": [CALL]})
    assert not is_reasoning_only(BLOCKS)
    assert not is_reasoning_only(HUMAN)


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    (call,) = (part for part in LANGCHAIN.parts(AI) if part.kind == "call")
    answer = LANGCHAIN.interrupted(AI, call)
    assert results_of(answer) == calls_of(AI)
    assert answer["status"] == "error"
