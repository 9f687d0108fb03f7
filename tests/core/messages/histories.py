"""Conversations in the shapes of every provider, ways to damage them, and a judge of what is well-formed.

The judge is written from the providers' rules alone and uses nothing of Clew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

Message = dict[str, Any]
History = list[Message]


# ── What each provider writes ─────────────────────────────────────────────────────────────────────


def says(role: str, text: str) -> Message:
    return {"role": role, "content": text}


def chat_call(*ids: str, text: str | None = None) -> Message:
    calls = [{"id": key, "type": "function", "function": {"name": "run", "arguments": "{}"}} for key in ids]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def chat_result(key: str, text: str = "done") -> Message:
    return {"role": "tool", "tool_call_id": key, "content": text}


def item_call(key: str, kind: str = "function_call") -> Message:
    return {"type": kind, "id": f"fc_{key}", "call_id": key, "name": "run", "arguments": "{}"}


def item_result(key: str, kind: str = "function_call_output") -> Message:
    return {"type": kind, "call_id": key, "output": "done"}


def item_says(role: str, text: str) -> Message:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def reasoning(key: str = "rs_1") -> Message:
    return {"type": "reasoning", "id": key, "summary": [], "encrypted_content": "gAAAA=="}


def tool_use(key: str) -> Message:
    return {"type": "tool_use", "id": key, "name": "run", "input": {}}


def tool_result(key: str, text: str = "done") -> Message:
    return {"type": "tool_result", "tool_use_id": key, "content": text}


def text_block(text: str) -> Message:
    return {"type": "text", "text": text}


def thinking() -> Message:
    return {"type": "thinking", "thinking": "hmm", "signature": "EqQBCgIYAhIM"}


def search(key: str) -> Message:
    return {"type": "server_tool_use", "id": key, "name": "web_search", "input": {"query": "q"}}


def search_result(key: str) -> Message:
    return {"type": "web_search_tool_result", "tool_use_id": key, "content": []}


def blocks(role: str, *content: Message) -> Message:
    return {"role": role, "content": list(content)}


def gg_use(key: str) -> Message:
    return {"type": "tool_use", "tool_name": "run", "tool_id": key, "input": {"command": "ls"}}


def gg_result(key: str) -> Message:
    return {"type": "tool_result", "tool_id": key, "output": "done", "is_error": False}


def parts(role: str, *content: Message) -> Message:
    return {"role": role, "parts": list(content)}


def function_call(name: str, key: str | None = None) -> Message:
    return {"functionCall": {**({"id": key} if key else {}), "name": name, "args": {}}}


def function_response(name: str, key: str | None = None) -> Message:
    return {"functionResponse": {**({"id": key} if key else {}), "name": name, "response": {"result": 1}}}


# ── The judge ─────────────────────────────────────────────────────────────────────────────────────


def faults(history: Sequence[Message]) -> list[str]:
    """What the providers would refuse."""
    return [
        *_chat_faults(history),
        *_responses_faults(history),
        *_block_faults(history, "tool_use", "id", "tool_use_id"),
        *_block_faults(history, "tool_use", "tool_id", "tool_id"),
        *_server_faults(history),
        *_gemini_faults(history),
        *_reasoning_faults(history),
    ]


def _chat_faults(history: Sequence[Message]) -> list[str]:
    found = []
    expected: Counter[str] = Counter()
    for message in history:
        if message.get("role") in ("tool", "function") and "parts" not in message:
            key = message.get("tool_call_id") or f"name:{message.get('name')}"
            if not expected[key]:
                found.append(f"chat: nobody waits for {key} here")
            expected[key] -= 1
            continue
        found += [f"chat: no result of {key} directly after the call" for key in (+expected)]
        expected = Counter()
        for call in message.get("tool_calls") or []:
            expected[call.get("id") or f"name:{call['function']['name']}"] += 1
        if message.get("function_call") and message.get("role") == "assistant":
            expected[f"name:{message['function_call']['name']}"] += 1
    return found + [f"chat: no result of {key} at the end" for key in (+expected)]


_ITEM_PAIRS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}


def _responses_faults(history: Sequence[Message]) -> list[str]:
    found = []
    waiting: Counter[tuple[str, str]] = Counter()
    for message in history:
        kind = str(message.get("type"))
        if kind in _ITEM_PAIRS:
            waiting[_ITEM_PAIRS[kind], message["call_id"]] += 1
        elif kind in _ITEM_PAIRS.values():
            if not waiting[kind, message["call_id"]]:
                found.append(f"responses: {kind} {message['call_id']} has no call")
            waiting[kind, message["call_id"]] -= 1
    return found + [f"responses: no {kind} for {key}" for kind, key in (+waiting)]


def _turns(history: Sequence[Message]) -> list[tuple[str, list[Message]]]:
    """As Anthropic does it: messages of one role in a row are one turn. Foreign messages end a turn."""
    turns: list[tuple[str, list[Message]]] = []
    for message in history:
        role, content = message.get("role"), message.get("content")
        if (
            message.get("tool_calls")
            or message.get("type")
            or role not in ("user", "assistant")
            or content is None
        ):
            turns.append(("foreign", []))
            continue
        new = [text_block(content)] if isinstance(content, str) else content
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(new)
        else:
            turns.append((role, list(new)))
    return turns


def _block_faults(history: Sequence[Message], call: str, call_key: str, result_key: str) -> list[str]:
    found = []
    waiting: list[str] = []
    for role, content in [*_turns(history), ("end", [])]:
        answers = [b[result_key] for b in content if b["type"] == "tool_result" and result_key in b]
        if role == "user" or waiting:
            leading = [b.get(result_key) for b in content[: len(waiting)]]
            if sorted(map(str, leading)) != sorted(waiting) or len(answers) != len(waiting):
                found.append(f"blocks: {waiting} are called, {answers} are answered by {role}")
        if role == "assistant":
            waiting = [b[call_key] for b in content if b["type"] == call and call_key in b]
            if len(set(waiting)) != len(waiting):
                found.append(f"blocks: {waiting} are not unique in their turn")
        else:
            waiting = []
    return found


def _server_faults(history: Sequence[Message]) -> list[str]:
    """The provider answers its own tools before the human speaks again; at the end it may still do so."""
    found = []
    waiting: list[str] = []
    for role, content in _turns(history):
        if role == "user" and any(block["type"] != "tool_result" for block in content):
            found += [f"server tools: {key} is never answered" for key in waiting]
            waiting = []
        called = [block["id"] for block in content if block["type"] == "server_tool_use"]
        if len(set(called)) != len(called):
            found.append(f"server tools: {called} are not unique in their turn")
        for block in content:
            if block["type"] == "server_tool_use":
                waiting.append(block["id"])
            elif block["type"] == "web_search_tool_result":
                if block["tool_use_id"] in waiting:
                    waiting.remove(block["tool_use_id"])
                else:
                    found.append(f"server tools: {block['tool_use_id']} was not called")
    return found


def _gemini_faults(history: Sequence[Message]) -> list[str]:
    found = []
    waiting: list[str] = []
    for message in [*history, {"role": "end"}]:
        content = message.get("parts") or []
        answers = sorted(part["functionResponse"]["name"] for part in content if "functionResponse" in part)
        if answers != waiting:
            found.append(f"gemini: {waiting} are called, {answers} are answered")
        waiting = sorted(part["functionCall"]["name"] for part in content if "functionCall" in part)
    return found


def _reasoning_faults(history: Sequence[Message]) -> list[str]:
    found = []
    for message, following in pairwise([*history, {}]):
        by_model = following.get("role") in ("assistant", "model") or following.get("type") in (
            "reasoning",
            *_ITEM_PAIRS,
        )
        if message.get("type") == "reasoning" and not by_model:
            found.append("responses: reasoning without the item that must follow it")
    return found


# ── Conversations as agents have them ─────────────────────────────────────────────────────────────

_ids = st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=3, unique=True)
_words = st.sampled_from(["fix it", "and now?", "why?"])


@st.composite
def chat_exchange(draw: st.DrawFn) -> History:
    history = [says("user", draw(_words))]
    for ids in draw(st.lists(_ids, max_size=3)):
        history += [chat_call(*ids), *map(chat_result, draw(st.permutations(ids)))]
    if draw(st.booleans()):
        legacy = {"name": "old", "arguments": "{}"}
        history.append({"role": "assistant", "content": None, "function_call": legacy})
        history.append({"role": "function", "name": "old", "content": "done"})
    return [*history, says("assistant", "done")]


@st.composite
def item_exchange(draw: st.DrawFn) -> History:
    history = [item_says("user", draw(_words))]
    for number, ids in enumerate(draw(st.lists(_ids, max_size=3))):
        kind = draw(st.sampled_from(sorted(_ITEM_PAIRS)))
        history.append(reasoning(f"rs_{number}"))
        history += [item_call(key, kind) for key in ids]
        history += [item_result(key, _ITEM_PAIRS[kind]) for key in draw(st.permutations(ids))]
    return [*history, reasoning(), item_says("assistant", "done")]


@st.composite
def block_exchange(draw: st.DrawFn) -> History:
    use, result = draw(st.sampled_from([(tool_use, tool_result), (gg_use, gg_result)]))
    history = [blocks("user", text_block(draw(_words)))]
    for ids in draw(st.lists(_ids, max_size=3)):
        before = draw(st.lists(st.sampled_from([text_block("let me see"), thinking()]), max_size=2))
        if draw(st.booleans()):  # one message a block, as Claude Code records them
            history += [blocks("assistant", use(key)) for key in ids]
            history += [blocks("user", result(key)) for key in ids]
        else:
            history.append(blocks("assistant", *before, *map(use, ids)))
            more = [text_block("and hurry")] if draw(st.booleans()) else []
            history.append(blocks("user", *map(result, draw(st.permutations(ids))), *more))
    return [
        *history,
        draw(st.sampled_from([blocks("assistant", text_block("done")), says("assistant", "done")])),
    ]


@st.composite
def server_exchange(draw: st.DrawFn) -> History:
    ids = draw(_ids)
    pairs = [block for key in ids for block in (search(key), search_result(key))]
    if draw(st.booleans()):
        return [says("user", draw(_words)), blocks("assistant", *pairs, text_block("done"))]
    return [says("user", draw(_words)), *(blocks("assistant", block) for block in pairs)]


@st.composite
def gemini_exchange(draw: st.DrawFn) -> History:
    history = [parts("user", {"text": draw(_words)})]
    for names in draw(st.lists(_ids, max_size=3)):
        calls, answers = [], []
        for name in names:
            key = draw(st.sampled_from([None, f"id-{name}"]))
            calls.append(function_call(name, key))
            answers.append(function_response(name, key if draw(st.booleans()) else None))
        more = [{"text": "and hurry"}] if draw(st.booleans()) else []
        history += [
            parts("model", *calls),
            parts(draw(st.sampled_from(["user", "function"])), *answers, *more),
        ]
    return [*history, parts("model", {"text": "done"})]


notes = st.sampled_from([says("system", "be brief"), {"kind": "marker", "n": 1}])
exchanges = st.one_of(
    chat_exchange(),
    item_exchange(),
    block_exchange(),
    server_exchange(),
    gemini_exchange(),
    notes.map(lambda note: [note]),
)


@st.composite
def sound_histories(draw: st.DrawFn) -> History:
    return [message for exchange in draw(st.lists(exchanges, max_size=5)) for message in exchange]


def _lose(history: History, at: int, _: int) -> None:
    del history[at]


def _double(history: History, at: int, to: int) -> None:
    history.insert(to, history[at])


def _move(history: History, at: int, to: int) -> None:
    history.insert(to, history.pop(at))


def _lose_a_piece(history: History, at: int, to: int) -> None:
    for field in ("content", "parts", "tool_calls"):
        pieces = history[at].get(field)
        if isinstance(pieces, list) and len(pieces) > 1:
            gone = to % len(pieces)
            history[at] = {**history[at], field: pieces[:gone] + pieces[gone + 1 :]}


def _stop_here(history: History, at: int, _: int) -> None:
    del history[at + 1 :]


_DAMAGES: list[Callable[[History, int, int], None]] = [_lose, _double, _move, _lose_a_piece, _stop_here]


@st.composite
def damaged_histories(draw: st.DrawFn) -> History:
    history = draw(sound_histories())
    for damage in draw(st.lists(st.sampled_from(_DAMAGES), max_size=6)):
        if history:
            places = st.integers(0, len(history) - 1)
            damage(history, draw(places), draw(places))
    return history


# ── Messages that nobody would write ──────────────────────────────────────────────────────────────

_short = st.text("ab \n", max_size=3)
_junk = st.recursive(
    st.none() | st.booleans() | st.integers() | _short,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_short, inner, max_size=2),
    max_leaves=4,
)
_known_words = st.sampled_from(
    [
        "user",
        "assistant",
        "tool",
        "model",
        "function",
        "message",
        "text",
        "tool_use",
        "tool_result",
        "server_tool_use",
        "mcp_tool_use",
        "web_search_tool_result",
        "thinking",
        "function_call",
        "function_call_output",
        "reasoning",
        "image",
        "a",
    ]
)
_keys = st.sampled_from(
    [
        "role",
        "type",
        "content",
        "parts",
        "text",
        "id",
        "call_id",
        "name",
        "tool_calls",
        "tool_call_id",
        "tool_use_id",
        "tool_id",
        "function",
        "function_call",
        "functionCall",
        "functionResponse",
        "thought",
    ]
)
_odd_pieces = st.dictionaries(_keys, _known_words | _junk, max_size=4)
odd_messages = st.dictionaries(
    _keys, st.one_of(_known_words, _junk, _odd_pieces, st.lists(_odd_pieces | _junk, max_size=3)), max_size=7
)
