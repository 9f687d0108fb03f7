"""A session as picoclaw keeps it: `<name>.jsonl`, a message a line, and `<name>.meta.json` beside it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clew.errors import InvalidError
from clew.exporters.file import appearing, place_of
from clew.exporters.programs.shapes import as_chat, go_json, go_time, parse_go_time
from clew.exporters.redact import Redactor, redactor_of
from clew.model import Entry, Json, SessionInfo

if TYPE_CHECKING:
    from clew.session import Session
    from clew.store import Store

_LONGEST: Final = 230
"""Of a name, in bytes: most file systems take 255 with all suffixes."""
_UNSAFE: Final = str.maketrans(":/\\", "___")


def pieces(store: Store, id: str, *, redact: bool | Redactor = False) -> Iterator[bytes]:
    """The log, without what stands beside it."""
    redactor = redactor_of(redact)
    for entry in store.get(id).entries():
        if entry.kind == "message":
            for message in as_chat((redactor.entry(entry) if redactor else entry).message):
                yield go_json(message) + b"\n"


def meta(store: Store, id: str, *, redact: bool | Redactor = False) -> bytes:
    """What stands beside the log: where the model's view begins, summary, dates, scope, aliases."""
    session = store.get(id)
    info = session.info
    skip, count = _counts(session)
    told: dict[str, Json] = {
        "key": _key(info),
        "summary": session.summary or "",
        "skip": skip,
        "count": count,
    }
    told["created_at"] = info.metadata.get("created_at") or go_time(info.created_at)
    told["updated_at"] = _updated(session)
    if "scope" in info.metadata:
        told["scope"] = info.metadata["scope"]
    # The key is an alias here, and none there.
    if aliases := [alias for alias in info.aliases if alias != told["key"]]:
        told["aliases"] = aliases
    redactor = redactor_of(redact)
    return go_json(redactor.value(told, "meta") if redactor else told, pretty=True)


def write(
    store: Store,
    ids: Iterable[str],
    directory: str | os.PathLike[str],
    *,
    redact: bool | Redactor = False,
) -> list[str]:
    """Both files of each session; the paths of the logs. Raises InvalidError when two would be the same."""
    names: dict[str, str] = {}
    for id in ids:
        name = _file_name(_key(store.get(id).info))
        if name in names:
            both = f"{names[name]!r} and {id!r}"
            raise InvalidError(f"picoclaw keeps {both} in one file, {name}.jsonl; export them to two places")
        names[name] = id
    logs = {Path(directory, f"{name}.jsonl"): id for name, id in names.items()}
    for log, id in logs.items():
        write_file(store, id, place_of(log), redact=redact)
    return [str(log) for log in logs]


def write_file(store: Store, id: str, target: Path, *, redact: bool | Redactor = False) -> None:
    """The log, and its meta beside it."""
    beside = target.with_name(f"{target.name.removesuffix('.jsonl')}.meta.json")
    # Both are whole before one appears. The log does so first: without its meta it is a whole history, the
    # other way round it is none.
    with appearing(beside) as settings, appearing(target) as log:
        settings.write_bytes(meta(store, id, redact=redact))
        with log.open("wb") as file:
            file.writelines(pieces(store, id, redact=redact))


def _file_name(key: str) -> str:
    name = key.translate(_UNSAFE)
    if name in (".", "..") or "\0" in name or len(name.encode()) > _LONGEST:
        raise InvalidError(f"{key[:80]!r} cannot be the name of a file; picoclaw has no other place for it")
    return name


def _key(info: SessionInfo) -> str:
    key = info.metadata.get("key")
    return key if isinstance(key, str) and key else info.id.removeprefix("picoclaw:")


def _updated(session: Session) -> Json:
    """As it was in the file, unless something happened since."""
    info = session.info
    told = info.metadata.get("updated_at")
    known = parse_go_time(told)
    last = next(session.entries(last=1), None)
    if known and (last is None or last.time <= known or _is_from_file(last)):
        return told
    return go_time(info.updated_at)


def _is_from_file(entry: Entry) -> bool:
    """A message that says when it was written, to the letter: it may be younger than its session."""
    return entry.kind == "message" and parse_go_time(entry.message.get("created_at")) == entry.time


def _counts(session: Session) -> tuple[int, int]:
    """How many lines the model does not get, and how many there are."""
    skip = 0
    places: list[int] = []
    for entry in session.entries():
        if entry.kind == "message":
            places += [entry.position] * len(as_chat(entry.message))
        elif entry.kind in ("compaction", "truncation"):
            skip = sum(place < _start(entry) for place in places)
    return skip, len(places)


def _start(entry: Entry) -> int:
    start = entry.message.get("start")
    return start if isinstance(start, int) else 0
