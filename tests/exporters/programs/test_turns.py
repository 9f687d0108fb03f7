"""What was said in any dialect, as an agent that wrote none of it gets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.core.messages.dialects import ORDER, registry
from clew.core.messages.dialects.base import INTERRUPTED
from clew.exporters.programs import codex
from clew.exporters.programs.turns import NOT_RECORDED, read_turns, without_setup
from tests.core.messages.histories import (
    chat_call,
    chat_result,
    item_call,
    item_result,
    item_says,
    says,
    tool_result,
    tool_use,
)
from tests.exporters.odd_messages import MESSAGES
from tests.exporters.stories import ARGS, CLAUDE, STORIES, Message, claude
from tests.home.make import make_home
from tests.support.effort import usually
from tests.support.rows import each_row

PNG = "iVBORw0KGgo="
GO = says("user", "go")


def told(*messages: Message) -> list[tuple[Any, ...]]:
    """Who said what, as it is told to OpenCode: "program" for what no person said."""
    with clew.open("memory:") as store:
        store.create("x").append(*messages)
        document = json.loads(store.export("x", "opencode"))
    found: list[tuple[Any, ...]] = []
    for message in document["messages"]:
        parts = [part for part in message["parts"] if not part["type"].startswith("step-")]
        who = "program" if any("synthetic" in part for part in parts) else message["info"]["role"]
        found.append((who, *map(_told, parts)))
    return found


def _told(part: dict[str, Any]) -> object:
    if part["type"] == "tool":
        state = part["state"]
        files = [file["url"] for file in state.get("attachments", [])]
        return (
            part["tool"],
            state["input"],
            state.get("output", state.get("error")),
            state["status"],
            *files,
        )
    return part["url"] if part["type"] == "file" else part["text"]


# -- one story in every dialect


def test_every_dialect_has_its_story() -> None:
    assert len(registry().dialects) == len(ORDER)
    assert {dialect.name for dialect in registry().dialects} == {*STORIES, "other"}


@each_row("dialect", STORIES)
def test_a_story_is_the_same_whatever_dialect_it_is_told_in(dialect: str) -> None:
    messages = STORIES[dialect]
    asked, done = ("user", "Read it."), ("assistant", "Done.")
    assert told(*messages) == [asked, ("assistant", "I look.", ("read", ARGS, "words", "completed")), done]
    without_result = told(*messages[:-2])
    assert without_result == [asked, ("assistant", "I look.", ("read", ARGS, INTERRUPTED, "error"))]
    first, (who, stray), last = told(messages[0], *messages[-2:])
    assert (first, who, last) == (asked, "program", done)
    assert "whose call is not there" in stray
    assert stray.endswith("words")


THINKING = {
    "sealed": {"type": "redacted_thinking", "data": "sealed"},
    "signed": {"type": "thinking", "thinking": "", "signature": "signed"},
    "words": {"type": "thinking", "thinking": "words alone"},
    "other": {"type": "thinking", "thinking": "oc", "metadata": {"anthropic": {"signature": "other"}}},
}


def test_a_thought_goes_only_to_the_agent_whose_model_can_be_given_it_again(store: clew.Store) -> None:
    for dialect, messages in STORIES.items():
        store.create(dialect).append(*messages)
    of_anthropic = {id for id in STORIES if "c2ln" in store.export(id, "claude-code")}
    of_openai = {id for id in STORIES if "c2ln" in store.export(id, "codex")}
    assert (of_anthropic, of_openai) == ({"anthropic", "claude-code"}, {"responses"})
    blocks = [*THINKING.values(), {"type": "text", "text": "x"}]
    store.create("x").append(GO, {"role": "assistant", "content": blocks})
    page = store.export("x", "claude-code")
    assert {name for name in THINKING if f'"{name}"' in page} == {"sealed", "signed", "other"}


# -- answers, calls and results


def part_of(answer: str, block: Message) -> Message:
    return {"type": "message", "id": answer, "role": "assistant", "stop_reason": None, "content": [block]}


def text(words: str) -> Message:
    return {"type": "text", "text": words}


def ran(output: str = "done", *files: str) -> tuple[Any, ...]:
    """A call of the tool that all of them call."""
    return ("run", {}, output, "completed", *files)


def asks(*blocks: Message) -> Message:
    return {"role": "assistant", "content": list(blocks)}


def answers(*blocks: Message) -> Message:
    return {"role": "user", "content": list(blocks)}


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
SHOWN = f"data:image/png;base64,{PNG}"
FAILED = {**tool_result("a"), "content": [text('{"a":1}')], "is_error": True}
SEEN = {**tool_result("a"), "content": [text("seen"), IMAGE]}
CASES: dict[str, tuple[list[Message], list[tuple[Any, ...]]]] = {
    "the lines of one answer are one turn, also around results of its calls": (
        [
            part_of("m1", text("Both.")),
            part_of("m1", tool_use("a")),
            answers(tool_result("a", "one")),
            part_of("m1", tool_use("b")),
            answers(tool_result("b", "two")),
            part_of("m2", text("Done.")),
            part_of("m3", text("Really.")),
        ],
        [
            ("assistant", "Both.", ran("one"), ran("two")),
            ("assistant", "Done."),
            ("assistant", "Really."),
        ],
    ),
    "items between two results are one turn": (
        [
            item_call("a"),
            item_call("b"),
            item_result("b"),
            item_result("a"),
            item_says("assistant", "More."),
            item_call("c"),
            item_result("c"),
        ],
        [("assistant", ran(), ran()), ("assistant", "More.", ran())],
    ),
    "answers of chats stay apart": (
        [says("assistant", "a"), says("assistant", "b")],
        [("assistant", "a"), ("assistant", "b")],
    ),
    "a result may be in another dialect": (
        [asks(tool_use("a")), chat_result("a", "one")],
        [("assistant", ran("one"))],
    ),
    "a result keeps its words and its failure": (
        [asks(tool_use("a")), answers(FAILED)],
        [("assistant", ("run", {}, '{"a":1}', "error"))],
    ),
    "a result keeps its pictures": (
        [asks(tool_use("a")), answers(SEEN)],
        [("assistant", ran("seen", SHOWN))],
    ),
    "a result that is told twice is told once": (
        [
            asks(tool_use("a")),
            answers(tool_result("a", "one")),
            answers(tool_result("a", "one"), text("and now?")),
        ],
        [("assistant", ran("one")), ("user", "and now?")],
    ),
    "what the provider ran itself has its result beside it": (
        [
            {"type": "mcp_call", "id": "m", "name": "look", "arguments": "{}", "output": "seen"},
            {"type": "web_search_call", "id": "w", "action": {"query": "q"}},
        ],
        [
            (
                "assistant",
                ("look", {}, "seen", "completed"),
                ("web_search", {"query": "q"}, NOT_RECORDED, "completed"),
            )
        ],
    ),
    "pictures of users are kept": (
        [answers(text("look"), IMAGE), answers({"type": "image_url", "image_url": {"url": SHOWN}})],
        [("user", "look", SHOWN), ("user", SHOWN)],
    ),
    "lines of Claude Code that no person wrote are a program's": (
        [
            claude("user", says("user", "<command-name>/clear</command-name>")),
            claude("user", says("user", "Hello")),
            {**CLAUDE, "type": "ai-title", "aiTitle": "x"},
        ],
        [("program", "<command-name>/clear</command-name>"), ("user", "Hello")],
    ),
    "a message of no known role is a program's": (
        [{"role": "hook", "content": "Mind the gap."}],
        [("program", "Mind the gap.")],
    ),
    "notices and system prompts are not for another agent": (
        [
            {"role": "system", "parts": [{"text": "Update."}], "notice": True},
            {"kind": "request", "parts": [{"part_kind": "system-prompt", "content": "Be brief."}]},
            {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Hi"}]},
        ],
        [("user", "Hi")],
    ),
}


@each_row(("messages", "expected"), CASES.values(), ids=CASES)
def test_another_agent_gets_what_was_said(messages: list[Message], expected: list[tuple[Any, ...]]) -> None:
    assert told(GO, *messages) == [("user", "go"), *expected]


@each_row(
    ("response", "status"),
    [({"error": "no"}, "error"), ({"error": "no", "output": "x"}, "completed")],
)
def test_a_result_of_gemini_that_is_an_error_alone_has_failed(response: Message, status: str) -> None:
    call = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}
    result = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": response}}]}
    _, (_, (*_, told_status)) = told(GO, call, result)
    assert told_status == status


@each_row(
    ("given", "arguments"),
    [
        ('{"a":1}', {"a": 1}),
        ("", {}),
        (None, {}),
        ("[1]", {"input": [1]}),
        ("*** Begin Patch", {"input": "*** Begin Patch"}),
    ],
)
def test_arguments_are_objects(given: Any, arguments: Message) -> None:
    _, (_, call) = told(GO, {**item_call("a"), "arguments": given}, item_result("a"))
    assert call[1] == arguments


def test_ids_of_calls_are_unique(store: clew.Store) -> None:
    ask = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}] * 2}
    session = store.create("x")
    session.append(chat_call("a"), chat_result("a"), chat_call("a"), chat_result("a"), ask)
    found = [call.id for turn in read_turns(session).turns for call in turn.calls]
    assert found == ["a", "a_2", "call_1", "call_2"]


def test_what_could_not_be_said_as_it_was_is_noted(store: clew.Store, tmp_path: Path) -> None:
    session = store.create("x")
    session.append(GO, asks(tool_use("a")), GO, answers(tool_result("b")))
    notes = codex.write_session(store, "x", home=tmp_path, workspace="/w").notes
    assert "1 call without a result got one that says that none was recorded" in notes
    assert "1 result without its call became text" in notes


# -- what a program says of itself, and what a model still gets


def test_another_agent_is_not_told_how_the_first_one_was_set_up(store: clew.Store, tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    store.import_path(home / ".codex")
    store.import_path(home / ".claude" / "projects")
    turns = read_turns(store.get("codex:01a1a1f1-c9a0-7b22-91db-0e32d5bcf867")).turns
    assert [(turn.speaker, turn.injected) for turn in turns[:3]] == [
        ("system", False),
        ("user", True),
        ("user", False),
    ]
    assert without_setup(turns) == turns[2:]
    # What a model was told in between, and the prompt that a program gave to a subagent, stay.
    found = read_turns(store.get("claude-code:4be70e2a-7c1d-4f0e-9d55-3b9f6a1c8e21"))
    assert without_setup(found.view()) == found.view()
    agent = read_turns(store.get("claude-code:4be70e2a-7c1d-4f0e-9d55-3b9f6a1c8e21/agent-a9c432c2acaadb835"))
    assert without_setup(agent.turns) == agent.turns


def viewed(session: clew.Session) -> list[tuple[str, bool]]:
    return [(turn.text, turn.injected) for turn in read_turns(session).view()]


def test_the_view_begins_with_the_summary(store: clew.Store) -> None:
    """Which may stand for the first lines of an answer alone."""
    session = store.create()
    session.append(says("user", "one"), part_of("m", text("1")))
    session.append(part_of("m", text("and one more")), says("user", "two"), says("assistant", "2"))
    session.compact("They counted.", upto=1)
    session.append(says("user", "three"))
    rest = [("and one more", False), ("two", False), ("2", False), ("three", False)]
    assert viewed(session) == [("They counted.", True), *rest]


def test_a_truncation_leaves_the_systems_words(store: clew.Store) -> None:
    session = store.create()
    session.append(says("system", "Be brief."), says("user", "one"), says("assistant", "1"))
    session.append(says("user", "two"), says("assistant", "2"))
    session.truncate(keep_last=2)
    assert [words for words, _ in viewed(session)] == ["Be brief.", "two", "2"]


def test_a_summary_may_be_several_messages_with_calls(store: clew.Store) -> None:
    session = store.create()
    session.append(says("user", "one"))
    session.compact([says("user", "It was one."), chat_call("a"), chat_result("a", "x")])
    said, called = read_turns(session).turns[-1].summary
    assert (said.text, [call.answer.text for call in called.calls]) == ("It was one.", ["x"])


def test_sessions_of_real_agents_lose_nothing(store: clew.Store, tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    for place in (".claude/projects", ".codex", ".pi", ".gemini/tmp", ".local/share/opencode"):
        store.import_path(home / place)
    for info in store.list(limit=100):
        found = read_turns(store.get(info.id))
        assert (found.made_up, found.strays, found.unknown) == (0, 0, 0), info.id
        calls = [call.id for turn in found.turns for call in turn.calls]
        assert len(calls) == len(set(calls))
        assert found.turns[-1].speaker == "assistant"


@settings(max_examples=usually(settings().max_examples, quick=30, thorough=1000))
@given(st.lists(MESSAGES, max_size=6))
def test_no_message_is_too_odd(messages: list[Message]) -> None:
    with clew.open("memory:") as store:
        session = store.create()
        if messages:
            session.append(*messages)
        found = read_turns(session)
        ids = [call.id for turn in found.turns for call in turn.calls]
        assert len(ids) == len(set(ids))
        assert all(turn.parts or turn.speaker == "compaction" for turn in found.turns)
