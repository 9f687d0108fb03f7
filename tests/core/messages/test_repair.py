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
def test_P15_whatever_was_damaged_the_outcome_is_well_formed(history: History) -> None:
    assert faults(repair(history).messages) == []


@given(damaged_histories(), st.sampled_from(["close", "keep"]))
def test_P15_a_repaired_history_needs_no_repair(history: History, open_tail: Any) -> None:
    once = repair(history, open_tail=open_tail)

    twice = repair(once.messages, open_tail=open_tail)

    assert twice.repairs == []
    assert same_objects(twice.messages, once.messages)


@given(damaged_histories())
def test_P15_what_was_repaired_only_here_and_there_can_be_closed_later(history: History) -> None:
    assert faults(repair(repair(history, open_tail="keep").messages).messages) == []


@given(damaged_histories())
def test_P15_the_messages_given_are_never_changed(history: History) -> None:
    before = copy.deepcopy(history)

    repair(history)

    assert history == before


@given(damaged_histories())
def test_P15_nothing_that_a_user_said_is_lost_or_reordered(history: History) -> None:
    assert user_texts(repair(history).messages) == user_texts(history)


@given(damaged_histories())
def test_P15_each_change_is_told_in_a_sentence(history: History) -> None:
    outcome = repair(history)

    changed = not same_objects(outcome.messages, history)
    assert changed == bool(outcome.repairs)
    assert outcome.left_out <= len(history)
    assert len(outcome.origins) == len(outcome.messages)
    assert outcome.origins == sorted(outcome.origins)


@given(st.lists(odd_messages, max_size=6))
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


# ── OpenAI chat ───────────────────────────────────────────────────────────────────────────────────


def test_I15_a_result_without_a_call_is_left_out() -> None:
    outcome = repair([HI, chat_result("ghost"), BYE])

    assert outcome.messages == [HI, BYE]
    assert outcome.repairs == ["left out a result of call 'ghost': its call is not there"]
    assert outcome.left_out == 1


def test_I15_a_call_that_a_crash_cut_off_gets_a_marked_result() -> None:
    outcome = repair([HI, chat_call("a"), BYE])

    marked = {"role": "tool", "tool_call_id": "a", "content": INTERRUPTED}
    assert outcome.messages == [HI, chat_call("a"), marked, BYE]
    assert outcome.repairs == ["added an 'interrupted' result for call 'a' (run): none was recorded"]


def test_I15_the_second_result_of_a_call_is_left_out() -> None:
    outcome = repair([chat_call("a"), chat_result("a", "first"), chat_result("a", "second")])

    assert outcome.messages == [chat_call("a"), chat_result("a", "first")]
    assert outcome.repairs == ["left out a result of call 'a': it was answered before"]


def test_I15_a_late_result_moves_up_to_its_call() -> None:
    late = chat_result("b")

    outcome = repair([chat_call("a", "b"), chat_result("a"), HI, late])

    assert outcome.messages == [chat_call("a", "b"), chat_result("a"), late, HI]
    assert outcome.messages[2] is late
    assert outcome.repairs == ["moved the result of call 'b' (run) up to its call"]
    assert outcome.left_out == 0


def test_I15_an_orphan_between_two_results_does_not_make_the_second_one_late() -> None:
    outcome = repair([chat_call("a", "b"), chat_result("a"), chat_result("x"), chat_result("b")])

    assert outcome.messages == [chat_call("a", "b"), chat_result("a"), chat_result("b")]
    assert len(outcome.repairs) == 1


def test_I15_a_call_id_may_come_again_in_a_later_turn() -> None:
    history = [chat_call("a"), chat_result("a", "1"), HI, chat_call("a"), chat_result("a", "2")]

    assert same_objects(repaired(*history), history)


def test_I15_a_result_answers_the_nearest_call_of_its_id() -> None:
    first, second = chat_call("a", text="first"), chat_call("a", text="second")

    outcome = repaired(first, HI, second, chat_result("a"))

    assert outcome == [first, chat_result("a", INTERRUPTED), HI, second, chat_result("a")]


def test_I15_results_in_another_order_than_their_calls_are_fine() -> None:
    history = [chat_call("a", "b"), chat_result("b"), chat_result("a")]

    assert same_objects(repaired(*history), history)


def test_parallel_calls_of_one_id_get_a_result_each() -> None:
    outcome = repaired(chat_call("a", "a"), chat_result("a"))

    assert outcome == [chat_call("a", "a"), chat_result("a"), chat_result("a", INTERRUPTED)]


