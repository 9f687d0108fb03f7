"""Bringing what readers find into a store, file by file, with a report.

A file that can not be read, or a part of one, costs itself: it is listed, and the rest is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from clew.errors import ClewError, ConflictError, InvalidError, StoreBusyError
from clew.importers import OWN
from clew.importers.contract import Problem, SourceEntry, SourceSession
from clew.importers.finding import Job, find_jobs, reader_of, scan_places
from clew.importers.jsonlines import closed_after
from clew.importers.kept_files import Bench, KeptFiles
from clew.model.porting import ImportedSession, ImportProgress, ImportReport, OnImportProgress

__all__ = ["import_path", "scan_places"]

if TYPE_CHECKING:
    from clew.store import Store

TRIES: Final = 5
"""Two imports of the same file get in each other's way: the one that comes late reads it again."""


def import_path(
    store: Store,
    path: Path,
    format: str | None,
    *,
    dry_run: bool,
    rename: bool,
    strict: bool,
    on_progress: OnImportProgress | None,
) -> ImportReport:
    jobs = find_jobs(path, format)
    if strict:
        _refuse_problems(_Landing(store, jobs, dry_run=True, rename=rename, on_progress=None).run())
    return _Landing(store, jobs, dry_run=dry_run, rename=rename, on_progress=on_progress).run()


def _refuse_problems(report: ImportReport) -> None:
    if report.problems:
        first = report.problems[0]
        place = first.path if first.line is None else f"{first.path}, line {first.line}"
        more = len(report.problems) - 1
        raise InvalidError(
            f"{place}: {first.reason}{f' (and {more} more)' if more else ''}; nothing was imported. "
            "Without strict, all the rest is"
        )


class _Landing:
    """Some files on their way into a store."""

    def __init__(
        self,
        store: Store,
        jobs: list[Job],
        *,
        dry_run: bool,
        rename: bool,
        on_progress: OnImportProgress | None,
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._dry_run = dry_run
        self._rename = rename
        self._on_progress = on_progress
        self._all_bytes = sum(job.size for job in jobs)
        self._done_bytes = 0
        self._bench = Bench()
        self._sessions: list[ImportedSession] = []
        self._problems: list[Problem] = []
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
            files=len(self._jobs),
            bytes=self._all_bytes,
        )

    def _bring(self, job: Job, number: int) -> None:
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
            except (ConflictError, InvalidError) as error:
                if len(self._jobs) == 1:
                    raise
                self._problem(job, str(error))
            return

    def _bring_own(self, job: Job) -> None:
        from clew.importers import jsonl

        report = jsonl.bring(self._store, job.path, dry_run=self._dry_run, rename=self._rename)
        self._sessions += report.sessions

    def _read(self, job: Job, number: int) -> None:
        told = 0

        def on_bytes(count: int) -> None:
            nonlocal told
            told += count
            self._tell(job, number, told)

        try:
            reader = reader_of(job.format)
            for source in reader.read(job.path, self._problems.append, on_bytes):
                if getattr(reader, "CALLS_HAVE_ONE_ID", False):
                    source = msgspec.structs.replace(source, entries=self._counted_once(source))
                try:
                    self._load(job, source)
                except InvalidError as error:
                    self._problem(job, f"session {source.id!r}: {error}")
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
        source = msgspec.structs.replace(source, metadata={**source.metadata, "imported_from": origin})
        with KeptFiles(self._store, source, self._bench, lambda reason: self._problem(job, reason)) as files:
            loaded = self._store.load(
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
