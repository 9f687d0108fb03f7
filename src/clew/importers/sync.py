"""Bringing what agents wrote since the last time: `clew sync` once, `clew watch` again and again.

A file that did not change costs one look at its times, and a file that has grown is read from where the last
pass stopped: see `ledger.py`. Nothing is trusted over what the store says: other processes may load too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec

from clew.core.load.entries import Memories
from clew.errors import InvalidError
from clew.importers import READERS
from clew.importers.contract import Problem
from clew.importers.detect import Found, Job, checked, look, look_at_file, look_in, reader_of
from clew.importers.ledger import Ledger, is_gone
from clew.importers.records import Places, Source
from clew.importers.run import MUCH, Import, Manner, Opener, Place
from clew.model.transfer import ImportReport, OnImportProgress

AGAIN: Final = 600.0
"""Seconds after which a file that could not be read is tried again, though it did not change."""
_SIDES: Final = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database."""

SourcePath: TypeAlias = str | os.PathLike[str]


class SourceRoot(NamedTuple):
    """A directory or a file in which sessions are, or may come to be."""

    format: str | None
    """None: the content of each file tells."""
    path: Path


class Sync:
    """Brings what agents wrote since the last time into a store. One thread at a time.

    Args:
        store: Asked for the store, when it is needed.
        sources: Files and directories; None: the usual places of all known agents on this machine.
        dry_run: Only say what would come.
        on_progress: Told how far a pass is.
    """

    def __init__(
        self,
        store: Opener,
        sources: Sequence[SourcePath | Place] | None = None,
        *,
        dry_run: bool = False,
        on_progress: OnImportProgress | None = None,
    ) -> None:
        self._store = store
        self._is_told = sources is not None
        self.roots = _usual_roots() if sources is None else [_root(one) for one in sources]
        """What a watcher watches. They need not be there yet."""
        self._manner = Manner(dry_run=dry_run, is_sync=True, memories=None if dry_run else Memories())
        self._on_progress = on_progress
        self._places = Places()
        self._unfound = 0
        """Entries that were brought since texts were made findable."""
        self.has_records = False
        """Whether a file was brought before."""
        self._failed: dict[str, tuple[tuple[int, int], float]] = {}
        """Files that could not be read, how they looked then, and when that was."""

    def all(self) -> ImportReport:
        """Look at everything. What did not change is not opened."""
        ledger = self._ledger()
        found = [one for root in self.roots if (one := self._found(root, ledger)) is not None]
        self.has_records = ledger.has_records
        return self._bring(ledger, found, gone=ledger.vanished())

    def some(self, paths: Collection[SourcePath]) -> ImportReport:
        """Look at these files only; what no reader knows is passed over."""
        ledger = self._ledger()
        jobs: dict[Path, Job] = {}
        gone = []
        for given in paths:
            path = _source_of(os.fspath(given))
            if is_gone(path) and (source := ledger.find(path)) is not None:
                if not source.gone:
                    gone.append((path, source))
                continue
            found = self._jobs_at(ledger, path)
            if not found and ledger.find(path) is None:
                found = [job for one in ledger.beside(path) for job in self._jobs_at(ledger, one)]
            jobs |= {job.path: job for job in found}
        return self._bring(ledger, [Found(list(jobs.values()), [])], gone=gone, is_part=True)

    # -- what to look at

    def _ledger(self) -> Ledger:
        return Ledger(self._store(writes=False)._engine, is_sync=True, places=self._places)

    def _found(self, root: SourceRoot, ledger: Ledger) -> Found | None:
        try:
            path = checked(root.path)
            if root.format is None:
                return look(path, None, ledger)
            return look_in(root.format, path, ledger)
        except InvalidError as error:
            if root.format is not None and not self._is_told:
                return None  # there is no such agent here
            path = Path(os.path.realpath(root.path))
            ledger.look_below(str(path))
            if ledger.find(str(path)) is not None or ledger.has_records:
                return None  # something was here, and is told as gone
            if len(self.roots) == 1:
                raise
            reason = str(error).removeprefix(f"{root.path}: ").removeprefix(f"{root.path} ")
            return Found([], [Problem(path=str(root.path), line=None, reason=reason)])

    def _jobs_at(self, ledger: Ledger, path: str) -> list[Job]:
        place = Path(path)
        for root in self.roots:
            if place == root.path or place.is_relative_to(os.path.realpath(root.path)):
                return look_at_file(root.format, place, ledger)
        return []

    # -- bringing it

    def _bring(
        self,
        ledger: Ledger,
        found: Sequence[Found],
        *,
        gone: Sequence[tuple[str, Source]] = (),
        is_part: bool = False,
    ) -> ImportReport:
        found = [
            msgspec.structs.replace(one, jobs=[job for job in one.jobs if not self._has_failed(job)])
            for one in found
        ]
        work = Import(self._store, ledger, found, {}, self._manner, self._on_progress, gone)

        def more(report: ImportReport, told: Collection[str]) -> list[Job]:
            """Subagents that came before their session learn of it, and sessions that another file tells
            of."""
            new = {session.id for session in report.sessions if session.state == "new"}
            read = {source.path for source in report.sources}
            folders = [os.path.realpath(root.path) for root in self.roots] if is_part else []
            concerned = {*told, *(ledger.children_of(new, folders) if new else ())} - read
            return [
                Job(source.format, Path(path), 0, source.is_sure)
                for path in sorted(concerned)
                if (source := ledger.find(path)) is not None and not is_gone(path)
            ]

        report = work.run(more)
        self._note_failures(report)
        self._unfound += report.entries
        if self._unfound >= MUCH and not self._manner.dry_run:
            self._unfound = 0
            work.index()
        return report

    def _has_failed(self, job: Job) -> bool:
        """Whether it could not be read a short while ago, and is as it was then."""
        look, when = self._failed.get(str(job.path), (None, 0.0))
        return look == _look_of(str(job.path)) and time.monotonic() - when < AGAIN

    def _note_failures(self, report: ImportReport) -> None:
        for source in report.sources:
            self._failed.pop(source.path, None)
            if source.path in report.left_out:
                self._failed[source.path] = _look_of(source.path), time.monotonic()


def _usual_roots() -> list[SourceRoot]:
    home = Path.home()
    return [SourceRoot(format, place) for format in READERS for place in reader_of(format).known_places(home)]


def _root(source: SourcePath | Place) -> SourceRoot:
    if isinstance(source, Place):
        return SourceRoot(source.format, Path(source.path))
    return SourceRoot(None, Path(source))


def _source_of(path: str) -> str:
    """The file that is read if something has changed at a path."""
    for side in _SIDES:
        path = path.removesuffix(side)
    with suppress(OSError, ValueError):
        path = os.path.realpath(path)
    return path


def _look_of(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return 0, 0
    return found.st_size, found.st_mtime_ns
