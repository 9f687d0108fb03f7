"""Messages of Gemini CLI, in the shape of the Gemini API: what was said, then what the tools answered."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from clew.core.messages.dialects.google import DISPLAYED, typed_in
from clew.core.messages.repair import NOTICE
from clew.importers.contract import SourceEntry, SourceUsage
from clew.importers.reading.values import count, items, mapping, plain_name, text, without
from clew.model import Json

_TOLD_OF_CALLS: Final = frozenset({"args", "result"})
"""What is left are status, times and what was shown, such as the text of a file before and after an edit."""
_NOT_PROMPTS: Final = ("/", "?", "<session_context>", "<hook_context>")
"""How the text begins that stands under the name of the human and is none of his prompts."""


def entries_of(
    record: dict[str, Json], uid: str, parent: str | None, at: datetime | None, *, is_agent: bool
) -> list[SourceEntry]:
    """A message, and behind it what the tools answered. `is_agent`: a model wrote the prompts."""
    if record.get("type") == "gemini":
        return _answer_and_results(record, uid, parent, at)
    parts = _parts(record.get("content"))
    is_notice = record.get("type") != "user"
    message: dict[str, Json] = {"role": "system" if is_notice else "user", "parts": parts}
    if is_notice:
        message[NOTICE] = True
    elif displayed := _displayed(record):
        message[DISPLAYED] = displayed
    human = None if is_notice or (_is_prompt(typed_in(message) or _texts(parts)) and not is_agent) else False
    notes = {"source": without(record, ("content",))}
    return [
        SourceEntry(uid=uid, parent=parent, message=message, at=at, human=human, notes=notes, decoded=True)
    ]


def _answer_and_results(
    record: dict[str, Json], uid: str, parent: str | None, at: datetime | None
) -> list[SourceEntry]:
    kept = without(record, ("content", "thoughts", "toolCalls"))
    calls = [call for call in items(record.get("toolCalls")) if isinstance(call, dict)]
    answer = SourceEntry(
        uid=uid,
        parent=parent,
        message={"role": "model", "parts": _answer(record, calls)},
        at=at,
        usage=_usage(record, uid, at),
        notes={"source": kept},
        decoded=True,
    )
    return [answer, *_answered(calls, uid, at)]


def calls_of(record: dict[str, Json], uid: str, parent: str, at: datetime | None) -> list[SourceEntry]:
    """The calls of an answer whose words are a message of their own, and what the tools answered."""
    calls = [call for call in items(record.get("toolCalls")) if isinstance(call, dict)]
    own = {name: record[name] for name in ("id", "timestamp", "type") if name in record}
    asked = SourceEntry(
        uid=uid,
        parent=parent,
        message={"role": "model", "parts": [{"functionCall": _call(call)} for call in calls]},
        at=at,
        notes={"source": own},
        decoded=True,
    )
    return [asked, *_answered(calls, uid, at)]


def _answered(calls: list[dict[str, Json]], uid: str, at: datetime | None) -> list[SourceEntry]:
    results = _results(calls)
    if not results:
        return []
    notes: dict[str, Json] = {"source": {"toolCalls": [without(call, _TOLD_OF_CALLS) for call in calls]}}
    message: dict[str, Json] = {"role": "user", "parts": results}
    return [SourceEntry(uid=f"{uid}/results", parent=uid, message=message, at=at, notes=notes, decoded=True)]


# -- how far an answer is


def has_words(record: dict[str, Json]) -> bool:
    return any(part != {"text": ""} for part in _parts(record.get("content")))


def has_calls(record: dict[str, Json]) -> bool:
    return any(isinstance(call, dict) for call in items(record.get("toolCalls")))


def has_results(record: dict[str, Json]) -> bool:
    return any(mapping(call).get("result") is not None for call in items(record.get("toolCalls")))


def is_open(record: dict[str, Json]) -> bool:
    """Whether the program may write the message again, as long as no other one follows it. Answers come
    first, then what they cost, then the calls in them, with their results; and the calls of the next round
    are added to the same answer, unless the model thought or said something between. Only words with their
    cost are taken for all: they are, in most answers."""
    if record.get("type") != "gemini":
        return False
    return has_calls(record) or not (has_words(record) and mapping(record.get("tokens")))


def _texts(parts: list[Json]) -> list[str]:
    return [part["text"] for part in parts if isinstance(part.get("text"), str)]


def _is_prompt(texts: list[str]) -> bool:
    return not next(iter(texts), "").lstrip().startswith(_NOT_PROMPTS)


def _parts(content: Json) -> list[Json]:
    if isinstance(content, str):
        return [{"text": content}]
    if isinstance(content, dict):
        return [content]
    return [part if isinstance(part, dict) else {"text": str(part)} for part in items(content)]


def _displayed(record: dict[str, Json]) -> list[Json]:
    """What the user typed, where the model got something else for it."""
    shown = record.get(DISPLAYED)
    parts = [{"text": part} if isinstance(part, str) else part for part in items(shown) or [shown]]
    return [part for part in parts if isinstance(text(mapping(part).get("text")), str)]


def _answer(record: dict[str, Json], made: list[dict[str, Json]]) -> list[Json]:
    said = [part for part in _parts(record.get("content")) if part != {"text": ""}]
    if any(part.get("thought") or "functionCall" in part for part in said):
        return said  # a list that replaced all messages: it has the parts as the model wrote them
    thoughts = [_thought(mapping(thought)) for thought in items(record.get("thoughts"))]
    calls: list[Json] = [{"functionCall": _call(call)} for call in made]
    return [*thoughts, *said, *calls] or [{"text": ""}]


def _thought(thought: dict[str, Json]) -> Json:
    told = [text(thought.get("subject")), text(thought.get("description"))]
    return {"text": "\n".join(filter(None, told)), "thought": True}


def _call(call: dict[str, Json]) -> Json:
    return {name: call[name] for name in ("id", "name", "args") if name in call}


def _results(calls: list[dict[str, Json]]) -> list[Json]:
    parts: list[Json] = []
    for call in calls:
        result = call.get("result")
        if result is None:
            continue
        answered = _parts(result)
        if not any("functionResponse" in part for part in answered):
            same = {name: call[name] for name in ("id", "name") if name in call}
            answered = [{"functionResponse": {**same, "response": {"output": result}}}]
        parts += answered
    return parts


def _usage(record: dict[str, Json], uid: str, at: datetime | None) -> SourceUsage | None:
    tokens = mapping(record.get("tokens"))
    told = {name: count(value) for name, value in tokens.items()}
    if not any(told.values()):
        return None
    thoughts = told.get("thoughts", 0)
    return SourceUsage(
        id=plain_name(record.get("id")) or uid,
        model=plain_name(record.get("model")),
        vendor="google",
        input_tokens=told.get("input", 0) + told.get("tool", 0),
        output_tokens=told.get("output", 0) + thoughts,
        cache_read_tokens=told.get("cached", 0),
        reasoning_tokens=thoughts,
        at=at,
    )
