"""Bringing what readers find into a store, file by file, with a report.

A file that cannot be read, or a part of one, costs itself: it is listed, and the rest is imported. A file
that is as it was at the last import is not read: the ledger says what came of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from clew.core.engine.redaction import incoming, policy_of
from clew.core.load.load import Loading
from clew.core.log.ids import check_id
from clew.core.log.records import AGENT
from clew.core.log.rows import SessionRow
from clew.core.redact.incoming import Incoming
from clew.core.search.index import catch_up
from clew.errors import (
    ClewError,
    ConflictError,
    CorruptError,
    DiskFullError,
    InvalidError,
    NotFoundError,
    ReadOnlyError,
    StoreBusyError,
    VersionError,
)
from clew.importers import OWN
from clew.importers.contract import Problem, SourceEntry, SourceSession
from clew.importers.detect import ROLES, Found, Job, checked, look, reader_of
from clew.importers.kept_files import Bench, KeptFiles
from clew.importers.ledger import Ledger, SessionOf, problems_of
from clew.importers.reading.seen import Seen, note, watching
from clew.importers.reading.values import kind
from clew.model.session import microseconds, utc
from clew.model.transfer import ImportedFile, ImportedSession, ImportProgress, ImportReport, OnImportProgress

if TYPE_CHECKING:
    from clew.store import Store

TRIES: Final = 5
"""Two imports of the same file get in each other's way: the later one reads it again."""
_WORDS: Final = ("content", "parts", "tool_calls")
_PAGE: Final = 5000


class Opener(Protocol):
    def __call__(self, *, writes: bool) -> Store:
        """The store that sessions are brought into, or only compared with."""


class Place(NamedTuple):
    """What to import."""

    path: str | os.PathLike[str]
    format: str | None = None
    """None: its content tells."""
    is_guess: bool = False
    """There may be nothing."""
    name: str | None = None
    """What the file is called instead of its path: it came through a pipe, and is nowhere."""


def import_path(
    store: Opener,
    path: str | os.PathLike[str],
    format: str | None,
    *,
    dry_run: bool,
    rename: bool,
    strict: bool,
    on_progress: OnImportProgress | None,
    again: bool = False,
    redact: bool | None = None,
) -> ImportReport:
    """`store` is asked when there is a session for it: so an import of nothing makes no store. `redact`:
    whether definite secrets are replaced; None: as the policy of the store says."""
    return import_places(
        store,
        [Place(path, format)],
        dry_run=dry_run,
        rename=rename,
        strict=strict,
        again=again,
        on_progress=on_progress,
        redact=redact,
    )


