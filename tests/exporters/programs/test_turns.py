"""Any dialect as turns that belong to no agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.core.messages.dialects import ORDER, registry
from clew.core.messages.dialects.base import INTERRUPTED
from clew.exporters.programs.turns import (
    NOT_RECORDED,
    History,
    Picture,
    Text,
    Thought,
    ToolCall,
    Turn,
    read_turns,
    without_setup,
)
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


def history(store: clew.Store, *messages: Message) -> History:
    session = store.create()
    if messages:
        session.append(*messages)
    return read_turns(session)


def told(turn: Turn) -> list[object]:
    """The parts in a few words."""
    return [_told(part) for part in turn.parts]


def _told(part: object) -> object:
    match part:
        case Text(text):
            return text
        case Picture(media):
            return (media.type, media.data or media.url)
        case Thought():
            return ("thought", part.text, part.vendor)
        case ToolCall():
            return (part.name, part.arguments, part.answer.text, part.answer.is_error)
    raise AssertionError(part)


# -- the same story in every dialect


def test_every_dialect_has_its_story() -> None:
    assert len(registry().dialects) == len(ORDER)
    assert {dialect.name for dialect in registry().dialects} == {*STORIES, "other"}


@each_row("dialect", STORIES)
def test_a_dialect_becomes_turns(store: clew.Store, dialect: str) -> None:
    messages, vendor = STORIES[dialect]
    found = history(store, *messages)
    assert [turn.speaker for turn in found.turns] == ["user", "assistant", "assistant"]
    asked, answered, last = found.turns
    assert told(asked) == ["Read it."]
    assert told(answered) == [("thought", "hmm", vendor), "I look.", ("read", ARGS, "words", False)]
    assert told(last) == ["Done."]
    assert not any(turn.injected for turn in found.turns)
    assert (found.made_up, found.strays, found.unknown) == (0, 0, 0)
    assert found.view() == found.turns


@each_row("dialect", STORIES)
def test_a_call_without_a_result_gets_one_that_says_so(store: clew.Store, dialect: str) -> None:
    messages, _ = STORIES[dialect]
    found = history(store, *messages[:-2])
    (call,) = found.turns[-1].calls
    assert (call.answer.text, call.answer.is_error, call.answer.is_made_up) == (INTERRUPTED, True, True)
    assert found.notes() == ["1 call without a result got one that says that none was recorded"]


@each_row("dialect", STORIES)
def test_a_result_without_its_call_is_a_text(store: clew.Store, dialect: str) -> None:
    messages, _ = STORIES[dialect]
    found = history(store, messages[0], *messages[-2:])
    assert [turn.speaker for turn in found.turns] == ["user", "user", "assistant"]
    stray = found.turns[1]
    assert stray.injected
    assert "whose call is not there" in stray.text
    assert stray.text.endswith("words")
    assert found.notes() == ["1 result without its call became text"]


# -- answers that a program keeps in several entries


def part_of(answer: str, block: Message) -> Message:
    return {"type": "message", "id": answer, "role": "assistant", "stop_reason": None, "content": [block]}


def test_the_lines_of_one_answer_are_one_turn(store: clew.Store) -> None:
    """Also when the results of its first calls stand between them."""
    found = history(
        store,
        says("user", "go"),
        part_of("m1", {"type": "text", "text": "Both."}),
        part_of("m1", tool_use("a")),
        {"role": "user", "content": [tool_result("a", "one")]},
        part_of("m1", tool_use("b")),
        {"role": "user", "content": [tool_result("b", "two")]},
        part_of("m2", {"type": "text", "text": "Done."}),
        part_of("m3", {"type": "text", "text": "Really."}),
    )
    assert [told(turn) for turn in found.turns] == [
        ["go"],
        ["Both.", ("run", {}, "one", False), ("run", {}, "two", False)],
        ["Done."],
        ["Really."],
    ]
    assert found.turns[1].vendor == "anthropic"
    assert len(found.turns[1].entries) == 3


def test_a_record_of_gemini_cli_is_one_turn(store: clew.Store) -> None:
    session = store.create()
    call = {"functionCall": {"id": "c", "name": "f", "args": {}}}
    for parts in ([{"text": "I look."}], [call], [{"text": "Again."}]):
        session.append({"role": "model", "parts": parts})
    for position, id in enumerate("aab"):
        session.annotate(position, source={"type": "gemini", "id": id})
    assert [told(turn)[0] for turn in read_turns(session).turns] == ["I look.", "Again."]
    assert len(read_turns(session).turns[0].calls) == 1


def test_items_between_two_results_are_one_turn(store: clew.Store) -> None:
    found = history(
        store,
        item_says("user", "go"),
        item_call("a"),
        item_call("b"),
        item_result("b"),
        item_result("a"),
        item_says("assistant", "More."),
        item_call("c"),
        item_result("c"),
    )
    assert [len(turn.calls) for turn in found.turns] == [0, 2, 1]


def test_answers_of_chats_stay_apart(store: clew.Store) -> None:
    found = history(store, says("assistant", "a"), says("assistant", "b"))
    assert [turn.text for turn in found.turns] == ["a", "b"]


# -- calls and results


def test_a_result_may_be_in_another_dialect(store: clew.Store) -> None:
    found = history(store, {"role": "assistant", "content": [tool_use("a")]}, chat_result("a", "one"))
    assert [told(turn) for turn in found.turns] == [[("run", {}, "one", False)]]


def test_ids_are_unique(store: clew.Store) -> None:
    ask = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}] * 2}
    found = history(store, chat_call("a"), chat_result("a"), chat_call("a"), chat_result("a"), ask)
    assert [call.id for turn in found.turns for call in turn.calls] == ["a", "a_2", "call_1", "call_2"]


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
def test_arguments_are_objects(store: clew.Store, given: Any, arguments: Message) -> None:
    found = history(store, {**item_call("a"), "arguments": given}, item_result("a"))
    assert found.turns[0].calls[0].arguments == arguments


def test_a_result_keeps_its_words_media_and_failure(store: clew.Store) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    content = [{"type": "text", "text": '{"a":1}'}, image]
    result = {**tool_result("a"), "content": content, "is_error": True}
    found = history(
        store, {"role": "assistant", "content": [tool_use("a")]}, {"role": "user", "content": [result]}
    )
    answer = found.turns[0].calls[0].answer
    assert (answer.text, answer.is_error) == ('{"a":1}', True)
    assert [(media.type, media.data) for media in answer.media] == [("image/png", PNG)]


def test_a_result_of_gemini_that_is_an_error_alone_has_failed(store: clew.Store) -> None:
    for response, has_failed in (({"error": "no"}, True), ({"error": "no", "output": "x"}, False)):
        found = history(
            store,
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": response}}]},
        )
        assert found.turns[0].calls[0].answer.is_error is has_failed


def test_a_result_that_is_told_twice_is_told_once(store: clew.Store) -> None:
    found = history(
        store,
        {"role": "assistant", "content": [tool_use("a")]},
        {"role": "user", "content": [tool_result("a", "one")]},
        {"role": "user", "content": [tool_result("a", "one"), {"type": "text", "text": "and now?"}]},
        {"role": "user", "content": [tool_result("a", "other")]},
    )
    assert [turn.text.splitlines()[-1:] for turn in found.turns] == [[], ["and now?"], ["other"]]
    assert found.strays == 1


def test_what_the_provider_ran_itself_has_its_result_beside_it(store: clew.Store) -> None:
    found = history(
        store,
        {"type": "mcp_call", "id": "m", "name": "look", "arguments": "{}", "output": "seen"},
        {"type": "web_search_call", "id": "w", "action": {"query": "q"}},
    )
    (turn,) = found.turns
    assert told(turn) == [("look", {}, "seen", False), ("web_search", {"query": "q"}, NOT_RECORDED, False)]
    assert found.made_up == 0


# -- who speaks


def test_programs_are_told_from_people(store: clew.Store, tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    store.import_path(home / ".codex")
    session = store.get("codex:01a1a1f1-c9a0-7b22-91db-0e32d5bcf867")
    found = read_turns(session)
    speakers = [(turn.speaker, turn.injected) for turn in found.turns]
    assert speakers[:3] == [("system", False), ("user", True), ("user", False)]


def test_another_agent_is_not_told_how_the_first_one_was_set_up(store: clew.Store, tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    store.import_path(home / ".codex")
    store.import_path(home / ".claude" / "projects")
    found = read_turns(store.get("codex:01a1a1f1-c9a0-7b22-91db-0e32d5bcf867"))
    assert without_setup(found.turns) == found.turns[2:]
    # What a model was told in between, and the prompt that a program gave to a subagent, stay.
    found = read_turns(store.get("claude-code:4be70e2a-7c1d-4f0e-9d55-3b9f6a1c8e21"))
    assert without_setup(found.view()) == found.view()
    agent = read_turns(store.get("claude-code:4be70e2a-7c1d-4f0e-9d55-3b9f6a1c8e21/agent-a9c432c2acaadb835"))
    assert without_setup(agent.turns) == agent.turns


def test_lines_of_claude_code_that_no_person_wrote_are_injected(store: clew.Store) -> None:
    found = history(
        store,
        claude("user", says("user", "<command-name>/clear</command-name>")),
        claude("user", says("user", "Hello")),
        {**CLAUDE, "type": "ai-title", "aiTitle": "x"},
    )
    assert [(turn.text, turn.injected) for turn in found.turns] == [
        ("<command-name>/clear</command-name>", True),
        ("Hello", False),
    ]
    assert found.unknown == 1


def test_a_message_of_no_known_role_is_injected(store: clew.Store) -> None:
    found = history(store, {"role": "hook", "content": "Mind the gap."})
    assert [(turn.speaker, turn.text, turn.injected) for turn in found.turns] == [
        ("user", "Mind the gap.", True)
    ]


def test_notices_are_for_people(store: clew.Store) -> None:
    found = history(store, {"role": "system", "parts": [{"text": "Update."}], "notice": True})
    assert [(turn.speaker, turn.text) for turn in found.turns] == [("notice", "Update.")]


def test_a_system_prompt_inside_of_a_request_is_the_systems(store: clew.Store) -> None:
    parts = [
        {"part_kind": "system-prompt", "content": "Be brief."},
        {"part_kind": "user-prompt", "content": "Hi"},
    ]
    found = history(store, {"kind": "request", "parts": parts})
    assert [(turn.speaker, turn.text) for turn in found.turns] == [("system", "Be brief."), ("user", "Hi")]


# -- thoughts


def test_thoughts_say_who_can_be_given_them_again(store: clew.Store) -> None:
    found = history(
        store,
        {
            "role": "assistant",
            "content": [
                {"type": "redacted_thinking", "data": "xx"},
                {"type": "thinking", "thinking": "", "signature": "yy"},
                {"type": "thinking", "thinking": "words alone"},
                {"type": "thinking", "thinking": "oc", "metadata": {"anthropic": {"signature": "s"}}},
                {"type": "text", "text": "x"},
            ],
        },
        {"type": "reasoning", "summary": [], "encrypted_content": "zz"},
        {"type": "reasoning", "summary": []},
    )
    assert [_told(each) for turn in found.turns for each in turn.thoughts] == [
        ("thought", None, "anthropic"),
        ("thought", None, "anthropic"),
        ("thought", "words alone", None),
        ("thought", "oc", "anthropic"),
        ("thought", None, "openai"),
    ]
    assert found.turns[0].thoughts[0].value == {"type": "redacted_thinking", "data": "xx"}


# -- compactions and places


def test_the_view_begins_with_the_summary(store: clew.Store) -> None:
    session = store.create()
    first = session.append(says("user", "one"), says("assistant", "1"))[-1]
    session.append(says("user", "two"), says("assistant", "2"))
    session.compact("They counted.", upto=first)
    session.append(says("user", "three"))
    found = read_turns(session)
    assert [turn.speaker for turn in found.turns] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "compaction",
        "user",
    ]
    assert found.turns[4].text == "They counted."
    assert found.turns[4].start == 2
    view = found.view()
    assert [(turn.text, turn.injected) for turn in view] == [
        ("They counted.", True),
        ("two", False),
        ("2", False),
        ("three", False),
    ]


def test_an_answer_is_parted_where_the_view_begins(store: clew.Store) -> None:
    """A summary may stand for the first lines of an answer alone."""
    session = store.create()
    session.append(says("user", "go"), part_of("m", {"type": "text", "text": "a"}))
    session.append(part_of("m", {"type": "text", "text": "b"}))
    session.compact("Short.", upto=1)
    assert [turn.text for turn in read_turns(session).view()] == ["Short.", "b"]


def test_a_truncation_leaves_the_systems_words(store: clew.Store) -> None:
    session = store.create()
    session.append(says("system", "Be brief."), says("user", "one"), says("assistant", "1"))
    session.append(says("user", "two"), says("assistant", "2"))
    session.truncate(keep_last=2)
    assert [turn.text for turn in read_turns(session).view()] == ["Be brief.", "two", "2"]


def test_a_summary_may_be_several_messages_with_calls(store: clew.Store) -> None:
    session = store.create()
    session.append(says("user", "one"))
    session.compact([says("user", "It was one."), chat_call("a"), chat_result("a", "x")])
    summary = read_turns(session).turns[-1].summary
    assert [told(turn) for turn in summary] == [["It was one."], [("run", {}, "x", False)]]


def test_a_place_ends_the_path(store: clew.Store) -> None:
    session = store.create()
    first = session.append(says("user", "one"), says("assistant", "1"))[0]
    session.rewind(first)
    session.append(says("assistant", "eins"))
    assert [turn.text for turn in read_turns(session).turns] == ["one", "eins"]
    assert [turn.text for turn in read_turns(session, at=first).turns] == ["one"]


def test_images_of_users_are_kept(store: clew.Store) -> None:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    found = history(store, {"role": "user", "content": [{"type": "text", "text": "look"}, image]})
    assert told(found.turns[0]) == ["look", ("image/png", PNG)]


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
