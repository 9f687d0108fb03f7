"""Bringing what readers find into a store, file by file, with a report.

A file that can not be read, or a part of one, costs itself: it is listed, and the rest is imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from clew.core.log.origin import ORIGIN
from clew.core.transfer.jsonl_file import import_file
from clew.errors import (
    ClewError,
    ConflictError,
    CorruptError,
    InvalidError,
    NotFoundError,
    StoreBusyError,
    VersionError,
)
from clew.importers import OWN
from clew.importers.contract import Problem, SourceEntry, SourceSession
from clew.importers.detect import ROLES, Found, Job, checked, look, reader_of, scan_places
from clew.importers.kept_files import Bench, KeptFiles
from clew.importers.reading.jsonlines import closed_after
from clew.importers.reading.values import kind
from clew.model import Json
from clew.model.transfer import ImportedSession, ImportProgress, ImportReport, OnImportProgress

if TYPE_CHECKING:
    from clew.store import Store

__all__ = ["import_path", "scan_places"]

TRIES: Final = 5
"""Two imports of the same file get in each other's way: the one that comes late reads it again."""
_WORDS: Final = ("content", "parts", "tool_calls")


def import_path(
    store: Opener,
    path: str | os.PathLike[str],
    format: str | None,
    *,
    dry_run: bool,
    rename: bool,
    strict: bool,
    on_progress: OnImportProgress | None,
) -> ImportReport:
    """`store` is asked when there is a session for it: so that an import of nothing makes none."""
    found = look(checked(path), format)
    if strict:
        _refuse_problems(_Landing(store, found, dry_run=True, rename=rename, on_progress=None).run())
    return _Landing(store, found, dry_run=dry_run, rename=rename, on_progress=on_progress).run()


def _refuse_problems(report: ImportReport) -> None:
    if report.problems:
        first = report.problems[0]
        place = first.path if first.line is None else f"{first.path}, line {first.line}"
        more = len(report.problems) - 1
        raise InvalidError(
            f"{place}: {first.reason}{f' (and {more} more)' if more else ''}; nothing was imported. "
            "Without strict, all the rest is"
        )


class Opener(Protocol):
    def __call__(self, *, writes: bool) -> Store:
        """The store that sessions are brought into, or only compared with."""


