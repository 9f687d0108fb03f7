"""What a message is and says, in the words of every provider."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from clew.core.messages.dialects import calls_of, is_user_turn, results_of, role_of, text_of
from clew.core.messages.text import snippet
from clew.core.messages.tool_calls import is_reasoning_only
from tests.core.messages.histories import (
    Message,
    blocks,
    chat_call,
    chat_result,
    function_call,
    function_response,
    gg_result,
    gg_use,
    item_call,
    item_result,
    item_says,
    odd_messages,
    parts,
    reasoning,
    says,
    search,
    search_result,
    text_block,
    thinking,
    tool_result,
    tool_use,
)
from tests.support.rows import each_named_row, each_row

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}


# ── Roles and turns ───────────────────────────────────────────────────────────────────────────────


@each_named_row(
    ("message", "role", "human"),
    {
        "chat user": (says("user", "hi"), "user", True),
        "chat blank user": (says("user", " \n"), "user", False),
        "chat user without content": ({"role": "user"}, "user", False),
        "chat assistant": (says("assistant", "hi"), "assistant", False),
        "chat calls": (chat_call("a"), "assistant", False),
        "chat tool": (chat_result("a"), "tool", False),
        "chat function": ({"role": "function", "name": "f", "content": "1"}, "tool", False),
        "chat system": (says("system", "be brief"), "system", False),
        "chat developer": (says("developer", "be brief"), "system", False),
        "chat image": (blocks("user", {"type": "image_url", "image_url": {"url": "data:"}}), "user", True),
        "chat recording": (blocks("user", {"type": "input_audio", "input_audio": {}}), "user", True),
        "ollama image": ({"role": "user", "content": "", "images": ["iVBO"]}, "user", True),
        "responses user": (item_says("user", "hi"), "user", True),
        "responses file": (
            {"type": "message", "role": "user", "content": [{"type": "input_file", "file_id": "f"}]},
            "user",
            True,
        ),
        "responses assistant": (item_says("assistant", "hi"), "assistant", False),
        "responses call": (item_call("a"), "assistant", False),
        "responses output": (item_result("a"), "tool", False),
        "responses search": ({"type": "web_search_call", "id": "ws"}, "assistant", False),
        "responses reasoning": (reasoning(), "assistant", False),
        "responses reference": ({"type": "item_reference", "id": "x"}, "other", False),
        "anthropic user": (blocks("user", text_block("hi")), "user", True),
        "anthropic image": (blocks("user", IMAGE), "user", True),
        "anthropic document": (blocks("user", {"type": "document", "source": {}}), "user", True),
        "anthropic results": (blocks("user", tool_result("a"), tool_result("b")), "tool", False),
        "anthropic results, blank text": (blocks("user", tool_result("a"), text_block(" ")), "tool", False),
        "anthropic results and words": (blocks("user", tool_result("a"), text_block("and?")), "user", True),
        "anthropic results and image": (blocks("user", tool_result("a"), IMAGE), "user", True),
        "anthropic calls": (blocks("assistant", thinking(), tool_use("a")), "assistant", False),
        "anthropic response as received": (
            {"type": "message", "id": "msg_1", **blocks("assistant", tool_use("a"))},
            "assistant",
            False,
        ),
        "ggcode results": (blocks("user", gg_result("a")), "tool", False),
        "ggcode calls": (blocks("assistant", gg_use("a")), "assistant", False),
        "gemini user": (parts("user", {"text": "hi"}), "user", True),
        "gemini user without role": ({"parts": [{"text": "hi"}]}, "user", True),
        "gemini image": (parts("user", {"inlineData": {"data": "iVBO"}}), "user", True),
        "gemini model": (parts("model", {"text": "hi"}), "assistant", False),
        "gemini calls without role": ({"parts": [function_call("f")]}, "assistant", False),
        "gemini results": (parts("user", function_response("f")), "tool", False),
        "gemini results, old role": (parts("function", function_response("f")), "tool", False),
        "gemini results and words": (parts("user", function_response("f"), {"text": "and?"}), "user", True),
        "typed parts": (parts("user", text_block("hi")), "user", True),
        "private": ({"kind": "marker"}, "other", False),
        "nothing": ({}, "other", False),
    },
)
def test_who_speaks_and_whether_it_is_a_human(message: Message, role: str, human: bool) -> None:
    assert role_of(message) == role
    assert is_user_turn(message) is human


# ── Text ──────────────────────────────────────────────────────────────────────────────────────────


@each_named_row(
    ("message", "text"),
    {
        "chat": (says("user", "hi"), "hi"),
        "chat parts": (blocks("user", text_block("a"), IMAGE, text_block("b")), "a\nb"),
        "chat refusal": (blocks("assistant", {"type": "refusal", "refusal": "no"}), "no"),
        "chat tool output": (chat_result("a", "secret"), ""),
        "chat calls": (chat_call("a", text="let me see"), "let me see"),
        "responses": (item_says("assistant", "hi"), "hi"),
        "responses output": (item_result("a"), ""),
        "responses reasoning": (reasoning(), ""),
        "anthropic": (blocks("assistant", thinking(), text_block("hi"), tool_use("a")), "hi"),
        "anthropic results": (blocks("user", tool_result("a", "secret")), ""),
        "ggcode": (blocks("assistant", text_block("hi"), gg_use("a")), "hi"),
        "gemini": (
            parts("model", {"text": "hmm", "thought": True}, {"text": "hi"}, function_call("f")),
            "hi",
        ),
        "typed parts": (parts("user", text_block("hi")), "hi"),
        "private": ({"kind": "marker", "text": "x"}, ""),
    },
)
def test_the_text_is_what_was_said(message: Message, text: str) -> None:
    assert text_of(message) == text


# ── Calls and results ─────────────────────────────────────────────────────────────────────────────


@each_named_row(
    ("message", "calls", "results"),
    {
        "chat": (chat_call("a", "b"), [("a", "run"), ("b", "run")], []),
        "chat custom tool": (
            {
                "role": "assistant",
                "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "sql", "input": ""}}],
            },
            [("a", "sql")],
            [],
        ),
        "chat legacy": (
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
            [(None, "f")],
            [],
        ),
        "chat result": (chat_result("a"), [], [("a", None)]),
        "chat without calls": ({"role": "assistant", "content": "hi", "tool_calls": None}, [], []),
        "responses": (item_call("a"), [("a", "run")], []),
        "responses result": (item_result("a"), [], [("a", None)]),
        "responses hosted search": (
            {"type": "tool_search_call", "id": "ts", "call_id": None, "execution": "server"},
            [],
            [],
        ),
        "anthropic": (blocks("assistant", thinking(), tool_use("a")), [("a", "run")], []),
        "anthropic result": (blocks("user", tool_result("a"), text_block("b")), [], [("a", None)]),
        "anthropic server tool": (
            blocks("assistant", search("s"), search_result("s")),
            [("s", "web_search")],
            [("s", None)],
        ),
        "anthropic call in the user's mouth": (blocks("user", tool_use("a")), [], []),
        "ggcode": (blocks("assistant", gg_use("a")), [("a", "run")], []),
        "ggcode result": (blocks("user", gg_result("a")), [], [("a", None)]),
        "gemini": (
            parts("model", function_call("f"), function_call("g", "1")),
            [(None, "f"), ("1", "g")],
            [],
        ),
        "gemini snake case": (
            parts("user", {"function_response": {"name": "f", "response": {}}}),
            [],
            [(None, "f")],
        ),
        "calls written twice": ({**chat_call("a"), "content": [tool_use("a")]}, [("a", "run")], []),
    },
)
def test_calls_and_results_are_found(
    message: Message, calls: list[tuple[str | None, str]], results: list[tuple[str | None, str]]
) -> None:
    assert [(call.id, call.name) for call in calls_of(message)] == calls
    assert [(call.id, call.name) for call in results_of(message)] == results


# ── Odd shapes ────────────────────────────────────────────────────────────────────────────────────


@given(odd_messages)
def test_no_shape_is_too_odd_to_be_read(message: Message) -> None:
    before = copy.deepcopy(message)

    assert role_of(message) in ("user", "assistant", "tool", "system", "other")
    assert is_user_turn(message) in (False, role_of(message) == "user")
    assert isinstance(text_of(message), str)
    assert all(call.id or call.name for call in calls_of(message))
    assert isinstance(results_of(message), list)
    assert isinstance(is_reasoning_only(message), bool)
    assert message == before


# ── Snippets ──────────────────────────────────────────────────────────────────────────────────────

GRAPHEMES = [
    "a",
    "é",
    "e\u0301",
    "ß",
    "漢",
    "👍",
    "👍🏽",
    "❤\ufe0f",
    "1\ufe0f\u20e3",
    "👩\u200d👩\u200d👧",
    "🏳\ufe0f\u200d🌈",
    "🇩🇪",
    "🇫🇷",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "नि",
    "각",
    "\u1100\u1161\u11a8",
]


@each_row(
    ("text", "limit", "expected"),
    [
        ("hello", 5, "hello"),
        ("hello!", 5, "hell…"),
        ("  a\n\t b  ", 9, "a b"),
        ("a \x00 b\x1b[31m", 20, "a b[31m"),
        ("one two", 5, "one…"),
        ("ab👍🏽", 3, "ab…"),
        ("🇩🇪🇫🇷", 3, "🇩🇪…"),
        ("\ud83d broken", 20, "broken"),
        ("\u202edesrever", 20, "desrever"),
        ("e" + "\u0301" * 9, 5, "…"),
        ("ab", 1, "…"),
        ("a", 1, "a"),
        ("a", 0, ""),
        ("", 5, ""),
    ],
)
def test_I02_a_snippet_is_one_clean_line(text: str, limit: int, expected: str) -> None:
    assert snippet(text, limit) == expected


@given(st.lists(st.sampled_from(GRAPHEMES), max_size=30), st.integers(0, 40))
def test_I02_a_snippet_never_cuts_inside_a_character_and_no_more_than_it_must(
    graphemes: list[str], limit: int
) -> None:
    text = "".join(graphemes)
    cut = snippet(text, limit)

    assert len(cut) <= limit
    beginnings = ["".join(graphemes[:count]) for count in range(len(graphemes) + 1)]
    assert cut.removesuffix("…") in beginnings
    if len(text) <= limit:
        assert cut == text
    elif limit > 1:
        following = graphemes[beginnings.index(cut.removesuffix("…"))]
        assert len(cut) + len(following) > limit


@given(st.text(max_size=300), st.integers(0, 50))
def test_I01_I02_any_text_becomes_a_short_line_of_valid_unicode(text: str, limit: int) -> None:
    cut = snippet(text, limit)

    assert len(cut) <= limit
    assert cut == " ".join(cut.split())
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in cut)
    cut.encode()


def test_the_snippet_of_a_huge_text_reads_only_its_beginning() -> None:
    assert snippet("word " * 4_000_000, 10) == "word word…"
    assert snippet(" " * 1_000_000 + "late", 10) == "late"