def test_the_old_function_calls_pair_by_name() -> None:
    call = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}

    outcome = repaired(call, HI, {"role": "function", "name": "g", "content": "?"})

    assert outcome == [call, {"role": "function", "name": "f", "content": INTERRUPTED}, HI]


def test_calls_without_ids_pair_by_name_or_by_order() -> None:
    call: Message = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": {"name": "f", "arguments": {}}}],
    }
    named = {"role": "tool", "tool_name": "f", "content": "1"}
    nameless = {"role": "tool", "content": "2"}
    history = [call, named, call, nameless]

    assert same_objects(repaired(*history), history)
    assert repaired(call) == [call, {"role": "tool", "name": "f", "content": INTERRUPTED}]


def test_a_tool_message_of_an_unknown_kind_is_not_taken_for_an_orphan() -> None:
    foreign = {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "a", "output": {}}]}

    assert same_objects(repaired(HI, foreign), [HI, foreign])


# ── OpenAI responses ──────────────────────────────────────────────────────────────────────────────


def test_an_output_may_come_anywhere_after_its_call() -> None:
    history = [item_call("a"), item_call("b"), item_result("b"), item_says("user", "hm"), item_result("a")]

    assert same_objects(repaired(*history), history)


def test_the_missing_output_comes_after_the_run_of_calls() -> None:
    outcome = repaired(
        reasoning(), item_call("a"), item_call("b"), item_result("b"), item_says("assistant", "ok")
    )

    added = {"type": "function_call_output", "call_id": "a", "output": INTERRUPTED}
    assert outcome[1:5] == [item_call("a"), item_call("b"), added, item_result("b")]


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
    call, added = repaired(item_call("a", kind))

    assert added["type"] == output
    assert added.get("call_id", added.get("id")) == "a"
    assert same_objects(repaired(call, added), [call, added])


def test_an_approval_that_nobody_gave_is_a_refusal() -> None:
    request = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "rm", "arguments": "{}"}

    outcome = repaired(request, item_says("user", "hm"))

    assert outcome[1]["approval_request_id"] == "mcpr_1"
    assert outcome[1]["approve"] is False


def test_codex_answers_a_local_shell_call_with_a_function_output() -> None:
    history = [item_call("a", "local_shell_call"), item_result("a")]

    assert same_objects(repaired(*history), history)


def test_L001_9_reasoning_that_no_answer_followed_is_left_out() -> None:
    history = [HI, reasoning("rs_1"), reasoning("rs_2"), BYE, reasoning("rs_3")]

    outcome = repair(history)

    assert outcome.messages == [HI, BYE]
    assert outcome.repairs == ["left out reasoning that no answer followed"] * 3
    assert outcome.left_out == 3
    assert repaired(*history, keep=True) == [HI, BYE, reasoning("rs_3")]


def test_L001_9_thinking_that_no_answer_followed_is_left_out() -> None:
    stopped = blocks("assistant", thinking())
    silent = {"role": "assistant", "content": "", "reasoning_content": "hmm"}

    assert repaired(HI, stopped, BYE, silent) == [HI, BYE]
    assert repaired(HI, stopped, says("assistant", "ok")) == [HI, stopped, says("assistant", "ok")]


# ── Anthropic ─────────────────────────────────────────────────────────────────────────────────────


def test_a_missing_parallel_result_joins_the_others() -> None:
    given_results = blocks("user", tool_result("b"), text_block("and hurry"))

    outcome = repaired(HI, blocks("assistant", tool_use("a"), tool_use("b")), given_results)

    added = {"type": "tool_result", "tool_use_id": "a", "content": INTERRUPTED, "is_error": True}
    assert outcome[2] == blocks("user", tool_result("b"), added, text_block("and hurry"))
    assert given_results == blocks("user", tool_result("b"), text_block("and hurry"))


def test_without_any_results_a_user_message_is_made_for_them() -> None:
    outcome = repaired(blocks("assistant", tool_use("a"), tool_use("b")), BYE)

    assert [block["tool_use_id"] for block in outcome[1]["content"]] == ["a", "b"]
    assert all(block["is_error"] for block in outcome[1]["content"])
    assert outcome[1]["role"] == "user"
    assert outcome[2] is BYE


