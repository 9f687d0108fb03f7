"""One story in every dialect: a question, a thought, words and a call, its result, the answer."""

from __future__ import annotations

from typing import Any

from tests.core.messages.histories import (
    chat_result,
    gg_result,
    gg_use,
    item_call,
    item_result,
    item_says,
    says,
    tool_result,
)

Message = dict[str, Any]

ARGS = {"path": "a.txt"}
AS_TEXT = '{"path":"a.txt"}'
CLAUDE = {"sessionId": "s", "uuid": "u", "parentUuid": None}


def claude(kind: str, message: Message, **more: Any) -> Message:
    return {**CLAUDE, "type": kind, "message": message, **more}


def adk(author: str, content: Message) -> Message:
    return {"author": author, "invocation_id": "i", "content": content}


def strands(message: Message) -> Message:
    return {"message": message, "message_id": 0, "redact_message": None, "created_at": "t"}


BLOCKS = [
    {"type": "thinking", "thinking": "hmm", "signature": "c2ln"},
    {"type": "text", "text": "I look."},
    {"type": "tool_use", "id": "t1", "name": "read", "input": ARGS},
]
BEDROCK: list[Message] = [
    {"role": "user", "content": [{"text": "Read it."}]},
    {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": {"text": "hmm", "signature": "c2ln"}}},
            {"text": "I look."},
            {"toolUse": {"toolUseId": "t1", "name": "read", "input": ARGS}},
        ],
    },
    {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": "words"}]}}]},
    {"role": "assistant", "content": [{"text": "Done."}]},
]
GEMINI: list[Message] = [
    {"role": "user", "parts": [{"text": "Read it."}]},
    {
        "role": "model",
        "parts": [
            {"text": "hmm", "thought": True, "thoughtSignature": "c2ln"},
            {"text": "I look."},
            {"functionCall": {"name": "read", "args": ARGS}},
        ],
    },
    {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": "words"}}}]},
    {"role": "model", "parts": [{"text": "Done."}]},
]
STORIES: dict[str, list[Message]] = {
    "pydantic-ai": [
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Read it."}]},
        {
            "kind": "response",
            "parts": [
                {"part_kind": "thinking", "content": "hmm", "signature": "c2ln"},
                {"part_kind": "text", "content": "I look."},
                {"part_kind": "tool-call", "tool_name": "read", "args": ARGS, "tool_call_id": "t1"},
            ],
        },
        {
            "kind": "request",
            "parts": [
                {"part_kind": "tool-return", "tool_name": "read", "tool_call_id": "t1", "content": "words"}
            ],
        },
        {"kind": "response", "parts": [{"part_kind": "text", "content": "Done."}]},
    ],
    "agent-framework": [
        {"type": "message", "role": "user", "contents": [{"type": "text", "text": "Read it."}]},
        {
            "type": "message",
            "role": "assistant",
            "contents": [
                {"type": "text_reasoning", "text": "hmm"},
                {"type": "text", "text": "I look."},
                {
                    "type": "function_call",
                    "call_id": "t1",
                    "name": "read",
                    "arguments": '{"path":"a.txt"}',
                },
            ],
        },
        {
            "type": "message",
            "role": "tool",
            "contents": [{"type": "function_result", "call_id": "t1", "result": "words"}],
        },
        {"type": "message", "role": "assistant", "contents": [{"type": "text", "text": "Done."}]},
    ],
    "claude-code": [
        claude("user", says("user", "Read it.")),
        *(
            claude("assistant", {"type": "message", "id": "m1", "role": "assistant", "content": [block]})
            for block in BLOCKS
        ),
        claude("user", {"role": "user", "content": [tool_result("t1", "words")]}),
        claude(
            "assistant",
            {
                "type": "message",
                "id": "m2",
                "role": "assistant",
                "content": [{"type": "text", "text": "Done."}],
            },
        ),
    ],
    "langchain": [
        {"type": "human", "content": "Read it."},
        {
            "type": "ai",
            "content": "I look.",
            "additional_kwargs": {"reasoning_content": "hmm"},
            "tool_calls": [{"name": "read", "args": ARGS, "id": "t1"}],
        },
        {"type": "tool", "tool_call_id": "t1", "content": "words"},
        {"type": "ai", "content": "Done."},
    ],
    "llama-index": [
        {"role": "user", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": "Read it."}]},
        {
            "role": "assistant",
            "additional_kwargs": {},
            "blocks": [
                {"block_type": "thinking", "content": "hmm"},
                {"block_type": "text", "text": "I look."},
                {
                    "block_type": "tool_call",
                    "tool_call_id": "t1",
                    "tool_name": "read",
                    "tool_kwargs": ARGS,
                },
            ],
        },
        {
            "role": "tool",
            "additional_kwargs": {"tool_call_id": "t1"},
            "blocks": [{"block_type": "text", "text": "words"}],
        },
        {
            "role": "assistant",
            "additional_kwargs": {},
            "blocks": [{"block_type": "text", "text": "Done."}],
        },
    ],
    "gemini": GEMINI,
    "adk": [adk("user", GEMINI[0]), *(adk("bot", content) for content in GEMINI[1:])],
    "strands": [strands(message) for message in BEDROCK],
    "ggcode": [
        says("user", "Read it."),
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hmm"},
                {"type": "text", "text": "I look."},
                {**gg_use("t1"), "tool_name": "read", "input": ARGS},
            ],
        },
        {"role": "user", "content": [{**gg_result("t1"), "output": "words"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
    ],
    "anthropic": [
        says("user", "Read it."),
        {"role": "assistant", "content": BLOCKS},
        {"role": "user", "content": [tool_result("t1", "words")]},
        says("assistant", "Done."),
    ],
    "bedrock": BEDROCK,
    "responses": [
        item_says("user", "Read it."),
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "hmm"}],
            "encrypted_content": "c2ln",
        },
        item_says("assistant", "I look."),
        {**item_call("t1"), "name": "read", "arguments": AS_TEXT},
        {**item_result("t1"), "output": "words"},
        item_says("assistant", "Done."),
    ],
    "chat": [
        says("user", "Read it."),
        {
            "role": "assistant",
            "reasoning_content": "hmm",
            "content": "I look.",
            "tool_calls": [
                {"id": "t1", "function": {"name": "read", "arguments": AS_TEXT}, "type": "function"}
            ],
        },
        chat_result("t1", "words"),
        says("assistant", "Done."),
    ],
}
