"""Claude Code: one JSONL file a session, a tree of records by `parentUuid`, subagents in files beside it.

What of a line is the message becomes an entry; what stands beside it becomes its notes, except for what all
lines repeat, which is the session's metadata. Records that are no messages (progress, hooks, file history,
most attachments) become events; what the program wrote for the model alone is a message that no person said.
See queue.py for prompts that were typed meanwhile, and tree.py for the order of things.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from clew.importers.contract import NotFollowedError, OnBytes, OnProblem, Place, SourceSession
from clew.importers.programs.claude_code.file_history import FileHistory, copies_of
from clew.importers.programs.claude_code.transcript import Side, Transcript, TranscriptState, summary_in
from clew.importers.reading.files import (
    beginning_of,
    begins_with_object,
    content_of,
    files_below,
    first_objects,
    has_keys,
)
from clew.importers.reading.jsonlines import Line, Reached, object_of, read_lines
from clew.importers.reading.seen import note, unseen
from clew.importers.reading.values import decode, when
from clew.model import Json

NAME: Final = "claude-code"
CALLS_HAVE_ONE_ID: Final = True
"""The id of a call is the vendor's: in whatever file it stands again, it is the same call."""

_CHAINED: Final = frozenset({"user", "assistant", "system", "attachment", "progress"})
_ALONE: Final = {
    "summary": "leafUuid",
    "file-history-snapshot": "messageId",
    "file-history-delta": "snapshotMessageId",
    "queue-operation": "sessionId",
    "custom-title": "customTitle",
    "ai-title": "aiTitle",
    "last-prompt": "lastPrompt",
}
"""Records without a chain, and a field by which each is told."""
_HEADER: Final = 256 * 1024
"""The bytes,"""
_HEADER_LINES: Final = 60
"""and the lines with which a file says of what session it is."""
_MOST_STATE: Final = 128 * 1024
"""A file of which more would have to be kept is not followed."""
_CALL: Final = re.compile(rb'"id"\s*:\s*"(msg_[^"]{1,200})"')
_SUMMARIES: Final = 200
"""Titles of other sessions that a file may begin with."""
_REPEATED: Final = (
    "cwd", "sessionId", "version", "gitBranch", "userType", "entrypoint", "slug", "agentId", "isSidechain"
)  # fmt: skip


def recognises(path: Path, beginning: bytes) -> bool:
    if not begins_with_object(beginning):
        return False
    found = first_objects(beginning)
    if any(_is_ours(record) for record in found):
        return True
    # A first line that is longer than what we were shown.
    return b"\n" not in beginning and has_keys(beginning, "parentUuid", "sessionId")


def _is_ours(record: dict[str, Json]) -> bool:
    kind = record.get("type")
    if not isinstance(kind, str):
        return False
    if kind in _CHAINED:
        return "parentUuid" in record and "uuid" in record and "sessionId" in record
    return kind in _ALONE and _ALONE[kind] in record


def known_places(home: Path) -> list[Path]:
    places = [home / ".claude" / "projects", home / ".config" / "claude" / "projects"]
    moved = os.environ.get("CLAUDE_CONFIG_DIR")
    if moved and home == Path.home():
        places.insert(0, Path(moved) / "projects")
    return list(dict.fromkeys(places))


def files(path: Path) -> list[Path]:
    """A session with its subagents; of a directory all of them."""
    if path.is_file():
        return [path, *sorted((path.parent / path.stem / "subagents").rglob("agent-*.jsonl"))]
    return files_below(path, ".jsonl")


def in_order(files: list[Path]) -> list[Path]:
    """Oldest first, each session before its subagents."""
    mains = [file for file in files if "subagents" not in file.parts]
    ordered = sorted(mains, key=lambda file: (_begins(file), file.stem.startswith("agent-"), file.name))
    place = {file.with_suffix(""): number for number, file in enumerate(ordered)}
    last = len(ordered)

    def key(file: Path) -> tuple[int, bool, Path]:
        if "subagents" not in file.parts:
            return place[file.with_suffix("")], False, file
        above = next((folder.parent for folder in file.parents if folder.name == "subagents"), file)
        return place.get(above, last), True, file

    return sorted(files, key=key)


