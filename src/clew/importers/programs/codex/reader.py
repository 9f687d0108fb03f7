"""Codex CLI: one rollout a thread, JSONL (or `.jsonl.zst` when it has grown cold).

Response items are the messages. The same story told again for the screen (`event_msg`), settings of turns and
whatever else stands in a line become events. A rollback leaves the turns that it took on a branch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Final

from clew.importers.contract import OnBytes, OnProblem, Place, Problem, SourceSession
from clew.importers.programs.codex.rollout import About, Rollout, decode_state
from clew.importers.reading.files import (
    beginning_of,
    begins_with_object,
    files_below,
    first_objects,
    has_keys,
)
from clew.importers.reading.jsonlines import Line, Reached, read_lines
from clew.importers.reading.seen import entry_of
from clew.importers.reading.values import when
from clew.model import Json

NAME: Final = "codex"

_TYPES: Final = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})
_DEEPEST: Final = 32
_STEP: Final = 10**9
"""The numbers of a base's lines lie so far below those of the file itself."""
_PROMPT: Final = "base_instructions"
_ID_IN_NAME: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def recognises(path: Path, beginning: bytes) -> bool:
    if not begins_with_object(beginning):
        return False
    records = first_objects(beginning)
    if any(
        str(record.get("type")) in _TYPES and isinstance(record.get("payload"), dict) for record in records
    ):
        return True
    if records:
        first = records[0]
        # The first rollouts had bare items behind a line about the session.
        return "instructions" in first and "id" in first and "timestamp" in first and "type" not in first
    is_meta = b'"type":"session_meta"' in beginning and has_keys(beginning, "type", "payload")
    return is_meta and b"\n" not in beginning


def known_places(home: Path) -> list[Path]:
    places = [home / ".codex"]
    moved = os.environ.get("CODEX_HOME")
    if moved and home == Path.home():
        places.insert(0, Path(moved))
    return [place / name for place in dict.fromkeys(places) for name in ("sessions", "archived_sessions")]


def files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = files_below(path, ".jsonl", ".jsonl.zst", beginning="rollout-")
    return sorted(found, key=lambda file: file.name)


def listed(path: str, key: str) -> Json:
    """The name of a thread in the list of names."""
    return _names(Path(path)).get(key)


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    lines = read_lines(path, on_problem, on_bytes)
    first = next(lines, None)
    if first is not None:
        about = _about(path, first)
        yield _session(path, about, Rollout(about, _from_the_first(path, first, lines, on_problem)))


def follow(
    path: Path, place: Place | None, on_problem: OnProblem, on_bytes: OnBytes
) -> Iterator[SourceSession | Place]:
    reached = Reached()
    # What was compressed does not grow: its last line is whole, with or without an end.
    lines = read_lines(path, on_problem, on_bytes, after=place, whole=path.suffix != ".zst", reached=reached)
    lacking: list[Problem] = []

    def lacks(problem: Problem) -> None:
        lacking.append(problem)
        on_problem(problem)

    if place is not None:
        state = decode_state(place.state)
        story = Rollout(state.about, lines, state)
        yield _session(path, state.about, story)
    else:
        first = next(lines, None)
        if first is None:
            return
        about = _about(path, first)
        story = Rollout(about, _from_the_first(path, first, lines, lacks))
        yield _session(path, about, story)
    state_now = story.state() if story.is_read and not lacking else None
    found = None if state_now is None else reached.place(state_now)
    if found is not None:
        yield found


def _about(path: Path, first: Line) -> About:
    line = first.record
    meta = _payload(line)
    thread = str(meta.get("id") or meta.get("session_id") or _thread_of(path))
    rollout = _rollout_of(path, thread)
    parent, is_agent = _parent(meta)
    if rollout and parent is None:
        parent = f"{NAME}:{thread}"
    provider, folder = meta.get("model_provider"), meta.get("cwd")
    has_base = isinstance(meta.get("history_base"), dict)
    alias = f"{thread}_{rollout}" if rollout else thread
    return About(
        thread=thread,
        id=f"{NAME}:{alias}",
        alias=alias,
        parent=parent,
        is_agent=is_agent,
        vendor=provider if isinstance(provider, str) else "openai",
        workspace=folder if isinstance(folder, str) else None,
        created_at=when(meta.get("timestamp")) or when(line.get("timestamp")),
        born=when(line.get("timestamp")),
        is_fork=has_base or bool(meta.get("forked_from_id")),
        has_base=has_base,
        told={key: value for key, value in meta.items() if key != _PROMPT},
    )


