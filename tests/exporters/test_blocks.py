"""Messages of every dialect, as blocks to be shown."""

from __future__ import annotations

from typing import Any

import msgspec

import clew
from clew.exporters.blocks import SEALED, Block, blocks_of, blocks_shown
from tests.exporters.stories import STORIES
from tests.support.rows import each_row

_PNG = "iVBORw0KGgo="


def _told(message: dict[str, Any]) -> list[tuple[str, str | None, str]]:
    return [(block.kind, block.name, block.text) for block in blocks_of(message)]


@each_row("dialect", STORIES)
def test_thoughts_words_calls_and_results_are_told_apart(dialect: str) -> None:
    blocks = [block for message in STORIES[dialect][0] for block in blocks_of(message)]
    assert [(block.kind, block.text) for block in blocks] == [
        ("text", "Read it."),
        ("thinking", "hmm"),
        ("text", "I look."),
        ("call", '{\n  "path": "a.txt"\n}'),
        ("result", "words"),
        ("text", "Done."),
    ]
    call, result = blocks[3:5]
    assert call.name == "read"
    assert call.call == result.call


@each_row(
    "part",
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _PNG}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PNG}"}},
        {"type": "input_image", "image_url": f"data:image/png;base64,{_PNG}"},
    ],
)
def test_an_image_is_found_in_whatever_shape(part: dict[str, Any]) -> None:
    (block,) = blocks_of({"role": "user", "content": [part]})
    assert block.media is not None
    assert (block.kind, block.media.type, block.media.data) == ("media", "image/png", _PNG)


def test_an_image_of_gemini_is_found() -> None:
    (block,) = blocks_of({"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": _PNG}}]})
    assert block.media is not None
    assert (block.media.type, block.media.data) == ("image/png", _PNG)


def test_an_image_in_a_tool_result_follows_the_result() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _PNG}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "seen"}, image]}
    assert [block.kind for block in blocks_of({"role": "user", "content": [result]})] == ["result", "media"]


def test_what_nobody_knows_is_shown_as_json() -> None:
    assert blocks_of({"odd": [1, 2]}) == [
        Block(kind="data", text='{\n  "odd": [\n    1,\n    2\n  ]\n}', is_json=True)
    ]
    assert _told({"role": "user", "content": [{"type": "hologram", "x": 1}]})[0][0] == "data"


def test_sealed_reasoning_is_told_as_such() -> None:
    sealed = {"type": "redacted_thinking", "data": "x"}
    assert _told({"role": "assistant", "content": [sealed]}) == [("thinking", None, SEALED)]
    assert _told({"type": "reasoning", "summary": [], "encrypted_content": "x"}) == [
        ("thinking", None, SEALED)
    ]


def test_a_failed_call_is_marked() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": True}
    (block,) = blocks_of({"role": "user", "content": [result]})
    assert block.is_error


@each_row(
    "message",
    [
        {},
        {"role": "user"},
        {"role": "user", "content": None},
        {
            "role": "assistant",
            "content": [None, 3, [], {"type": 7}],
            "tool_calls": [None, "x", {"function": 3}],
        },
        {"role": "tool", "content": {"a": 1}},
        {"role": "model", "parts": [None, "x", {"functionCall": 3}, {"text": 5, "thought": 1}]},
        {"type": "function_call"},
        {"type": "reasoning", "summary": "x", "content": 3},
        {
            "role": "user",
            "content": [{"type": "image"}, {"type": "image", "source": 3}, {"type": "text", "text": 3}],
        },
        {"role": "user", "content": "x", "images": [3, None, "data:", {}]},
        {"role": "assistant", "content": [{"type": "tool_use"}, {"type": "tool_result"}]},
    ],
)
def test_no_shape_is_too_odd(message: dict[str, Any]) -> None:
    assert all(isinstance(block.text, str) for block in blocks_of(message))


def test_a_tool_that_the_provider_ran_is_shown_with_its_output() -> None:
    ran = {"type": "mcp_call", "id": "m", "name": "ls", "arguments": "{}", "output": "a.py"}
    assert _told(ran) == [("call", "ls", "{}"), ("result", "ls", "a.py")]
    failed = {**ran, "output": None, "error": "no such server"}
    call, result = blocks_of(failed)
    assert (call.kind, result.text, result.is_error) == ("call", "no such server", True)


def test_a_picture_that_the_provider_made_is_shown_as_one() -> None:
    made = {"type": "image_generation_call", "id": "i", "status": "completed", "result": _PNG}
    call, picture = blocks_of(made)
    assert (call.kind, call.name) == ("call", "image_generation")
    assert _PNG not in call.text
    assert picture.media is not None
    assert (picture.media.type, picture.media.data) == ("image/png", _PNG)


def test_what_stands_beside_a_content_is_shown() -> None:
    refused = {"role": "assistant", "content": None, "refusal": "I will not."}
    assert _told(refused) == [("text", None, "I will not.")]
    spoken = {"role": "assistant", "content": None, "audio": {"id": "a", "data": "UklGRg=="}}
    (block,) = blocks_of(spoken)
    assert block.media is not None
    assert block.media.data == "UklGRg=="


def test_calls_that_are_none_are_shown_as_json() -> None:
    odd = {"role": "assistant", "content": None, "tool_calls": ["x", None]}
    assert _told(odd) == [("data", None, '"x"'), ("data", None, "null")]


def test_a_failed_result_of_langchain_is_an_error() -> None:
    failed = {"type": "tool", "content": "no", "tool_call_id": "c", "status": "error"}
    assert [block.is_error for block in blocks_of(failed)] == [True]


def test_a_text_beside_a_result_of_gemini_is_not_lost() -> None:
    both = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}, "text": "hi"}]}
    assert _told(both) == [("result", "f", "{}"), ("text", None, "hi")]


@each_row(
    ("text", "said"),
    [
        ("<command-name>/x</command-name>\n <command-args>a</command-args>", "/x a"),
        ("<command-message>x</command-message><command-name>/x</command-name>", "/x"),
        ("<local-command-stdout>Compacted</local-command-stdout>", "Compacted"),
        ("<command-name>/x</command-name> and more", "<command-name>/x</command-name> and more"),
        ("<command-args></command-args>", "<command-args></command-args>"),
        ("a <b> c", "a <b> c"),
    ],
)
def test_a_command_that_a_program_wrote_down_is_shown_as_it_was_typed(text: str, said: str) -> None:
    raw = msgspec.json.encode({"role": "user", "content": text})
    entry = clew.Entry("b.0", 0, "message", raw, 0, b"", injected=True)
    assert [block.text for block in blocks_shown(entry)] == [said]
    spoken = msgspec.structs.replace(entry, injected=False)
    assert [block.text for block in blocks_shown(spoken)] == [text]
