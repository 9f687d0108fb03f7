"""The law of following, as a tool for tests: a file that is followed piece by piece leaves in a store what
one import of the whole file leaves there.

    check(reader, path, content, cuts)        # the file grows from cut to cut, and is followed at each
    check_all(reader, path, content)          # at every end of line, and at a choice of places inside lines
    check_sync(path, content, cuts)           # the same through `clew.importers.sync`, with the ledger

`path` may lie among other files that belong to it: only the file itself is written.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

import clew
from clew.core.load.entries import recall
from clew.importers.contract import (
    NotFollowedError,
    Place,
    Problem,
    SourceCheckpoint,
    SourceEntry,
    SourceEvent,
    SourceSession,
)
from clew.importers.sync import Sync
from clew.model import Head
from clew.model.source import SourceLine
from tests.support.effort import spread, usually

MOST_STATE = 256 * 1024
"""Bytes that the state of a reader may have."""
_CHANGING = {"aliases", "head", "workspace"}
"""Of a session's info: compared in another way, or of this machine."""
_FIELDS = ("workspace", "created_at", "metadata", "aliases", "parent", "is_copy", "copies", "shares_calls")
_TOKENS = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "cost"
)  # fmt: skip


# -- what a store holds


def content_of(store: clew.Store, *, times_of_events: bool = True) -> dict[str, dict[str, Any]]:
    """All that came of files, by session, without the random names that a store gives.

    `times_of_events=False`: an event that has no time of its own may have any.
    """
    return {
        info.id: _session(store, store.get(info.id), times_of_events=times_of_events)
        for info in store.list(limit=10_000)
    }


def _session(store: clew.Store, session: clew.Session, *, times_of_events: bool) -> dict[str, Any]:
    entries = _entries(store, session)
    info = session.info
    told = {name: getattr(info, name) for name in info.__struct_fields__ if name not in _CHANGING}
    agent = told.pop("agent_branch")
    totals = session.usage()
    events = list(_events(session))
    return {
        "entries": list(entries.values()),
        "head": _name(entries, info.head),
        "agent": agent and (_name(entries, agent.head), agent.new, agent.turn, agent.written_at),
        "info": {**told, "aliases": sorted(info.aliases)},
        "events": [
            (event.id, event.type, event.stream, event.data, event.at if times_of_events else None)
            for event in events
            if event.type != "child-session"
        ],
        "children": sorted(str(event.id) for event in events if event.type == "child-session"),
        "usage": {name: getattr(totals, name) for name in _TOKENS},
        "calls": sorted({str(call.id).partition("+rest")[0] for call in session.usage_records()}),
        "checkpoints": {
            point.name: (_name(entries, point.head), point.created_at, _told(point.state))
            for point in session.checkpoints()
        },
        "vars": session.vars(),
    }


def _entries(store: clew.Store, session: clew.Session) -> dict[str, tuple[Any, ...]]:
    """By their ids in the store, in the order of the source. A digest names the whole path to an entry, so
    equal ones mean that it hangs in the same place of the tree."""
    found: dict[str, clew.Entry] = {}
    for branch in session.tree().branches:
        if branch.last >= branch.first:
            found |= {entry.id: entry for entry in session.entries(at=Head(branch.id, branch.last))}
    with store._engine.read() as reader:
        row = reader.find_session(session.id)
        assert row is not None
        memory = recall(reader, row.sid)
        assert memory is not None
        places = {name: memory.place(name) for name in memory.places}
        ids = {name: f"{reader.get_branch(at[0]).uid}.{at[1]}" for name, at in places.items() if at}
    assert sorted(found) == sorted(ids.values()), "entries that the source did not name"
    return {
        id: (name, one.position, one.kind, one.raw, one.stamp, one.hash, dict(one.annotations), one.injected)
        for name, id in ids.items()
        for one in [found[id]]
    }


def _name(entries: dict[str, tuple[Any, ...]], head: Head) -> str | None:
    found = entries.get(f"{head.branch}.{head.position}")
    return None if found is None else found[0]