def informs(path: Path) -> list[Path]:
    """A file that begins with titles of other sessions tells of those beside it."""
    if b'"leafUuid"' not in beginning_of(path).partition(b"\n")[0]:
        return []
    return [file for file in path.parent.glob("*.jsonl") if file != path]


def _begins(path: Path) -> str:
    """The first time in a file, and after it whether it is a copy of a session that began so."""
    records = first_objects(beginning_of(path))
    times = [str(record["timestamp"]) for record in records if record.get("timestamp")]
    copied = any("forkedFrom" in record for record in records)
    return f"{times[0] if times else ''} {copied:d}"


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    for found in _follow(path, None, on_problem, on_bytes, whole=False):
        if isinstance(found, SourceSession):
            yield found


def follow(
    path: Path, place: Place | None, on_problem: OnProblem, on_bytes: OnBytes
) -> Iterator[SourceSession | Place]:
    return _follow(path, place, on_problem, on_bytes, whole=True)


class _Header(msgspec.Struct, frozen=True, array_like=True):
    """What the beginning of a file says, and what was found by it."""

    told: dict[str, Json]
    copies: tuple[str, ...] | None
    """See `_copies`; None: there is no call yet by which to find them."""
    is_whole: bool
    """Nothing that is written from now on changes it."""


class _State(msgspec.Struct, frozen=True, array_like=True):
    header: _Header
    meta: dict[str, Json]
    """Of a subagent: what the file beside it says."""
    transcript: TranscriptState


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_State).decode


def _follow(
    path: Path, place: Place | None, on_problem: OnProblem, on_bytes: OnBytes, *, whole: bool
) -> Iterator[SourceSession | Place]:
    """`whole`: only lines that have an end, and the place behind them."""
    state = None if place is None else _state_in(place)
    kept = None if state is None else state.transcript
    header, end = None if state is None else state.header, None
    if header is None or not header.is_whole:
        header, end = _header_of(path, whole=whole)
    reached = Reached()
    lines = read_lines(path, on_problem, on_bytes, after=place, whole=whole, end=end, reached=reached)
    if header is None:
        # Titles of other sessions, file history of none: a small file without a message is no session.
        for _ in lines:
            pass  # only what is damaged is to be told
        return
    if place is not None:
        first = next(lines, None)
        if first is None:
            yield Place(reached.offset, reached.lines, place.state)
            return
        lines = _with_first(first, lines)
    meta = state.meta if state is not None else {}
    told = header.told
    session, agent = _session_id(path, told), _agent_id(path, told)
    baseline: dict[str, Json] = {key: told[key] for key in _REPEATED if key in told}
    main = Transcript(
        lines,
        baseline,
        is_agent=agent is not None,
        began=when(told.get("timestamp")),
        files=FileHistory(
            lambda: copies_of(path, session), told.get("cwd"), None if kept is None else kept.history
        ),
        summaries=dict if agent is not None else lambda: _summaries_in(path.parent),
        calls_of_base=lambda: _calls_of_base(path, told),
        state=kept,
    )
    parent, id = None, f"{NAME}:{session}"
    metadata: dict[str, Json] = {"claude_code": baseline}
    if agent is not None:
        parent, id = id, f"{id}/agent-{agent}"
        meta = meta or _beside(path)
        metadata |= {"agent_id": agent, **({"agent_meta": meta} if meta else {})}
        if meta.get("parentAgentId"):
            parent = f"{parent}/agent-{meta['parentAgentId']}"
    elif isinstance(told.get("forkedFrom"), dict):
        metadata["forked_from"] = told["forkedFrom"]
        parent = f"{NAME}:{told['forkedFrom'].get('sessionId')}"
    yield _session(
        main,
        id,
        told,
        metadata,
        parent,
        aliases=(session,) if agent is None else (f"agent-{agent}",),
        is_copy=agent is None,
        copies=header.copies or (),
        title=meta.get("description"),
    )
    for name, side in main.sides.items():
        yield _sidechain(path, id, name, side, told, baseline)
    if whole and main.is_read:
        left = _encoded(header, meta, main)
        new = None if left is None else reached.place(left)
        if new is not None:
            yield new


