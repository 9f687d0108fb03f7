"""The OpenRouter agent SDK for Go: one JSON file with all sessions, each with full copies of its history.

A checkpoint is a copy of the messages at that moment. Copies that begin alike become one path, so that
what a rewind left behind is a branch, and every checkpoint is a point of the tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from clew.importers.contract import OnBytes, OnProblem, Problem, SourceCheckpoint, SourceEntry, SourceSession
from clew.importers.reading import values
from clew.importers.reading.jsonlines import decoded, members, members_of_file, objects
from clew.importers.reading.values import link, session_id
from clew.model import Json

NAME: Final = "openrouter"
_BEGINS: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:sessions|fork_counters)"\s*:\s*(?:\{|null)')
_FORK: Final = "#fork-"
_TURN: Final = re.compile(r"-u(\d+)\Z")
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_MOST_BYTES: Final = 32 * 1024 * 1024
"""Of the files of a checkpoint: escapes and all must fit what a store takes as one record."""
_OURS: Final = frozenset({"ID", "Messages", "Checkpoints", "FileCheckpoints"})


def recognises(path: Path, beginning: bytes) -> bool:
    if not _BEGINS.match(beginning):
        return False
    return any(word in beginning for word in (b'"fork_counters"', b'"UserTurns"', b'"Messages"', b'"ID"'))


def known_places(home: Path) -> list[Path]:
    """None: the SDK has no default, its users name the file."""
    return []


def files(path: Path) -> list[Path]:
    return sorted(path.glob("*.json")) if path.is_dir() else [path]


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    document = members_of_file(path, on_problem, on_bytes)
    sessions = members(document.get("sessions"))
    counters = values.mapping(decoded(document.get("fork_counters")))
    lost = {base: count for base, count in counters.items() if base not in sessions}
    for id in sorted(sessions, key=lambda id: id.count(_FORK)):
        found = decoded(sessions[id])
        if not isinstance(found, dict):
            reason = f"session {id!r} is {msgspec.json.encode(found).decode()[:40]}, not an object"
            on_problem(Problem(path=str(path), line=None, reason=reason))
            continue
        metadata = {_snake(name): value for name, value in found.items() if name not in _OURS}
        if id in counters:
            metadata["fork_counter"] = counters[id]
        if lost:
            metadata["fork_counters_of_lost_sessions"], lost = dict(lost), {}
        yield _Session(id, found, path, on_problem).source(metadata, set(sessions))


class _Session:
    """One session while it is read: the tree that its copies make."""

    def __init__(self, id: str, found: dict[str, Json], path: Path, on_problem: OnProblem) -> None:
        self._id = id
        self._path = path
        self._on_problem = on_problem
        self._messages = self._list("Messages", found.get("Messages"))
        self._checkpoints = {
            name: self._list(name, copy) for name, copy in values.mapping(found.get("Checkpoints")).items()
        }
        self._files = values.mapping(found.get("FileCheckpoints"))
        self._created = values.when(found.get("CreatedAt"))
        self._updated = values.when(found.get("UpdatedAt"))
        self._last: dict[str, str | None] = {}
        self._turns: list[str] = []
        self._head: str | None = None

    def source(self, metadata: Mapping[str, Json], ids: set[str]) -> SourceSession:
        base = self._id.rpartition(_FORK)[0]
        return SourceSession(
            id=session_id(NAME, self._id),
            aliases=(self._id,),
            entries=self._entries(),
            head=lambda: self._head,
            created_at=self._created,
            metadata=metadata,
            parent=session_id(NAME, base) if base in ids else None,
            is_copy=True,
            checkpoints=self._named,
        )

    def _list(self, name: str, value: Json) -> list[dict[str, Json]]:
        return objects(value, f"{name!r} of session {self._id!r}", self._path, self._on_problem)

    def _entries(self) -> Iterator[SourceEntry]:
        seen: set[str] = set()
        for entry in self._chain(self._messages, self._created, self._updated):
            self._head = entry.uid
            if entry.message.get("role") == "user":
                self._turns.append(entry.uid)
            seen.add(entry.uid)
            yield entry
        for name, copy in self._checkpoints.items():
            self._last[name] = None
            for entry in self._chain(copy, None, None):
                self._last[name] = entry.uid
                if entry.uid not in seen:
                    seen.add(entry.uid)
                    yield entry

    def _chain(
        self, messages: list[dict[str, Json]], first: datetime | None, last: datetime | None
    ) -> Iterator[SourceEntry]:
        parent = None
        for index, message in enumerate(messages):
            at = last if index == len(messages) - 1 else first if index == 0 else None
            uid = link(parent, message)
            yield SourceEntry(uid=uid, parent=parent, message=message, at=at)
            parent = uid

    def _named(self) -> Iterable[SourceCheckpoint]:
        states = {name: self._kept_files(name) for name in self._files}
        known = _known(states.values())
        for name in [*self._checkpoints, *(name for name in self._files if name not in self._checkpoints)]:
            state = states.get(name)
            files = {} if state is None else _restorable(state, known)
            if state is not None and name not in self._checkpoints:
                state["only_files"] = True
            yield SourceCheckpoint(
                name=name, entry=self._place(name), state=state, files=files, is_complete=True
            )

    def _place(self, name: str) -> str | None:
        """Files may have been kept without messages: then the number in the name says behind which turn."""
        if name in self._last:
            return self._last[name]
        turn = _TURN.search(name)
        if turn and 0 < int(turn[1]) <= len(self._turns):
            return self._turns[int(turn[1]) - 1]
        return self._head

    def _kept_files(self, name: str) -> dict[str, Json]:
        """The files of a checkpoint. Older versions of this very file are left out: each holds all of
        those before it."""
        files = values.mapping(self._files[name])
        left_out: list[Json] = [place for place, content in files.items() if self._is_own(place, content)]
        kept = {place: content for place, content in files.items() if place not in left_out}
        size = sum(map(_size, kept.values()))
        for place in sorted(kept, key=lambda place: -_size(kept[place])):
            if size <= _MOST_BYTES:
                break
            size -= _size(kept.pop(place))
            left_out.append(place)
            reason = f"checkpoint {name!r}: {place!r} is left out, its files are too large for one record"
            self._on_problem(Problem(path=str(self._path), line=None, reason=reason))
        state: dict[str, Json] = {"files": kept}
        if left_out:
            state["left_out"] = left_out
        damaged: list[Json] = [place for place, content in kept.items() if not _is_whole(content)]
        if damaged:
            state["damaged"] = damaged
        return state

    def _is_own(self, place: str, content: Json) -> bool:
        if not isinstance(content, str) or place.rpartition("/")[2] != self._path.name:
            return False
        return recognises(self._path, content[:4096].encode("utf-8", "replace"))


def _known(states: Iterable[dict[str, Json]]) -> set[str]:
    """The files that any checkpoint has, without those that one of them left out: nobody knows when these
    were there."""
    kept: set[str] = set()
    left_out: set[Json] = set()
    for state in states:
        kept.update(values.mapping(state["files"]))
        left_out.update(values.items(state.get("left_out")))
    return {place for place in kept if place not in left_out}


def _restorable(state: dict[str, Json], known: Iterable[str]) -> dict[str, bytes | None]:
    """What a restore writes and, as None, what it deletes. The SDK keeps whole directories: a file that only
    other checkpoints have was not there. Damaged files are not touched."""
    files: dict[str, bytes | None] = dict.fromkeys(known)
    for place, content in values.mapping(state["files"]).items():
        if not _is_whole(content):
            files.pop(place, None)
        elif isinstance(content, str):
            files[place] = content.encode()
    return files


def _is_whole(content: Json) -> bool:
    """Whether a file is as it was: the SDK writes U+FFFD for every byte that is not UTF-8."""
    if not isinstance(content, str):
        return content is None
    try:
        return b"\xef\xbf\xbd" not in content.encode()
    except UnicodeEncodeError:
        return False


def _size(content: Json) -> int:
    return len(content.encode("utf-8", "replace")) if isinstance(content, str) else 0


def _snake(name: str) -> str:
    """CreatedAt is created_at."""
    return _HUMP.sub("_", name).lower()
