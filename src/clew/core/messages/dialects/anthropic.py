"""Anthropic's messages: calls, results, thinking and media are blocks of `content`.

Claude Code keeps them in the lines of its transcripts, with what the program knows around them.
"""

from __future__ import annotations

from typing import ClassVar, Final

from clew.core.messages.dialects.base import (
    INTERRUPTED,
    MEDIA_TYPES,
    BlockDialect,
    Call,
    Part,
    Placement,
    Role,
    WrappedDialect,
    is_blank,
    parts_of,
    type_of,
    typed_part,
    typed_parts,
)
from clew.core.messages.text import without
from clew.model import Json, Message

_OURS: Final = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use"}
)
_SERVER_CALLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})
_SERVER: Final = "server"
"""The kind of calls that the provider runs and answers itself, in the assistant's own message."""


class AnthropicDialect(BlockDialect):
    name = "anthropic"
    is_plain_without_calls = True

    def claims(self, message: Message) -> bool:
        content = message.get("content")
        if not isinstance(content, list) or message.get("role") not in ("user", "assistant"):
            return False
        # Some proxies write their calls twice, here and as `tool_calls`; the results then are chat messages.
        return not message.get("tool_calls") and any(map(_is_ours, content))

    def parts(self, message: Message) -> list[Part]:
        content = message.get("content")
        if not isinstance(content, list):
            return typed_parts(content)
        is_user = message.get("role") == "user"
        return [self.part(block, at, is_user) for at, block in enumerate(content)]

    def part(self, block: Json, at: int, is_user: bool) -> Part:
        part = typed_part(block, at)
        call = part.call
        if call is None or call.id is None:
            return part
        kind = block["type"]
        if kind == ("tool_result" if is_user else "tool_use"):
            placement = Placement.AFTER_TURN
        elif not is_user and (kind in _SERVER_CALLS or kind.endswith("_tool_result")):
            call, placement = Call(call.id, call.name, _SERVER), Placement.INSIDE
        else:
            return part
        return Part(part.kind, at, None, part.value, call, placement, part.is_error)

    def interrupted(self, message: Message, part: Part) -> Json:
        call = part.call
        assert call is not None
        if call.kind == _SERVER:
            return _interrupted_on_server(message["content"][part.at], call)
        return {"type": "tool_result", "tool_use_id": call.id, "content": INTERRUPTED, "is_error": True}


def _is_ours(block: Json) -> bool:
    kind = type_of(block)
    return kind in _OURS or kind.endswith("_tool_result")


def _interrupted_on_server(block: Json, call: Call) -> Json:
    if block["type"] == "mcp_tool_use":
        text = {"type": "text", "text": INTERRUPTED}
        return {"type": "mcp_tool_result", "tool_use_id": call.id, "is_error": True, "content": [text]}
    # One result type for each tool, except that both kinds of tool search share theirs.
    name = call.name or "web_search"
    result = "tool_search_tool_result" if name.startswith("tool_search") else f"{name}_tool_result"
    error = {"type": f"{result}_error", "error_code": "unavailable"}
    return {"type": result, "tool_use_id": call.id, "content": error}


ANTHROPIC: Final = AnthropicDialect()


# -- Claude Code

_SPOKEN: Final = ("user", "assistant")
_TELLING: Final = ("subtype", "operation", "customTitle", "aiTitle", "lastPrompt", "tag", "summary", "mode")
"""Fields that tell a record from others of its type."""