def _state_in(place: Place) -> _State:
    try:
        return _decode(place.state)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotFollowedError(f"what was kept of the file cannot be read: {error}") from error


def _encoded(header: _Header, meta: dict[str, Json], main: Transcript) -> bytes | None:
    """What is needed to go on; None: it is too large, or holds what cannot be kept, as a lone surrogate."""
    try:
        left = main.state()
        found = b"" if left is None else _encode(_State(header, meta, left))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    return found if 0 < len(found) <= _MOST_STATE else None


def _with_first(first: Line, rest: Generator[Line, None, None]) -> Generator[Line, None, None]:
    yield first
    yield from rest


def _header_of(path: Path, *, whole: bool) -> tuple[_Header | None, int | None]:
    """What a file begins with; None: there is no message in it yet. And its size, if it is small: what is
    written from now on comes later, when the header has been read again."""
    beginning = beginning_of(path, _HEADER)
    end = len(beginning) if len(beginning) < _HEADER else None
    if whole:
        beginning = beginning[: beginning.rfind(b"\n") + 1]
    records = first_objects(beginning, most=_HEADER)
    if end is not None and not any(isinstance(one.get("message"), dict) for one in records):
        return None, end
    copies = _copies(path, beginning)
    if end is None:
        copies = copies or ()
    is_whole = copies is not None and (end is None or len(records) >= _HEADER_LINES)
    return _Header(_header(records[:_HEADER_LINES]), copies, is_whole), end


def _copies(path: Path, beginning: bytes) -> tuple[str, ...] | None:
    """Sessions beside this one that have its first call too: older versions resumed a session in a new file,
    into which they copied all of it. None: there is no call yet."""
    if path.stem.startswith("agent-"):
        return ()
    call = _first_call(beginning)
    if call is None:
        return None
    try:
        with unseen():  # a copy that comes later finds this one
            same = _files_by_call(path.parent, path.parent.stat().st_mtime_ns).get(call, ())
    except OSError:
        return ()
    return tuple(f"{NAME}:{file.stem}" for file in same if file != path)


@lru_cache(maxsize=4)
def _files_by_call(folder: Path, changed: int) -> dict[bytes, list[Path]]:
    found: dict[bytes, list[Path]] = {}
    for file in sorted(folder.glob("*.jsonl")):
        call = _first_call(beginning_of(file)) if file.is_file() else None
        if call is not None:
            found.setdefault(call, []).append(file)
    return found


def _first_call(beginning: bytes) -> bytes | None:
    found = _CALL.search(beginning)
    return found and found[1]


def _calls_of_base(path: Path, header: dict[str, Json]) -> frozenset[str]:
    """The calls in the file of the session that this one is a fork of, if that lies beside it."""
    origin = header.get("forkedFrom")
    name = origin.get("sessionId") if isinstance(origin, dict) else None
    if not isinstance(name, str) or Path(name).name != name:
        return frozenset()
    base = path.parent / f"{name}.jsonl"
    note(base)
    try:
        with unseen():
            return frozenset() if base == path else _calls_in(base, base.stat().st_mtime_ns)
    except OSError:
        return frozenset()


@lru_cache(maxsize=4)
def _calls_in(path: Path, changed: int) -> frozenset[str]:
    records = (line.record for line in read_lines(path, lambda problem: None, lambda count: None))
    messages = (record.get("message") for record in records if record.get("type") == "assistant")
    ids = (message.get("id") for message in messages if isinstance(message, dict))
    return frozenset(id for id in ids if isinstance(id, str))


def _summaries_in(folder: Path) -> dict[str, str]:
    """The titles at the beginning of the files in a folder, those of the last file last."""
    try:
        with unseen():  # see `informs`
            return _summaries_of(folder, folder.stat().st_mtime_ns)
    except OSError:
        return {}


