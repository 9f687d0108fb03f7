"""Sessions of Continue: `~/.continue/sessions/<id>.json`, a whole document each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from clew.importers.contract import OnBytes, OnProblem, SourceEntry, SourceSession, SourceUsage
from clew.importers.reading.files import has_keys
from clew.importers.reading.seen import entry_of
from clew.importers.reading.values import (
    count,
    digest,
    document,
    items,
    mapping,
    money,
    plain_name,
    prompt,
    session_id,
    text,
    unreadable,
    version,
    when,
    without,
)
from clew.model import Json

NAME: Final = "continue"

_APART: Final = frozenset({"anthropic", "bedrock"})
"""Providers of which it tells the prompt without its cache."""
_LIST: Final = "sessions.json"
_TOLD: Final = frozenset({"sessionId", "title", "workspaceDirectory", "history", "chatModelTitle"})


def recognises(path: Path, beginning: bytes) -> bool:
    return has_keys(beginning, "sessionId", "history") and not has_keys(beginning, "projectHash")


def known_places(home: Path) -> list[Path]:
    return [home / ".continue" / "sessions"]


def files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = [file for file in path.glob("*.json") if file.name != _LIST]
    return sorted(found, key=lambda file: (file.stat().st_mtime, file.name))


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    on_bytes(path.stat().st_size)
    try:
        whole = mapping(document(path))
    except (ValueError, RecursionError) as exc:
        on_problem(unreadable(path, exc))
        return
    key = text(whole.get("sessionId")) or path.stem
    created = _created(path, key)
    model, vendor = _model(whole)
    usage = _usage(key, whole, model, vendor)
    yield SourceSession(
        id=session_id(NAME, key),
        aliases=(key,),
        entries=_entries([mapping(item) for item in items(whole.get("history"))], created),
        title=plain_name(whole.get("title")),
        workspace=_folder(plain_name(whole.get("workspaceDirectory"))),
        model=model,
        vendor=vendor,
        created_at=created,
        metadata=without(whole, _TOLD),
        usage=lambda: [usage] if usage else [],
    )


def _entries(history: list[dict[str, Json]], at: datetime) -> Iterator[SourceEntry]:
    """All at one time: messages have none."""
    answered = {text(mapping(item.get("message")).get("toolCallId")) for item in history}
    parent: str | None = None
    for item in history:
        stored = mapping(item.get("message"))
        uid = version(parent, str(stored.get("role")), digest(stored))
        message, rest = _converted(stored)
        kept = {**without(item, ("message", "conversationSummary")), **rest}
        notes = {"source": kept} if kept else {}
        yield SourceEntry(uid=uid, parent=parent, message=message, at=at, notes=notes)
        parent = uid
        for result in _results(item, answered):
            name = version(parent, "tool", digest(result))
            yield SourceEntry(uid=name, parent=parent, message=result, at=at)
            parent = name
        if summary := text(item.get("conversationSummary")):
            name = version(parent, "summary", digest(summary))
            yield SourceEntry(uid=name, parent=parent, message={"text": summary}, kind="compaction", at=at)
            parent = name


def _converted(stored: dict[str, Json]) -> tuple[dict[str, Json], dict[str, Json]]:
    """OpenAI's shape, which Continue writes in camel case."""
    content = stored.get("content")
    match stored.get("role"):
        case "assistant" if items(stored.get("toolCalls")):
            message = {"role": "assistant", "content": content, "tool_calls": stored["toolCalls"]}
            return message, without(stored, ("role", "content", "toolCalls"))
        case "tool":
            message = {"role": "tool", "tool_call_id": stored.get("toolCallId"), "content": content}
            return message, without(stored, ("role", "content", "toolCallId"))
        case "thinking":
            message = {"role": "assistant", "content": "", "reasoning_content": content}
            return message, without(stored, ("content",))
        case _:
            return stored, {}


def _results(item: dict[str, Json], answered: set[str | None]) -> Iterator[dict[str, Json]]:
    """What the tools gave back, where no message of its own tells it."""
    for state in map(mapping, items(item.get("toolCallStates"))):
        call = text(state.get("toolCallId"))
        if call is None or call in answered or state.get("output") is None:
            continue
        told = [text(mapping(part).get("content")) for part in items(state["output"])]
        yield {"role": "tool", "tool_call_id": call, "content": "\n\n".join(filter(None, told))}


def _model(whole: dict[str, Json]) -> tuple[str | None, str | None]:
    """The model that the session names, else that of the last call; and who was called."""
    logs = [
        mapping(log) for item in items(whole.get("history")) for log in items(mapping(item).get("promptLogs"))
    ]
    last = logs[-1] if logs else {}
    model = plain_name(whole.get("chatModelTitle")) or plain_name(last.get("modelTitle"))
    return model, plain_name(last.get("modelProvider"))


def _usage(key: str, whole: dict[str, Json], model: str | None, vendor: str | None) -> SourceUsage | None:
    """Only the sum of a session is known."""
    told = mapping(whole.get("usage"))
    details = mapping(told.get("promptTokensDetails"))
    sent, received = count(told.get("promptTokens")), count(told.get("completionTokens"))
    read, write = count(details.get("cachedTokens")), count(details.get("cacheWriteTokens"))
    cost = money(told.get("totalCost"))
    if not (sent or received or cost):
        return None
    return SourceUsage(
        id=f"{session_id(NAME, key)}:total",
        model=model,
        vendor=vendor,
        input_tokens=prompt(sent, read + write, is_apart=vendor in _APART),
        output_tokens=received,
        cache_read_tokens=read,
        cache_write_tokens=write,
        cost=cost,
        is_sum=True,
    )


def _folder(address: str | None) -> str | None:
    if address is None or not address.startswith("file:"):
        return address
    return unquote(urlsplit(address).path) or None


def _created(path: Path, key: str) -> datetime:
    """Only the list of sessions has dates. Without it, the session is at least as old as its file."""
    own = mapping(entry_of(path.parent / _LIST, key, listed))
    return when(own.get("dateCreated")) or datetime.fromtimestamp(path.stat().st_mtime, UTC)


def listed(path: str, key: str) -> Json:
    """What the list of sessions says of one of them."""
    try:
        sessions = items(document(Path(path)))
    except (OSError, ValueError, RecursionError):
        return {}
    return next((mapping(item) for item in sessions if mapping(item).get("sessionId") == key), {})