def _session(path: Path, about: About, story: Rollout) -> SourceSession:
    return SourceSession(
        id=about.id,
        entries=story.entries(),
        head=story.head,
        turn=story.turn,
        title=_name_of(path, about.thread),
        workspace=about.workspace,
        vendor=about.vendor,
        created_at=about.created_at,
        metadata={"codex": about.told},
        aliases=(about.alias,),
        parent=about.parent,
        is_copy=not about.is_agent,
        shares_calls=False,
        events=story.events,
        usage=story.usage,
        updates=story.updates,
    )


def _payload(record: dict[str, Json]) -> dict[str, Json]:
    payload = record.get("payload")
    return payload if isinstance(payload, dict) else record


def _thread_of(path: Path) -> str:
    """By the name of the file, where its first line does not tell."""
    name = path.name.split(".")[0]
    found = _ID_IN_NAME.search(name)
    return found[0] if found else name


def _rollout_of(path: Path, thread: str) -> str:
    """A thread that was reverted goes on in a file of its own, which has a second id in its name."""
    _, found, rest = path.name.partition(f"{thread}_")
    return rest.split(".")[0] if found else ""


def _parent(meta: dict[str, Json]) -> tuple[str | None, bool]:
    """The session of which this one is a subagent (True), or a copy."""
    source = meta.get("source")
    agent = source.get("subagent") if isinstance(source, dict) else None
    if agent is not None:
        spawned = agent.get("thread_spawn") if isinstance(agent, dict) else None
        spawner = spawned.get("parent_thread_id") if isinstance(spawned, dict) else None
        spawner = spawner or meta.get("parent_thread_id") or meta.get("forked_from_id")
        return (f"{NAME}:{spawner}" if spawner else None), True
    base = meta.get("forked_from_id")
    return (f"{NAME}:{base}" if base else None), False


# -- forks that name their base


def _from_the_first(
    path: Path, first: Line, rest: Iterator[Line], on_problem: OnProblem
) -> Generator[Line, None, None]:
    own = chain((first,), rest)
    return _with_base(path, _payload(first.record), own, on_problem, 0)


def _with_base(
    path: Path, meta: dict[str, Json], own: Iterator[Line], on_problem: OnProblem, depth: int
) -> Generator[Line, None, None]:
    """The lines of a rollout behind those of the one that it continues, whose numbers are below one."""
    base = meta.get("history_base")
    if isinstance(base, dict) and depth < _DEEPEST:
        yield from _base_lines(path, base, on_problem, depth)
    yield from own


def _base_lines(path: Path, base: dict[str, Json], on_problem: OnProblem, depth: int) -> Iterator[Line]:
    thread = str(base.get("thread_id"))
    found = _find_rollout(path, thread)
    if found is None:
        reason = f"its beginning is in the rollout of thread {thread}, which is not here"
        on_problem(Problem(path=str(path), line=1, reason=reason))
        return
    meta = _payload((first_objects(beginning_of(found, 1024 * 1024), most=1) or [{}])[0])
    quiet = read_lines(found, lambda problem: None, lambda count: None)
    end, most = base.get("end_ordinal_exclusive"), base.get("end_byte_offset")
    for line in _with_base(found, meta, quiet, on_problem, depth + 1):
        ordinal = line.record.get("ordinal")
        if line.number > 0 and isinstance(end, int) and isinstance(ordinal, int):
            if ordinal >= end:
                return
        elif line.number > 0 and isinstance(most, int) and line.offset >= most:
            return
        if line.record.get("type") != "session_meta":
            yield Line(line.number - _STEP, line.offset, line.record, line.raw)


def _find_rollout(path: Path, thread: str) -> Path | None:
    home = _home_of(path) or path.parent
    found = sorted(file for file in files(home) if thread in file.name and file != path)
    plain = [file for file in found if f"{thread}_" not in file.name]
    return next(iter(plain or found), None)


def _home_of(path: Path) -> Path | None:
    for place in path.parents:
        if place.name in ("sessions", "archived_sessions"):
            return place.parent
    return None


def _name_of(path: Path, thread: str) -> str | None:
    """The name that a thread was given."""
    home = _home_of(path)
    if home is None:
        return None
    name: str | None = entry_of(home / "session_index.jsonl", thread, listed)
    return name


def _names(index: Path) -> dict[str, str]:
    try:
        return _names_in(index, index.stat().st_mtime_ns)
    except OSError:
        return {}


@lru_cache(maxsize=4)
def _names_in(index: Path, changed: int) -> dict[str, str]:
    names = {}
    for line in read_lines(index, lambda problem: None, lambda count: None):
        id, name = line.record.get("id"), line.record.get("thread_name")
        if isinstance(id, str) and isinstance(name, str):
            names[id] = name
    return names