def import_places(
    store: Opener,
    places: Sequence[Place],
    *,
    dry_run: bool,
    rename: bool,
    strict: bool,
    again: bool,
    on_progress: OnImportProgress | None,
    redact: bool | None = None,
) -> ImportReport:
    """As one import. What is wrong with one of several places is a problem; with the only one, an error."""
    ledger = Ledger(store(writes=False)._engine, is_trusted=not again)
    for place in places:
        if place.format is not None and place.format != OWN:
            reader_of(place.format)  # a name that is wrong is said once
    found: list[Found] = []
    names: dict[str, str] = {}
    for place in places:
        try:
            path = checked(place.path)
            one = look(path, place.format, ledger)
            if strict:
                _refuse_problems(
                    _Import(store, ledger, [one], {}, dry_run=True, rename=rename, on_progress=None).run()
                )
        except InvalidError as error:
            if place.is_guess:
                continue
            if len(places) == 1 and place.name is None:
                raise
            if len(places) == 1:
                raise InvalidError(str(error).replace(str(place.path), "standard input")) from error
            name = str(place.path) if place.name is None else place.name
            reason = str(error).removeprefix(f"{place.path}: ").removeprefix(f"{place.path} ")
            one = Found([], [Problem(path=name, line=None, reason=reason)])
        else:
            if place.name is not None:
                names[str(path)] = place.name
        found.append(one)
    return _Import(
        store, ledger, found, names, dry_run=dry_run, rename=rename, on_progress=on_progress, redact=redact
    ).run()


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
        ledger: Ledger,
        found: Sequence[Found],
        names: dict[str, str],
        *,
        dry_run: bool,
        rename: bool,
        on_progress: OnImportProgress | None,
        redact: bool | None = None,
    ) -> None:
        self._store = store
        self._redact = redact
        self._incoming: Incoming | None = None
        self._ledger = ledger
        self._names = names
        jobs = {job.path: job for one in found for job in one.jobs}
        self._jobs = list(jobs.values())
        self._dry_run = dry_run
        self._rename = rename
        self._on_progress = on_progress
        self._files = self._bytes = self._bytes_of_file = 0
        """Read so far: files, their bytes, and bytes of the file that is being read."""
        self._all_bytes = sum(job.size for job in self._jobs)
        self._bench = Bench()
        self._sources: list[ImportedFile] = []
        self._problems = [problem for one in found for problem in one.problems]
        self._left_out = [problem.path for problem in self._problems]
        self._files_read = 0
        self._is_open = False
        """Something was brought, or was to be: so there is a store."""
        self._counted: dict[str, str] = {}
        """Calls that one of the files told of, and the session in which they count."""
        self._calls_kept: dict[str, list[SessionRow]] = {}
        """By format, sessions of files that are not read: their calls count there."""

    def run(self) -> ImportReport:
        same, jobs, rows = self._sorted()
        with self._bench:
            try:
                for job in jobs:
                    self._bring(job)
                for job in self._concerned(same, jobs):
                    same.remove(job)
                    self._bring(job)
            finally:
                self._flush()
        for job in same:
            self._pass_over(job, rows)
        if self._jobs:
            self._tell(self._jobs[-1])
        if self._is_open and not self._dry_run:
            self._index()
        return ImportReport(
            sources=tuple(self._sources),
            sessions=tuple(session for source in self._sources for session in source.sessions),
            dry_run=self._dry_run,
            problems=tuple(self._problems),
            left_out=tuple(dict.fromkeys(self._left_out)),
            files=len(self._jobs),
            files_read=self._files_read,
            bytes=self._all_bytes,
            redacted=0 if self._incoming is None else self._incoming.count,
        )

    # -- files that are not read

    def _sorted(self) -> tuple[list[Job], list[Job], dict[int, SessionRow]]:
        """Files that need not be read, files to read, and the sessions of the former. A file of which a
        session was purged since is read."""
        rows = self._ledger.rows(job.known for job in self._jobs if job.known is not None)
        same, jobs = [], []
        for job in self._jobs:
            if job.known is None or any(session.sid not in rows for session in job.known.sessions):
                jobs.append(job)
                continue
            same.append(job)
            self._files += 1
            self._bytes += job.size
            kept = [rows[session.sid] for session in job.known.sessions]
            self._calls_kept.setdefault(job.format, []).extend(kept)
        return same, jobs, rows

    def _concerned(self, same: Sequence[Job], read: Sequence[Job]) -> list[Job]:
        """Files that did not change, but have something to do with one that was read: it brought the session
        that theirs is a subagent of, or tells of theirs."""
        if not same or not read:
            return []
        new = {one.id for source in self._sources for one in source.sessions if one.state == "new"}
        told: set[str] = set()
        for job in read:
            informs = None if job.format == OWN else getattr(reader_of(job.format), "informs", None)
            if informs is not None:
                told.update(map(str, informs(job.path)))
        return [
            job
            for job in same
            if str(job.path) in told
            or any(session.parent in new for session in (job.known.sessions if job.known else ()))
        ]

    def _pass_over(self, job: Job, rows: dict[int, SessionRow]) -> None:
        assert job.known is not None
        path = str(job.path)
        problems = problems_of(path, job.known)
        sessions = []
        for session in job.known.sessions:
            row = rows[session.sid]
            sessions.append(
                ImportedSession(
                    id=row.id,
                    source=path,
                    state="unchanged" if row.deleted is None else "trashed",
                    messages=row.head.messages,
                    format=job.format,
                    parent=session.parent,
                    is_copy=session.is_copy,
                    created_at=utc(row.created),
                    updated_at=utc(row.updated),
                )
            )
        self._add(job, sessions, problems, is_read=False)

    def _add(
        self, job: Job, sessions: list[ImportedSession], problems: list[Problem], *, is_read: bool
    ) -> None:
        self._sources.append(
            ImportedFile(
                path=self.name(job),
                format=job.format,
                sessions=tuple(sessions),
                problems=tuple(problems),
                read=is_read,
            )
        )
        if problems and not sessions:
            self._left_out.append(self.name(job))
        self._problems += problems

    def name(self, job: Job) -> str:
        return self._names.get(str(job.path), str(job.path))

    # -- files that are read

    def _bring(self, job: Job) -> None:
        """One file. An import of the same session at the same time makes it start again."""
        self._tell(job)
        for attempt in range(TRIES):
            self._bytes_of_file = 0
            bringing = _Bringing(self, job)
            try:
                with watching() as seen:
                    note(job.path)
                    bringing.run()
                break
            except StoreBusyError:
                if attempt == TRIES - 1:
                    raise
            except (ConflictError, CorruptError, InvalidError, NotFoundError, VersionError) as error:
                if len(self._jobs) == 1:
                    raise
                bringing.refuse(str(error))
                break
        self._add(job, bringing.sessions, bringing.problems, is_read=True)
        if bringing.refused and bringing.sessions:
            self._left_out.append(self.name(job))
        self._keep(job, seen, bringing)
        self._files_read += 1
        self._files += 1
        self._bytes += job.size

    def _keep(self, job: Job, seen: Seen, bringing: _Bringing) -> None:
        if self._dry_run or not self._is_open or str(job.path) in self._names:
            return
        self._ledger.keep(
            str(job.path),
            job.format,
            seen,
            bringing.kept,
            bringing.problems,
            is_sure=job.is_sure,
            error=bringing.refused,
        )
        if self._ledger.is_full:
            self._flush()

    def _flush(self) -> None:
        if self._is_open and not self._dry_run:
            self._ledger.flush(self.open()._engine)

    def _index(self) -> None:
        """Make what was brought findable, so that the first search does not have to."""
        engine = self.open()._engine
        total = len(self._jobs)

        def tell(done: int, trees: int) -> None:
            if self._on_progress is not None:
                self._on_progress(
                    ImportProgress(
                        path="", files=total, all_files=total, bytes=done, all_bytes=trees, phase="indexing"
                    )
                )

        # A search does it if this cannot, or says why.
        with suppress(ReadOnlyError, DiskFullError, CorruptError, StoreBusyError):
            catch_up(engine.read, engine.run, tell)

    def open(self) -> Store:
        self._is_open = True
        return self._store(writes=not self._dry_run)

    def load(self, job: Job, source: SourceSession, on_problem: Callable[[str], None]) -> _Brought:
        """One session: its entries, then snapshots of the files that it kept, then what stands beside."""
        store = self.open()
        source = _by_agent(source, job.format)
        loading = Loading(
            store._engine,
            source,
            dry_run=self._dry_run,
            rename=self._rename,
            on_refused=lambda uid, error: on_problem(f"entry {uid}: {error}"),
            origin={"format": job.format, "path": self.name(job)},
            counted=self._counted_before(store, job.format, source.created_at),
            redactor=self._redactor(store),
        )
        if not loading.is_trashed:
            loading.bring_entries()
            with KeptFiles(store, loading.id, self._bench) as files:
                checkpoints = source.checkpoints()
                loading.bring_rest(files.look(checkpoints) if self._dry_run else files.take(checkpoints))
            if files.lacking:
                on_problem(files.lacking)
        loaded = loading.report()
        session = ImportedSession(
            id=loaded.id,
            source=self.name(job),
            state=loaded.state,
            messages=loaded.messages,
            format=job.format,
            entries=loaded.entries,
            parent=source.parent,
            is_copy=source.is_copy and source.parent is not None,
            created_at=loaded.created_at,
            updated_at=loaded.updated_at,
        )
        kept = None
        if loading.sid is not None:
            kept = SessionOf(loading.sid, loaded.id, source.parent, session.is_copy, loading.batches)
        return _Brought(session, kept)

    def _redactor(self, store: Store) -> Incoming | None:
        """What takes secrets out of what is brought; None: they stay."""
        if self._redact is None:
            with store._engine.read() as reader:
                self._redact = policy_of(reader) != "off"
        if self._redact and self._incoming is None:
            self._incoming = incoming(store._engine, writes=not self._dry_run)
        return self._incoming

    def own(self, job: Job) -> tuple[_Brought, list[Problem]]:
        """A file in Clew's own format, in which a session comes back with everything."""
        from clew.core.transfer.jsonl_file import import_file

        path = str(job.path)
        found = import_file(lambda: self.open()._engine, path, rename=self._rename, dry_run=self._dry_run)
        row = None
        if self._is_open:
            with self.open()._engine.read() as reader:
                row = reader.find_session(found.id) or reader.find_session(found.id, deleted=True)
        session = ImportedSession(
            id=found.id,
            source=self.name(job),
            state=found.state,
            messages=found.messages,
            created_at=None if row is None else utc(row.created),
            updated_at=None if row is None else utc(row.updated),
        )
        kept = None if row is None or self._dry_run else SessionOf(row.sid, row.id)
        damage = [Problem(path=self.name(job), line=one.line, reason=one.reason) for one in found.damage]
        return _Brought(session, kept), damage

    def _counted_before(self, store: Store, format: str, since: datetime | None) -> dict[str, str] | None:
        """Calls that are told of in several files count once. Those of files that are not read were counted
        in the store; only sessions that were alive at that time can have told of the same ones."""
        if not getattr(reader_of(format), "CALLS_HAVE_ONE_ID", False):
            return None
        rows = self._calls_kept.get(format, [])
        first = None if since is None else microseconds(since)
        wanted = [row for row in rows if first is None or row.updated >= first]
        if wanted:
            gone = {row.sid for row in wanted}
            self._calls_kept[format] = [row for row in rows if row.sid not in gone]
            with store._engine.read() as reader:
                for row in wanted:
                    after = 0
                    while calls := reader.read_usage(row.sid, after, _PAGE):
                        for call in calls:
                            if call.id is not None:
                                self._counted.setdefault(call.id, row.id)
                        after = calls[-1].number
        return self._counted

    # -- progress

    def read(self, job: Job, size: int) -> None:
        self._bytes_of_file += size
        self._tell(job)

    def _tell(self, job: Job) -> None:
        if self._on_progress is not None:
            self._on_progress(
                ImportProgress(
                    path=self.name(job),
                    format=job.format,
                    files=self._files,
                    all_files=len(self._jobs),
                    bytes=min(self._bytes + min(self._bytes_of_file, job.size), self._all_bytes),
                    all_bytes=self._all_bytes,
                )
            )