def _events(session: clew.Session) -> Iterator[clew.Event]:
    after = 0
    while page := session.events(after=after):
        yield from page
        after = page[-1].cursor


def _told(state: Any) -> Any:
    """Without what only an import with files adds."""
    return {key: state[key] for key in state if key != "kept"} if isinstance(state, dict) else state


# -- a file that grows


class Followed(msgspec.Struct):
    """How it went."""

    passes: int = 0
    whole: int = 0
    """How often the whole file was read, the first time included."""
    bytes: int = 0
    """Read of the file, as the reader told it."""
    place: Place | None = None
    problems: list[Problem] = []
    checkpoints: dict[str, SourceCheckpoint] = {}
    """As they were told last, with their files,"""
    lines: dict[int, Any] = {}
    """and the lines of which the entries and events were made."""
    told: dict[str, Any] = {}
    """What each session was said to be, the last time,"""
    updates: dict[str, Any] = {}
    """also at its end."""


def follow(store: clew.Store, reader: Any, path: Path, followed: Followed) -> None:
    """One pass: what stands behind the place, or the whole file if that cannot be understood."""
    followed.passes += 1
    try:
        followed.place = _pass(store, reader, path, followed, followed.place)
    except NotFollowedError:
        assert followed.place is not None, "a whole file can always be read"
        followed.place = _pass(store, reader, path, followed, None)


def _pass(
    store: clew.Store, reader: Any, path: Path, followed: Followed, place: Place | None
) -> Place | None:
    if place is None:
        followed.whole += 1
        followed.problems = []
    problems: list[Problem] = []

    def count(size: int) -> None:
        followed.bytes += size

    found: list[Place] = []
    for one in reader.follow(path, place, problems.append, count):
        assert not found, "the place is the last thing that a reader yields"
        if isinstance(one, Place):
            found.append(one)
        else:
            store.load(_noted(one, followed))
    followed.problems = [*followed.problems, *problems]
    for reached in found:
        content = path.read_bytes()
        assert reached.offset <= len(content)
        if reached.offset:
            assert content[: reached.offset].endswith(b"\n")
            assert reached.lines == content[: reached.offset].count(b"\n")
        assert b"\n" not in content[reached.offset :], "a whole line was not read"
        assert len(reached.state) <= MOST_STATE
    return found[0] if found else None


def _noted(source: SourceSession, followed: Followed) -> SourceSession:
    """Note on the way what `store.load` does not keep: files of checkpoints, lines, other sessions."""
    followed.told[source.id] = {name: getattr(source, name) for name in _FIELDS}

    def take(line: SourceLine | None) -> None:
        if line is not None:
            followed.lines[line.number] = line.raw

    def entries() -> Iterator[SourceEntry]:
        for entry in source.entries:
            for event in entry.events:
                take(event.line)
            take(entry.line)
            yield entry

    def events() -> Iterator[SourceEvent]:
        for event in source.events():
            take(event.line)
            yield event

    def checkpoints() -> Iterator[SourceCheckpoint]:
        for point in source.checkpoints():
            followed.checkpoints[f"{source.id} {point.name}"] = point
            yield point

    def updates() -> Mapping[str, Any]:
        followed.updates[source.id] = source.updates()
        return source.updates()

    return msgspec.structs.replace(
        source, entries=entries(), events=events, checkpoints=checkpoints, updates=updates
    )


def grow(
    store: clew.Store, reader: Any, path: Path, content: bytes, cuts: Iterable[int], *, twice: bool = False
) -> Followed:
    """Write a file from cut to cut, and follow it at each. `twice`: each pass is repeated from where it
    began, as after a process that was killed before it could keep the new place."""
    followed = Followed()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    edges = [0, *sorted(set(cuts) - {0, len(content)}), len(content)]
    for start, end in pairwise(edges):
        with path.open("ab") as file:
            file.write(content[start:end])
        before, problems = followed.place, followed.problems
        follow(store, reader, path, followed)
        if twice:
            followed.place, followed.problems = before, problems
            follow(store, reader, path, followed)
    return followed


