"""OpenAI chat completions, and every plain `{"role", "content"}` message; also Ollama's calls without ids."""

from __future__ import annotations

from clew.core.messages.dialects.content import filled, is_blank, media_in, parts_of, texts_in
from clew.core.messages.dialects.contract import INTERRUPTED, ROLES, Call, Placement, Role, Slot
from clew.core.messages.dialects.items import ItemDialect
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
