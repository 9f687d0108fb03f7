"""OpenAI chat completions, and every plain `{"role", "content"}` message; also Ollama's calls without ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from clew.core.messages.dialects.base import (
    INTERRUPTED,
    ROLES,
    Call,
    ItemDialect,
    Placement,
    Role,
    Slot,
    filled,
    is_blank,
    media_in,
    parts_of,
    pieces_of,
    texts_in,
)
from clew.model import Json, Message

_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_details")
_MEDIA_FIELDS = ("images", "media", "attachments")
_LEGACY = "function"
"""The kind of `function_call` and its `role: function`, which came before `tool_calls`."""


class ChatDialect(ItemDialect):
    name = "chat"
    is_plain_without_calls = True

    def claims(self, message: Message) -> bool:
        role = message.get("role")
        return isinstance(role, str) and role in ROLES

    def role(self, message: Message) -> Role:
        return ROLES[message["role"]]

    def texts(self, message: Message) -> list[str]:
        return [] if self.role(message) == "tool" else texts_in(_content(message))

    def shows_media(self, message: Message) -> bool:
        return media_in(_content(message)) or any(message.get(field) for field in _MEDIA_FIELDS)

    def is_reasoning_only(self, message: Message) -> bool:
        return (
            message.get("role") == "assistant"
            and any(message.get(field) for field in _REASONING_FIELDS)
            and all(map(is_blank, texts_in(_content(message))))
            and not (message.get("tool_calls") or message.get("function_call") or media_in(_content(message)))
        )

    def slots(self, message: Message) -> list[Slot]:
        role = message.get("role")
        if role == "assistant":
            calls = [_call(call) for call in parts_of(message, "tool_calls")]
            calls.append(_legacy_call(message.get("function_call")))
            found = enumerate(calls)
            return [Slot(call, at, False, Placement.AFTER_CALL) for at, call in found if call]
        result = _result(message) if role in ("tool", "function") else None
        return [Slot(result, 0, True, Placement.AFTER_CALL)] if result else []

    def interrupted(self, message: Message, slot: Slot) -> Json:
        call = slot.call
        if call.kind == _LEGACY:
            return {"role": "function", "name": call.name, "content": INTERRUPTED}
        key = {"tool_call_id": call.id} if call.id else {"name": call.name}
        return {"role": "tool", **key, "content": INTERRUPTED}


def _content(message: Message) -> Json:
    content = message.get("content")
    return message.get("parts") if content is None else content


def _call(call: Json) -> Call | None:
    if not isinstance(call, dict):
        return None
    name = filled(call.get("name"))
    for field in ("function", "custom"):
        if isinstance(inner := call.get(field), dict):
            name = filled(inner.get("name")) or name
    key = filled(call.get("id"))
    return Call(key, name) if key or name else None


def _legacy_call(call: Json) -> Call | None:
    name = filled(call.get("name")) if isinstance(call, dict) else None
    return Call(None, name, _LEGACY) if name else None


def _result(message: Message) -> Call | None:
    key = filled(message.get("tool_call_id"))
    name = filled(message.get("name")) or filled(message.get("tool_name"))
    if message["role"] == "function":
        return Call(None, name, _LEGACY) if name else None
    # Other agents' `role: tool` messages name their calls deeper inside. What we can not pair we must
    # not take for an orphan either: only a plain text without any id is Ollama's anonymous result.
    if key or name or isinstance(message.get("content"), str):
        return Call(key, name)
    return None


CHAT = ChatDialect()


# ── Responses ─────────────────────────────────────────────────────────────────────────────────────
# OpenAI responses: the history is a list of items; calls, outputs and reasoning are items of their own.

# The kind says which outputs answer which calls. Codex answers a local shell call with a plain
# function_call_output, so those two are one kind.
_CALLS: Final = {
    "function_call": "function",
    "local_shell_call": "function",
    "custom_tool_call": "custom",
    "computer_call": "computer",
    "shell_call": "shell",
    "apply_patch_call": "apply_patch",
    "tool_search_call": "tool_search",
    "mcp_approval_request": "approval",
    "program": "program",
}
_OUTPUTS: Final = {
    "function_call_output": "function",
    "local_shell_call_output": "function",
    "custom_tool_call_output": "custom",
    "computer_call_output": "computer",
    "shell_call_output": "shell",
    "apply_patch_call_output": "apply_patch",
    "tool_search_output": "tool_search",
    "mcp_approval_response": "approval",
    "program_output": "program",
}
_SELF_CONTAINED: Final = frozenset(
    {
        "reasoning",
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
        "compaction",
    }
)
"""Written by the model, and in need of no answer."""

_BLANK_PNG: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
"""The output of a computer call must be a screenshot: one pixel."""


class ResponsesDialect(ItemDialect):
    name = "responses"

    def claims(self, message: Message) -> bool:
        kind = message.get("type")
        if not isinstance(kind, str):
            return False
        if kind == "message":
            return isinstance(message.get("role"), str)
        return kind in _CALLS or kind in _OUTPUTS or kind in _SELF_CONTAINED

    def role(self, message: Message) -> Role:
        kind = message["type"]
        if kind == "message":
            return ROLES.get(message["role"], "other")
        return "tool" if kind in _OUTPUTS else "assistant"

    def texts(self, message: Message) -> list[str]:
        return texts_in(message.get("content")) if message["type"] == "message" else []

    def shows_media(self, message: Message) -> bool:
        return message["type"] == "message" and media_in(message.get("content"))

    def is_reasoning_only(self, message: Message) -> bool:
        return bool(message["type"] == "reasoning")

    def slots(self, message: Message) -> list[Slot]:
        kind = message["type"]
        is_result = kind in _OUTPUTS
        family = _OUTPUTS.get(kind) or _CALLS.get(kind)
        key = _key(message, kind) if family else None
        if family is None or key is None:
            return []
        return [Slot(Call(key, filled(message.get("name")), family), 0, is_result, Placement.ANYWHERE)]

    def tool_values(self, message: dict[str, Json]) -> Iterable[Json]:
        # A call is a message of its own here, and so is its result.
        return [message] if self.slots(message) else pieces_of(self, message)

    def interrupted(self, message: Message, slot: Slot) -> Json:
        return _interrupted(message["type"], slot.call.id)


def _key(message: Message, kind: str) -> str | None:
    if kind == "mcp_approval_response":
        return filled(message.get("approval_request_id"))
    if kind in ("tool_search_call", "tool_search_output"):
        return filled(message.get("call_id"))  # without one the provider searches, and answers, itself
    return filled(message.get("call_id")) or filled(message.get("id"))


def _interrupted(kind: str, key: str | None) -> Json:
    match kind:
        case "custom_tool_call":
            return {"type": "custom_tool_call_output", "call_id": key, "output": INTERRUPTED}
        case "local_shell_call":
            # Here `id` is the call's id, and the output is JSON in a text.
            output = msgspec.json.encode({"error": INTERRUPTED}).decode()
            return {"type": "local_shell_call_output", "id": key, "output": output, "status": "incomplete"}
        case "computer_call":
            screen = {"type": "computer_screenshot", "image_url": _BLANK_PNG}
            return {"type": "computer_call_output", "call_id": key, "output": screen, "status": "incomplete"}
        case "shell_call":
            failed = {"stdout": "", "stderr": INTERRUPTED, "outcome": {"type": "exit", "exit_code": 1}}
            return {"type": "shell_call_output", "call_id": key, "output": [failed]}
        case "apply_patch_call":
            return {
                "type": "apply_patch_call_output",
                "call_id": key,
                "status": "failed",
                "output": INTERRUPTED,
            }
        case "tool_search_call":
            return {"type": "tool_search_output", "call_id": key, "execution": "client", "tools": []}
        case "program":
            failed = {"result": INTERRUPTED, "status": "incomplete"}
            return {"type": "program_output", "id": key, "call_id": key, **failed}
        case "mcp_approval_request":
            # Nobody said yes.
            refusal = {"approve": False, "reason": INTERRUPTED}
            return {"type": "mcp_approval_response", "approval_request_id": key, **refusal}
        case _:
            return {"type": "function_call_output", "call_id": key, "output": INTERRUPTED}


RESPONSES = ResponsesDialect()
