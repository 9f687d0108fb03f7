"""The log of simonw/llm: `logs.db`, with its older and its newer tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clew.importers.contract import OnBytes, OnProblem, SourceEntry, SourceSession
from clew.importers.programs.llm_legacy import Legacy
from clew.importers.programs.llm_threads import Threads
from clew.importers.reading.ids import session_id
from clew.importers.reading.sqlite import is_sqlite, opened, reporting, tables, tables_in
from clew.importers.reading.values import plain_name, text, when, without
from clew.model import Json

if TYPE_CHECKING:
    import apsw

NAME: Final = "llm"

_LEGACY: Final = frozenset({"responses", "conversations"})
_THREADS: Final = frozenset({"threads", "turns", "messages", "parts"})
_TOLD: Final = frozenset({"id", "name", "model", "tip_message_hash", "forked_from", "datetime_utc"})


def recognises(path: Path, beginning: bytes) -> bool:
    if not is_sqlite(beginning):
        return False
    found = tables(path)
    return found >= _LEGACY or found >= _THREADS


def known_places(home: Path) -> list[Path]:
    folders = [home / ".config", home / "Library" / "Application Support"]
    return [folder / "io.datasette.llm" / "logs.db" for folder in folders]


def files(path: Path) -> list[Path]:
    return sorted(path.glob("logs.db")) if path.is_dir() else [path]


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    with reporting(path, on_problem), opened(path) as db:
        yield from _Log(db, path, on_problem).sessions()
    on_bytes(path.stat().st_size)


class _Log:
    def __init__(self, db: apsw.Connection, path: Path, on_problem: OnProblem) -> None:
        found = tables_in(db)
        self._path = path
        self._on_problem = on_problem
        self._legacy = Legacy(db, found) if "responses" in found else None
        self._threads = Threads(db) if found >= _THREADS else None

    def sessions(self) -> Iterator[SourceSession]:
        threads = {str(thread["id"]): thread for thread in self._threads.all()} if self._threads else {}
        for name, responses in self._legacy.conversations() if self._legacy else ():
            yield self._session(name, responses, threads.pop(name, None))
        for name, thread in _origins_first(threads):
            yield self._session(name, [], thread)

    def _session(self, name: str, responses: list[str], thread: dict[str, Json] | None) -> SourceSession:
        about: dict[str, Json] = {}
        first: dict[str, Json] = {}
        if self._legacy and responses:
            about = self._legacy.about(name)
            first = self._legacy.response(responses[0])
        about |= without(thread or {}, ())
        origin = text(about.get("forked_from"))
        tip = text(thread.get("tip_message_hash")) if thread else None
        return SourceSession(
            id=session_id(NAME, name),
            aliases=(name,),
            entries=self._entries(responses, thread),
            head=lambda: tip,
            title=plain_name(about.get("name")),
            model=plain_name(about.get("model")) or text(first.get("model")) or self._last_model(thread),
            created_at=when(first.get("datetime_utc")) or when(about.get("datetime_utc")),
            metadata=without(about, _TOLD),
            parent=session_id(NAME, origin) if origin else None,
        )

    def _last_model(self, thread: dict[str, Json] | None) -> str | None:
        """A thread does not name its model: its calls do."""
        turns = self._threads.turns(str(thread["id"])) if self._threads and thread else []
        return next(filter(None, (plain_name(turn.get("model")) for turn in reversed(turns))), None)

    def _entries(self, responses: list[str], thread: dict[str, Json] | None) -> Iterator[SourceEntry]:
        # What was brought over into the newer tables is told by them.
        moved = set()
        if self._threads and thread:
            moved = {turn["id"] for turn in self._threads.turns(str(thread["id"]))}
        old = [response for response in responses if response not in moved]
        with reporting(self._path, self._on_problem):
            yield from chain(
                self._legacy.entries(old) if self._legacy else (),
                self._threads.entries(thread) if self._threads and thread else (),
            )


def _origins_first(threads: dict[str, dict[str, Json]]) -> Iterator[tuple[str, dict[str, Json]]]:
    waiting = dict(threads)
    for name in threads:
        line: list[tuple[str, dict[str, Json]]] = []
        while name in waiting:
            line.append((name, waiting.pop(name)))
            name = text(line[-1][1].get("forked_from")) or ""
        yield from reversed(line)
