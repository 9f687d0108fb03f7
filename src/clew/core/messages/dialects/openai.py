"""OpenAI: chat completions, and the items of the responses API.

The chat dialect also takes every plain `{"role", "content"}` message, and Ollama's calls without ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from clew.core.messages.dialects.base import (
    INTERRUPTED,
    ROLES,
    Call,
    ItemDialect,
    Part,
    Placement,
    Role,
    filled,
    thought,
    type_of,
    typed_parts,
)
from clew.model import Json, Message

_MEDIA_FIELDS: Final = ("images", "media", "attachments", "files", "audio")
LEGACY: Final = "function"
"""The kind of `function_call` and its `role: function`, which came before `tool_calls`."""


class ChatDialect(ItemDialect):
    name = "chat"
    is_plain_without_calls = True

    def claims(self, message: Message) -> bool:
        role = message.get("role")
        return isinstance(role, str) and role in ROLES

    def role(self, message: Message) -> Role:
        return ROLES[message["role"]]

    def parts(self, message: Message) -> list[Part]:
        content = message.get("content")
        if content is None:
            content = message.get("parts")
        role = message.get("role")
        if role in ("tool", "function"):
            call = _answered(message)
            placement = None if call is None else Placement.AFTER_CALL
            return [Part("result", 0, None, content, call or Call(None, None), placement)]
        said = typed_parts(content)
        if len(message) == 2 and content is not None:  # a role and a content, and nothing beside them
            return said
        return [*_thoughts(message), *said, *_beside(message), *_calls(message, role == "assistant")]

    def interrupted(self, message: Message, part: Part) -> Json:
        call = part.call
        assert call is not None
        if call.kind == LEGACY:
            return {"role": "function", "name": call.name, "content": INTERRUPTED}
        key = {"tool_call_id": call.id} if call.id else {"name": call.name}
        return {"role": "tool", **key, "content": INTERRUPTED}


def call_part(call: Json, at: int, placement: Placement | None) -> Part:
    """An element of `tool_calls`, also as other frameworks write it."""
    if not isinstance(call, dict):
        return Part("other", at, value=call)
    name, inner = filled(call.get("name")), call
    for field in ("custom", "function"):
        if isinstance(found := call.get(field), dict):
            name, inner = filled(found.get("name")) or name, found
    arguments = inner.get("arguments", inner.get("input", inner.get("args")))
    made = Call(filled(call.get("id")), name)
    return Part("call", at, None, arguments, made, placement if made.id or made.name else None)


def _calls(message: Message, is_assistant: bool) -> Iterator[Part]:
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        calls = []
    placement = Placement.AFTER_CALL if is_assistant else None
    for at, call in enumerate(calls):
        yield call_part(call, at, placement)
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        made = Call(None, filled(legacy.get("name")), LEGACY)
        arguments = legacy.get("arguments")
        yield Part("call", len(calls), None, arguments, made, placement if made.name else None)


def _answered(message: Message) -> Call | None:
    key = filled(message.get("tool_call_id"))
    name = filled(message.get("name")) or filled(message.get("tool_name"))
    if message["role"] == "function":
        return Call(None, name, LEGACY) if name else None
    # Other agents' `role: tool` messages name their calls deeper inside. A result that cannot be paired must
    # not be taken for an orphan either: only a plain text without any id is Ollama's anonymous result.
    if key or name or isinstance(message.get("content"), str):
        return Call(key, name)
    return None


def _thoughts(message: Message) -> Iterator[Part]:
    """Every proxy has a field of its own for them; some have several that say the same."""
    for field in ("reasoning_content", "reasoning", "thinking"):
        if isinstance(text := message.get(field), str):
            yield from [thought(text)] if text else []
            return
    for field in ("reasoning_details", "thinking_blocks"):
        details = message.get(field)
        for detail in details if isinstance(details, list) else []:
            if isinstance(detail, dict):
                yield thought(detail.get("text", detail.get("summary", detail.get("thinking"))))


def _beside(message: Message) -> Iterator[Part]:
    """What is said and shown beside the content."""
    if refusal := filled(message.get("refusal")):
        yield Part("text", 0, refusal)
    for field in _MEDIA_FIELDS:
        if given := message.get(field):
            for item in given if isinstance(given, list) else [given]:
                yield Part("media", 0, None, item)


CHAT: Final = ChatDialect()


# -- the responses API: a history is a list of items; calls, outputs and reasoning are items of their own

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

_AGENT_MESSAGE: Final = "agent_message"
"""Codex: what another agent wrote to this one, or, as a text alone, what this one wrote."""

_BLANK_PNG: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
"""The output of a computer call must be a screenshot: one pixel."""


_ABOUT: Final = frozenset({"type", "id", "call_id", "status", "name"})
"""Fields of a call that are no argument of it."""


class ResponsesDialect(ItemDialect):
    name = "responses"
    fields = frozenset({"type"})

    def claims(self, message: Message) -> bool:
        kind = message.get("type")
        if not isinstance(kind, str):
            return False
        if kind == "message":
            return isinstance(message.get("role"), str)
        if kind == _AGENT_MESSAGE:
            return "role" not in message and _said_by_agent(message) is not None
        return kind in _CALLS or kind in _OUTPUTS or kind in _SELF_CONTAINED

    def role(self, message: Message) -> Role:
        kind = message["type"]
        if kind == "message":
            return ROLES.get(message["role"], "other")
        if kind == _AGENT_MESSAGE:
            return "other" if isinstance(message.get("content"), list) else "assistant"
        return "tool" if kind in _OUTPUTS else "assistant"

    def parts(self, message: Message) -> list[Part]:
        kind = message["type"]
        if kind == "message":
            return typed_parts(message.get("content"))
        if kind == _AGENT_MESSAGE:
            return [_unsealed(part) for part in typed_parts(_said_by_agent(message))]
        if kind in ("reasoning", "compaction"):
            return list(_thoughts_in(message, kind))
        key = _key(message, kind)
        if kind in _OUTPUTS:
            call = Call(key, filled(message.get("name")), _OUTPUTS[kind])
            return [Part("result", 0, None, _output(message), call, Placement.ANYWHERE if key else None)]
        return list(_call_item(message, kind, key))

    def interrupted(self, message: Message, part: Part) -> Json:
        assert part.call is not None
        return _interrupted(message["type"], part.call.id)


def _said_by_agent(item: Message) -> Json:
    """The content of an `agent_message`; None: it is something else that has this name."""
    fields = (item.get(field) for field in ("content", "text", "message"))
    return next((value for value in fields if isinstance(value, str | list)), None)


def _unsealed(part: Part) -> Part:
    """What only the provider can read has no text, as a sealed thought has none."""
    return Part("thinking", part.at, speaker="other") if type_of(part.value) == "encrypted_content" else part


def _thoughts_in(item: Message, kind: str) -> Iterator[Part]:
    # A compaction is sealed like a thought, but what follows it is no answer to it.
    speaker: Role | None = "other" if kind == "compaction" else None
    found = False
    for field in ("summary", "content"):
        for part in item[field] if isinstance(item.get(field), list) else []:
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                found = True
                yield Part("thinking", 0, part["text"], speaker=speaker)
    if not found:
        yield Part("thinking", speaker=speaker)


def _output(item: Message) -> Json:
    rest = {name: value for name, value in item.items() if name not in ("type", "call_id", "id")}
    return item.get("output", rest)


def _call_item(item: Message, kind: str, key: str | None) -> Iterator[Part]:
    rest = {name: value for name, value in item.items() if name not in _ABOUT}
    picture = rest.pop("result", None) if kind == "image_generation_call" else None
    arguments = next((rest[field] for field in ("arguments", "input", "action") if field in rest), rest)
    name = filled(item.get("name")) or kind.removesuffix("_call")
    call = Call(key, name, _CALLS.get(kind, kind))
    yield Part("call", 0, None, arguments, call, Placement.ANYWHERE if key and kind in _CALLS else None)
    # The provider's own tools have their results in the same item.
    if kind == "mcp_call" and (answer := item.get("error") or item.get("output")) is not None:
        yield Part("result", 0, None, answer, call, is_error=bool(item.get("error")))
    if isinstance(picture, str):
        source = {"media_type": f"image/{item.get('output_format') or 'png'}", "data": picture}
        yield Part("media", 0, None, {"type": "image", "source": source})


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
            # It was not approved.
            refusal = {"approve": False, "reason": INTERRUPTED}
            return {"type": "mcp_approval_response", "approval_request_id": key, **refusal}
        case _:
            return {"type": "function_call_output", "call_id": key, "output": INTERRUPTED}


RESPONSES: Final = ResponsesDialect()