class _Brought(NamedTuple):
    session: ImportedSession
    kept: SessionOf | None
    """For the ledger."""


class _Bringing:
    """One file on its way into the store: what came of it so far."""

    def __init__(self, whole: _Import, job: Job) -> None:
        self._whole = whole
        self._job = job
        self._path = whole.name(job)
        self.sessions: list[ImportedSession] = []
        self.kept: list[SessionOf] = []
        self.problems: list[Problem] = []
        self.refused = ""
        """Why something of it was not taken that the next import may take."""

    def run(self) -> None:
        if self._job.format == OWN:
            brought, damage = self._whole.own(self._job)
            self.problems += damage
            self._add(brought)
        else:
            self._read()

    def refuse(self, reason: str) -> None:
        self.refused = reason
        self._problem(reason)

    def _read(self) -> None:
        """The sessions of a file of another program."""
        job = self._job
        try:
            sessions = reader_of(job.format).read(
                job.path, self._on_problem, lambda size: self._whole.read(job, size)
            )
            for found in sessions:
                source = _begun(found, needs_words=not job.is_sure)
                if source is None:
                    continue
                try:
                    self._add(self._whole.load(job, source, self._problem))
                except InvalidError as error:
                    self.refuse(f"session {source.id!r}: {error}")
            if not job.is_sure and not self.sessions:
                self._problem(f"nothing in it is of the format {job.format}")
        except ClewError:
            raise
        except Exception as error:  # noqa: BLE001 (no file may cost the others, whatever it holds)
            self.refuse(f"it cannot be read: {type(error).__name__}: {error}")

    def _add(self, brought: _Brought) -> None:
        self.sessions.append(brought.session)
        if brought.kept is not None:
            self.kept.append(brought.kept)

    def _on_problem(self, problem: Problem) -> None:
        if problem.path == str(self._job.path) != self._path:
            problem = msgspec.structs.replace(problem, path=self._path)
        self.problems.append(problem)

    def _problem(self, reason: str) -> None:
        self.problems.append(Problem(path=self._path, line=None, reason=reason))


