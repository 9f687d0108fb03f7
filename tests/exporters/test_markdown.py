"""Markdown pages: readable, and nothing in a transcript can leave its place.

What a page means is asked of a Markdown parser that lets HTML through, as many renderers do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

import clew
from clew.core.messages.text import visible_line
from clew.errors import InvalidError
from clew.exporters.markdown import fence, inline, quote, speech
from tests.exporters.hostile import ATTACKS, BIDI, ESCAPES, conversation
from tests.exporters.rich import CLAUDE, CODEX, rich_store
from tests.support.rows import each_row

LONG_AGO = datetime(2024, 5, 1, 9, tzinfo=UTC)
PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
PARSER.validateLink = lambda url: True  # type: ignore[method-assign]


def _tokens(text: str) -> Iterator[Token]:
    for token in PARSER.parse(text):
        yield token
        yield from token.children or ()


def _acts(text: str) -> list[str]:
    """What of a page would act: tags, images, links to other than web pages."""
    found = []
    for token in _tokens(text):
        if token.type in ("html_block", "html_inline", "image"):
            found.append(token.content)
        if token.type == "link_open" and ":" in (href := str(token.attrs["href"])):
            found += [href] if not href.startswith(("http://", "https://", "mailto:")) else []
    return found


OURS = re.compile(r"(?:<details><summary>[^<>]*</summary>|</details>)\n?")
"""The only tags that a page has."""


def _rendered(text: str) -> str:
    """What a reader sees of one paragraph or heading."""
    [line] = [token for token in PARSER.parse(text) if token.type == "inline"]
    return "".join("\n" if child.type == "softbreak" else child.content for child in line.children or ())


def _quoted(text: str) -> str:
    return "\n".join(quote(text)) + "\n"


@each_row("attack", ATTACKS, ids=lambda attack: attack[:24].encode("unicode_escape").decode())
def test_what_was_said_can_not_act(attack: str) -> None:
    assert _acts(_quoted(attack)) == []


MARKS = [
    "`", "``", "```", "~~~", "<b>", "<!--", "</p>", "|", "\\", "\n", "\n\n", "    ", "- ", "> ", "# ",
    "![", "[", "]", "](", ")", "javascript:x", "https://x.y", "]: ", "[a]: <javascript:x>", "&lt;",
    "&#106;avascript:x", "<", ">", "a", "---", "===", "1. ", "\t", "html", "| a | b |\n|---|---|\n",
    "(", "!", "\x1b", "\u202e",
]  # fmt: skip
MARKDOWN = st.lists(st.sampled_from(MARKS), max_size=30).map("".join)


@given(MARKDOWN)
@example("a `\n`<b>`")
@example("| a | b |\n|---|---|\n| `x | <b> | y` |")
def test_no_mixture_of_marks_acts(text: str) -> None:
    assert _acts(_quoted(text)) == []


@given(MARKDOWN)
@example("a\n- ")
@example("- ```\n# b")
def test_no_mixture_of_marks_leaves_its_quote(text: str) -> None:
    tokens = PARSER.parse(_quoted(text) + "\n# After\n")
    assert [token.type for token in tokens[-3:]] == ["heading_open", "inline", "heading_close"]
    assert tokens[-2].content == "After"
    assert sum(token.type == "heading_open" for token in tokens) == 1


@given(MARKDOWN)
@example("a\n````\nb")
def test_a_fence_holds_whatever_is_inside(text: str) -> None:
    page = "\n".join(fence(text)) + "\n\nafter\n"
    tokens = PARSER.parse(page)
    assert [token.type for token in tokens] == ["fence", "paragraph_open", "inline", "paragraph_close"]


@given(MARKDOWN)
def test_a_title_is_only_letters(text: str) -> None:
    (_, content, _) = PARSER.parse(f"# x {inline(text)}\n")
    assert {child.type for child in content.children or ()} <= {"text", "text_special"}


@given(MARKDOWN | st.text(max_size=40))
@example("a\\")
@example("*")
@example("# x #")
@example("__init__ a_b _c_")
@example("\\*a")
@example("&amp; &")
def test_a_title_reads_as_it_was_written(text: str) -> None:
    assert _rendered(f"# x {inline(text)}\n") == f"x {visible_line(text)}".strip()
    assert _rendered(f"- Name: {inline(text)}\n") == f"Name: {visible_line(text)}".strip()


@each_row(
    "text",
    [
        "Fix the log-in page (v1.2) - urgent!",
        "snake_case, x[0], C:\\temp, a + b = {c}",
        "1 < 2 && 3 > 2; #12 ~ 5 * 6",
        "[draft] notes | more C#",
        "claude-code:5e0c1a52-7d7e/agent-1",
    ],
)
def test_no_backslash_is_written_without_need(text: str) -> None:
    assert inline(text) == text
    assert list(speech(text)) == [text]


@each_row(
    "text",
    [
        "a [x]: b",
        "see array[0]: its first",
        "a < b",
        "i <= j",
        "no-one -- ever",
        "(1) 2) 3.",
        "a|b",
        "50% ~ 60%",
    ],
)
def test_prose_reads_as_it_was_written(text: str) -> None:
    assert _rendered("\n".join(speech(text))) == text
    assert "\\" not in "".join(speech(text))


@given(MARKDOWN)
@example("- a\n</details>")
@example("[a\nb]: javascript:x\n\n[a b]")
@example("x\n===")
@example("a\n- ```")
def test_no_mixture_of_marks_leaves_its_place(text: str) -> None:
    page = "\n".join(speech(text)) + "\n\n# After\n"
    assert _acts(page) == []
    tokens = PARSER.parse(page)
    assert [token.type for token in tokens[-3:]] == ["heading_open", "inline", "heading_close"]
    assert sum(token.type == "heading_open" for token in tokens) == 1


def test_calls_are_folded_with_their_results_inside(tmp_path: Path) -> None:
    with rich_store(tmp_path) as store:
        page = store.export(CLAUDE, "markdown", links={f"{CLAUDE}/agent-7f3a9c21": "child.md"})
        other = store.export(CODEX, "markdown")
    for line in (
        "<details><summary>Read src/auth.py (14 lines)</summary>",
        "<details><summary>Ran pytest -q tests/test_auth.py: 2 failed, 4 passed</summary>",
        "<details><summary>Edit src/auth.py +2</summary>",
        "<details><summary>Ran git diff +3 −1</summary>",
        "### User · 0 · 2026-11-12 09:30:07",
        "+    if not -SKEW <= age <= 3600:",
        "*Rewound to entry",
        "Subagent: [Look for other places that compare times with the clock",
        "](./child.md), 4 messages",
    ):
        assert line in page
    assert page.count("<details>") == page.count("</details>")
    assert "\n```diff\n" in page
    assert "### Tool" not in page
    assert [found for found in _acts(page) if not OURS.fullmatch(found)] == []
    assert "# Make the image smaller -- it has 1.2 GB!\n" in other
    assert "<details><summary>Edit deploy/Dockerfile, deploy/.dockerignore +4 −1</summary>" in other


def test_formatting_that_is_harmless_stays() -> None:
    said = "**bold** and `Vec<T>`\n\n- one\n- two\n\n[docs](https://example.com)\n\n```py\nx = 1\n```"
    types = {token.type for token in _tokens(_quoted(said))}
    assert {"strong_open", "code_inline", "list_item_open", "link_open", "fence"} <= types
    assert "> ```py\n> x = 1\n> ```" in _quoted(said)
    assert "`Vec<T>`" in _quoted(said)


def test_terminal_sequences_and_directions_are_visible() -> None:
    shown = _quoted(ESCAPES + BIDI + "\r\nx\ry")
    assert shown.startswith("> ␛]0;title␇␛[2Jred⟦U+009B⟧31m␈␡safe⟦U+202E⟧gpj.exe")
    assert shown.endswith("\n> x\n> y\n")
    assert not set(shown) & set("\x1b\x07\x08\x7f\x9b\u202e\u2066\u200f\U000e0041")
    assert "⟦U+202E⟧" in shown


def test_a_hostile_session_becomes_a_page_that_does_not_act(store: clew.Store) -> None:
    conversation(store)
    page = store.export("hostile", "markdown", whole=True)
    assert [found for found in _acts(page) if not OURS.fullmatch(found)] == []
    tokens = PARSER.parse(page)
    headings = [token for token in tokens if token.type == "heading_open"]
    assert [sum(token.tag == tag for token in headings) for tag in ("h1", "h2")] == [1, 3]
    assert {token.level for token in headings} == {0}
    told = [
        after.content
        for token, after in pairwise(tokens)
        if token.type == "heading_open" and token.tag == "h3"
    ]
    speakers = {"System", "User", "Assistant", "Other", "Mark", "Added by the agent"}
    assert {line.partition(" · ")[0] for line in told} <= speakers


def test_the_path_is_told_in_order(store: clew.Store) -> None:
    s = store.create("a", title="A chat", model="m-1", tags=["t"])
    s.append({"role": "user", "content": "first"}, {"role": "assistant", "content": "second"})
    page = store.export("a", "markdown")
    assert page.startswith("# A chat\n")
    assert (
        page.index("### User") < page.index("> first") < page.index("### Assistant") < page.index("\nsecond")
    )


def test_tools_and_thinking_can_be_left_out(store: clew.Store) -> None:
    s = store.create("a")
    call = {"id": "t", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    s.append(
        {"role": "assistant", "reasoning_content": "a thought", "content": "said", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t", "content": "an answer"},
    )
    full = store.export("a", "markdown")
    assert "a thought" in full
    assert "<summary>Thinking: a thought</summary>" in full
    assert "<summary>List . (1 line)</summary>" in full
    assert full.index("<details><summary>List") < full.index("an answer") < full.rindex("</details>")
    short = store.export("a", "markdown", tools=False, thinking=False)
    assert "\nsaid\n" in short
    assert "a thought" not in short
    assert "List" not in short
    assert "details" not in short
    assert "### Tool" not in short


def test_the_model_calls_can_be_listed_with_vendor_and_endpoint(store: clew.Store) -> None:
    s = store.create("x", vendor="zai", endpoint="cn", model="glm", created_at=LONG_AGO)
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    asked, said = s.append(*messages, at=LONG_AGO)
    s.add_usage(input_tokens=1200, output_tokens=80, entry=said, at=LONG_AGO)
    s.add_usage(vendor="other_", endpoint="https://u:hunter2secret@e", model="m", cost="0.5", at=LONG_AGO)
    s.append({"role": "user", "content": "c"})
    page = store.export("x", "markdown", calls=True)
    assert "- Vendor: zai / cn / glm" in page
    assert page.split("### Model calls\n\n")[1].strip().splitlines() == [
        "- 2024-05-01 09:00:00 · zai / cn / glm · 1.2 k tokens in, 80 out · entry 1",
        "- 2024-05-01 09:00:00 · other\\_ / https://u:hunter2secret@e / m · 0 tokens in, 0 out · $0.50",
    ]
    assert "hunter2secret" not in store.export("x", "markdown", calls=True, redact=True)
    assert "### Model calls" not in store.export("x", "markdown")
    assert "entry 1" not in store.export("x", "markdown", calls=True, after=said)
    assert "No model call was recorded." in store.export("x", "markdown", calls=True, after=said)
    assert "entry 1" in store.export("x", "markdown", calls=True, after=asked, before=2)


def test_a_part_of_a_session_can_be_told(store: clew.Store) -> None:
    s = store.session("x")
    entries = s.append(*({"role": "user", "content": f"word {number}"} for number in range(5)))
    parts: list[tuple[dict[str, Any], str]] = [
        ({"last": 2}, "34"),
        ({"after": entries[2]}, "34"),
        ({"before": 2}, "01"),
        ({"after": 0, "before": entries[3].id}, "12"),
        ({"last": 1, "before": 4}, "3"),
    ]
    for options, expected in parts:
        page = store.export("x", "markdown", **options)
        assert "".join(found for found in "01234" if f"> word {found}" in page) == expected, options
    with pytest.raises(InvalidError, match="all branches"):
        store.export("x", "markdown", whole=True, last=1)


def test_all_branches_say_what_they_continue(store: clew.Store) -> None:
    conversation(store)
    assert "MARK-1" not in store.export("hostile", "markdown")
    page = store.export("hostile", "markdown", whole=True)
    assert page.count("MARK-0") == 1
    assert "## Branch 1, from 0 to 3 (current)" in page
    assert "## Branch 1, from 4 to 4\n" in page
    assert "Continues branch 1 after 3." in page


def test_a_damaged_or_empty_session_has_a_page_too(store: clew.Store) -> None:
    store.create("empty")
    assert store.export("empty", "markdown", whole=True).startswith("# empty")
