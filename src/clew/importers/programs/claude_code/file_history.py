"""The copies that Claude Code makes of files before it changes them, moment by moment.

    <config>/projects/<folder>/<session>.jsonl       records that name the copies
    <config>/file-history/<session>/<hash>@v<n>      the copies themselves, until it cleans up

A record stands at a message and names copies of files as they were then; one that comes later may add to
it. A file that it does not name was as in the next copy of it: copies are made before changes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from clew.importers.contract import NotFollowedError, SourceCheckpoint
from clew.importers.programs.claude_code.tree import Tree
from clew.importers.reading.seen import note
from clew.importers.reading.values import when
from clew.model import Json

MOMENTS: Final = 100
"""Of so many moments, the last ones, all is kept when a file is left to be gone on with later."""
_COPY: Final = re.compile(r"[0-9A-Za-z_-]{1,200}@v[0-9]{1,9}")
_SESSION: Final = re.compile(r"[0-9A-Za-z_-]{1,200}")
_NEAR: Final = 3
"""How many directories above the session the copies may lie."""

_NEVER: Final = datetime.max.replace(tzinfo=UTC)

EntryAt: TypeAlias = Callable[[Json], str | None]
_Files: TypeAlias = dict[str, str | None]


class _Moment(msgspec.Struct, array_like=True):
    message: str
    number: int
    """In the order of the file."""
    event: str
    at: Json
    told: int
    copies: _Files
    """The name of each file's copy; None: the file was not there. Without what the next one repeats."""
    entry: str | None = None
    """Where it stands, if that was known when the file was left."""


class HistoryState(msgspec.Struct, frozen=True, array_like=True):
    moments: list[_Moment] = []
    """The last ones."""
    forgotten: datetime | None = None
    """The newest time of those before them."""
    directory: str | None = None
    """Where the copies are."""


def copies_of(path: Path, session: str) -> Path | None:
    """The directory with the copies of a session, if it is there."""
    if not _SESSION.fullmatch(session):
        return None
    for above in list(path.parents)[:_NEAR]:
        found = above / "file-history" / session
        note(found)
        if found.is_dir():
            return found
    return None