class ClaudeCodeDialect(WrappedDialect):
    """Lines of a transcript. Most are records without a message: titles, attachments, hooks, costs.

    One attachment is a message: the prompt that the model got while it worked.
    """

    name = "claude-code"
    fields = frozenset({"message", "sessionId"})
    around: ClassVar[dict[str, Json]] = {"type": "user"}

    def claims(self, message: Message) -> bool:
        return bool(self.unwrap(message)) or _is_record(message)

    def unwrap(self, message: Message) -> dict[str, Json]:
        inner = message.get("message")
        if isinstance(inner, dict) and message.get("type") in _SPOKEN and inner.get("role") in _SPOKEN:
            return inner
        return queued_in(message)

    def wrap(self, message: dict[str, Json], inner: dict[str, Json]) -> dict[str, Json]:
        if queued_in(message):
            return {**message, "attachment": {**message["attachment"], "prompt": inner["content"]}}
        return {**message, "message": inner}

    def role(self, message: Message) -> Role:
        if not (inner := self.unwrap(message)):
            return "other"
        role = self.wrapped.role(inner)
        return "other" if role == "user" and not is_human(message, inner) else role

    def parts(self, message: Message) -> list[Part]:
        if inner := self.unwrap(message):
            return self.wrapped.parts(inner)
        # Of records only what they are: the rest is for the program, and exports as JSON have it.
        return [Part("other", 0, _note_in(message))]


def queued_in(record: Message) -> dict[str, Json]:
    """The message that the model got while it worked: a prompt, or what a task in the background told. Empty:
    the record is another one."""
    attachment = record.get("attachment")
    is_queued = record.get("type") == "attachment" and type_of(attachment) == "queued_command"
    if not is_queued or not isinstance(attachment, dict):
        return {}
    prompt = attachment.get("prompt")
    is_said = not is_blank(prompt) if isinstance(prompt, str) else isinstance(prompt, list) and bool(prompt)
    return {"role": "user", "content": prompt} if is_said else {}


def _is_record(message: Message) -> bool:
    return (
        isinstance(message.get("sessionId"), str)
        and isinstance(message.get("type"), str)
        and message.keys().isdisjoint(("role", "message"))
    )


def _note_in(record: Message) -> str:
    """A record in a few words: its type, and what tells it from others of this type."""
    told = [record.get(field) for field in _TELLING] + [type_of(record.get("attachment"))]
    words = [word for word in told if isinstance(word, str) and word]
    return ": ".join([str(record.get("type")), *words[:1]])


CLAUDE_CODE: Final = ClaudeCodeDialect(ANTHROPIC)


# -- who speaks in a user line of Claude Code: a person, or the program in the role of the user

_MARKS: Final = (
    "<command-name>",
    "<command-message>",
    "<command-args>",
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<local-command-caveat>",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<task-notification>",
    "<teammate-message",
    "<user-memory-input>",
    "[Request interrupted by user",
    "Caveat: The messages below were generated by the user while running local commands",
    "This session is being continued from a previous conversation",
)
_REMINDER: Final = "system-reminder"
_FLAGS: Final = (
    "isMeta",
    "isSidechain",
    "isCompactSummary",
    "isVisibleInTranscriptOnly",
    "toolUseResult",
    "teamName",
)


def is_human(beside: Message, message: Message) -> bool:
    """Whether a person said it: words of their own, or a picture. `beside`: what the line holds with it."""
    if beside and (any(map(beside.get, _FLAGS)) or not _is_typed(beside.get("attachment"))):
        return False
    content = message.get("content")
    if isinstance(content, str):
        return _is_own(content)
    said = False
    for part in parts_of(message):
        kind = type_of(part)
        if kind == "tool_result":
            return False
        said = said or kind in MEDIA_TYPES or (kind == "text" and _is_own(str(part.get("text"))))
    return said


def _is_typed(attachment: Json) -> bool:
    """Whether a person typed what was queued; also tasks in the background and other sessions queue."""
    if not isinstance(attachment, dict):
        return True
    origin = attachment.get("origin")
    by = origin.get("kind") if isinstance(origin, dict) else origin
    mode = attachment.get("commandMode")
    return not attachment.get("isMeta") and mode in (None, "prompt") and by in (None, "human")


def _is_own(text: str) -> bool:
    own = without(text, _REMINDER).strip()
    return bool(own) and not own.startswith(_MARKS)
