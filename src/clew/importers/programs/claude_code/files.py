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
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from clew.importers.contract import SourceCheckpoint
from clew.importers.reading.values import when
from clew.model import Json

_COPY: Final = re.compile(r"[0-9A-Za-z_-]{1,200}@v[0-9]{1,9}")
_SESSION: Final = re.compile(r"[0-9A-Za-z_-]{1,200}")
_NEAR: Final = 3
"""How many directories above the session the copies may lie."""

EntryAt: TypeAlias = Callable[[Json], str | None]
_Files: TypeAlias = dict[str, str | None]


class _Moment(msgspec.Struct):
    event: str
    at: Json
    told: int
    copies: _Files
    """The name of each file's copy; None: the file was not there. Without what the next one repeats."""


def copies_of(path: Path, session: str) -> Path | None:
    """The directory with the copies of a session, if it is there."""
    if not _SESSION.fullmatch(session):
        return None
    for above in list(path.parents)[:_NEAR]:
        found = above / "file-history" / session
        if found.is_dir():
            return found
    return None


class FileHistory:
    def __init__(self, copies: Path | None, workspace: Json) -> None:
        self._copies = copies
        self._workspace = workspace if isinstance(workspace, str) and workspace.startswith("/") else "/"
        self._moments: dict[str, _Moment] = {}
        self._newest: _Moment | None = None
        self._told_last: dict[str, tuple[str, _Moment]] = {}
        """Each path, and the moment that named a copy of it last."""

    def take(self, record: dict[str, Json], event: str) -> None:
        """A record of one of both kinds."""
        snapshot, backup = record.get("snapshot"), record.get("backup")
        if isinstance(snapshot, dict):
            # A record that adds to a snapshot stands at the message that changed a file: that is not where
            # the snapshot was taken.
            message = snapshot.get("messageId") or record.get("messageId")
            tracked = snapshot.get("trackedFileBackups")
            self._note(message, tracked, event, snapshot.get("timestamp"))
        elif isinstance(backup, dict):
            tracked = {str(record.get("trackingPath")): backup}
            self._note(record.get("snapshotMessageId"), tracked, event, record.get("timestamp"))

    def _note(self, message: Json, tracked: Json, event: str, at: Json) -> None:
        if not (isinstance(message, str) and isinstance(tracked, dict)):
            return
        moment = self._moments.get(message)
        if moment is None:
            moment = self._newest = self._moments[message] = _Moment(event, at, 0, {})
        for path, backup in tracked.items():
            name = backup.get("backupFileName") if isinstance(backup, dict) else ""
            if name is None or (isinstance(name, str) and _COPY.fullmatch(name)):
                self._put(moment, path, name)
        moment.event, moment.told = event, max(moment.told, len(tracked))

    def _put(self, moment: _Moment, path: str, name: str | None) -> None:
        """Most records repeat what the one before said: it is enough to keep it here."""
        if moment is self._newest:
            path, before = self._told_last.get(path, (path, moment))
            if before is not moment and before.copies.get(path, "") == name:
                del before.copies[path]
            self._told_last[path] = path, moment
        moment.copies[path] = name

    def checkpoints(self, entry_at: EntryAt) -> Iterator[SourceCheckpoint]:
        """One for each moment of which a file is known, and one more if there are files outside of the
        workspace; the last first."""
        copies = _Placed(self._copies, self._workspace)
        for message, moment in reversed(self._moments.items()):
            copies.put(moment.copies)
            entry = entry_at(message)
            if entry is not None and (moment.told or copies.inside or copies.outside):
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
