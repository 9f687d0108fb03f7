"""Whether an agent has something to do, by the last record of its file that tells.

A function for each agent that tells for sure, over one record: "open" (a prompt, a tool call or its result),
"ended" (the next word is the user's), "" (it may be either), None (the record says nothing about it). What an
agent does not write down, as that it asks for a permission, cannot be told: then the turn is open.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from clew.importers.reading.values import items, kind, mapping
from clew.model import Json

Told: TypeAlias = Literal["", "open", "ended"] | None

_CLAUDE_ENDS: Final = frozenset({"end_turn", "stop_sequence", "refusal"})
_CLAUDE_GOES_ON: Final = frozenset({"tool_use", "pause_turn"})
_CLAUDE_ASKS: Final = frozenset({"AskUserQuestion", "ExitPlanMode"})
"""Tools whose result is the answer of the user."""
_CLAUDE_STOPPED: Final = "[Request interrupted by user"
_CLAUDE_LOCAL: Final = ("<command-name>", "<command-message>", "<local-command-", "<bash-")
"""What the user typed for the program, not for the model."""


def claude_code(record: dict[str, Json]) -> Told:
    message = mapping(record.get("message"))
    match record.get("type"):
        case "system":
            return "ended" if record.get("subtype") == "turn_duration" else None
        case "user" | "assistant" if record.get("isMeta") or record.get("isCompactSummary"):
            return None
        case "assistant":
            return _claude_answered(record, message)
        case "user":
            return _claude_asked(message)
    return None


def _claude_answered(record: dict[str, Json], message: dict[str, Json]) -> Told:
    calls = {
        kind(block.get("name"))
        for block in map(mapping, items(message.get("content")))
        if block.get("type") == "tool_use"
    }
    reason = kind(message.get("stop_reason"))
    if record.get("isApiErrorMessage") or calls & _CLAUDE_ASKS:
        return "ended"
    if calls or reason in _CLAUDE_GOES_ON:
        return "open"
    return "ended" if reason in _CLAUDE_ENDS else ""  # an answer comes in several lines


def _claude_asked(message: dict[str, Json]) -> Told:
    content = message.get("content")
    blocks = [{"text": content}] if isinstance(content, str) else list(map(mapping, items(content)))
    if any(block.get("type") == "tool_result" for block in blocks):
        return "open"
    first = next((text for block in blocks if isinstance(text := block.get("text"), str)), "").lstrip()
    if first.startswith(_CLAUDE_STOPPED):
        return "ended"
    return None if first.startswith(_CLAUDE_LOCAL) else "open"


_CODEX_EVENTS: Final[dict[str, Told]] = {
    "task_started": "open",
    "turn_started": "open",
    "user_message": "open",
    "task_complete": "ended",
    "turn_complete": "ended",
    "turn_aborted": "ended",
    "thread_rolled_back": "ended",
}
_CODEX_CALLS: Final = frozenset(
    {
        "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
        "local_shell_call", "web_search_call", "reasoning",
    }
)  # fmt: skip


def codex(type: Json, payload: dict[str, Json]) -> Told:
    """`type` of a line, and its payload."""
    what = kind(payload.get("type"))
    if type == "event_msg":
        if what == "item_completed":
            return "open" if mapping(payload.get("item")).get("type") == "UserMessage" else None
        return _CODEX_EVENTS.get(what)
    if type != "response_item":
        return None
    if what in _CODEX_CALLS:
        return "open"
    if what == "message" and payload.get("role") == "assistant":
        # Older versions do not say when a turn ends.
        return "open" if payload.get("phase") == "commentary" else ""
    return None


def opencode(message: dict[str, Json], parts: list[dict[str, Json]]) -> Told:
    if message.get("role") != "assistant":
        return "open"
    is_asking = any(
        part.get("tool") == "question" and mapping(part.get("state")).get("status") == "running"
        for part in parts
    )
    if is_asking or message.get("error"):
        return "ended"
    if not mapping(message.get("time")).get("completed") or message.get("finish") == "tool-calls":
        return "open"
    return "ended" if message.get("finish") == "stop" and message.get("summary") is not True else ""


_PI_ANSWERS: Final[dict[str, Told]] = {"stop": "ended", "aborted": "ended", "toolUse": "open"}


def pi(record: dict[str, Json]) -> Told:
    message = mapping(record.get("message"))
    if record.get("type") != "message":
        return None
    match message.get("role"):
        case "user" | "toolResult":
            return "open"
        case "assistant":
            return _PI_ANSWERS.get(kind(message.get("stopReason")), "")
    return None
