"""Messages as frameworks and agents keep them: who speaks in them, what is said, searched and shown."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.messages.dialects import Call, calls_of, dialect_of, is_user_turn, results_of, role_of, text_of
from clew.core.messages.dialects.base import Edit
from clew.core.messages.repair import repair
from clew.core.messages.search_text import ROLES, searched_text
from clew.core.messages.tool_calls import is_reasoning_only
from clew.exporters.blocks import blocks_of
from tests.core.messages.histories import Message, odd_messages, text_block, thinking, tool_result, tool_use
from tests.support.rows import each_row, named

# ── What each of them writes ──────────────────────────────────────────────────────────────────────

ADK_CALL = {"function_call": {"id": "c1", "name": "look_up", "args": {"bird": "heron"}}}
ADK_RESULT = {"function_response": {"id": "c1", "name": "look_up", "response": {"result": "kingfisher"}}}

FRAMEWORK_CALL = {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": {"bird": "heron"}}
FRAMEWORK_RESULT = {
    "type": "function_result",
    "call_id": "c1",
    "result": "kingfisher",
    "items": [text_block("kingfisher")],
}
FRAMEWORK_PICTURE = {"type": "data", "uri": "data:image/png;base64,iVBO", "media_type": "image/png"}
FRAMEWORK_THOUGHT = {"type": "text_reasoning", "text": "hm"}

BEDROCK_CALL = {"toolUse": {"toolUseId": "c1", "name": "look_up", "input": {"bird": "heron"}}}
BEDROCK_RESULT = {"toolResult": {"toolUseId": "c1", "status": "success", "content": [{"text": "kingfisher"}]}}
BEDROCK_SOURCE = {"bytes": {"__bytes_encoded__": True, "data": "iVBORw0KGgo="}}
BEDROCK_IMAGE = {"image": {"format": "png", "source": BEDROCK_SOURCE}}
BEDROCK_THOUGHT = {"reasoningContent": {"reasoningText": {"text": "long legs", "signature": "sealed"}}}

CLAUDE_CALL = {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"bird": "heron"}}
CLAUDE_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}

CHAIN_CALL = {"name": "look_up", "args": {"bird": "heron"}, "id": "c1", "type": "tool_call"}
HUMAN: Message = {"type": "human", "content": "where is it", "id": "1"}
AI: Message = {"type": "ai", "content": "let me see", "tool_calls": [CHAIN_CALL], "id": "2"}
TOOL: Message = {"type": "tool", "content": "kingfisher", "tool_call_id": "c1", "name": "look_up"}
AI_BLOCKS: Message = {
    "type": "ai",
    "content": [{"type": "thinking", "thinking": "hm"}, text_block("so"), CLAUDE_CALL],
    "tool_calls": [CHAIN_CALL],
}

LLAMA_THOUGHT: Message = {
    "block_type": "thinking",
    "content": "hm",
    "num_tokens": None,
    "additional_information": {},
}
LLAMA_CALL = {
    "block_type": "tool_call",
    "tool_call_id": "c1",
    "tool_name": "look_up",
    "tool_kwargs": {"bird": "heron"},
}
LLAMA_IMAGE = {
    "block_type": "image",
    "image": "iVBO",
    "path": None,
    "url": None,
    "image_mimetype": "image/png",
}
LLAMA_OLD_CALL = {
    "id": "c-2",
    "type": "function",
    "function": {"name": "find", "arguments": '{"what": "egret"}'},
}

PYDANTIC_CALL = {
    "part_kind": "tool-call",
    "tool_name": "look_up",
    "args": {"bird": "heron"},
    "tool_call_id": "c1",
}
PYDANTIC_RESULT = {
    "part_kind": "tool-return",
    "tool_name": "look_up",
    "content": "kingfisher",
    "tool_call_id": "c1",
    "timestamp": "2026-11-15T00:00:00Z",
    "outcome": "success",
}
PYDANTIC_PICTURE = {"kind": "binary", "data": "iVBO", "media_type": "image/png"}


def event(author: str, role: str | None = None, *parts: Any, **more: Any) -> Message:
    """Of Google ADK."""
    said = {} if role is None else {"content": {"role": role, "parts": list(parts)}}
    around = {"invocation_id": "e-1", "author": author, "id": "x", "actions": {"state_delta": {}}}
    return {**around, **said, **more}


def contents(role: str, *inside: Any) -> Message:
    """Of the Agent Framework."""
    return {"type": "message", "role": role, "contents": list(inside)}


def plain(role: str, *content: Any) -> Message:
    """Of Bedrock."""
    return {"role": role, "content": list(content)}


def record(message: Message, redacted: Message | None = None) -> Message:
    """As a Strands session keeps a message of Bedrock."""
    times = {"created_at": "2026-11-15T00:00:00+00:00", "updated_at": "2026-11-15T00:00:00+00:00"}
    return {"message": message, "message_id": 0, "redact_message": redacted, **times}


def line(role: str, content: Any, **more: Any) -> Message:
    """Of a transcript of Claude Code."""
    around = {"uuid": "u-1", "parentUuid": None, "sessionId": "s-1", "timestamp": "2026-11-15T08:00:00Z"}
    return {"type": role, "message": {"role": role, "content": content}, **around, **more}


def llama(role: str, *blocks: Any, **extra: Any) -> Message:
    """Of LlamaIndex."""
    return {"role": role, "additional_kwargs": extra, "blocks": list(blocks)}


def llama_text(said: str) -> Message:
    return {"block_type": "text", "text": said}


def request(*parts: Any) -> Message:
    """Of Pydantic AI."""
    return {"parts": list(parts), "kind": "request", "run_id": "r"}


def response(*parts: Any) -> Message:
    return {"parts": list(parts), "kind": "response"}


def part(kind: str, content: Any) -> Message:
    return {"content": content, "part_kind": kind}


class Exchange(NamedTuple):
    """A question, a call of `look_up` with a heron, and its result, a kingfisher."""

    asks: Message
    calls: Message
    answers: Message
    tool: str | None = "look_up"
    """The name of the tool, where a result tells it."""


EXCHANGES = {
    "adk": Exchange(
        event("user", "user", {"text": "where is it"}),
        event("birds", "model", {"text": "let me see"}, ADK_CALL),
        event("birds", "user", ADK_RESULT, custom_metadata={"secret": "owl"}),
    ),
    "agent-framework": Exchange(
        contents("user", text_block("where is it")),
        contents("assistant", text_block("let me see"), FRAMEWORK_CALL),
        contents("tool", FRAMEWORK_RESULT),
        None,
    ),
    "bedrock": Exchange(
        plain("user", {"text": "where is it"}),
        plain("assistant", BEDROCK_THOUGHT, {"text": "let me see"}, BEDROCK_CALL),
        plain("user", BEDROCK_RESULT),
        None,
    ),
    "strands": Exchange(
        record(plain("user", {"text": "where is it"})),
        record(plain("assistant", BEDROCK_THOUGHT, {"text": "let me see"}, BEDROCK_CALL)),
        record(plain("user", BEDROCK_RESULT)),
        None,
    ),
    "claude-code": Exchange(
        line("user", "where is it"),
        line("assistant", [thinking(), text_block("let me see"), CLAUDE_CALL]),
        line("user", [tool_result("c1", "kingfisher")], toolUseResult={"stdout": "heron"}, cwd="/birds"),
        None,
    ),
    "langchain": Exchange(HUMAN, AI, TOOL),
    "llama-index": Exchange(
        llama("user", llama_text("where is it")),
        llama("assistant", LLAMA_THOUGHT, llama_text("let me see"), LLAMA_CALL),
        llama("tool", llama_text("kingfisher"), tool_call_id="c1", name="look_up"),
    ),
    "pydantic-ai": Exchange(
        request(part("user-prompt", "where is it")),
        response(part("text", "let me see"), PYDANTIC_CALL),
        request(PYDANTIC_RESULT),
    ),
}


# ── What all of them have in common ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", EXCHANGES)
def test_a_call_and_its_result_are_understood(name: str) -> None:
    asks, calls, answers, tool = EXCHANGES[name]
    whole = [asks, calls, answers]

    assert [dialect_of(message).name for message in whole] == [name] * 3
    assert [role_of(message) for message in whole] == ["user", "assistant", "tool"]
    assert [is_user_turn(message) for message in whole] == [True, False, False]
    assert [text_of(message) for message in whole] == ["where is it", "let me see", ""]
    assert [calls_of(message) for message in whole] == [[], [Call("c1", "look_up")], []]
    assert [results_of(message) for message in whole] == [[], [], [Call("c1", tool)]]
    asked, answered = searched_text(calls, 0), searched_text(answers, 0)
    assert asked == (ROLES.index("assistant"), "let me see", "look_up\nheron")
    assert answered == (ROLES.index("tool"), "", f"{tool}\nkingfisher" if tool else "kingfisher")
    shown = [block for message in whole for block in blocks_of(message) if block.kind != "thinking"]
    assert [block.kind for block in shown] == ["text", "text", "call", "result"]
    assert [block.text for block in shown if block.kind != "call"] == [
        "where is it",
        "let me see",
        "kingfisher",
    ]
    assert shown[2].name == "look_up"


@pytest.mark.parametrize("name", EXCHANGES)
def test_a_call_without_a_result_gets_one_in_the_words_of_its_program(name: str) -> None:
    asks, calls, answers, tool = EXCHANGES[name]
    before = copy.deepcopy([asks, calls])

    mended = repair([asks, calls, asks]).messages

    assert [asks, calls] == before
    assert [mended[0], mended[1], mended[3]] == [asks, calls, asks]
    assert (role_of(mended[2]), dialect_of(mended[2]).name) == ("tool", name)
    assert results_of(mended[2]) == [Call("c1", None if name == "llama-index" else tool)]
    assert repair([asks, calls, answers]).repairs == []


FRAMEWORK_KINDS = (
    "text", "text_reasoning", "function_call", "function_result", "data", "uri", "shell_tool_result",
)  # fmt: skip
PYDANTIC_KINDS = (
    "tool-call", "tool-return", "user-prompt", "system-prompt", "text", "thinking", "file", "speech",
)  # fmt: skip
LLAMA_WORDS = ["text", "image", "tool_call", "citation", "document", "thinking"]
LLAMA_KEYS = ["block_type", "text", "content", "tool_name", "tool_kwargs", "url", "image", "path"]
llama_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(LLAMA_KEYS), inner | st.sampled_from(LLAMA_WORDS), max_size=4)
    ),
    max_leaves=12,
)
llama_messages = st.builds(
    lambda role, blocks, extra: llama(role, *blocks, **extra),
    st.sampled_from(["user", "assistant", "tool", "function", "chatbot", "system"]),
    st.lists(llama_values, max_size=4),
    st.dictionaries(st.sampled_from(["tool_calls", "tool_call_id", "name"]), llama_values, max_size=3),
)


@given(odd_messages, odd_messages, st.data())
def test_no_shape_is_too_odd(message: Message, content: Message, data: st.DataObject) -> None:
    """Whatever stands where a program keeps what was said. It takes a second, for seven programs."""
    role = data.draw(st.sampled_from(["user", "assistant", "tool"]))
    kind = data.draw(st.sampled_from(FRAMEWORK_KINDS))
    framework = {**message, "type": kind}
    kind = data.draw(st.sampled_from(PYDANTIC_KINDS))
    pydantic = {**message, "part_kind": kind}
    extras = ("isMeta", "toolUseResult")
    claude = data.draw(
        st.fixed_dictionaries(
            {"type": st.sampled_from(["user", "assistant"])},
            optional=dict.fromkeys(extras, st.none() | st.booleans() | st.text()),
        )
    )
    lama = data.draw(llama_messages)
    assert dialect_of(lama).name == "llama-index"
    assert all(dialect_of(lama).pick(lama, one) is lama for one in dialect_of(lama).parts(lama))
    for name, shape in (
        ("adk", {**message, "author": "user", "invocation_id": "e", "content": content}),
        ("agent-framework", contents(role, framework)),
        ("agent-framework", contents(role, framework, message)),
        ("agent-framework", contents(role, message)),
        ("bedrock", message),
        ("strands", record(message)),
        ("strands", record(plain("user", message, [], None, 1, {"toolUse": message}))),
        ("claude-code", {**claude, "message": {**message, "role": claude["type"]}}),
        ("llama-index", lama),
        ("pydantic-ai", request(pydantic, message)),
        ("pydantic-ai", response(pydantic)),
        ("pydantic-ai", request(part(kind, message))),
        ("pydantic-ai", request(message)),
    ):
        with named(name):
            read(shape)
            repair([shape, EXCHANGES[name].calls])


def read(message: Message) -> None:
    """Everything that a message is read for."""
    dialect, said = dialect_of(message), searched_text(message, 0)
    assert role_of(message) in ROLES
    assert isinstance(is_user_turn(message), bool)
    assert isinstance(calls_of(message) + results_of(message), list)
    assert (isinstance(text_of(message), str), isinstance(said.tool, str)) == (True, True)
    assert said.role in range(len(ROLES))
    assert isinstance(blocks_of(message), list)
    placed = [one for one in dialect.parts(message) if one.placement]
    assert None not in [dialect.pick(message, one) for one in placed]


# ── Who speaks, and what is said ──────────────────────────────────────────────────────────────────


MARKED = {"kind": "text-content", "content": "marked"}
SPEECH = {"part_kind": "speech", "speaker": "assistant", "transcript": "aloud"}
THOUGHT_AND_WORDS = ({"text": "hmm", "thought": True}, {"text": "a heron"})
ALOUD = {"output_transcription": {"text": "aloud"}}
FROM_SERVER = {"invocationId": "e", "author": "user", "content": {"parts": [{"text": "hi"}]}}
QUOTED = {"citationsContent": {"content": [{"text": "herons wade"}], "citations": [{"title": "Birds"}]}}
CITED = {"block_type": "citation", "cited_content": llama_text("cited"), "source": "s", "title": "t"}


@each_row(
    ("name", "message", "role", "text"),
    [
        ("adk", event("user", "user", ADK_RESULT), "tool", ""),
        ("adk", event("user", "user", ADK_RESULT, {"text": "so"}), "user", "so"),
        ("adk", event("user"), "other", ""),
        ("adk", event("birds"), "assistant", ""),
        ("adk", event("user", input_transcription={"text": "hi", "finished": True}), "user", "hi"),
        ("adk", event("birds", "model", *THOUGHT_AND_WORDS, **ALOUD), "assistant", "a heron\naloud"),
        ("adk", FROM_SERVER, "user", "hi"),
        ("agent-framework", contents("user", FRAMEWORK_PICTURE), "user", ""),
        ("agent-framework", contents("system", text_block("be brief")), "system", "be brief"),
        ("agent-framework", contents("assistant", FRAMEWORK_THOUGHT, text_block("yes")), "assistant", "yes"),
        ("agent-framework", contents("assistant", FRAMEWORK_CALL), "assistant", ""),
        ("agent-framework", contents("assistant"), "assistant", ""),
        ("bedrock", plain("assistant", {"text": "hello"}), "assistant", "hello"),
        ("bedrock", plain("user", BEDROCK_RESULT, {"text": "so"}), "user", "so"),
        ("bedrock", plain("user", BEDROCK_IMAGE), "user", ""),
        ("bedrock", plain("user", {"guardContent": {"text": {"text": "hi"}}}), "user", "hi"),
        ("bedrock", plain("assistant", QUOTED), "assistant", "herons wade"),
        ("strands", record(plain("user", BEDROCK_RESULT, {"text": "so"})), "user", "so"),
        ("strands", record(plain("user", BEDROCK_IMAGE)), "user", ""),
        ("claude-code", line("user", [text_block("hi")]), "user", "hi"),
        ("claude-code", line("user", [CLAUDE_IMAGE]), "user", ""),
        ("claude-code", line("user", [tool_result("c1"), text_block("and?")]), "other", "and?"),
        ("claude-code", line("user", "hi", isMeta=True), "other", "hi"),
        ("claude-code", line("user", "hi", isSidechain=True), "other", "hi"),
        ("claude-code", line("user", "hi", isCompactSummary=True), "other", "hi"),
        ("claude-code", line("user", "  "), "other", "  "),
        ("claude-code", line("assistant", [tool_use("c1")], isSidechain=True), "assistant", ""),
        (
            "claude-code",
            line("user", "<command-name>/clear</command-name>"),
            "other",
            "<command-name>/clear</command-name>",
        ),
        (
            "claude-code",
            line("user", "<system-reminder>be kind</system-reminder>"),
            "other",
            "<system-reminder>be kind</system-reminder>",
        ),
        (
            "claude-code",
            line("user", "<system-reminder>be kind</system-reminder> hi"),
            "user",
            "<system-reminder>be kind</system-reminder> hi",
        ),
        (
            "claude-code",
            line("user", "[Request interrupted by user]"),
            "other",
            "[Request interrupted by user]",
        ),
        ("other", {"type": "summary", "summary": "About herons", "leafUuid": "u-1"}, "other", ""),
        ("other", {"type": "file-history-snapshot", "messageId": "u-1", "snapshot": {}}, "other", ""),
        ("langchain", {**HUMAN, "type": "HumanMessageChunk"}, "user", "where is it"),
        ("langchain", {**HUMAN, "content": [{"type": "image_url", "image_url": {"url": "x"}}]}, "user", ""),
        ("langchain", {**AI, "type": "AIMessageChunk"}, "assistant", "let me see"),
        ("langchain", AI_BLOCKS, "assistant", "so"),
        ("langchain", {"type": "function", "content": "r", "name": "f"}, "tool", ""),
        ("langchain", {"type": "system", "content": "be good"}, "system", "be good"),
        ("langchain", {"type": "chat", "content": "hm", "role": "narrator"}, "other", "hm"),
        ("langchain", {"type": "chat", "content": "hm", "role": "assistant"}, "assistant", "hm"),
        ("langchain", {"type": "remove", "content": "", "id": "1"}, "other", ""),
        ("llama-index", llama("user", LLAMA_IMAGE), "user", ""),
        ("llama-index", llama("chatbot", llama_text("hi")), "assistant", "hi"),
        ("llama-index", llama("model", llama_text("hi")), "assistant", "hi"),
        ("llama-index", llama("function", llama_text("hi")), "tool", ""),
        ("llama-index", llama("system", llama_text("hi")), "system", "hi"),
        ("llama-index", llama("developer", llama_text("hi")), "system", "hi"),
        (
            "llama-index",
            llama("assistant", LLAMA_THOUGHT, llama_text("a"), LLAMA_CALL, CITED),
            "assistant",
            "a\ncited",
        ),
        ("pydantic-ai", request(part("user-prompt", ["a", PYDANTIC_PICTURE])), "user", "a"),
        ("pydantic-ai", request(part("user-prompt", [PYDANTIC_PICTURE])), "user", ""),
        ("pydantic-ai", request(part("user-prompt", [MARKED])), "user", "marked"),
        ("pydantic-ai", request(part("system-prompt", "be brief"), part("user-prompt", "hi")), "user", "hi"),
        ("pydantic-ai", request(part("system-prompt", "be brief")), "system", "be brief"),
        ("pydantic-ai", request(PYDANTIC_RESULT, part("user-prompt", "and?")), "user", "and?"),
        ("pydantic-ai", request(part("retry-feedback", "no")), "other", ""),
        ("pydantic-ai", response(part("thinking", "hm"), part("text", "yes")), "assistant", "yes"),
        ("pydantic-ai", response(SPEECH), "assistant", "aloud"),
        ("pydantic-ai", response(), "assistant", ""),
    ],
)
def test_who_speaks_and_what_is_said(name: str, message: Message, role: str, text: str) -> None:
    assert dialect_of(message).name == name
    assert (role_of(message), text_of(message)) == (role, text)
    assert is_user_turn(message) == (role == "user")


@each_row("message", [{**HUMAN, "content": "  "}, llama("user", llama_text("  "))])
def test_blanks_are_no_turn(message: Message) -> None:
    assert (role_of(message), is_user_turn(message)) == ("user", False)


@each_row(
    ("message", "name"),
    [
        ({"author": "user", "content": "a remark"}, "adk"),
        ({"author": "user", "invocation_id": "e", "content": "a remark"}, "adk"),
        ({"author": {"name": "x"}, "invocation_id": "e", "content": {"parts": []}}, "adk"),
        ({"role": "user", "parts": [{"text": "hi"}]}, "adk"),
        ({"invocation_id": "e", "content": {"parts": [{"text": "hi"}]}}, "adk"),
        (
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]},
            "agent-framework",
        ),
        ({"type": "message", "role": "user", "contents": ["x"]}, "agent-framework"),
        ({"role": "user", "contents": [text_block("x")]}, "agent-framework"),
        ({"role": "user", "content": [text_block("hi")]}, "bedrock"),
        ({"role": "user", "content": [text_block("hi")]}, "strands"),
        ({"type": "user", "message": {"content": "hi"}}, "claude-code"),
        ({"type": "user", "message": "hi"}, "claude-code"),
        ({"type": "system", "message": {"role": "user", "content": "hi"}}, "claude-code"),
        ({"type": ["user"], "message": {"role": "user", "content": "hi"}}, "claude-code"),
        ({"role": "user", "content": "hi"}, "claude-code"),
        ({"role": "user", "content": "hi", "type": "message", "sessionId": "s-1"}, "claude-code"),
        ({"type": "summary", "summary": "About herons"}, "claude-code"),
        ({"type": "human"}, "langchain"),
        ({"type": "human", "content": None}, "langchain"),
        ({"type": "tool", "role": "tool", "content": "x"}, "langchain"),
        ({"type": ["human"], "content": "x"}, "langchain"),
        ({"type": "message", "role": "user", "content": "x"}, "langchain"),
        ({"type": "text", "content": "x"}, "langchain"),
        ({"role": "user", "blocks": []}, "llama-index"),
        ({"role": "user", "additional_kwargs": {}, "blocks": "x"}, "llama-index"),
        ({"role": "user", "additional_kwargs": [], "blocks": []}, "llama-index"),
        ({"role": ["user"], "additional_kwargs": {}, "blocks": []}, "llama-index"),
        ({"role": "somebody", "additional_kwargs": {}, "blocks": []}, "llama-index"),
        ({"kind": "request"}, "pydantic-ai"),
        ({"kind": "request", "parts": "x"}, "pydantic-ai"),
        ({"kind": "request", "parts": [{"text": "x"}]}, "pydantic-ai"),
        ({"kind": "letter", "parts": [part("text", "x")]}, "pydantic-ai"),
        ({"role": "user", "kind": "request", "parts": [part("text", "x")]}, "pydantic-ai"),
    ],
)
def test_what_only_looks_like_it_is_left_to_others(message: Message, name: str) -> None:
    assert dialect_of(message).name != name


def test_calls_of_openai_are_not_taken_for_words_of_bedrock() -> None:
    called = {
        "role": "assistant",
        "content": [{"text": "hi"}],
        "tool_calls": [{"id": "c", "type": "function"}],
    }
    assert dialect_of(called).name == "chat"


@each_row(
    ("message", "calls", "results"),
    [
        ({**AI, "tool_calls": ["odd", {}, None]}, [], []),
        ({"type": "tool", "content": "x"}, [], []),
        (llama("assistant", tool_calls=[LLAMA_OLD_CALL]), [("c-2", "find", "tool")], []),
        (llama("tool", llama_text("x"), tool_call_id="c1"), [], [("c1", None, "tool")]),
        (llama("tool", llama_text("x"), name="look"), [], [(None, "look", "tool")]),
        (response({**PYDANTIC_CALL, "part_kind": "builtin-tool-call"}), [("c1", "look_up", "server")], []),
        (
            response({**PYDANTIC_RESULT, "part_kind": "builtin-tool-return"}),
            [],
            [("c1", "look_up", "server")],
        ),
        (
            contents("assistant", {"type": "mcp_server_tool_call", "call_id": "s", "tool_name": "search"}),
            [("s", "search", "server")],
            [],
        ),
        (
            contents("assistant", {"type": "mcp_server_tool_result", "call_id": "s", "output": []}),
            [],
            [("s", None, "server")],
        ),
    ],
)
def test_odd_old_and_remote_calls(message: Message, calls: list[Any], results: list[Any]) -> None:
    assert [(call.id, call.name, call.kind) for call in calls_of(message)] == calls
    assert [(call.id, call.name, call.kind) for call in results_of(message)] == results


@each_row(
    ("message", "is_reasoning"),
    [
        ({"type": "ai", "content": [{"type": "thinking", "thinking": "hm"}]}, True),
        (
            {"type": "ai", "content": [{"type": "thinking", "thinking": "hm"}], "tool_calls": [CHAIN_CALL]},
            False,
        ),
        (AI_BLOCKS, False),
        (HUMAN, False),
        (llama("assistant", LLAMA_THOUGHT), True),
        (llama("assistant", LLAMA_THOUGHT, LLAMA_CALL), False),
        (llama("assistant", LLAMA_THOUGHT, tool_calls=[LLAMA_OLD_CALL]), False),
    ],
)
def test_thoughts_alone_are_no_answer(message: Message, is_reasoning: bool) -> None:
    assert is_reasoning_only(message) is is_reasoning


@each_row(
    ("message", "status"),
    [
        (EXCHANGES["langchain"].calls, {"status": "error"}),
        (EXCHANGES["pydantic-ai"].calls, {"part_kind": "tool-return", "outcome": "interrupted"}),
    ],
)
def test_a_result_that_was_made_up_says_so(message: Message, status: dict[str, str]) -> None:
    made = repair([message]).messages[1]
    (result,) = made.get("parts", [made])
    assert status.items() <= result.items()


# ── What is searched, shown and cut ───────────────────────────────────────────────────────────────


def test_what_a_guardrail_put_there_counts() -> None:
    message = record(plain("user", {"text": "something bad"}), plain("user", {"text": "[blocked]"}))

    assert text_of(message) == "[blocked]"
    assert searched_text(message, 0).said == "[blocked]"
    assert [block.text for block in blocks_of(message)] == ["[blocked]"]


def test_thoughts_are_not_searched() -> None:
    assert "hm" not in searched_text(AI_BLOCKS, 0).tool


FAILED = {"toolResult": {"toolUseId": "c2", "status": "error", "content": [{"json": {"why": "gone"}}]}}
FILE = {"document": {"name": "birds", "format": "pdf", "source": {"location": {"uri": "s3://b/k"}}}}
CACHE = {"cachePoint": {"type": "default"}}
IN_BEDROCK = plain(
    "user", BEDROCK_THOUGHT, BEDROCK_CALL, BEDROCK_RESULT, FAILED, BEDROCK_IMAGE, FILE, CACHE, {"odd": 1}
)
IN_BEDROCK_SHOWN = ["thinking", "call", "result", "result", "media", "media", "data"]


@each_row(
    ("message", "kinds"),
    [
        (event("birds", "model", {"text": "wait"}, ADK_CALL, ADK_RESULT), ["text", "call", "result"]),
        (
            contents(
                "assistant",
                FRAMEWORK_THOUGHT,
                text_block("yes"),
                FRAMEWORK_CALL,
                FRAMEWORK_PICTURE,
                {"type": "usage", "n": 1},
            ),
            ["thinking", "text", "call", "media", "data"],
        ),
        (IN_BEDROCK, IN_BEDROCK_SHOWN),
        (record(IN_BEDROCK), IN_BEDROCK_SHOWN),
        (AI_BLOCKS, ["thinking", "text", "call"]),
        ({**AI, "additional_kwargs": {"reasoning_content": "hm"}}, ["thinking", "text", "call"]),
        (
            llama("assistant", LLAMA_THOUGHT, llama_text("a"), LLAMA_IMAGE, LLAMA_CALL),
            ["thinking", "text", "media", "call"],
        ),
        (
            response(
                part("thinking", "hm"),
                part("text", "yes"),
                PYDANTIC_CALL,
                part("file", PYDANTIC_PICTURE),
                part("new", 1),
            ),
            ["thinking", "text", "call", "media", "data"],
        ),
        (
            request(PYDANTIC_RESULT, part("user-prompt", ["see", PYDANTIC_PICTURE])),
            ["result", "text", "media"],
        ),
    ],
)
def test_people_are_shown_every_part(message: Message, kinds: list[str]) -> None:
    assert [block.kind for block in blocks_of(message)] == kinds


@each_row("message", [IN_BEDROCK, record(IN_BEDROCK)])
def test_media_and_thoughts_of_bedrock_are_shown(message: Message) -> None:
    thought, _, _, failed, image, file, _ = blocks_of(message)

    assert thought.text == "long legs"
    assert failed.is_error
    assert "gone" in failed.text
    assert image.media is not None
    assert (image.media.type, image.media.data) == ("image/png", "iVBORw0KGgo=")
    assert file.media is not None
    assert file.media.url == "s3://b/k"


@each_row(
    ("message", "shown"),
    [
        (contents("tool", {**FRAMEWORK_RESULT, "exception": "too far"}), (None, "too far", "c1", True)),
        (request({**PYDANTIC_RESULT, "outcome": "failed"}), ("look_up", "kingfisher", "c1", True)),
        (EXCHANGES["llama-index"].answers, ("look_up", "kingfisher", "c1", False)),
        (EXCHANGES["bedrock"].answers, (None, "kingfisher", "c1", False)),
    ],
)
def test_results_are_shown_with_their_calls(message: Message, shown: tuple[Any, ...]) -> None:
    (result,) = blocks_of(message)
    assert (result.name, result.text, result.call, result.is_error) == shown


def test_an_event_of_adk_without_words_is_shown_by_what_it_did() -> None:
    (shown,) = blocks_of(event("user", actions={"state_delta": {"seen": 3}, "artifact_delta": {}}))

    assert shown.kind == "data"
    assert '"seen": 3' in shown.text
    assert "artifact_delta" not in shown.text


ENVIRONMENT = {"type": "attachment", "attachment": {"type": "environment", "snapshot": {}}}
QUEUED = {"type": "queue-operation", "operation": "enqueue", "content": "hi"}


@each_row(
    ("record", "note"),
    [
        (ENVIRONMENT, "attachment: environment"),
        ({"type": "system", "subtype": "stop_hook_summary", "content": "…"}, "system: stop_hook_summary"),
        (QUEUED, "queue-operation: enqueue"),
        ({"type": "custom-title", "customTitle": "Herons"}, "custom-title: Herons"),
        ({"type": "cost-state", "subtype": 7}, "cost-state"),
    ],
)
def test_a_record_of_claude_code_is_shown_in_a_few_words_and_says_nothing(record: Message, note: str) -> None:
    record = {**record, "sessionId": "s-1"}

    assert [(block.kind, block.text) for block in blocks_of(record)] == [("data", note)]
    assert (role_of(record), is_user_turn(record), text_of(record)) == ("other", False, "")
    assert calls_of(record) == []
    assert searched_text(record, 0)[1:] == ("", "")


@each_row(
    ("message", "edit", "expected"),
    [
        (
            event("birds", "model", {"text": "wait"}, ADK_CALL),
            Edit(drop={1}),
            event("birds", "model", {"text": "wait"}),
        ),
        (
            record(plain("user", BEDROCK_RESULT, {"text": "so"})),
            Edit(drop={0}),
            record(plain("user", {"text": "so"})),
        ),
        (record(plain("user", BEDROCK_RESULT, {"text": "so"})), Edit(drop={0, 1}), None),
        (
            line("user", [tool_result("c1"), text_block("and?")]),
            Edit(drop={0}),
            line("user", [text_block("and?")]),
        ),
        (line("user", [tool_result("c1")]), Edit(drop={0}), None),
        (line("user", "hi"), Edit(results_first=True), line("user", "hi")),
        (llama("assistant", LLAMA_CALL), Edit(), llama("assistant", LLAMA_CALL)),
    ],
)
def test_an_edit_is_made_in_a_copy_and_leaves_what_is_around_it(
    message: Message, edit: Edit, expected: Message | None
) -> None:
    before = copy.deepcopy(message)

    assert dialect_of(message).edit(message, edit) == expected
    assert message == before