class _Landing:
    """Some files on their way into a store."""

    def __init__(
        self,
        store: Opener,
        found: Found,
        *,
        dry_run: bool,
        rename: bool,
        on_progress: OnImportProgress | None,
    ) -> None:
        self._store = store
        self._jobs = jobs = found.jobs
        self._dry_run = dry_run
        self._rename = rename
        self._on_progress = on_progress
        self._all_bytes = sum(job.size for job in jobs)
        self._done_bytes = 0
        self._bench = Bench()
        self._sessions: list[ImportedSession] = []
        self._problems = [*found.problems]
        self._left_out = [problem.path for problem in found.problems]
        self._counted: dict[str, str] = {}
        """Calls that one of the files told of, and the session that they count for."""

    def run(self) -> ImportReport:
        with self._bench:
            for number, job in enumerate(self._jobs):
                self._tell(job, number, 0)
                self._bring(job, number)
                self._done_bytes += job.size
        if self._jobs:
            self._tell(self._jobs[-1], len(self._jobs), 0)
        return ImportReport(
            sessions=tuple(self._sessions),
            dry_run=self._dry_run,
            problems=tuple(self._problems),
            left_out=tuple(dict.fromkeys(self._left_out)),
            files=len(self._jobs),
            bytes=self._all_bytes,
        )

    def _bring(self, job: Job, number: int) -> None:
        sessions, problems = len(self._sessions), len(self._problems)
        self._try(job, number)
        if len(self._sessions) == sessions and len(self._problems) > problems:
            self._left_out.append(str(job.path))

    def _try(self, job: Job, number: int) -> None:
        for attempt in range(TRIES):
            sessions, problems = len(self._sessions), len(self._problems)
            try:
                if job.format == OWN:
                    self._bring_own(job)
                else:
                    self._read(job, number)
            except StoreBusyError:
                del self._sessions[sessions:], self._problems[problems:]
                if attempt == TRIES - 1:
                    raise
                continue
            except (ConflictError, CorruptError, InvalidError, NotFoundError, VersionError) as error:
                if len(self._jobs) == 1:
                    raise
                self._problem(job, str(error))
            return

    def _bring_own(self, job: Job) -> None:

        report = bring(self._open, job.path, dry_run=self._dry_run, rename=self._rename)
        self._sessions += report.sessions
        self._problems += report.problems

    def _read(self, job: Job, number: int) -> None:
        told, sessions = 0, len(self._sessions)

        def on_bytes(count: int) -> None:
            nonlocal told
            told += count
            self._tell(job, number, told)

        try:
            reader = reader_of(job.format)
            for found in reader.read(job.path, self._problems.append, on_bytes):
                source = found if job.is_sure else _with_words(found)
                if source is None:
                    continue
                if getattr(reader, "CALLS_HAVE_ONE_ID", False):
                    source = msgspec.structs.replace(source, entries=self._counted_once(source))
                try:
                    self._load(job, source)
                except InvalidError as error:
                    self._problem(job, f"session {source.id!r}: {error}")
                    self._left_out.append(str(job.path))
            if not job.is_sure and len(self._sessions) == sessions:
                self._problem(job, f"nothing in it is of the format {job.format}")
        except ClewError:
            raise
        except Exception as error:  # noqa: BLE001 (whatever one file holds must not cost the others)
            self._problem(job, f"it can not be read: {type(error).__name__}: {error}")

    def _counted_once(self, source: SourceSession) -> Iterator[SourceEntry]:
        """A program that resumes a session in a new file copies what was said, with its calls."""
        for entry in closed_after(source.entries):
            call = entry.usage
            if call is not None and self._counted.setdefault(call.id, source.id) != source.id:
                entry = msgspec.structs.replace(entry, usage=None)
            yield entry

    def _load(self, job: Job, source: SourceSession) -> None:
        origin = {"format": job.format, "path": str(job.path)}
        source = msgspec.structs.replace(
            source,
            metadata={**source.metadata, ORIGIN: origin},
            updates=partial(_without_origin, source.updates),
        )
        store = self._open()
        with KeptFiles(store, source, self._bench, lambda reason: self._problem(job, reason)) as files:
            loaded = store.load(
                msgspec.structs.replace(source, checkpoints=files.checkpoints),
                dry_run=self._dry_run,
                rename=self._rename,
                on_refused=lambda uid, error: self._problem(job, f"entry {uid}: {error}"),
            )
            if self._dry_run:
                files.look()
        self._sessions.append(
            ImportedSession(
                id=loaded.id,
                source=str(job.path),
                state=loaded.state,
                messages=loaded.messages,
                format=job.format,
                entries=loaded.entries,
                parent=source.parent,
            )
        )

    def _open(self) -> Store:
        return self._store(writes=not self._dry_run)

    def _problem(self, job: Job, reason: str) -> None:
        self._problems.append(Problem(path=str(job.path), line=None, reason=reason))

    def _tell(self, job: Job, files: int, read: int) -> None:
        if self._on_progress is not None:
            done = self._done_bytes + min(read, job.size)
            self._on_progress(
                ImportProgress(
                    path=str(job.path),
                    files=files,
                    all_files=len(self._jobs),
                    bytes=done,
                    all_bytes=self._all_bytes,
                )
            )


def _without_origin(updates: Callable[[], Mapping[str, Json]]) -> Mapping[str, Json]:
    """What a source says at its end; where it came from is not for it to say."""
    found = updates()
    metadata = found.get("metadata")
    if not metadata or ORIGIN not in metadata:
        return found
    return {**found, "metadata": {name: value for name, value in metadata.items() if name != ORIGIN}}


def _with_words(source: SourceSession) -> SourceSession | None:
    """A session of a file that only its caller says is of this format; None: no message is in its beginning.
    Whatever a reader makes of a file of something else is no session."""
    entries = iter(source.entries)
    first = list(islice(entries, 20))
    if not any(map(_is_said, first)):
        return None

    def all_entries() -> Iterator[SourceEntry]:
        yield from first
        yield from entries

    return msgspec.structs.replace(source, entries=all_entries())


def _is_said(entry: SourceEntry) -> bool:
    if entry.kind != "message":
        return bool(entry.message.get("text") or entry.message.get("messages"))
    return kind(entry.message.get("role")) in ROLES and any(entry.message.get(word) for word in _WORDS)


# -- files in Clew's own format


def bring(store: Callable[[], Store], path: Path, *, dry_run: bool, rename: bool) -> ImportReport:
    landed = import_file(lambda: store()._engine, path, rename=rename, dry_run=dry_run)
    session = ImportedSession(id=landed.id, source=str(path), state=landed.state, messages=landed.messages)
    problems = (Problem(path=str(path), line=one.line, reason=one.reason) for one in landed.damage)
    return ImportReport(sessions=(session,), dry_run=dry_run, problems=tuple(problems))
