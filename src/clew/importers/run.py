"""Bringing what readers find into a store, file by file, with a report.

A file that cannot be read, or a part of one, costs itself: it is listed, and the rest is imported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from clew.core.load.load import Loading
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
from clew.importers.detect import ROLES, Found, Job, checked, look, reader_of
from clew.importers.kept_files import Bench, KeptFiles
from clew.importers.reading.values import kind
from clew.model.transfer import ImportedSession, ImportProgress, ImportReport, OnImportProgress

if TYPE_CHECKING:
    from clew.store import Store

TRIES: Final = 5
"""Two imports of the same file get in each other's way: the later one reads it again."""
_WORDS: Final = ("content", "parts", "tool_calls")


class Opener(Protocol):
    def __call__(self, *, writes: bool) -> Store:
        """The store that sessions are brought into, or only compared with."""


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
    """`store` is asked when there is a session for it: so an import of nothing makes no store."""
    found = look(checked(path), format)
    if strict:
        _refuse_problems(_Import(store, found, dry_run=True, rename=rename, on_progress=None).run())
    return _Import(store, found, dry_run=dry_run, rename=rename, on_progress=on_progress).run()


def _refuse_problems(report: ImportReport) -> None:
    if report.problems:
        first = report.problems[0]
        place = first.path if first.line is None else f"{first.path}, line {first.line}"
        more = len(report.problems) - 1
        raise InvalidError(
            f"{place}: {first.reason}{f' (and {more} more)' if more else ''}; nothing was imported. "
            "Without strict, all the rest is"
        )


class _Import:
    """One import: the files that were found, one after the other."""

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
        self._files = self._bytes = self._bytes_of_file = 0
        """Read so far: files, their bytes, and bytes of the file that is being read."""
        self._all_bytes = sum(job.size for job in jobs)
        self._bench = Bench()
        self._sessions: list[ImportedSession] = []
        self._problems = [*found.problems]
        self._left_out = [problem.path for problem in found.problems]
        self._counted: dict[str, str] = {}
        """Calls that one of the files told of, and the session in which they count."""

    def run(self) -> ImportReport:
        with self._bench:
            for job in self._jobs:
                self._tell(job)
                self._bring(job)
                self._files += 1
                self._bytes += job.size
        if self._jobs:
            self._tell(self._jobs[-1])
        return ImportReport(
            sessions=tuple(self._sessions),
            dry_run=self._dry_run,
            problems=tuple(self._problems),
            left_out=tuple(dict.fromkeys(self._left_out)),
            files=len(self._jobs),
            bytes=self._all_bytes,
        )

    def _bring(self, job: Job) -> None:
        """One file. An import of the same session at the same time makes it start again."""
        sessions, problems = len(self._sessions), len(self._problems)
        for attempt in range(TRIES):
            self._bytes_of_file = 0
            try:
                if job.format == OWN:
                    self._bring_own(job)
                else:
                    self._bring_sessions(job)
                break
            except StoreBusyError:
                del self._sessions[sessions:], self._problems[problems:]
                if attempt == TRIES - 1:
                    raise
            except (ConflictError, CorruptError, InvalidError, NotFoundError, VersionError) as error:
                if len(self._jobs) == 1:
                    raise
                self._problem(job, str(error))
                break
        if len(self._sessions) == sessions and len(self._problems) > problems:
            self._left_out.append(str(job.path))

    def _bring_own(self, job: Job) -> None:
        """A file in Clew's own format, in which a session comes back with everything."""
        from clew.core.transfer.jsonl_file import import_file

        path = str(job.path)
        found = import_file(lambda: self._open()._engine, path, rename=self._rename, dry_run=self._dry_run)
        self._sessions.append(
            ImportedSession(id=found.id, source=path, state=found.state, messages=found.messages)
        )
        self._problems += [Problem(path=path, line=one.line, reason=one.reason) for one in found.damage]

    def _bring_sessions(self, job: Job) -> None:
        """The sessions of a file of another program."""
        count = len(self._sessions)
        reader = reader_of(job.format)
        counted = self._counted if getattr(reader, "CALLS_HAVE_ONE_ID", False) else None
        try:
            for found in reader.read(job.path, self._problems.append, lambda size: self._read(job, size)):
                source = found if job.is_sure else _with_words(found)
                if source is None:
                    continue
                try:
                    self._load(job, source, counted)
                except InvalidError as error:
                    self._problem(job, f"session {source.id!r}: {error}")
                    self._left_out.append(str(job.path))
            if not job.is_sure and len(self._sessions) == count:
                self._problem(job, f"nothing in it is of the format {job.format}")
        except ClewError:
            raise
        except Exception as error:  # noqa: BLE001 (no file may cost the others, whatever it holds)
            self._problem(job, f"it cannot be read: {type(error).__name__}: {error}")

    def _load(self, job: Job, source: SourceSession, counted: dict[str, str] | None) -> None:
        """One session: its entries, then snapshots of the files that it kept, then what stands beside."""
        store = self._open()
        loading = Loading(
            store._engine,
            source,
            dry_run=self._dry_run,
            rename=self._rename,
            on_refused=lambda uid, error: self._problem(job, f"entry {uid}: {error}"),
            origin={"format": job.format, "path": str(job.path)},
            counted=counted,
        )
        if not loading.is_trashed:
            loading.bring_entries()
            with KeptFiles(store, loading.id, self._bench) as files:
                checkpoints = source.checkpoints()
                loading.bring_rest(files.look(checkpoints) if self._dry_run else files.take(checkpoints))
            if files.lacking:
                self._problem(job, files.lacking)
        loaded = loading.report()
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

    def _read(self, job: Job, size: int) -> None:
        self._bytes_of_file += size
        self._tell(job)

    def _tell(self, job: Job) -> None:
        if self._on_progress is not None:
            self._on_progress(
                ImportProgress(
                    path=str(job.path),
                    files=self._files,
                    all_files=len(self._jobs),
                    bytes=min(self._bytes + min(self._bytes_of_file, job.size), self._all_bytes),
                    all_bytes=self._all_bytes,
                )
            )


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