def test_only_the_orphan_block_is_left_out_and_the_users_words_stay() -> None:
    outcome = repair([HI, blocks("user", tool_result("ghost"), text_block("well?"))])

    assert outcome.messages == [HI, blocks("user", text_block("well?"))]
    assert outcome.left_out == 0


def test_a_message_of_orphans_is_left_out_whole() -> None:
    assert repaired(HI, blocks("user", tool_result("x"), tool_result("y"))) == [HI]


def test_a_late_block_moves_up_and_the_words_beside_it_stay() -> None:
    outcome = repair(
        [blocks("assistant", tool_use("a")), HI, blocks("user", tool_result("a"), text_block("sorry"))]
    )

    assert outcome.messages == [
        blocks("assistant", tool_use("a")),
        blocks("user", tool_result("a")),
        HI,
        blocks("user", text_block("sorry")),
    ]


def test_results_come_before_the_words_in_their_message() -> None:
    outcome = repair(
        [blocks("assistant", tool_use("a")), blocks("user", text_block("here"), tool_result("a"))]
    )

    assert outcome.messages[1] == blocks("user", tool_result("a"), text_block("here"))
    assert outcome.repairs == ["moved the result of call 'a' (run) before the text beside it"]


def test_a_turn_recorded_block_by_block_is_one_turn() -> None:
    history = [
        blocks("assistant", thinking()),
        blocks("assistant", text_block("let me see")),
        blocks("assistant", tool_use("a")),
        blocks("assistant", tool_use("b")),
        blocks("user", tool_result("a")),
        blocks("user", tool_result("b")),
    ]

    assert same_objects(repaired(*history), history)


def test_I15_a_turn_recorded_twice_keeps_one_of_its_calls() -> None:
    turn = blocks("assistant", thinking(), text_block("let me see"), tool_use("a"))

    outcome = repair([HI, turn, turn, blocks("user", tool_result("a")), blocks("user", tool_result("a"))])

    again = blocks("assistant", thinking(), text_block("let me see"))
    assert outcome.messages == [HI, turn, again, blocks("user", tool_result("a"))]
    assert "left out call 'a' (run), which its turn has already" in outcome.repairs


