"""What the tests of the agents' readers share: a file read to its end, and a look at what came of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import clew
from clew.importers.contract import Problem, SourceEntry, SourceSession, SourceUsage


class Read:
    """One session, with everything that its file told of it."""

    def __init__(self, session: SourceSession) -> None:
        self.session = session
        self.entries = list(session.entries)
        self.head = session.head() or (self.entries[-1].uid if self.entries else None)

    @property
    def by_uid(self) -> dict[str, SourceEntry]:
        return {entry.uid: entry for entry in self.entries}

    @property
    def path(self) -> list[SourceEntry]:
        """From the root to the head."""
        entries, at, path = self.by_uid, self.head, []
        while at is not None:
            path.append(entries[at])
            at = entries[at].parent
        return path[::-1]

    @property
    def usage(self) -> dict[str, SourceUsage]:
        """As it is counted: each id once."""
        told = [entry.usage for entry in self.entries if entry.usage] + list(self.session.usage())
        return {usage.id: usage for usage in told}

    def said(self) -> list[tuple[str, str]]:
        return [who_and_what(entry) for entry in self.path]


def who_and_what(entry: SourceEntry) -> tuple[str, str]:
    from clew.core.messages.dialects import role_of, text_of

    if entry.kind != "message":
        return entry.kind, str(entry.message.get("text", ""))
    if entry.human is False:
        return "program", text_of(entry.message)
    return role_of(entry.message), text_of(entry.message)


def read_file(reader: ModuleType, path: Path) -> tuple[list[Read], list[Problem]]:
    problems: list[Problem] = []
    sessions = [Read(session) for session in reader.read(path, problems.append, lambda _: None)]
    for session in sessions:
        check(session)
    return sessions, problems


def read_one(reader: ModuleType, path: Path) -> Read:
    (session,), problems = read_file(reader, path)
    assert problems == []
    return session


def check(read: Read) -> None:
    """What the contract asks of every session."""
    seen: set[str | None] = {None}
    for entry in read.entries:
        assert entry.uid not in seen, f"{entry.uid} comes twice"
        assert entry.parent in seen, f"{entry.uid} comes before its parent"
        seen.add(entry.uid)
    assert read.head in seen
    json.dumps([[entry.message, dict(entry.notes)] for entry in read.entries], allow_nan=False)
    json.dumps([dict(read.session.metadata), dict(read.session.vars())], allow_nan=False)


def land(store: clew.Store, reader: ModuleType, path: Path) -> list[tuple[str, str, int]]:
    """Into a store: id, state and new entries of each session."""
    sessions = reader.read(path, lambda _: None, lambda _: None)
    loaded = [store.load(session) for session in sessions]
    return [(each.id, each.state, each.entries) for each in loaded]


def write_lines(path: Path, *records: Any, end: str = "\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("\n".join(lines) + end, encoding="utf-8")
    return path


def write_json(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


@contextmanager
def in_tokyo() -> Iterator[None]:
    """Another zone for this process: what is read as local time shows."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


def tree_bytes(root: Path) -> dict[str, bytes]:
    """Every file below a directory: to see that nothing was changed or added."""
    return {str(file.relative_to(root)): file.read_bytes() for file in _files(root)}


def _files(root: Path) -> Iterator[Path]:
    return (file for file in sorted(root.rglob("*")) if file.is_file())
