"""A message of OpenCode and its parts, as the messages that a model was sent: words, calls, then results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from clew.importers.contract import SourceUsage
from clew.importers.reading.values import count, kind, mapping, money, plain_name, text, when, without
from clew.model import Json

_SPOKEN: Final = frozenset({"text", "reasoning"})
_ASKED: Final = frozenset({"text", "file", "subtask"})
"""What the user gave: words, files, a task for a subagent."""

_ABORTED: Final = "MessageAbortedError"


class StoredMessage(NamedTuple):
    """A message without its ids, whichever of the three forms it was read from."""

    id: str
    data: dict[str, Json]
    parts: list[tuple[str, dict[str, Json]]]


class Said(NamedTuple):
    suffix: str
    """Of the uid: the first message has none."""
    message: dict[str, Json]
    kept: dict[str, Json]
    """What an export needs to write the rows again. `ids` are those of the texts, thoughts and files. An
    entry that goes on with a message has its `messageID`, the first one all that the message itself says."""
    human: bool | None = None


def is_compaction(stored: StoredMessage) -> bool:
    """The answer to a request for a summary, if it came to one."""
    answered = stored.data.get("role") == "assistant" and stored.data.get("summary") is True
    return answered and bool(summary_text(stored))


def summary_text(stored: StoredMessage) -> str:
    told = [text(part.get("text")) for _, part in stored.parts if part.get("type") == "text"]
    return "\n".join(filter(None, told))


def asks_for_summary(stored: StoredMessage) -> bool:
    """A request without words: the program made it, not the user."""
    kinds = {kind(part.get("type")) for _, part in stored.parts}
    return stored.data.get("role") == "user" and "compaction" in kinds and not kinds & {"text", "file"}


def said(stored: StoredMessage) -> Iterator[Said]:
    if stored.data.get("role") == "assistant":
        yield from _answered(stored)
    else:
        yield from _asked(stored)


def usage_of(stored: StoredMessage) -> SourceUsage | None:
    data = stored.data
    tokens = mapping(data.get("tokens"))
    cache = mapping(tokens.get("cache"))
    read, write = count(cache.get("read")), count(cache.get("write"))
    fresh, spoken, thought = (count(tokens.get(name)) for name in ("input", "output", "reasoning"))
    if not (read or write or fresh or spoken or thought):
        return None
    # Reasoning stands beside the output, unless the sum says otherwise.
    inside = count(tokens.get("total")) == fresh + spoken + read + write
    return SourceUsage(
        id=stored.id,
        model=plain_name(data.get("modelID")),
        vendor=plain_name(data.get("providerID")),
        input_tokens=fresh + read + write,
        output_tokens=spoken if inside else spoken + thought,
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=thought,
        cost=money(data.get("cost")),
        at=when(mapping(data.get("time")).get("created")),
    )


def _asked(stored: StoredMessage) -> Iterator[Said]:
    """What the human wrote; then, as messages of their own, what the program wrote in his name."""
    typed: list[tuple[str, Json]] = []
    injected: list[tuple[str, Json]] = []
    beside: list[Json] = []
    for name, part in stored.parts:
        if kind(part.get("type")) not in _ASKED:
            beside.append({"id": name, **part})
        elif part.get("synthetic") or part.get("ignored"):
            injected.append((name, part))
        else:
            typed.append((name, part))
    kept = {**stored.data, "id": stored.id, **({"parts": beside} if beside else {})}
    if typed:
        content = [part for _, part in typed]
        yield Said("", {"role": "user", "content": content}, {**kept, "ids": _names(typed)})
        kept = {"messageID": stored.id}
    if injected or not typed:
        suffix = "/synthetic" if typed else ""
        content = [part for _, part in injected]
        kept = {**kept, "ids": _names(injected)}
        yield Said(suffix, {"role": "user", "content": content}, kept, human=False)


def _answered(stored: StoredMessage) -> Iterator[Said]:
    kept = {**stored.data, "id": stored.id}
    for number, step in enumerate(_steps(stored)):
        mark = f"/{number}" if number else ""
        content, beside = _spoken(step)
        results = list(filter(None, (_result(name, part) for name, part in step)))
        rest = [_rest_of_call(name, part) for name, part in step if part.get("type") == "tool"]
        if not results:
            beside += rest
        if beside:
            kept["parts"] = beside
        if ids := _names((name, part) for name, part in step if kind(part.get("type")) in _SPOKEN):
            kept["ids"] = ids
        failure = None if content else _failure(stored.data)
        yield Said(mark, failure or {"role": "assistant", "content": content or ""}, kept)
        kept = {"messageID": stored.id}
        if results:
            yield Said(f"{mark}/results", {"role": "user", "content": results}, {**kept, "parts": rest})


def _failure(data: dict[str, Json]) -> dict[str, Json] | None:
    """Instead of an answer without a word, why there is none. The program does not show it to the model."""
    error = mapping(data.get("error"))
    if not error:
        return None
    told = text(mapping(error.get("data")).get("message")) or text(error.get("name")) or "an unknown error"
    said = "The answer was aborted." if error.get("name") == _ABORTED else f"No answer: {told}"
    return {"role": "system", "content": said, "notice": True}


def _names(parts: Iterable[tuple[str, Json]]) -> list[Json]:
    return [name for name, _ in parts]


def _steps(stored: StoredMessage) -> list[list[tuple[str, dict[str, Json]]]]:
    """Older versions keep several calls of the model in one message: words behind a tool begin the next."""
    steps: list[list[tuple[str, dict[str, Json]]]] = [[]]
    for name, part in stored.parts:
        called = any(earlier.get("type") == "tool" for _, earlier in steps[-1])
        if called and kind(part.get("type")) in _SPOKEN:
            steps.append([])
        steps[-1].append((name, part))
    return steps


def _spoken(step: list[tuple[str, dict[str, Json]]]) -> tuple[list[Json], list[Json]]:
    content: list[Json] = []
    beside: list[Json] = []
    for name, part in step:
        match part.get("type"):
            case "text":
                content.append(part)
            case "reasoning":
                content.append(
                    {"type": "thinking", "thinking": part.get("text", ""), **without(part, ("type", "text"))}
                )
            case "tool":
                state = mapping(part.get("state"))
                call = {
                    "id": part.get("callID") or name,
                    "name": part.get("tool"),
                    "input": state.get("input"),
                }
                content.append({"type": "tool_use", **call})
            case _:
                beside.append({"id": name, **part})
    return content, beside


def _result(name: str, part: dict[str, Json]) -> Json:
    state = mapping(part.get("state"))
    if part.get("type") != "tool" or state.get("status") not in ("completed", "error"):
        return None
    failed = state.get("status") == "error"
    told = state.get("error" if failed else "output")
    result = {"type": "tool_result", "tool_use_id": part.get("callID") or name, "content": told}
    return {**result, "is_error": True} if failed else result


def _rest_of_call(name: str, part: dict[str, Json]) -> Json:
    state = without(mapping(part.get("state")), ("input", "output"))
    return {"id": name, **part, "state": state}