def _begun(source: SourceSession, *, needs_words: bool) -> SourceSession | None:
    """A session whose first entries were read: what cannot be read at all makes no store. `needs_words`: only
    the caller says that its file is of this format; None: no message is in its beginning. Whatever a reader
    makes of a file of something else is no session."""
    check_id(source.id)
    entries = iter(source.entries)
    first = list(islice(entries, 20 if needs_words else 1))
    if needs_words and not any(map(_is_said, first)):
        return None

    def all_entries() -> Iterator[SourceEntry]:
        try:
            yield from first
            yield from entries
        finally:
            if isinstance(entries, Generator):
                entries.close()

    return msgspec.structs.replace(source, entries=all_entries())


def _by_agent(source: SourceSession, format: str) -> SourceSession:
    """Every session names the program that wrote it, whatever else that program calls an agent."""
    own = source.metadata.get(AGENT)
    named = {} if own is None else {f"source_{AGENT}": own}
    return msgspec.structs.replace(source, metadata={**source.metadata, **named, AGENT: format})


def _is_said(entry: SourceEntry) -> bool:
    if entry.kind != "message":
        return bool(entry.message.get("text") or entry.message.get("messages"))
    return kind(entry.message.get("role")) in ROLES and any(entry.message.get(word) for word in _WORDS)