@lru_cache(maxsize=4)
def _summaries_of(folder: Path, changed: int) -> dict[str, str]:
    found: dict[str, str] = {}
    logs = [(file.stat().st_mtime_ns, file.name, file) for file in folder.glob("*.jsonl") if file.is_file()]
    for _, _, file in sorted(logs):
        beginning = beginning_of(file)
        if b'"leafUuid"' not in beginning.partition(b"\n")[0]:
            continue  # most files begin with something else: their lines need not be decoded
        for record in first_objects(beginning, most=_SUMMARIES):
            if record.get("type") != "summary":
                break
            found |= summary_in(record)
    return found


def _sidechain(
    path: Path,
    parent: str,
    name: str,
    side: Side,
    header: dict[str, Json],
    baseline: dict[str, Json],
) -> SourceSession:
    """A subagent whose lines stand between those of its session."""
    lines = _lines_at(path, side.places)
    transcript = Transcript(lines, baseline, is_agent=True, began=when(side.began), keeps_lines=False)
    metadata: dict[str, Json] = {"claude_code": baseline, "sidechain": side.root}
    return _session(transcript, f"{parent}/{name}", {**header, "timestamp": side.began}, metadata, parent, ())


def _session(
    transcript: Transcript,
    id: str,
    header: dict[str, Json],
    metadata: dict[str, Json],
    parent: str | None,
    aliases: tuple[str, ...],
    *,
    is_copy: bool = False,
    copies: tuple[str, ...] = (),
    title: Json = None,
) -> SourceSession:
    def updates() -> Mapping[str, Json]:
        return {**transcript.updates(), "title": title}

    return SourceSession(
        id=id,
        entries=transcript.entries(),
        head=transcript.head,
        turn=transcript.turn,
        workspace=header.get("cwd") if isinstance(header.get("cwd"), str) else None,
        vendor="anthropic",
        created_at=when(header.get("timestamp")),
        metadata=metadata,
        aliases=aliases,
        parent=parent,
        is_copy=is_copy,
        copies=copies,
        checkpoints=transcript.checkpoints,
        events=transcript.events,
        usage=transcript.usage,
        updates=updates if isinstance(title, str) and title else transcript.updates,
    )


def _header(records: list[dict[str, Json]]) -> dict[str, Json]:
    """What the first records say, the first word on each thing."""
    found: dict[str, Json] = {}
    for record in records:
        for key in (*_REPEATED, "timestamp", "forkedFrom"):
            if record.get(key) is not None and (key != "isSidechain" or "uuid" in record):
                found.setdefault(key, record[key])
    return found


def _session_id(path: Path, header: dict[str, Json]) -> str:
    """A file is named by its session; lines that were copied into it may still name another one."""
    if path.stem.startswith("agent-"):
        if path.parent.name == "subagents":
            return path.parent.parent.name
        inside = [part for part in path.parts if part == "subagents"]
        if inside:
            return path.parts[path.parts.index("subagents") - 1]
        return str(header.get("sessionId") or path.parent.name)
    is_uuid = len(path.stem) == 36 and path.stem.count("-") == 4
    return path.stem if is_uuid else str(header.get("sessionId") or path.stem)


def _agent_id(path: Path, header: dict[str, Json]) -> str | None:
    if path.stem.startswith("agent-"):
        return path.stem.removeprefix("agent-")
    is_agent = header.get("isSidechain") is True and isinstance(header.get("agentId"), str)
    return header["agentId"] if is_agent else None


def _beside(path: Path) -> dict[str, Json]:
    """The file that says which call started a subagent."""
    try:
        found = decode(content_of(path.with_suffix(".meta.json")))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _lines_at(path: Path, places: list[tuple[int, int]]) -> Generator[Line, None, None]:
    """Lines whose places are known. They were read before: what was wrong with them was told then."""
    with path.open("rb") as file:
        for number, offset in places:
            file.seek(offset)
            record = object_of(file.readline(), number, path, lambda problem: None)
            if record is not None:
                yield Line(number, offset, record)
