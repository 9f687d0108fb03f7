"""Bringing what readers find into a store, file by file, with a report.

A file that cannot be read, or a part of one, costs itself: it is listed, and the rest is imported. A file
that is as it was at the last import is not read: the ledger says what came of it. Of one that has only grown,
what is new is read. The record of the ledger is part of the last transaction of its file.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from clew.backends.contract import STORE_WIDE, Transaction
from clew.core.disk import open_file
from clew.core.engine.redaction import incoming, policy_of
from clew.core.load.entries import Memories
from clew.core.load.load import LoadedMeanwhileError, Loading, OnLast, Pass, WholeNeededError
from clew.core.load.trial import Trial
from clew.core.log.records import COPY, purged_name
from clew.core.log.rows import SessionQuery, SessionRow
from clew.core.redact.incoming import Incoming
from clew.core.search.index import catch_up
from clew.errors import (
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
from clew.importers.bringing import Bringing, Brought, Opened, by_agent
from clew.importers.contract import NotFollowedError, Problem, SourceSession
from clew.importers.contract import Place as Reached
from clew.importers.detect import Found, Job, checked, look, reader_of
from clew.importers.kept_files import Bench, KeptFiles
from clew.importers.ledger import Draft, Ledger, problems_of
from clew.importers.reading.seen import note, watching
from clew.importers.records import SessionOf, Source, record_of
from clew.importers.unpacking import Budget, UnpackedTooMuchError, take_holes
from clew.model.session import microseconds, utc
from clew.model.transfer import ImportedFile, ImportedSession, ImportProgress, ImportReport, OnImportProgress

if TYPE_CHECKING:
    from clew.store import Store

TRIES: Final = 12
"""Two imports of the same file get in each other's way: the later one reads it again."""
_PAGE: Final = 5000
MUCH: Final = 1000
"""Entries after which what was followed is made findable; a search does it for fewer."""


