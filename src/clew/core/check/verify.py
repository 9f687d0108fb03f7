"""Whether the conversations of a store are whole: sessions, branches, entries, and what is beside them.

Nothing is locked: others write meanwhile. What is found is looked at once more, and told if it is there
still: so what was purged or deleted in between is no problem. In memory there are a page of entries,
and the rows of one tree of sessions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, Literal

from clew.backends.contract import STORE_WIDE, Reader
from clew.backends.rows import MODEL, TAG, facets_of
from clew.core.check.branches import OF_TIP, BranchCheck
from clew.core.check.records import OF_SESSION, OF_STORE, StreamCheck, of_session, of_store
from clew.core.check.scan import UNREADABLE, Read, rows_by_number, scan
from clew.core.log.keys import hashed_name
from clew.core.log.rows import EMPTY, BranchRow, SessionQuery, SessionRow
from clew.core.log.tree import in_order, misplaced
from clew.errors import CorruptSessionError
from clew.model.files import FileProgress, OnProgress, VerifyProblem

PAGE: Final = 200
NEAR: Final = 10


def check_conversations(read: Read, findings: Findings, *, full: bool) -> None:
    """EnoughError: there was no time for all of it."""
    with read() as reader:
        for bad in reader.damaged_sessions():
            text = f"session {bad.row.id!r} is damaged: {bad.reason}"
            findings.add(VerifyProblem(kind="session", text=text, session=bad.row.id))
    shared: set[int] = set()
    for row in _sessions(read, findings):
        if row.tree in shared:
            continue
        relatives = len(_relatives(read, row)[0])
        if relatives > 1:
            shared.add(row.tree)
        _check_tree(read, findings, row, full=full)
        findings.looked(sessions=relatives)
    _check_store_wide(read, findings)


def _sessions(read: Read, findings: Findings) -> Iterator[SessionRow]:
    """All sessions, then those in the trash. One that is used meanwhile may come twice, but is not missed."""
    after: tuple[int, str] | None = None
    try:
        while True:
            with read() as reader:
                found = reader.list_sessions(SessionQuery(limit=PAGE, after=after, oldest=True))
            yield from (one.row for one in found)
            if len(found) < PAGE:
                break
            after = found[-1].row.updated, found[-1].row.id
        after = None
        while True:
            with read() as reader:
                trash = reader.list_sessions(SessionQuery(limit=PAGE, after=after, deleted=True))
            yield from (one.row for one in trash)
            if len(trash) < PAGE:
                return
            after = trash[-1].row.deleted or 0, trash[-1].row.id
    except UNREADABLE as error:
        findings.add(VerifyProblem(kind="session", text=f"not all sessions can be listed: {error}"))
        yield from rows_by_number(read)


def _relatives(read: Read, row: SessionRow) -> tuple[list[SessionRow], str]:
    """The sessions that share entries with one; if they cannot be listed that one alone, and why."""
    try:
        with read() as reader:
            return reader.tree_sessions(row.tree), ""
    except UNREADABLE as error:
        return [row], str(error)


def _check_tree(read: Read, findings: Findings, row: SessionRow, *, full: bool) -> None:
    first = _TreeCheck(read, findings.looked, row)
    second = _TreeCheck(read, lambda **_: findings.check_time(), row)
    try:
        first.run(full=full)
        if first.found:
            second.run(full=full)
            again = set(second.found)
            first.found = [problem for problem in first.found if problem in again]
    finally:
        for problem in first.found:
            findings.add(problem)


class _TreeCheck:
    """A look at sessions that share entries."""

    def __init__(self, read: Read, looked: Callable[..., None], row: SessionRow) -> None:
        """`looked` as that of `Findings`; `row`: one of the sessions."""
        self._read = read
        self._looked = looked
        self._row = row
        self.found: list[VerifyProblem] = []

    def run(self, *, full: bool) -> None:
        sessions, wrong = _relatives(self._read, self._row)  # before the branches: what heads name is there
        if wrong:
            id = self._row.id
            self._note("session", f"the forks of session {id!r} and its base cannot be listed: {wrong}", id)
        try:
            with self._read() as reader:
                branches = in_order(reader.tree_branches(self._row.tree))
        except UNREADABLE as error:
            self._note("branch", f"the branches of session {self._row.id!r}: {error}", self._row.id)
            return
        oldest = sessions[0].id if sessions else None
        names = {row.sid: row.id for row in sessions}
        by_number = {branch.branch: branch for branch in branches}
        owned: dict[int, list[BranchRow]] = {}
        for branch in branches:
            owned.setdefault(branch.owner, []).append(branch)
            note = partial(self._note_entry, oldest, branch)
            lost = misplaced(branch, by_number.get(branch.parent))
            if lost is not None:
                self._note_entry(names.get(branch.owner, oldest), branch, None, lost)
            try:
                check = BranchCheck(self._read, branch, note, continues=lost is None)
                self._check_branch(check, full=full)
            except UNREADABLE as error:
                note(None, f"it cannot be read: {error}")
        for row in sessions:
            try:
                self._check_session(row, by_number, owned.get(row.sid, ()))
            except CorruptSessionError:
                pass  # the damaged sessions were named at the beginning
            except UNREADABLE as error:
                self._note("session", f"session {row.id!r} cannot be read: {error}", row.id)
            if full:
                self._check_streams(row)
                self._check_listed(row)

    def _check_branch(self, check: BranchCheck, *, full: bool) -> None:
        count = check.structure()
        if not full:
            self._looked(entries=count)
            return
        for entries, size in check.contents():
            self._looked(entries=entries, size=size)

    def _note(
        self,
        kind: Literal["session", "branch", "entry", "record", "snapshot"],
        text: str,
        session: str | None,
        branch: str | None = None,
        position: int | None = None,
    ) -> None:
        if len(self.found) >= MOST:
            raise EnoughError
        self.found.append(
            VerifyProblem(kind=kind, text=text, session=session, branch=branch, position=position)
        )

    def _note_entry(self, session: str | None, branch: BranchRow, position: int | None, wrong: str) -> None:
        where = f"of session {session!r}, branch {branch.uid}"
        if position is None:
            self._note("branch", f"a branch {where}: {wrong}", session, branch.uid)
        else:
            self._note("entry", f"entry {position} {where}: {wrong}", session, branch.uid, position)

    # -- a session

    def _check_session(
        self, row: SessionRow, branches: dict[int, BranchRow], own: Iterable[BranchRow]
    ) -> None:
        with self._read() as reader:
            self._check_head(reader, row, branches)
            self._check_names(reader, row, own)
            self._check_records(reader, row)
            reader.get_details(row.sid)

    def _check_streams(self, row: SessionRow) -> None:
        check = StreamCheck(self._read, row.sid, self._looked)
        for wrong in (*check.events(), *check.calls()):
            self._note("record", f"session {row.id!r}: {wrong}", row.id)

    def _check_listed(self, row: SessionRow) -> None:
        """By its tags and metadata it is listed: these are looked up in an index."""
        try:
            with self._read() as reader:
                if not _is_listed(reader, row) and reader.get_session(row.sid) == row:
                    text = f"session {row.id!r} is not listed by its tags and metadata"
                    self._note("session", text, row.id)
        except UNREADABLE:
            pass  # of this session it was told before, of another one it will be

    def _check_names(self, reader: Reader, row: SessionRow, own: Iterable[BranchRow]) -> None:
        """By their names they are found: these are looked up in an index."""
        if row.deleted is None:
            found = reader.find_session(row.id)
            if found is None or found.sid != row.sid:
                self._note("session", f"session {row.id!r} cannot be found by its id", row.id)
        for branch in own:
            if reader.find_branch(branch.uid) != branch:
                text = f"branch {branch.uid} of session {row.id!r} cannot be found by its name"
                self._note("branch", text, row.id, branch.uid)

    def _check_head(self, reader: Reader, row: SessionRow, branches: dict[int, BranchRow]) -> None:
        head = row.head
        branch = branches.get(head.branch)
        uid = branch.uid if branch else None
        tip = reader.get_tip(head.branch, head.position) if branch else None if head.branch else EMPTY
        if tip is None:
            wrong = f"stands at entry {head.position} of branch {uid or head.branch}, which does not exist"
            self._note("session", f"session {row.id!r} {wrong}", row.id, uid, head.position)
            return
        others = [name for name in OF_TIP if getattr(tip, name) != getattr(head, name)]
        if others or tip.position != head.position:
            wrong = f"does not agree with the entry at its head: {', '.join(others) or 'position'}"
            self._note("session", f"session {row.id!r} {wrong}", row.id, uid, head.position)
        owned = branch is not None and branch.owner == row.sid
        grows = owned and reader.get_tip(head.branch, head.position + 1) is None
        if row.grows != grows and reader.get_session(row.sid) == row:
            self._note("session", f"session {row.id!r} would append to the wrong branch", row.id, uid)

    def _check_records(self, reader: Reader, row: SessionRow) -> None:
        moves = 0
        for kind in OF_SESSION:
            for name, value in scan(reader, row.sid, kind):
                moves += kind == "move"
                for wrong in of_session(reader, row, kind, name, value):
                    named = hashed_name(name) if kind == "key" else name
                    text = f"the {kind} {named!r} of session {row.id!r}: {wrong.text}"
                    self._note(wrong.kind, text, row.id, wrong.branch, wrong.position)
                self._looked()
        if moves < row.moves:
            lost = f"{row.moves - moves} of the {row.moves} moves of session {row.id!r} are missing"
            self._note("record", lost, row.id)


def _is_listed(reader: Reader, row: SessionRow) -> bool:
    """Whether lists by its tags and metadata have it, some of these at a time. Lists by model are newer than
    some stores: a session that these lack is not damaged."""
    facets = facets_of(reader.get_details(row.sid)) if row.deleted is None else []
    facets = [facet for facet in facets if facet[0] != MODEL]
    return all(_is_listed_by(reader, row, facets[at : at + NEAR]) for at in range(0, len(facets), NEAR))


def _is_listed_by(reader: Reader, row: SessionRow, facets: list[tuple[str, str]]) -> bool:
    """Look where it should be: others of the same time may come before it."""
    tags = tuple(value for name, value in facets if name == TAG)
    where = tuple((name, value) for name, value in facets if name != TAG)
    after = (row.updated, row.id[:-1])
    while True:
        found = reader.list_sessions(SessionQuery(limit=NEAR, tags=tags, where=where, after=after))
        if any(one.row.sid == row.sid for one in found):
            return True
        if len(found) < NEAR or found[-1].row.updated < row.updated:
            return False
        after = found[-1].row.updated, found[-1].row.id


def _check_store_wide(read: Read, findings: Findings) -> None:
    for kind in OF_STORE:
        try:
            with read() as reader:
                for name, value in scan(reader, STORE_WIDE, kind):
                    if of_store(reader, kind, name, value) is not None:
                        now = reader.get_record(STORE_WIDE, kind, name)
                        wrong = None if now is None else of_store(reader, kind, name, now)
                        if wrong is not None:
                            findings.add(VerifyProblem(kind="record", text=f"the {kind} {name!r}: {wrong}"))
                    findings.check_time()
        except UNREADABLE as error:
            text = f"the records of kind {kind} cannot be read: {error}"
            findings.add(VerifyProblem(kind="record", text=text))


# -- what was found so far, and when the check has to end


MOST: Final = 10_000
"""Problems that are listed: a longer list helps no reader, and memory is bounded."""


class EnoughError(Exception):
    """The time is over, or there are too many problems to go on."""


class Findings:
    """Problems, each once, in the order in which they were found."""

    def __init__(self, time_limit: float | None = None, on_progress: OnProgress | None = None) -> None:
        self.problems: dict[VerifyProblem, None] = {}
        self.sessions = self.entries = self.bytes = 0
        self._end = None if time_limit is None else time.monotonic() + time_limit
        self._on_progress = on_progress

    def add(self, problem: VerifyProblem) -> None:
        if len(self.problems) >= MOST and problem not in self.problems:
            raise EnoughError
        self.problems[problem] = None

    def looked(self, *, sessions: int = 0, entries: int = 0, size: int = 0) -> None:
        """Count, tell the caller, and go on if there is time."""
        self.sessions += sessions
        self.entries += entries
        self.bytes += size
        self.tell(FileProgress(phase="check", files=self.sessions, bytes=self.bytes, total_files=None))

    def tell(self, progress: FileProgress) -> None:
        if self._on_progress is not None:
            self._on_progress(progress)
        self.check_time()

    def check_time(self) -> None:
        if self._end is not None and time.monotonic() >= self._end:
            raise EnoughError