class FileHistory:
    """`find` looks for the directory with the copies. One that was made from a state tells of moments of
    which there is news, and raises NotFollowedError if there is some of a moment that it does not know."""

    def __init__(
        self, find: Callable[[], Path | None], workspace: Json, state: HistoryState | None = None
    ) -> None:
        state = state or HistoryState()
        self._find = find
        self._directory = None if state.directory is None else Path(state.directory)
        self._workspace = workspace if isinstance(workspace, str) and workspace.startswith("/") else "/"
        self._moments = {moment.message: moment for moment in state.moments}
        self._newest = state.moments[-1] if state.moments else None
        self._told_last = {path: (path, moment) for moment in state.moments for path in moment.copies}
        """Each path, and the moment that named a copy of it last."""
        self._forgotten = state.forgotten
        self._first = self._number = self._newest.number + 1 if self._newest is not None else 0
        """The numbers of the first moment that is new, and of the next one."""
        self._news = self._first
        """That of the first moment of which there is news."""

    def take(self, record: dict[str, Json], event: str) -> None:
        """A record of one of both kinds."""
        snapshot, backup = record.get("snapshot"), record.get("backup")
        if isinstance(snapshot, dict):
            # A record that adds to a snapshot stands at the message that changed a file: that is not where
            # the snapshot was taken.
            message = snapshot.get("messageId") or record.get("messageId")
            at = snapshot.get("timestamp")
            self._note(message, snapshot.get("trackedFileBackups"), event, at, taken=when(at))
        elif isinstance(backup, dict):
            tracked = {str(record.get("trackingPath")): backup}
            self._note(record.get("snapshotMessageId"), tracked, event, record.get("timestamp"), taken=None)

    def _note(self, message: Json, tracked: Json, event: str, at: Json, *, taken: datetime | None) -> None:
        """`taken`: when the snapshot was, if the record tells."""
        if not (isinstance(message, str) and isinstance(tracked, dict)):
            return
        moment = self._moments.get(message)
        if moment is None:
            if self._forgotten is not None and (taken is None or taken <= self._forgotten):
                raise NotFollowedError(f"the files at {message!r} are told of again, which is too far back")
            moment = self._newest = self._moments[message] = _Moment(message, self._number, event, at, 0, {})
            self._number += 1
        self._news = min(self._news, moment.number)
        for path, backup in tracked.items():
            name = backup.get("backupFileName") if isinstance(backup, dict) else ""
            if name is None or (isinstance(name, str) and _COPY.fullmatch(name)):
                self._put(moment, path, name)
        moment.event, moment.told = event, max(moment.told, len(tracked))

    def _put(self, moment: _Moment, path: str, name: str | None) -> None:
        """Most records repeat what the one before said: it is enough to keep it here."""
        if moment.copies.get(path, "") == name:
            return
        if moment is self._newest and path not in moment.copies:
            path, before = self._told_last.get(path, (path, None))
            # For all moments since the last one that named it, this is the next copy of it.
            self._news_since(-1 if before is None else before.number, path)
            if before is not None and before.copies.get(path, "") == name:
                del before.copies[path]
            self._told_last[path] = path, moment
        else:
            self._news_since(-1, path)
        moment.copies[path] = name

    def _news_since(self, number: int, path: str) -> None:
        self._news = min(self._news, number + 1)
        if number < 0 and self._forgotten is not None:
            raise NotFollowedError(f"a copy of {path!r} belongs to moments that are too far back")

    def checkpoints(self, entry_at: EntryAt) -> Iterator[SourceCheckpoint]:
        """One for each moment of which a file is known, and one more if there are files outside of the
        workspace; the last first."""
        if not self._moments:
            return
        if self._directory is None:
            self._directory = self._find()
            if self._directory is not None:
                self._news = 0
        copies = _Placed(self._directory, self._workspace)
        for message, moment in reversed(self._moments.items()):
            copies.put(moment.copies)
            entry = entry_at(message) if moment.entry is None else moment.entry
            is_news = moment.number >= self._news or moment.entry is None
            if is_news and entry is not None and (moment.told or copies.inside or copies.outside):
                first = SourceCheckpoint(
                    name=f"file-history:{message}",
                    entry=entry,
                    at=when(moment.at),
                    state={"event": moment.event, "files": moment.told},
                    files=dict(copies.inside),
                )
                yield first
                if copies.outside:
                    name, files = f"{first.name}:outside", dict(copies.outside)
                    yield msgspec.structs.replace(first, name=name, files=files)

    def state(self, tree: Tree) -> HistoryState:
        moments = list(self._moments.values())
        for moment in moments:
            moment.entry = moment.entry or tree.entry_at(moment.message)
            if moment.entry is None and moment.number >= self._first:
                tree.require(moment.message)  # it may come later, or stand far back
        times = [self._forgotten, *(when(one.at) or _NEVER for one in moments[:-MOMENTS])]
        return HistoryState(
            moments=moments[-MOMENTS:],
            forgotten=max((time for time in times if time is not None), default=None),
            directory=None if self._directory is None else str(self._directory),
        )


class _Placed:
    """Copies by where their files belong: below the workspace, or elsewhere, from the root on."""

    def __init__(self, directory: Path | None, workspace: str) -> None:
        self._directory = directory
        self._workspace = workspace
        self.inside: _Files = {}
        self.outside: _Files = {}

    def put(self, copies: _Files) -> None:
        if self._directory is None:
            return
        for path, name in copies.items():
            whole = posixpath.normpath(posixpath.join(self._workspace, path)).lstrip("/")
            own = self._workspace.strip("/")
            is_inside = not own or whole.startswith(f"{own}/")
            files = self.inside if is_inside else self.outside
            place = whole.removeprefix(f"{own}/") if is_inside else whole
            files[place] = None if name is None else str(self._directory / name)