def test_I17_signed_and_encrypted_blocks_stay_the_same_objects_beside_a_repair() -> None:
    signed, secret = thinking(), {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"}
    turn = blocks("assistant", signed, secret, tool_use("a"), tool_use("a"))

    first, _ = repaired(turn)

    assert first is not turn
    assert first["content"][0] is signed
    assert first["content"][1] is secret


def test_a_tool_that_the_provider_runs_is_answered_in_the_assistants_own_message() -> None:
    history = [HI, blocks("assistant", search("s"), search_result("s"), text_block("found"))]

    assert same_objects(repaired(*history), history)


def test_a_search_that_was_cut_off_gets_an_error_in_its_message() -> None:
    outcome = repaired(HI, blocks("assistant", search("s"), text_block("so")), BYE)

    error = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    added = {"type": "web_search_tool_result", "tool_use_id": "s", "content": error}
    assert outcome[1] == blocks("assistant", search("s"), added, text_block("so"))


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


def test_a_paused_turn_goes_back_to_the_provider_as_it_is() -> None:
    paused = [HI, blocks("assistant", text_block("searching"), search("s"))]

    assert same_objects(repaired(*paused), paused)


def test_a_provider_tool_may_wait_for_a_client_tool() -> None:
    history = [
        HI,
        blocks("assistant", search("s"), tool_use("a")),
        blocks("user", tool_result("a")),
        blocks("assistant", search_result("s"), text_block("done")),
    ]

    assert same_objects(repaired(*history), history)


def test_once_the_human_spoke_the_provider_answers_no_more() -> None:
    outcome = repaired(HI, blocks("assistant", search("s")), BYE, blocks("assistant", search_result("s")), HI)

    assert [block["type"] for block in outcome[1]["content"]] == ["server_tool_use", "web_search_tool_result"]
    assert outcome[2:] == [BYE, HI]


def test_two_turns_that_become_one_keep_each_search_once() -> None:
    turn = blocks("assistant", search("s"), search_result("s"))

    outcome = repaired(HI, turn, blocks("user", tool_result("ghost")), turn, says("assistant", "done"))

    assert outcome == [HI, turn, says("assistant", "done")]


def test_ggcode_blocks_pair_by_tool_id() -> None:
    outcome = repaired(blocks("assistant", gg_use("a"), gg_use("b")), blocks("user", gg_result("b")), BYE)

    added = {"type": "tool_result", "tool_id": "a", "output": INTERRUPTED, "is_error": True}
    assert outcome[1] == blocks("user", gg_result("b"), added)


# ── Gemini ────────────────────────────────────────────────────────────────────────────────────────


def test_gemini_calls_without_ids_pair_by_name_in_order() -> None:
    outcome = repaired(
        parts("model", function_call("f"), function_call("f")), parts("user", function_response("f"))
    )

    added = {"functionResponse": {"name": "f", "response": {"error": INTERRUPTED}}}
    assert outcome[1] == parts("user", function_response("f"), added)


def test_a_gemini_result_by_name_takes_no_call_that_was_answered_by_id() -> None:
    call = parts("model", function_call("f", "1"), function_call("f", "2"))

    outcome = repair([call, parts("user", function_response("f", "1"), function_response("f"))])

    assert outcome.repairs == []


def test_gemini_results_in_several_messages_are_brought_together() -> None:
    call = parts("model", function_call("f", "1"), function_call("g", "2"))
    text = {"text": "and hurry"}

    outcome = repair(
        [call, parts("user", function_response("f", "1")), parts("user", function_response("g"), text)]
    )

    together = parts("user", function_response("f", "1"), function_response("g"))
    assert outcome.messages == [call, together, parts("user", text)]
    assert outcome.repairs == ["moved the result of call '2' (g) up to its call"]


def test_a_gemini_call_that_was_cut_off_gets_an_error_in_its_own_spelling() -> None:
    snake = parts("model", {"function_call": {"id": "1", "name": "f", "args": {}}})

    outcome = repaired(snake, parts("user", {"text": "hm"}))

    response = {"id": "1", "name": "f", "response": {"error": INTERRUPTED}}
    assert outcome[1] == parts("user", {"function_response": response})


# ── The open end ──────────────────────────────────────────────────────────────────────────────────


@each_row(
    "tail",
    [
        [chat_call("a", "b"), chat_result("a")],
        [item_call("a"), item_call("b"), item_result("a")],
        [blocks("assistant", tool_use("a"), tool_use("b")), blocks("user", tool_result("a"))],
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


def test_an_older_call_is_closed_even_when_the_end_stays_open() -> None:
    outcome = repaired(chat_call("a"), HI, chat_call("b"), keep=True)

    assert outcome == [chat_call("a"), chat_result("a", INTERRUPTED), HI, chat_call("b")]


def test_unknown_messages_pass_through_untouched() -> None:
    odd: History = [
        {},
        {"role": 7},
        {"content": None},
        {"role": ["user"], "parts": 3},
        {"type": {}, "tool_calls": [1]},
    ]

    assert same_objects(repaired(*odd), odd)


# ── Where to cut ──────────────────────────────────────────────────────────────────────────────────


def test_L001_3_a_cut_keeps_more_rather_than_part_a_call_from_its_result() -> None:
    history = [HI, chat_call("a", "b"), chat_result("a"), chat_result("b"), BYE]

    assert [safe_cut(history, wished, complete=True) for wished in range(6)] == [0, 1, 1, 1, 4, 5]


def test_a_cut_keeps_the_reasoning_with_its_answer() -> None:
    history = [HI, reasoning(), item_call("a"), item_result("a"), reasoning(), item_says("assistant", "ok")]

    assert [safe_cut(history, wished, complete=True) for wished in range(7)] == [0, 1, 1, 1, 4, 4, 6]


def test_a_cut_can_not_be_told_when_the_call_is_older_than_what_was_given() -> None:
    history = [HI, chat_call("a", "b"), chat_result("a"), chat_result("b"), BYE]

    assert safe_cut(history[2:], 1, complete=False) is None
    assert safe_cut(history[1:], 2, complete=False) is None  # what comes before the call is not known
    assert safe_cut(history, 3, complete=False) == 1
    assert safe_cut(history[2:], 2, complete=False) == 2


def test_an_orphan_does_not_hold_back_a_cut_of_a_complete_history() -> None:
    history = [HI, BYE, chat_result("ghost"), HI]

    assert safe_cut(history, 2, complete=True) == 2
    assert safe_cut(history, 1, complete=True) == 1


def test_a_second_result_asks_for_no_older_messages() -> None:
    history = [HI, chat_call("a"), chat_result("a"), chat_result("a"), BYE]

    assert safe_cut(history, 1, complete=False) == 1


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
