"""Chat messages of LlamaIndex: who speaks, what is said, called and answered."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clew.core.messages.dialects import Call, calls_of, dialect_of, is_user_turn, results_of, role_of, text_of
from clew.core.messages.dialects.base import Edit
from clew.core.messages.dialects.llama_index import LLAMA_INDEX
from clew.core.messages.search_text import searched_text
from clew.core.messages.tool_calls import is_reasoning_only
from clew.exporters.blocks import blocks_of
from tests.support.rows import each_row


def message(role: str, *blocks: Any, **extra: Any) -> dict[str, Any]:
    return {"role": role, "additional_kwargs": extra, "blocks": list(blocks)}


def text(said: str) -> dict[str, Any]:
    return {"block_type": "text", "text": said}


THINKING: dict[str, Any] = {
    "block_type": "thinking",
    "content": "hm",
    "num_tokens": None,
    "additional_information": {},
}
CALL = {"block_type": "tool_call", "tool_call_id": "c-1", "tool_name": "look", "tool_kwargs": {"at": "pond"}}
CITATION = {"block_type": "citation", "cited_content": text("cited"), "source": "s", "title": "t"}
IMAGE = {"block_type": "image", "image": "iVBO", "path": None, "url": None, "image_mimetype": "image/png"}
LEGACY = {"id": "c-2", "type": "function", "function": {"name": "find", "arguments": '{"what": "egret"}'}}


@each_row(
    ("role", "expected"),
    [
        ("user", "user"),
        ("assistant", "assistant"),
        ("chatbot", "assistant"),
        ("model", "assistant"),
        ("tool", "tool"),
        ("function", "tool"),
        ("system", "system"),
        ("developer", "system"),
    ],
)
def test_roles(role: str, expected: str) -> None:
    assert dialect_of(message(role, text("hi"))) is LLAMA_INDEX
    assert role_of(message(role, text("hi"))) == expected
    assert is_user_turn(message(role, text("hi"))) is (role == "user")


@each_row(
    "other",
    [
        {"role": "user", "blocks": []},
        {"role": "user", "additional_kwargs": {}, "blocks": "x"},
        {"role": "user", "additional_kwargs": [], "blocks": []},
        {"role": ["user"], "additional_kwargs": {}, "blocks": []},
        {"role": "somebody", "additional_kwargs": {}, "blocks": []},
    ],
)
def test_other_shapes_are_not_claimed(other: dict[str, Any]) -> None:
    assert dialect_of(other) is not LLAMA_INDEX


def test_the_text_is_what_was_said() -> None:
    assert text_of(message("assistant", THINKING, text("a"), CALL, CITATION)) == "a\ncited"
    assert text_of(message("tool", text("result"), tool_call_id="c-1")) == ""


def test_an_image_is_a_turn_and_reasoning_alone_is_not_speech() -> None:
    assert is_user_turn(message("user", IMAGE))
    assert not is_user_turn(message("user", text("  ")))
    assert is_reasoning_only(message("assistant", THINKING))
    assert not is_reasoning_only(message("assistant", THINKING, CALL))
    assert not is_reasoning_only(message("assistant", THINKING, tool_calls=[LEGACY]))


def test_calls_and_results_are_found() -> None:
    assert calls_of(message("assistant", text("a"), CALL)) == [Call("c-1", "look")]
    assert calls_of(message("assistant", tool_calls=[LEGACY])) == [Call("c-2", "find")]
    assert results_of(message("tool", text("x"), tool_call_id="c-1")) == [Call("c-1", None)]
    assert results_of(message("tool", text("x"), name="look")) == [Call(None, "look")]


def test_a_call_without_a_result_gets_one_in_its_own_words() -> None:
    asking = message("assistant", CALL)
    (call,) = LLAMA_INDEX.parts(asking)
    made = LLAMA_INDEX.interrupted(asking, call)
    assert results_of(made) == [Call("c-1", None)]
    assert LLAMA_INDEX.edit(asking, Edit()) == asking


def test_what_tools_were_asked_and_answered_is_searched_apart() -> None:
    asked = searched_text(message("assistant", THINKING, text("let me see"), CALL), 0)
    assert (asked.said, asked.tool.split()) == ("let me see", ["look", "pond"])
    answered = searched_text(message("tool", text("egret"), tool_call_id="c-1", name="look"), 0)
    assert (answered.said, answered.tool.split()) == ("", ["look", "egret"])
    assert searched_text(message("user", text("hi"), IMAGE), 0).tool == ""


def test_it_is_shown_in_blocks() -> None:
    shown = blocks_of(message("assistant", THINKING, text("a"), IMAGE, CALL))
    assert [block.kind for block in shown] == ["thinking", "text", "media", "call"]
    assert shown[-1].name == "look"
    (result,) = blocks_of(message("tool", text("egret"), tool_call_id="c-1"))
    assert (result.kind, result.text, result.call) == ("result", "egret", "c-1")


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["block_type", "text", "content", "tool_name", "tool_kwargs", "url", "image", "path"]
            ),
            inner | st.sampled_from(["text", "image", "tool_call", "citation", "document", "thinking"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.lists(ODD, max_size=4),
    st.dictionaries(st.sampled_from(["tool_calls", "tool_call_id", "name"]), ODD, max_size=3),
    st.sampled_from(["user", "assistant", "tool", "function", "chatbot", "system"]),
)
def test_no_shape_is_too_odd_to_be_read(blocks: list[Any], extra: dict[str, Any], role: str) -> None:
    odd = {"role": role, "additional_kwargs": extra, "blocks": blocks}
    assert dialect_of(odd) is LLAMA_INDEX
    assert isinstance(role_of(odd), str)
    assert isinstance(text_of(odd), str)
    assert isinstance(is_user_turn(odd), bool)
    for part in LLAMA_INDEX.parts(odd):
        assert LLAMA_INDEX.pick(odd, part) is odd
    assert isinstance(searched_text(odd, 0).tool, str)
    assert isinstance(blocks_of(odd), list)
