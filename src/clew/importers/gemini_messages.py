"""A message of Gemini CLI in the shape of the Gemini API: what was said, then what the tools answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from clew.importers.contract import SourceEntry, SourceUsage
from clew.importers.loose import count, items, mapping, plain_name, text, when, without
from clew.model import Json

_NOT_PROMPTS: Final = ("/", "?", "<session_context>", "<hook_context>")
"""How the text begins that stands under the name of the human and is none of his prompts."""


def entries_of(record: dict[str, Json], uid: str, parent: str | None) -> Iterator[SourceEntry]:
    at = when(record.get("timestamp"))
    if record.get("type") == "gemini":
        kept = without(record, ("content", "thoughts", "toolCalls"))
        message = {"role": "model", "parts": _answer(record)}
        yield SourceEntry(
            uid=uid, parent=parent, message=message, at=at, usage=_usage(record, uid), notes={"source": kept}
        )
        if results := _results(record):
            notes = {"source": {"toolCalls": _rest_of_calls(record)}}
            message = {"role": "user", "parts": results}
            yield SourceEntry(uid=results_of(uid), parent=uid, message=message, at=at, notes=notes)
        return
    parts = _parts(record.get("content"))
    is_notice = record.get("type") != "user"
    message = {"role": "system" if is_notice else "user", "parts": parts}
    human = None if is_notice or _is_prompt(parts) else False
    notes = {"source": without(record, ("content",))}
    yield SourceEntry(uid=uid, parent=parent, message=message, at=at, human=human, notes=notes)


def results_of(uid: str) -> str:
    return f"{uid}/results"


def has_results(record: dict[str, Json]) -> bool:
    return record.get("type") == "gemini" and bool(_results(record))


def _is_prompt(parts: list[Json]) -> bool:
    first = next((part["text"] for part in parts if isinstance(part.get("text"), str)), "")
    return not first.lstrip().startswith(_NOT_PROMPTS)


def _parts(content: Json) -> list[Json]:
    if isinstance(content, str):
        return [{"text": content}]
    if isinstance(content, dict):
        return [content]
    return [part if isinstance(part, dict) else {"text": str(part)} for part in items(content)]


def _answer(record: dict[str, Json]) -> list[Json]:
    thoughts = [_thought(mapping(thought)) for thought in items(record.get("thoughts"))]
    said = [part for part in _parts(record.get("content")) if part != {"text": ""}]
    calls: list[Json] = [{"functionCall": _call(call)} for call in _calls(record)]
    return [*thoughts, *said, *calls] or [{"text": ""}]


def _thought(thought: dict[str, Json]) -> Json:
    told = [text(thought.get("subject")), text(thought.get("description"))]
    return {"text": "\n".join(filter(None, told)), "thought": True}


def _calls(record: dict[str, Json]) -> list[dict[str, Json]]:
    return [call for call in items(record.get("toolCalls")) if isinstance(call, dict)]


def _call(call: dict[str, Json]) -> Json:
    return {name: call[name] for name in ("id", "name", "args") if name in call}


def _rest_of_calls(record: dict[str, Json]) -> list[Json]:
    """Status, times and what was shown, such as the text of a file before and after an edit."""
    return [without(call, ("args", "result")) for call in _calls(record)]


def _results(record: dict[str, Json]) -> list[Json]:
    parts: list[Json] = []
    for call in _calls(record):
        result = call.get("result")
        if result is None:
            continue
        answered = _parts(result)
        if not any("functionResponse" in part for part in answered):
            same = {name: call[name] for name in ("id", "name") if name in call}
            answered = [{"functionResponse": {**same, "response": {"output": result}}}]
        parts += answered
    return parts


def _usage(record: dict[str, Json], uid: str) -> SourceUsage | None:
    tokens = mapping(record.get("tokens"))
    if not any(count(value) for value in tokens.values()):
        return None
    return SourceUsage(
        id=plain_name(record.get("id")) or uid,
        model=plain_name(record.get("model")),
        vendor="google",
        input_tokens=count(tokens.get("input")) + count(tokens.get("tool")),
        output_tokens=count(tokens.get("output")) + count(tokens.get("thoughts")),
        cache_read_tokens=count(tokens.get("cached")),
        reasoning_tokens=count(tokens.get("thoughts")),
        at=when(record.get("timestamp")),
    )
