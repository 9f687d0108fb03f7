"""P15: what a model gets is well-formed, whatever a crash, a retry or a rewind left in the log."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clew.core.messages.dialects import INTERRUPTED
from clew.core.messages.repair import repair
from clew.core.messages.tool_calls import safe_cut
from tests.core.messages.histories import (
    History,
    Message,
    blocks,
    chat_call,
    chat_result,
    damaged_histories,
    faults,
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
    sound_histories,
    text_block,
    thinking,
    tool_result,
    tool_use,
)
from tests.support.rows import each_named_row, each_row

HI = says("user", "hi")
BYE = says("user", "bye")


def repaired(*history: dict[str, Any], keep: bool = False) -> History:
    return repair(history, open_tail="keep" if keep else "close").messages


def same_objects(left: History, right: History) -> bool:
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))


# ── The judge of these tests can say no ───────────────────────────────────────────────────────────


@each_named_row(
    "history",
    {
        "chat: a call without a result": [chat_call("a")],
        "chat: a result without a call": [chat_result("a")],
        "chat: a late result": [chat_call("a"), HI, chat_result("a")],
        "chat: a result twice": [chat_call("a"), chat_result("a"), chat_result("a")],
        "chat: one of two results": [chat_call("a", "b"), chat_result("a"), HI],
        "responses: a call without a result": [item_call("a")],
        "responses: the result before the call": [item_result("a"), item_call("a")],
        "responses: wrong kind": [item_call("a"), item_result("a", "custom_tool_call_output")],
        "responses: reasoning that leads to nothing": [reasoning(), HI],
        "anthropic: a call without a result": [blocks("assistant", tool_use("a")), HI],
        "anthropic: a result without a call": [blocks("user", tool_result("a"))],
        "anthropic: text before the result": [
            blocks("assistant", tool_use("a")),
            blocks("user", text_block("hm"), tool_result("a")),
        ],
        "anthropic: one id twice in a turn": [
            blocks("assistant", tool_use("a"), tool_use("a")),
            blocks("user", *[tool_result("a")] * 2),
        ],
        "ggcode: a call without a result": [blocks("assistant", gg_use("a")), HI],
        "anthropic: a search without a result": [blocks("assistant", search("a")), HI],
        "anthropic: a result without a search": [blocks("assistant", search_result("a"))],
        "gemini: a call without a result": [parts("model", function_call("f"))],
        "gemini: results in two messages": [
            parts("model", function_call("f"), function_call("g")),
            parts("user", function_response("f")),
            parts("user", function_response("g")),
        ],
    },
)
def test_the_judge_finds_the_fault_and_the_repair_mends_it(history: History) -> None:
    outcome = repair(history)

    assert faults(history)
    assert not faults(outcome.messages)
    assert outcome.repairs


# ── For any damage ────────────────────────────────────────────────────────────────────────────────


@given(sound_histories())
def test_P15_a_sound_history_comes_back_as_the_very_same_messages(history: History) -> None:
    outcome = repair(history)

    assert not faults(history)
    assert outcome.repairs == []
    assert same_objects(outcome.messages, history)
    assert outcome.origins == list(range(len(history)))


@given(damaged_histories())
def test_P15_a_damaged_history_becomes_well_formed_and_loses_no_word_of_the_user(history: History) -> None:
    """Each change is told in a sentence, and the messages that were given are never changed."""
    before = copy.deepcopy(history)

    outcome = repair(history)

    assert history == before
    assert faults(outcome.messages) == []
    assert user_texts(outcome.messages) == user_texts(history)
    assert bool(outcome.repairs) != same_objects(outcome.messages, history)
    assert outcome.left_out <= len(history)
    assert len(outcome.origins) == len(outcome.messages)
    assert outcome.origins == sorted(outcome.origins)
    kept_open = repair(history, open_tail="keep").messages
    assert faults(repair(kept_open).messages) == []


@given(damaged_histories(), st.sampled_from(["close", "keep"]))
def test_P15_a_repaired_history_needs_no_repair(history: History, open_tail: Any) -> None:
    once = repair(history, open_tail=open_tail)

    twice = repair(once.messages, open_tail=open_tail)

    assert twice.repairs == []
    assert same_objects(twice.messages, once.messages)


@given(st.lists(odd_messages, max_size=5))
def test_no_message_is_too_odd_to_be_repaired(history: History) -> None:
    before = copy.deepcopy(history)

    once = repair(history)

    assert history == before
    assert same_objects(repair(once.messages).messages, once.messages)


def user_texts(history: History) -> list[str]:
    found = []
    for message in history:
        if message.get("role") == "user":
            content: Any = message.get("content", message.get("parts"))
            pieces = [{"text": content}] if isinstance(content, str) else content
            found += [piece["text"] for piece in pieces if "text" in piece]
    return found


# ── What was lost, came late or came twice ────────────────────────────────────────────────────────

MARKED = chat_result("a", INTERRUPTED)
FUNCTION_CALL = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
NAMELESS_CALL: Message = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"function": {"name": "f", "arguments": {}}}],
}
APPROVAL = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "rm", "arguments": "{}"}
REFUSAL = {
    "type": "mcp_approval_response",
    "approval_request_id": "mcpr_1",
    "approve": False,
    "reason": INTERRUPTED,
}
SECOND = chat_call("a", text="second")
STOPPED = blocks("assistant", thinking())
SILENT = {"role": "assistant", "content": "", "reasoning_content": "hmm"}
USE_BOTH = blocks("assistant", tool_use("a"), tool_use("b"))
TURN = blocks("assistant", thinking(), text_block("let me see"), tool_use("a"))
SEARCH_ERROR = {
    **search_result("s"),
    "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"},
}
SEARCHED = blocks("assistant", search("s"), search_result("s"))
GEMINI_CALLS = parts("model", function_call("f", "1"), function_call("g", "2"))
SNAKE_CALL = parts("model", {"function_call": {"id": "1", "name": "f", "args": {}}})


def unanswered(key: str) -> Message:
    return {**tool_result(key, INTERRUPTED), "is_error": True}


def added(call: str) -> str:
    return f"added an 'interrupted' result for call {call}: none was recorded"


def removed(call: str, why: str = "its call is not there") -> str:
    return f"left out a result of call {call}: {why}"


def moved(call: str) -> str:
    return f"moved the result of call {call} up to its call"


NO_ANSWER = "left out reasoning that no answer followed"


@each_named_row(
    ("history", "expected", "repairs"),
    {
        "chat: a result without a call": ([HI, chat_result("ghost"), BYE], [HI, BYE], [removed("'ghost'")]),
        "chat: a crash cut a call off": (
            [HI, chat_call("a"), BYE],
            [HI, chat_call("a"), MARKED, BYE],
            [added("'a' (run)")],
        ),
        "chat: a second result": (
            [chat_call("a"), chat_result("a", "first"), chat_result("a", "second")],
            [chat_call("a"), chat_result("a", "first")],
            [removed("'a'", "it was answered before")],
        ),
        "chat: a late result": (
            [chat_call("a", "b"), chat_result("a"), HI, chat_result("b")],
            [chat_call("a", "b"), chat_result("a"), chat_result("b"), HI],
            [moved("'b' (run)")],
        ),
        "chat: an orphan between two results does not make the second one late": (
            [chat_call("a", "b"), chat_result("a"), chat_result("x"), chat_result("b")],
            [chat_call("a", "b"), chat_result("a"), chat_result("b")],
            [removed("'x'")],
        ),
        "chat: a result answers the nearest call of its id": (
            [chat_call("a", text="first"), HI, SECOND, chat_result("a")],
            [chat_call("a", text="first"), MARKED, HI, SECOND, chat_result("a")],
            [added("'a' (run)")],
        ),
        "chat: parallel calls of one id get a result each": (
            [chat_call("a", "a"), chat_result("a")],
            [chat_call("a", "a"), chat_result("a"), MARKED],
            [added("'a' (run)")],
        ),
        "chat: the old function calls pair by name": (
            [FUNCTION_CALL, HI, {"role": "function", "name": "g", "content": "?"}],
            [FUNCTION_CALL, {"role": "function", "name": "f", "content": INTERRUPTED}, HI],
            [added("of f"), removed("of g")],
        ),
        "chat: a call without an id gets a result by its name": (
            [NAMELESS_CALL],
            [NAMELESS_CALL, {"role": "tool", "name": "f", "content": INTERRUPTED}],
            [added("of f")],
        ),
        "responses: the missing output comes after the run of calls": (
            [reasoning(), item_call("a"), item_call("b"), item_result("b"), item_says("assistant", "ok")],
            [
                reasoning(),
                item_call("a"),
                item_call("b"),
                {**item_result("a"), "output": INTERRUPTED},
                item_result("b"),
                item_says("assistant", "ok"),
            ],
            [added("'a' (run)")],
        ),
        "responses: an approval that nobody gave is a refusal": (
            [APPROVAL, item_says("user", "hm")],
            [APPROVAL, REFUSAL, item_says("user", "hm")],
            [added("'mcpr_1' (rm)")],
        ),
        "responses: reasoning that no answer followed": (
            [HI, reasoning("rs_1"), reasoning("rs_2"), BYE, reasoning("rs_3")],
            [HI, BYE],
            [NO_ANSWER] * 3,
        ),
        "thinking that no answer followed": ([HI, STOPPED, BYE, SILENT], [HI, BYE], [NO_ANSWER] * 2),
        "anthropic: a missing parallel result joins the others": (
            [HI, USE_BOTH, blocks("user", tool_result("b"), text_block("and hurry"))],
            [HI, USE_BOTH, blocks("user", tool_result("b"), unanswered("a"), text_block("and hurry"))],
            [added("'a' (run)")],
        ),
        "anthropic: without any results a user message is made for them": (
            [USE_BOTH, BYE],
            [USE_BOTH, blocks("user", unanswered("a"), unanswered("b")), BYE],
            [added("'a' (run)"), added("'b' (run)")],
        ),
        "anthropic: only the orphan block is left out": (
            [HI, blocks("user", tool_result("ghost"), text_block("well?"))],
            [HI, blocks("user", text_block("well?"))],
            [removed("'ghost'")],
        ),
        "anthropic: a message of orphans is left out whole": (
            [HI, blocks("user", tool_result("x"), tool_result("y"))],
            [HI],
            [removed("'x'"), removed("'y'")],
        ),
        "anthropic: a late block moves up and the words beside it stay": (
            [blocks("assistant", tool_use("a")), HI, blocks("user", tool_result("a"), text_block("sorry"))],
            [
                blocks("assistant", tool_use("a")),
                blocks("user", tool_result("a")),
                HI,
                blocks("user", text_block("sorry")),
            ],
            [moved("'a' (run)")],
        ),
        "anthropic: results come before the words in their message": (
            [blocks("assistant", tool_use("a")), blocks("user", text_block("here"), tool_result("a"))],
            [blocks("assistant", tool_use("a")), blocks("user", tool_result("a"), text_block("here"))],
            ["moved the result of call 'a' (run) before the text beside it"],
        ),
        "anthropic: a turn recorded twice keeps one of its calls": (
            [HI, TURN, TURN, blocks("user", tool_result("a")), blocks("user", tool_result("a"))],
            [
                HI,
                TURN,
                blocks("assistant", thinking(), text_block("let me see")),
                blocks("user", tool_result("a")),
            ],
            ["left out call 'a' (run), which its turn has already", removed("'a'", "it was answered before")],
        ),
        "anthropic: a search that was cut off gets an error in its message": (
            [HI, blocks("assistant", search("s"), text_block("so")), BYE],
            [HI, blocks("assistant", search("s"), SEARCH_ERROR, text_block("so")), BYE],
            [added("'s' (web_search)")],
        ),
        "anthropic: once the human spoke the provider answers no more": (
            [HI, blocks("assistant", search("s")), BYE, blocks("assistant", search_result("s")), HI],
            [HI, blocks("assistant", search("s"), SEARCH_ERROR), BYE, HI],
            [added("'s' (web_search)"), removed("'s'", "it was answered before")],
        ),
        "anthropic: two turns that become one keep each search once": (
            [HI, SEARCHED, blocks("user", tool_result("ghost")), SEARCHED, says("assistant", "done")],
            [HI, SEARCHED, says("assistant", "done")],
            [
                removed("'ghost'"),
                "left out call 's' (web_search), which its turn has already",
                removed("'s'", "it was answered before"),
            ],
        ),
        "ggcode: blocks pair by the id of the tool": (
            [blocks("assistant", gg_use("a"), gg_use("b")), blocks("user", gg_result("b")), BYE],
            [
                blocks("assistant", gg_use("a"), gg_use("b")),
                blocks("user", gg_result("b"), {**gg_result("a"), "output": INTERRUPTED, "is_error": True}),
                BYE,
            ],
            [added("'a' (run)")],
        ),
        "gemini: calls without ids pair by name in order": (
            [parts("model", function_call("f"), function_call("f")), parts("user", function_response("f"))],
            [
                parts("model", function_call("f"), function_call("f")),
                parts(
                    "user",
                    function_response("f"),
                    {"functionResponse": {"name": "f", "response": {"error": INTERRUPTED}}},
                ),
            ],
            [added("of f")],
        ),
        "gemini: results in several messages are brought together": (
            [
                GEMINI_CALLS,
                parts("user", function_response("f", "1")),
                parts("user", function_response("g"), {"text": "and hurry"}),
            ],
            [
                GEMINI_CALLS,
                parts("user", function_response("f", "1"), function_response("g")),
                parts("user", {"text": "and hurry"}),
            ],
            [moved("'2' (g)")],
        ),
        "gemini: a call that was cut off gets an error in its own spelling": (
            [SNAKE_CALL, parts("user", {"text": "hm"})],
            [
                SNAKE_CALL,
                parts(
                    "user",
                    {"function_response": {"id": "1", "name": "f", "response": {"error": INTERRUPTED}}},
                ),
                parts("user", {"text": "hm"}),
            ],
            [added("'1' (f)")],
        ),
    },
)
def test_I15_L001_9_a_history_is_mended_and_every_change_is_named(
    history: History, expected: History, repairs: list[str]
) -> None:
    """Messages that need no change are the very same objects afterwards."""
    outcome = repair(history)

    assert outcome.messages == expected
    assert outcome.repairs == repairs
    assert all(any(kept is given for given in history) for kept in outcome.messages if kept in history)


@each_named_row(
    ("history", "left_out"),
    {
        "an orphan": ([HI, chat_result("ghost"), BYE], 1),
        "a late result": ([chat_call("a", "b"), chat_result("a"), HI, chat_result("b")], 0),
        "a part of a message": ([HI, blocks("user", tool_result("ghost"), text_block("well?"))], 0),
        "reasoning": ([HI, reasoning("rs_1"), reasoning("rs_2"), BYE, reasoning("rs_3")], 3),
    },
)
def test_messages_that_are_left_out_whole_are_counted(history: History, left_out: int) -> None:
    assert repair(history).left_out == left_out


@each_named_row(
    "history",
    {
        "chat: a call id comes again in a later turn": [
            chat_call("a"),
            chat_result("a", "1"),
            HI,
            chat_call("a"),
            chat_result("a", "2"),
        ],
        "chat: results in another order than their calls": [
            chat_call("a", "b"),
            chat_result("b"),
            chat_result("a"),
        ],
        "chat: calls without ids pair by name or by order": [
            NAMELESS_CALL,
            {"role": "tool", "tool_name": "f", "content": "1"},
            NAMELESS_CALL,
            {"role": "tool", "content": "2"},
        ],
        "chat: a tool message of an unknown kind": [
            HI,
            {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "a", "output": {}}]},
        ],
        "responses: an output anywhere after its call": [
            item_call("a"),
            item_call("b"),
            item_result("b"),
            item_says("user", "hm"),
            item_result("a"),
        ],
        "responses: Codex answers a local shell call with a function output": [
            item_call("a", "local_shell_call"),
            item_result("a"),
        ],
        "anthropic: thinking before the answer": [HI, STOPPED, says("assistant", "ok")],
        "anthropic: a turn recorded block by block": [
            STOPPED,
            blocks("assistant", text_block("let me see")),
            blocks("assistant", tool_use("a")),
            blocks("assistant", tool_use("b")),
            blocks("user", tool_result("a")),
            blocks("user", tool_result("b")),
        ],
        "anthropic: a tool that the provider runs": [
            HI,
            blocks("assistant", search("s"), search_result("s"), text_block("found")),
        ],
        "anthropic: a paused turn": [HI, blocks("assistant", text_block("searching"), search("s"))],
        "anthropic: a provider tool waits for a client tool": [
            HI,
            blocks("assistant", search("s"), tool_use("a")),
            blocks("user", tool_result("a")),
            blocks("assistant", search_result("s"), text_block("done")),
        ],
        "gemini: a result by name after one by id": [
            parts("model", function_call("f", "1"), function_call("f", "2")),
            parts("user", function_response("f", "1"), function_response("f")),
        ],
        "messages that nobody knows": [
            {},
            {"role": 7},
            {"content": None},
            {"role": ["user"], "parts": 3},
            {"type": {}, "tool_calls": [1]},
        ],
    },
)
def test_I15_what_only_looks_broken_stays_as_it_is(history: History) -> None:
    outcome = repair(history)

    assert same_objects(outcome.messages, history)
    assert outcome.repairs == []


@each_row(
    ("kind", "output"),
    [
        ("function_call", "function_call_output"),
        ("custom_tool_call", "custom_tool_call_output"),
        ("computer_call", "computer_call_output"),
        ("local_shell_call", "local_shell_call_output"),
        ("shell_call", "shell_call_output"),
        ("apply_patch_call", "apply_patch_call_output"),
        ("tool_search_call", "tool_search_output"),
    ],
)
def test_each_kind_of_item_call_gets_its_own_kind_of_output(kind: str, output: str) -> None:
    call, answer = repaired(item_call("a", kind))

    assert answer["type"] == output
    assert answer.get("call_id", answer.get("id")) == "a"
    assert same_objects(repaired(call, answer), [call, answer])


@each_row(
    ("call", "result"),
    [
        ({"type": "mcp_tool_use", "id": "m", "name": "f", "server_name": "s"}, "mcp_tool_result"),
        ({"type": "server_tool_use", "id": "m", "name": "tool_search_tool_bm25"}, "tool_search_tool_result"),
        ({"type": "server_tool_use", "id": "m", "name": "code_execution"}, "code_execution_tool_result"),
    ],
)
def test_each_tool_of_the_provider_has_its_own_kind_of_result(call: dict[str, Any], result: str) -> None:
    assert repaired(blocks("assistant", call), BYE)[0]["content"][1]["type"] == result


def test_I17_signed_and_encrypted_blocks_stay_the_same_objects_beside_a_repair() -> None:
    signed, secret = thinking(), {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"}
    turn = blocks("assistant", signed, secret, tool_use("a"), tool_use("a"))

    first, _ = repaired(turn)

    assert first is not turn
    assert first["content"][0] is signed
    assert first["content"][1] is secret


# ── The open end ──────────────────────────────────────────────────────────────────────────────────


@each_row(
    "tail",
    [
        [chat_call("a", "b"), chat_result("a")],
        [item_call("a"), item_call("b"), item_result("a")],
        [USE_BOTH, blocks("user", tool_result("a"))],
        [blocks("assistant", gg_use("a"))],
        [parts("model", function_call("f"))],
        [chat_call("a"), says("system", "the tool takes its time")],
    ],
)
def test_calls_at_the_end_stay_open_for_a_living_agent(tail: History) -> None:
    history = [HI, *tail]

    assert same_objects(repaired(*history, keep=True), history)
    assert faults(repaired(*history)) == []
    assert len(repair(history).repairs) == 1


def test_L001_9_only_what_is_older_is_closed_when_the_end_stays_open() -> None:
    assert repaired(chat_call("a"), HI, SECOND, keep=True) == [chat_call("a"), MARKED, HI, SECOND]
    assert repaired(HI, reasoning("rs_1"), BYE, reasoning("rs_2"), keep=True) == [HI, BYE, reasoning("rs_2")]


# ── Where to cut ──────────────────────────────────────────────────────────────────────────────────


@given(damaged_histories(), st.integers(-1, 30))
def test_a_cut_parts_no_pair(history: History, wished: int) -> None:
    cut = safe_cut(history, wished, complete=True)

    assert cut is not None
    assert 0 <= cut <= max(0, wished)
    assert results_left_out(history[cut:]) <= results_left_out(history)


def results_left_out(history: History) -> Counter[str]:
    notes = repair(history).repairs
    return Counter(note.partition(":")[0] for note in notes if note.startswith("left out a result"))


@given(sound_histories(), st.integers(0, 30))
def test_a_sound_history_stays_sound_behind_the_cut(history: History, wished: int) -> None:
    cut = safe_cut(history, wished, complete=True)

    assert faults(history[cut:]) == []