PIPE: Final = "-"
"""The name of a file that came through a pipe."""


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
    name: str | None = None,
    max_unpacked: int | None = None,
) -> ImportReport:
    """`store` is asked when there is a session for it: so an import of nothing makes no store. `redact`:
    whether definite secrets are replaced; None: as the policy of the store says. `name` as of a `Place`."""
    return import_places(
        store,
        [Place(path, format, name=name)],
        dry_run=dry_run,
        rename=rename,
        strict=strict,
        again=again,
        on_progress=on_progress,
        redact=redact,
        max_unpacked=max_unpacked,
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
    max_unpacked: int | None = None,
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
                trial = Manner(dry_run=True, rename=rename, max_unpacked=max_unpacked)
                _refuse_problems(Import(store, ledger, [one], {}, trial).run())
        except InvalidError as error:
            if place.is_guess:
                continue
            if len(places) == 1 and place.name is None:
                raise
            if len(places) == 1:
                called = "standard input" if place.name == PIPE else place.name or ""
                raise InvalidError(str(error).replace(str(place.path), called)) from error
            name = str(place.path) if place.name is None else place.name
            reason = str(error).removeprefix(f"{place.path}: ").removeprefix(f"{place.path} ")
            one = Found([], [Problem(path=name, line=None, reason=reason)])
        else:
            if place.name is not None:
                names[str(path)] = place.name
        found.append(one)
    manner = Manner(dry_run=dry_run, rename=rename, redact=redact, max_unpacked=max_unpacked)
    return Import(store, ledger, found, names, manner, on_progress).run()


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How files are brought."""

    dry_run: bool = False
    rename: bool = False
    redact: bool | None = None
    """Whether definite secrets are replaced; None: as the policy of the store says."""
    is_sync: bool = False
    """A line without its end waits for it; of files that did not change nothing is told."""
    memories: Memories | None = None
    """Of sessions that were followed a short while ago."""
    max_unpacked: int | None = None
    """Bytes that all files together may unpack to beyond a multiple of their sizes; None: the usual."""


def _bases_first(jobs: Sequence[Job]) -> list[Job]:
    """The files of our own format by the age of their sessions, in the places that such files have."""
    own = [job for job in jobs if job.format == OWN]
    if len(own) < 2:
        return list(jobs)
    from clew.core.transfer.jsonl_file import created_in

    ordered = iter(sorted(own, key=lambda job: created_in(job.path)))
    return [next(ordered) if job.format == OWN else job for job in jobs]


def _refuse_problems(report: ImportReport) -> None:
    if report.problems:
        first = report.problems[0]
        place = first.path if first.line is None else f"{first.path}, line {first.line}"
        more = len(report.problems) - 1
        raise InvalidError(
            f"{place}: {first.reason}{f' (and {more} more)' if more else ''}; nothing was imported. "
            "Without strict, all the rest is"
        )


class Import:
    """One import: the files that were found, one after the other."""

    def __init__(
        self,
        store: Opener,
        ledger: Ledger,
        found: Sequence[Found],
        names: dict[str, str],
        manner: Manner,
        on_progress: OnImportProgress | None = None,
        gone: Sequence[tuple[str, Source]] = (),
    ) -> None:
        self._store = store
        self._redact = manner.redact
        self._incoming: Incoming | None = None
        self._ledger = ledger
        self._names = names
        jobs = {job.path: job for one in found for job in one.jobs}
        self._jobs = list(jobs.values())
        self._manner = manner
        self._dry_run = manner.dry_run
        self.waits = manner.is_sync
        self._on_progress = on_progress
        self._gone = gone
        self._files = self._bytes = self._bytes_of_file = 0
        """Read so far: files, their bytes, and bytes of the file that is being read."""
        self._same = sum(one.same for one in found)
        self._all_bytes = sum(job.size for job in self._jobs) + sum(one.same_bytes for one in found)
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
        self._counted_since: int | None = None
        """Of a sync: calls of sessions that were active at this time or later are among those."""
        self._trial = Trial()
        """What a dry run would have brought."""
        self._brought: set[int] = set()
        """Sessions that this import has brought."""

    def run(
        self, more: Callable[[ImportReport, Collection[str]], Sequence[Job]] = lambda report, told: ()
    ) -> ImportReport:
        """`more`: asked for files that what was brought has something to do with: it is given a report, and
        files that those which were read tell of."""
        same, jobs, rows = self._sorted()
        jobs = _bases_first(jobs)
        with Budget(self._manner.max_unpacked).spent(), self._bench:
            try:
                for job in jobs:
                    self._bring(job)
                for job in self._concerned(same, jobs):
                    same.remove(job)
                    self._bring(job)
                for job in more(self._report(), self._told_of(jobs)):
                    self._jobs.append(job)
                    self._bring(job)
                for path, source in self._gone:
                    self._ledger.keep_gone(path, source)
            finally:
                self._flush()
        if not self._manner.is_sync:
            for job in same:
                self._pass_over(job, rows)
        if self._jobs:
            self._tell(self._jobs[-1])
        if self._is_open and not self._dry_run and not self._manner.is_sync:
            self.index()
        return self._report()

    def _report(self) -> ImportReport:
        return ImportReport(
            sources=tuple(self._sources),
            sessions=tuple(session for source in self._sources for session in source.sessions),
            dry_run=self._dry_run,
            problems=tuple(self._problems),
            left_out=tuple(dict.fromkeys(self._left_out)),
            files=len(self._jobs) + self._same,
            files_read=self._files_read,
            bytes=self._all_bytes,
            redacted=0 if self._incoming is None else self._incoming.count,
            gone=tuple(path for path, _ in self._gone),
        )

    # -- files that are not read

    def _sorted(self) -> tuple[list[Job], list[Job], dict[int, SessionRow]]:
        """Files that need not be read, files to read, and the sessions of the former. A file of which a
        session was purged since is read, and one of which a session came back from the trash. A purge drops
        the record of the file: a sync need not ask for every session."""
        known = [job.known for job in self._jobs if job.known is not None]
        if self._manner.is_sync and not self._ledger.must_check_sessions:
            known = [source for source in known if any(session.is_trashed for session in source.sessions)]
        rows = self._ledger.rows(known)
        asked = set(map(id, known))
        same, jobs = [], []
        for job in self._jobs:
            if job.known is None or (id(job.known) in asked and not self._is_here(job.known, rows)):
                jobs.append(job)
                continue
            same.append(job)
            self._files += 1
            self._bytes += job.size
            if not self._manner.is_sync:
                kept = [rows[session.sid] for session in job.known.sessions]
                self._calls_kept.setdefault(job.format, []).extend(kept)
        return same, jobs, rows

    def _is_here(self, source: Source, rows: dict[int, SessionRow]) -> bool:
        for session in source.sessions:
            row = rows.get(session.sid)
            if row is None or (session.is_trashed and row.deleted is None):
                return False
        return True

    def _concerned(self, same: Sequence[Job], read: Sequence[Job]) -> list[Job]:
        """Files that did not change, but have something to do with one that was read: it brought the session
        that theirs is a subagent of, or tells of theirs."""
        if not same or not read:
            return []
        new = {one.id for source in self._sources for one in source.sessions if one.state == "new"}
        told = self._told_of(read)
        return [
            job
            for job in same
            if str(job.path) in told
            or any(session.parent in new for session in (job.known.sessions if job.known else ()))
        ]

    def _told_of(self, read: Sequence[Job]) -> set[str]:
        """Files of which others tell something."""
        told: set[str] = set()
        for job in read:
            if job.before is not None:
                continue  # what it begins with was there before
            informs = None if job.format == OWN else getattr(reader_of(job.format), "informs", None)
            if informs is not None:
                told.update(map(str, informs(job.path)))
        return told

    def _pass_over(self, job: Job, rows: dict[int, SessionRow]) -> None:
        assert job.known is not None
        path = str(job.path)
        problems = problems_of(path, job.known)
        sessions = [self._as_it_is(job, rows[session.sid], session) for session in job.known.sessions]
        self._add(job, sessions, problems, is_read=False)

    def _as_it_is(self, job: Job, row: SessionRow, session: SessionOf) -> ImportedSession:
        return ImportedSession(
            id=row.id,
            source=str(job.path),
            state="unchanged" if row.deleted is None else "trashed",
            messages=row.head.messages,
            format=job.format,
            parent=session.parent,
            is_copy=session.is_copy,
            created_at=utc(row.created),
            updated_at=utc(row.updated),
        )

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
        if problems and not sessions and job.before is None:
            self._left_out.append(self.name(job))
        self._problems += problems

    def name(self, job: Job) -> str:
        return self._names.get(str(job.path), str(job.path))

    # -- files that are read

    def _bring(self, job: Job) -> None:
        """One file. An import of the same session at the same time makes it start again."""
        self._tell(job)
        if job.before is not None:
            self.open()
        tries = 0
        while True:
            self._bytes_of_file = 0
            bringing = Bringing(self, job, self._place(job))
            try:
                if bringing.is_left_in_trash():
                    break
                with watching() as bringing.seen:
                    note(job.path)
                    bringing.run()
                break
            except (NotFollowedError, WholeNeededError):
                job = msgspec.structs.replace(job, before=None)
            except StoreBusyError:
                tries += 1
                if tries == TRIES:
                    raise
                time.sleep(random.uniform(0, 0.01 * tries))  # the other one comes to its end meanwhile
                job = self._looked_at_again(job)
            except (ConflictError, CorruptError, InvalidError, NotFoundError, VersionError) as error:
                if len(self._jobs) == 1 and not self._manner.is_sync:
                    raise
                bringing.refuse(str(error))
                if bringing.place is None:  # else it is tried again from there
                    self.keep(bringing.draft([]))
                break
        self._brought.update(session.sid for session in bringing.kept)
        if bringing.place is not None and job.before is not None and not self._manner.is_sync:
            bringing.sessions += self._those_without_news(job, job.before, bringing.kept)
        self._add(job, bringing.sessions, bringing.problems, is_read=bringing.is_read)
        if bringing.refused and bringing.sessions:
            self._left_out.append(self.name(job))
        self._files_read += bringing.is_read
        self._files += 1
        self._bytes += job.size

    def _those_without_news(
        self, job: Job, before: Source, kept: Sequence[SessionOf]
    ) -> list[ImportedSession]:
        """The sessions of a file that was followed, of which nothing new came."""
        rows = self._ledger.rows([before])
        new = {session.sid for session in kept}
        return [
            self._as_it_is(job, rows[one.sid], one)
            for one in before.sessions
            if one.sid in rows and one.sid not in new
        ]

    def _place(self, job: Job) -> Reached | None:
        return None if job.before is None else self._ledger.place(str(job.path), job.before)

    def _looked_at_again(self, job: Job) -> Job:
        """Another process was faster: what it wrote down of the file counts."""
        if job.before is None:
            return job
        self._ledger.forget(str(job.path))
        return msgspec.structs.replace(job, before=self._ledger.find(str(job.path)))

    def draft(self, bringing: Bringing, sessions: Sequence[SessionOf]) -> Draft | None:
        """The record of a file; None: it gets none."""
        job = bringing.job
        if self._dry_run or not self._is_open or str(job.path) in self._names:
            return None
        return self._ledger.draft(
            str(job.path),
            job.format,
            bringing.seen,
            sessions,
            bringing.problems,
            is_sure=job.is_sure,
            error=bringing.refused,
            place=None if bringing.refused else bringing.reached,
            follows=job.before if bringing.place is not None else None,
        )

    def keep(self, draft: Draft | None) -> None:
        if draft is not None:
            self._ledger.keep(draft)
            if self._ledger.is_full:
                self._flush()

    def _flush(self) -> None:
        if (self._is_open or self._gone) and not self._dry_run:
            self._ledger.flush(self.open()._engine)

    def index(self) -> None:
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

    def load(self, bringing: Bringing, source: SourceSession, on_problem: Callable[[str], None]) -> Opened:
        """One session: its entries, then snapshots of the files that it kept, then what stands beside. The
        last of it waits for `Opened.end`."""
        store = self.open()
        job = bringing.job
        source = self._as_copy(store, by_agent(source, job.format))
        goes_on = bringing.place is not None
        known = () if job.before is None else job.before.sessions
        loading = Loading(
            store._engine,
            source,
            dry_run=self._dry_run,
            rename=self._manner.rename or any(one.id.startswith(f"{source.id}~") for one in known),
            on_refused=lambda uid, error: on_problem(f"entry {uid}: {error}"),
            origin={"format": job.format, "path": self.name(job)},
            counted=self._counted_before(store, job.format, source, goes_on=goes_on),
            goes_on=goes_on and any(one.id.partition("~")[0] == source.id for one in known),
            memories=self._manner.memories,
            guard=self._guard(job) if goes_on else None,
            redactor=self._redactor(store),
            trial=self._trial,
        )
        opened = Opened(loading, source, job, self.name(job), KeptFiles(store, loading.id, self._bench))
        if not loading.is_trashed:
            with opened.files_on_error():
                loading.bring_entries()
                checkpoints = source.checkpoints()
                files = opened.files
                loading.gather(files.look(checkpoints) if self._dry_run else files.take(checkpoints))
                if files.lacking:
                    on_problem(files.lacking)
        return opened

    def is_purged(self, source: SourceSession) -> bool:
        """Whether a session was purged here: a sync does not bring it back. Who imports its file asks for
        it."""
        name = purged_name(source.id)
        with self._store(writes=False)._engine.read() as reader:
            mark = reader.get_record(STORE_WIDE, "source", name)
        if mark is None or self._manner.is_sync:
            return mark is not None
        if not self._dry_run:
            self.open()._engine.run(lambda tx: tx.drop_record(STORE_WIDE, "source", name))
        return False

    def _as_copy(self, store: Store, source: SourceSession) -> SourceSession:
        """A session that was written for an agent here names the one that it is a copy of."""
        if source.parent is not None:
            return source
        with store._engine.read() as reader:
            base = reader.get_record(STORE_WIDE, "source", f"{COPY}{source.id}")
        return source if base is None else msgspec.structs.replace(source, parent=base.decode(), is_copy=True)

    def _guard(self, job: Job) -> Callable[[Transaction], None]:
        """What is new may go only to sessions of which all before it is there: a purge drops the record."""
        record = record_of(str(job.path))

        def guard(tx: Transaction) -> None:
            if tx.get_record(STORE_WIDE, "source", record) is None:
                raise LoadedMeanwhileError(f"{job.path} has to be read once more: its session was purged")

        return guard

    def last_step(self, draft: Callable[[Pass], Draft | None]) -> tuple[OnLast, Callable[[], None]]:
        """What writes the record of a file in the last transaction of its last session, and what is to be
        called after that."""
        written: list[tuple[Draft, bytes | None]] = []

        def write(tx: Transaction, at: Pass) -> None:
            written.clear()
            made = draft(at)
            if made is not None:
                written.append((made, self._ledger.write(tx, made)))

        def done() -> None:
            for one in written:
                self._ledger.wrote(*one)

        return write, done

    def _redactor(self, store: Store) -> Incoming | None:
        """What takes secrets out of what is brought; None: they stay."""
        if self._redact is None:
            with store._engine.read() as reader:
                self._redact = policy_of(reader) != "off"
        if self._redact and self._incoming is None:
            self._incoming = incoming(store._engine, writes=not self._dry_run)
        return self._incoming

    def without_secrets(self, reached: Reached) -> Reached:
        """What a reader remembers of a file has titles and other words in it."""
        redactor = self._redactor(self.open()) if self._is_open else None
        if redactor is None:
            return reached
        return msgspec.structs.replace(reached, state=redactor.uncounted().packed(reached.state))

    def own(self, job: Job) -> tuple[Brought, list[Problem]]:
        """A file in Clew's own format, in which a session comes back with everything."""
        from clew.core.transfer.jsonl_file import import_file

        path = str(job.path)
        try:
            with open_file(path, 0) as file:
                take_holes(file.fileno(), path)
        except UnpackedTooMuchError as error:
            raise InvalidError(f"{path}: {error}") from error
        found = import_file(
            lambda: self.open()._engine, path, rename=self._manner.rename, dry_run=self._dry_run
        )
        row = None
        if self._is_open:
            with self.open()._engine.read() as reader:
                row = reader.find_session(found.id) or reader.find_session(found.id, deleted=True)
        session = ImportedSession(
            id=found.id,
            source=self.name(job),
            state=found.state,
            entries=found.entries,
            messages=found.messages,
            created_at=None if row is None else utc(row.created),
            updated_at=None if row is None else utc(row.updated),
        )
        kept = None if row is None or self._dry_run else SessionOf(row.sid, row.id)
        damage = [Problem(path=self.name(job), line=one.line, reason=one.reason) for one in found.damage]
        return Brought(session, kept), damage

    def _counted_before(
        self, store: Store, format: str, source: SourceSession, *, goes_on: bool
    ) -> dict[str, str] | None:
        """Calls that are told of in several files count once. Those of files that are not read were counted
        in the store; only sessions that were alive at that time can have told of the same ones. `goes_on`:
        what an agent just wrote is told nowhere else, but for the sessions that the source names."""
        if not getattr(reader_of(format), "CALLS_HAVE_ONE_ID", False):
            return None
        since = source.created_at
        first = None if since is None else microseconds(since)
        if goes_on:
            return self._counted
        if self._manner.is_sync:
            self._count_since(store, format, source.id, -1 if first is None else first)
            return self._counted
        rows = self._calls_kept.get(format, [])
        wanted = [row for row in rows if first is None or row.updated >= first]
        if wanted:
            gone = {row.sid for row in wanted}
            self._calls_kept[format] = [row for row in rows if row.sid not in gone]
            self._count(store, wanted)
        return self._counted

    def _count_since(self, store: Store, format: str, own: str, first: int) -> None:
        """Count the calls of sessions of a format that were active at a time or later, except for those that
        came with this import: each session once."""
        until = self._counted_since
        if until is not None and until <= first:
            return
        self._counted_since = first
        after = None
        while True:
            with store._engine.read() as reader:
                page = reader.list_sessions(SessionQuery(limit=_PAGE, since=first, until=until, after=after))
            rows = [one.row for one in page]
            self._count(
                store,
                [
                    row
                    for row in rows
                    if row.id.startswith(f"{format}:")
                    and row.id.partition("~")[0] != own
                    and row.sid not in self._brought
                ],
            )
            if len(rows) < _PAGE:
                return
            after = rows[-1].updated, rows[-1].id

    def _count(self, store: Store, rows: Sequence[SessionRow]) -> None:
        with store._engine.read() as reader:
            for row in rows:
                after = 0
                while calls := reader.read_usage(row.sid, after, _PAGE):
                    for call in calls:
                        if call.id is not None:
                            self._counted.setdefault(call.id, row.id)
                    after = calls[-1].number

    def trashed(self, job: Job) -> ImportedSession | None:
        """The only session of a file that was read before, if it is in the trash now."""
        before = self._ledger.find(str(job.path)) if job.before is None else job.before
        if job.format == OWN or before is None or len(before.sessions) != 1 or not self._ledger.is_trusted:
            return None
        row = self._ledger.rows([before]).get(before.sessions[0].sid)
        if row is None or row.deleted is None:
            return None
        return self._as_it_is(job, row, before.sessions[0])

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
