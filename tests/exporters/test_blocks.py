"""Messages of every dialect and shape, as a page shows them."""

from __future__ import annotations

from typing import Any

import msgspec

import clew
from clew.exporters.blocks import SEALED, blocks_of, blocks_shown
from tests.exporters.stories import STORIES
from tests.exporters.told import told
from tests.support.rows import each_row

PNG = "iVBORw0KGgo="
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


def shown(*messages: dict[str, Any]) -> list[str]:
    with clew.open("memory:") as store:
        store.create("a").append(*messages)
        return told(store, "a")


@each_row("dialect", STORIES)
def test_thoughts_words_calls_and_results_are_told_apart(dialect: str) -> None:
    lines = [line for line in shown(*STORIES[dialect]) if line != "# Assistant"]
    assert lines == ["# User", "Read it.", "Thinking: hmm", "I look.", "Read a.txt (1 line)", "Done."]


@each_row(
    "part",
    [
        IMAGE,
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "seen"}, IMAGE]},
    ],
)
def test_an_image_is_found_in_whatever_shape(part: dict[str, Any]) -> None:
    with clew.open("memory:") as store:
        where = "parts" if "inlineData" in part else "content"
        store.create("a").append({"role": "user", where: [part]})
        assert store.export("a", "html").count(f'<img src="data:image/png;base64,{PNG}"') == 1


FAILED = {"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": True}
RAN = {"type": "mcp_call", "id": "m", "name": "ls", "arguments": "{}", "output": "a.py"}


@each_row(
    ("message", "lines"),
    [
        ({"odd": [1, 2]}, ["# Other", "Data"]),
        ({"role": "user", "content": [{"type": "hologram", "x": 1}]}, ["# User", "Data"]),
        ({"role": "assistant", "tool_calls": ["x", None]}, ["# Assistant", "Data", "Data"]),
        (
            {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]},
            ["# Assistant", f"Thinking: {SEALED}"],
        ),
        (
            {"type": "reasoning", "summary": [], "encrypted_content": "x"},
            ["# Assistant", f"Thinking: {SEALED}"],
        ),
        (
            {"role": "user", "content": [FAILED]},
            ["# Tool", "Error of a tool: no"],
        ),
        ({"type": "tool", "content": "no", "status": "error"}, ["# Tool", "Error of a tool: no"]),
        (RAN, ["# Assistant", "List . (1 line)"]),
        ({**RAN, "output": None, "error": "gone"}, ["# Assistant", "List .: failed: gone"]),
        (
            {"type": "image_generation_call", "id": "i", "status": "completed", "result": PNG},
            ["# Assistant", "image_generation (no result)", "*Not shown: image/png (image, 9 bytes)*"],
        ),
        ({"role": "assistant", "content": None, "refusal": "I will not."}, ["# Assistant", "I will not."]),
        (
            {"role": "assistant", "content": None, "audio": {"id": "a", "data": "UklGRg=="}},
            ["# Assistant", "*Not shown: a file (file, 6 bytes)*"],
        ),
        (
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}, "text": "hi"}]},
            ["# User", "Result of f: {}", "hi"],
        ),
    ],
)
def test_nothing_of_a_message_is_passed_over(message: dict[str, Any], lines: list[str]) -> None:
    assert shown(message) == lines


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