# -- the law


def check(
    reader: ModuleType,
    path: Path,
    content: bytes,
    cuts: Iterable[int],
    *,
    twice: bool = False,
    times_of_events: bool = True,
) -> Followed:
    """Following from cut to cut leaves the same as one import. The last line needs its end."""
    assert content.endswith(b"\n"), "without its end, the last line would wait"
    cuts = list(cuts)
    with clew.open("memory:") as pieces, clew.open("memory:") as whole:
        followed = grow(pieces, reader, path, content, cuts, twice=twice)
        problems: list[Problem] = []
        once = Followed()
        for source in reader.read(path, problems.append, lambda _: None):
            whole.load(_noted(source, once))
        _compare(pieces, whole, cuts, times_of_events=times_of_events)
        assert followed.problems == problems, f"problems; cuts {cuts}"
        assert followed.lines == once.lines, f"lines; cuts {cuts}"
        assert followed.told == once.told, f"what the sessions are; cuts {cuts}"
        assert followed.updates == once.updates, f"what the end of the file says; cuts {cuts}"
        assert followed.checkpoints == once.checkpoints, f"files of checkpoints; cuts {cuts}"
        return followed


def _compare(pieces: clew.Store, whole: clew.Store, cuts: list[int], *, times_of_events: bool) -> None:
    here = content_of(pieces, times_of_events=times_of_events)
    there = content_of(whole, times_of_events=times_of_events)
    assert here.keys() == there.keys(), f"sessions; cuts {cuts}"
    for id, wanted in there.items():
        for part, value in wanted.items():
            assert here[id][part] == value, f"{part} of {id}; cuts {cuts}"


def check_sync(
    path: Path, content: bytes, cuts: Iterable[int], *, root: Path | None = None, times_of_events: bool = True
) -> None:
    """The file grows from cut to cut, and a sync brings what is new; every other time by a process that knows
    nothing but what the store says. `root`: what is synced, if the file is one of several."""
    assert content.endswith(b"\n"), "without its end, the last line would wait"
    cuts = sorted(set(cuts) - {0, len(content)})
    with clew.open("memory:") as pieces, clew.open("memory:") as whole:
        sync = Sync(lambda writes: pieces, [root or path])
        path.write_bytes(b"")
        for number, (start, end) in enumerate(pairwise([0, *cuts, len(content)])):
            with path.open("ab") as file:
                file.write(content[start:end])
            if number % 2:
                sync.some([path])
            else:
                sync = Sync(lambda writes: pieces, [root or path])
                sync.all()
        assert whole.import_path(root or path).left_out == ()
        _compare(pieces, whole, cuts, times_of_events=times_of_events)


def check_all(
    reader: ModuleType, path: Path, content: bytes, *, most: int = 60, times_of_events: bool = True
) -> Followed:
    """One cut at each end of line (or at a choice of them), and inside lines; all lines one by one; random
    sets of cuts; and each pass twice. Returns how following line by line went."""
    ends = line_ends(content)[:-1]
    inside = [(start + end) // 2 for start, end in pairwise([0, *ends, len(content)])]
    for cut in [*spread(ends, most, quick=min(most, 6)), *spread(inside, most // 4 + 2, quick=3)]:
        check(reader, path, content, [cut], times_of_events=times_of_events)
    chance = random.Random(len(content))
    for _ in range(usually(8, quick=3, thorough=8)):
        cuts = chance.sample(range(1, len(content)), min(len(content) - 1, chance.randrange(2, 12)))
        check(reader, path, content, cuts, twice=chance.random() < 0.5, times_of_events=times_of_events)
    return check(reader, path, content, spread(ends, 4 * most), times_of_events=times_of_events)


def line_ends(content: bytes) -> list[int]:
    """Just behind each end of line."""
    found, at = [], 0
    while at := content.find(b"\n", at) + 1:
        found.append(at)
    return found
