"""One file on its way into the store: its sessions, and the record of it in the ledger."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from clew.core.load.load import Loading, OnLast, Pass, WholeNeededError
from clew.core.log.ids import check_id
from clew.core.log.records import AGENT, SOURCE_AGENT
from clew.errors import ClewError, InvalidError
from clew.importers import OWN
from clew.importers.contract import NotFollowedError, Place, Problem, SourceEntry, SourceSession
from clew.importers.detect import ROLES, Job, reader_of
from clew.importers.kept_files import KeptFiles
from clew.importers.ledger import Draft
from clew.importers.reading.files import has_whole_lines
from clew.importers.reading.seen import Seen
from clew.importers.reading.values import kind
from clew.importers.records import SessionOf
from clew.importers.unpacking import UnpackedTooMuchError
from clew.model.transfer import ImportedSession

if TYPE_CHECKING:
    from clew.importers.run import Import

_WORDS: Final = ("content", "parts", "tool_calls")


class Brought(NamedTuple):
    session: ImportedSession
    kept: SessionOf | None
    """For the ledger."""


class Opened:
    """A session of which all was read, and the last of it is not written yet."""

    def __init__(
        self, loading: Loading, source: SourceSession, job: Job, name: str, files: KeptFiles
    ) -> None:
        self._loading = loading
        self._source = source
        self._job = job
        self._name = name
        self.files = files

    @contextmanager
    def files_on_error(self) -> Iterator[None]:
        """Let go of the files that it kept if something goes wrong."""
        try:
            yield
        except BaseException:
            self.files.__exit__()
            raise

    @property
    def is_trashed(self) -> bool:
        return self._loading.is_trashed

    def kept(self, at: Pass | None = None) -> SessionOf | None:
        """For the ledger. `at`: in the last transaction."""
        loading = self._loading
        row = None if at is None else at.row
        sid = loading.sid if row is None else row.sid
        if sid is None:
            return None
        told = at or loading
        return SessionOf(
            sid,
            loading.id,
            self._source.parent,
            self._is_copy,
            told.batches,
            told.names,
            loading.is_trashed,
        )

    @property
    def _is_copy(self) -> bool:
        return self._source.is_copy and self._source.parent is not None

    def end(self, last: OnLast | None = None) -> Brought:
        """Write the last of it, and `last` in the same transaction."""
        try:
            if not self._loading.is_trashed:
                self._loading.finish(last)
        finally:
            self.files.__exit__()
        loaded = self._loading.report()
        session = ImportedSession(
            id=loaded.id,
            source=self._name,
            state=loaded.state,
            messages=loaded.messages,
            format=self._job.format,
            entries=loaded.entries,
            parent=self._source.parent,
            is_copy=self._is_copy,
            created_at=loaded.created_at,
            updated_at=loaded.updated_at,
        )
        return Brought(session, self.kept())


class Bringing:
    """One file on its way into the store: what came of it so far. `place`: only what stands behind it is
    read."""

    def __init__(self, whole: Import, job: Job, place: Place | None) -> None:
        self._whole = whole
        self.job = job
        self.place = place
        self._path = whole.name(job)
        self.seen = Seen()
        self.sessions: list[ImportedSession] = []
        self.kept: list[SessionOf] = []
        self.problems: list[Problem] = []
        self.refused = ""
        """Why something of it was not taken that the next import may take."""
        self.reached: Place | None = None
        """Where the reader stopped."""
        self.is_read = True

    def run(self) -> None:
        if self.job.format == OWN:
            brought, damage = self._whole.own(self.job)
            self.problems += damage
            self._add(brought)
            self._whole.keep(self.draft(self.kept))
        else:
            self._read()

    def is_left_in_trash(self) -> bool:
        """Whether its session was deleted here: then it is not read. When it comes back, the file has grown
        since its record was written."""
        found = self._whole.trashed(self.job)
        if found is not None:
            self.sessions.append(found)
            self.is_read = False
        return found is not None

    def refuse(self, reason: str) -> None:
        self.refused = reason
        self._problem(reason)

    def draft(self, sessions: Sequence[SessionOf]) -> Draft | None:
        return self._whole.draft(self, sessions)

    def _read(self) -> None:
        """The sessions of a file of another program. The last of what is new, and the record of the file,
        are one transaction."""
        opened: Opened | None = None
        try:
            for found in self._items():
                if isinstance(found, Place):
                    self.reached = self._whole.without_secrets(found)
                    continue
                if opened is not None:
                    waiting, opened = opened, None
                    self._add(waiting.end())
                source = begun(found, needs_words=not self.job.is_sure)
                if source is None:
                    continue
                if self._whole.is_purged(source):
                    deque(source.entries, maxlen=0)  # a reader knows its place when it has told all
                    continue
                try:
                    opened = self._whole.load(self, source, self._problem)
                except InvalidError as error:
                    self.refuse(f"session {source.id!r}: {error}")
            if not self.job.is_sure and not self.sessions and opened is None:
                self._problem(f"nothing in it is of the format {self.job.format}")
        except BaseException as error:
            is_ours = isinstance(error, ClewError | NotFollowedError | WholeNeededError)
            if self.place is not None or is_ours or not isinstance(error, Exception):
                if opened is not None:
                    opened.files.__exit__()
                if is_ours or not isinstance(error, Exception):
                    raise
                raise NotFollowedError from error
            # No file may cost the others, whatever it holds.
            is_told = isinstance(error, UnpackedTooMuchError)
            self.refuse(str(error) if is_told else f"it cannot be read: {type(error).__name__}: {error}")
        self._end(opened)

    def _end(self, opened: Opened | None) -> None:
        if opened is None or opened.is_trashed:
            if opened is not None:
                self._add(opened.end())
            self._whole.keep(self.draft(self.kept))
            return
        waiting = opened

        def draft(at: Pass) -> Draft | None:
            last = waiting.kept(at)
            return self.draft([*self.kept, *([] if last is None else [last])])

        write, done = self._whole.last_step(draft)
        self._add(waiting.end(write))
        done()

    def _items(self) -> Iterator[SourceSession | Place]:
        """What the reader finds. An import takes a last line that has no end, too; a sync waits for it."""
        job = self.job
        reader = reader_of(job.format)
        follow = getattr(reader, "follow", None)

        def on_bytes(size: int) -> None:
            self._whole.read(job, size)

        takes_end = not self._whole.waits and getattr(reader, "END_WAITS", False)
        if follow is not None and not takes_end and has_whole_lines(job.path, waits=self._whole.waits):
            return iter(follow(job.path, self.place, self._on_problem, on_bytes))
        self.place = None
        return iter(reader.read(job.path, self._on_problem, on_bytes))

    def _add(self, brought: Brought) -> None:
        self.sessions.append(brought.session)
        if brought.kept is not None:
            self.kept.append(brought.kept)

    def _on_problem(self, problem: Problem) -> None:
        if problem.path == str(self.job.path) != self._path:
            problem = msgspec.structs.replace(problem, path=self._path)
        self.problems.append(problem)

    def _problem(self, reason: str) -> None:
        self.problems.append(Problem(path=self._path, line=None, reason=reason))


def begun(source: SourceSession, *, needs_words: bool) -> SourceSession | None:
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


def by_agent(source: SourceSession, format: str) -> SourceSession:
    """Every session names the program that wrote it, whatever else that program calls an agent."""
    own = source.metadata.get(AGENT)
    named = {} if own is None else {SOURCE_AGENT: own}
    return msgspec.structs.replace(source, metadata={**source.metadata, **named, AGENT: format})


def _is_said(entry: SourceEntry) -> bool:
    if entry.kind != "message":
        return bool(entry.message.get("text") or entry.message.get("messages"))
    return kind(entry.message.get("role")) in ROLES and any(entry.message.get(word) for word in _WORDS)
