"""Sessions as the state file of the OpenRouter agent SDK for Go: one JSON document, a full copy a checkpoint.

Of one that came from such a file: the same bytes, but for older versions of the file itself that checkpoints
held. Messages are maps in the SDK, so that their keys are in alphabetical order.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clew.exporters.file import place_of, write_whole
from clew.exporters.programs.shapes import as_chat, go_json, go_time, parse_go_time
from clew.exporters.redact import Redactor, redactor_of
from clew.model import Checkpoint, Json, SessionInfo

if TYPE_CHECKING:
    from clew.session import Session
    from clew.store import Store

_PREFIX: Final = "openrouter:"
_TURN: Final = re.compile(r"-u(\d+)\Z")


def pieces(store: Store, id: str, *, redact: bool | Redactor = False) -> Iterator[bytes]:
    """A document with one session."""
    yield _document(store, [id], redactor_of(redact))


def write(
    store: Store, ids: Iterable[str], path: str | os.PathLike[str], *, redact: bool | Redactor = False
) -> str:
    """One file with these sessions; one that is there is replaced."""
    target: Path = place_of(path)
    write_whole(target, [_document(store, ids, redactor_of(redact))])
    return str(target)


def _document(store: Store, ids: Iterable[str], redactor: Redactor | None) -> bytes:
    sessions: dict[str, Json] = {}
    counters: dict[str, Json] = {}
    for id in ids:
        session = store.get(id)
        metadata = session.info.metadata
        own = _id(session.info)
        sessions[own] = _session(session, own)
        if (count := metadata.get("fork_counter")) is not None:
            counters[own] = count
        if isinstance(lost := metadata.get("fork_counters_of_lost_sessions"), dict):
            counters |= lost
    state: Json = {"sessions": _sorted(sessions, deep=False), "fork_counters": _sorted(counters)}
    return go_json(redactor.value(state, "state") if redactor else state, pretty=True)


def _id(info: SessionInfo) -> str:
    return info.id.removeprefix(_PREFIX)


def _session(session: Session, own: str) -> Json:
    info = session.info
    known = info.metadata if info.id.startswith(_PREFIX) else {}
    kept = session.checkpoints()
    copies: dict[str, Json] = {}
    files: dict[str, Json] = {}
    for checkpoint in kept:
        held = _files(checkpoint)
        if held is not None:
            files[checkpoint.name] = _sorted(held)
        if held is None or not checkpoint.state.get("only_files"):
            copies[checkpoint.name] = _as_messages(session.messages(at=checkpoint))
    messages = _as_messages(_view(session))
    is_same = _is_as_it_came(session, known)
    return {
        "ID": own,
        "CreatedAt": known.get("created_at") or go_time(info.created_at),
        "UpdatedAt": known["updated_at"] if is_same else go_time(info.updated_at),
        "Messages": messages or None,
        "UserTurns": known.get("user_turns") if is_same else _turns(info, known, kept),
        "Checkpoints": _sorted(copies, deep=False),
        "FileCheckpoints": _sorted(files, deep=False),
    }


def _view(session: Session) -> list[dict[str, Json]]:
    """The whole history; of a compacted one what a model would get: the SDK sends what the file holds."""
    for entry in session.entries():
        if entry.kind in ("compaction", "truncation"):
            return list(session.context())
    return session.messages()


def _as_messages(messages: Iterable[dict[str, Json]]) -> list[Json]:
    return [_sorted(message) for each in messages for message in _chat(each)]


def _chat(message: dict[str, Json]) -> list[dict[str, Json]]:
    """What is in the shape of OpenAI's chats stays as it is: the SDK passes it on."""
    return [message] if _is_chat(message) else as_chat(message)


def _is_chat(message: dict[str, Json]) -> bool:
    content = message.get("content")
    if message.get("role") not in ("system", "user", "assistant", "tool") or "parts" in message:
        return False
    if content is None or isinstance(content, str):
        return message.get("type") is None
    return isinstance(content, list) and all(
        isinstance(part, dict) and part.get("type") in ("text", "image_url", "input_audio", "file")
        for part in content
    )


def _files(checkpoint: Checkpoint) -> dict[str, Json] | None:
    """The files that the SDK had kept with a checkpoint."""
    files = checkpoint.state.get("files") if isinstance(checkpoint.state, dict) else None
    return files if isinstance(files, dict) else None


def _is_as_it_came(session: Session, known: dict[str, Json]) -> bool:
    last = next(session.entries(last=1), None)
    moment = parse_go_time(known.get("updated_at"))
    return moment is not None and (last is None or last.time <= moment) and not session.moves()


def _turns(info: SessionInfo, known: dict[str, Json], kept: Iterable[Checkpoint]) -> int:
    """How many turns there were, those that a rewind took back included: the next one must not have the name
    of a checkpoint."""
    told = known.get("user_turns")
    named = (int(found[1]) for one in kept if (found := _TURN.search(one.name)) and len(found[1]) < 10)
    return max([info.user_turns, told if isinstance(told, int) else 0, *named])


def _sorted(value: Json, *, deep: bool = True) -> Json:
    """With keys in the order in which Go writes those of a map."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) if deep else value[key] for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) and deep else value
