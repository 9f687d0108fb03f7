"""Which files changed below the places where agents keep their sessions, as the system tells it.

Directories are watched, not files: a new one as soon as it is there, and for a place that is not there yet
the nearest directory above it. More files may be named than changed, never fewer; where that cannot be
promised, `Happened.lost` says so. A place that cannot be watched is polled: see `Trees.polled`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, NamedTuple

from clew.core.directory_watch import (
    CREATED,
    DELETED,
    ENDED,
    EXHAUSTED,
    IS_DIRECTORY,
    IS_THERE,
    LOST,
    MODIFIED,
    MOVED_AWAY,
    MOVED_HERE,
    SELF_DELETED,
    SELF_MOVED,
    UNMOUNTED,
    Event,
    Inotify,
    silent_file_system,
)

_CAME: Final = CREATED | MOVED_HERE
_WENT: Final = DELETED | MOVED_AWAY
_ALL: Final = MODIFIED | _CAME | _WENT
_SELF: Final = SELF_DELETED | SELF_MOVED | UNMOUNTED | ENDED
LEFT_OUT: Final = frozenset({".git", "node_modules"})
"""Directories that hold no sessions, and many directories."""
DEEPEST: Final = 100
_DATABASES: Final = (".db", ".sqlite", ".sqlite3")


class Happened(NamedTuple):
    """What happened since the last time."""

    paths: list[str]
    """Files that were written, came or went. The log of a database stands for the database."""
    lost: str | None
    """Why these may not be all; None: they are."""


class Trees:
    """The watched places. One thread at a time; OSError never: what cannot be watched is in `polled`."""

    def __init__(
        self, roots: Iterable[str], *, ignored: Collection[str] = (), queue: Callable[[], Inotify] = Inotify
    ) -> None:
        """`ignored`: files and directories, as our own, in which nothing ever happens."""
        self.roots = outermost(roots)
        """Where they lead to, if they are links."""
        self.polled: dict[str, str] = {}
        """Places that the system does not tell of, and why."""
        self._ignored = frozenset(map(os.path.realpath, ignored))
        self._numbers: dict[str, int] = {}
        self._paths: dict[int, str] = {}
        self._whole: set[str] = set()
        """Directories of which every file counts. Of the others only some names do:"""
        self._awaited: dict[str, dict[str, set[str]]] = {}
        """by directory, a name that leads to places that are not there, or are files; and these places."""
        self._queue: Inotify | None = None
        self._why_none = "this system does not tell of changes"
        if IS_THERE:
            try:
                self._queue = queue()
            except OSError as exc:
                self._why_none = why_exhausted(exc)
        self.watch()

    def close(self) -> None:
        if self._queue is not None:
            self._queue.close()
            self._queue = None

    def fileno(self) -> int | None:
        """Readable when there is something for `read` to tell; None: nothing is watched."""
        return None if self._queue is None else self._queue.fd

    @property
    def watches(self) -> int:
        """How many directories, and files, are watched."""
        return len(self._numbers)

    def watch(self) -> None:
        """Watch every place, also those that could not be watched before."""
        self.polled.clear()
        for root in self.roots:
            self._place(root)

    def read(self) -> Happened:
        """All that happened so far; waits for nothing."""
        found: dict[str, None] = {}
        again: dict[str, None] = {}
        lost = None
        for event in self._queue.read() if self._queue is not None else ():
            if event.mask & LOST:
                lost = "so much changed that the system could not tell all of it"
            path = self._paths.get(event.watch)
            if path is not None:
                found.update(dict.fromkeys(self._take_in(path, event, again)))
        for root in again:
            found.update(dict.fromkeys(self._place(root)))
        if lost is not None:
            self.watch()
        return Happened(list(found), lost)

    # -- what an event means

    def _take_in(self, watched: str, event: Event, again: dict[str, None]) -> Iterator[str]:
        """The files that it is about. Places that have to be looked at again are added to `again`."""
        if event.mask & _SELF:
            self._drop(watched)
            again.update((root, None) for root in self.roots if is_inside(root, watched))
            return
        name = os.fsdecode(event.name)
        path = os.path.join(watched, name) if name else watched
        if self._is_ignored(path):
            return
        expected = name.removesuffix("-wal").removesuffix("-journal")
        places = dict.fromkeys(self._awaited.get(watched, {}).get(expected, ()))
        if event.mask & IS_DIRECTORY:
            if event.mask & _WENT:
                self._drop(path)
            again.update(places)
            if event.mask & _CAME and watched in self._whole:
                yield from self._enter(path)
        elif watched in self._whole or places or not name:
            if event.mask & (_CAME | _WENT) and name == expected:
                again.update(places)
            if (file := file_meant(path, is_written=bool(event.mask & MODIFIED))) is not None:
                yield file

    def _is_ignored(self, path: str) -> bool:
        return any(path == one or path.startswith((f"{one}-", f"{one}{os.sep}")) for one in self._ignored)

    # -- places

    def _place(self, root: str) -> Iterable[str]:
        """Watch a place, or the way to it; the files that are there."""
        if self._queue is None:
            return self._poll(root, self._why_none)
        nearest = _nearest(root)
        try:
            if (kind := silent_file_system(nearest)) is not None:
                return self._poll(root, f"it is on a file system ({kind}) that does not tell of every change")
            while nearest != root:
                name = os.path.relpath(root, nearest).split(os.sep)[0]
                self._await(nearest, name, root)
                before, nearest = nearest, _nearest(root)
                if before == nearest:  # nothing came while we looked
                    break
            if nearest == root:
                return list(self._walk(root))
            return self._watch_file(root) if os.path.isfile(root) else ()
        except OSError as exc:
            return self._poll(root, why_exhausted(exc))

    def _poll(self, root: str, reason: str) -> Iterable[str]:
        self._drop(root)
        self.polled[root] = reason
        return ()

    def _await(self, folder: str, name: str, root: str) -> None:
        """Something is to come, or to be written, in a directory."""
        is_database = root.endswith(_DATABASES) and os.path.join(folder, name) == root
        self._add(folder, _ALL if is_database else _CAME)
        self._awaited.setdefault(folder, {}).setdefault(name, set()).add(root)

    def _watch_file(self, root: str) -> Iterable[str]:
        """Its directory may be one in which much is written, as the home directory: so the file is watched.
        A database is written through its log, beside it."""
        if not root.endswith(_DATABASES):
            self._add(root, MODIFIED, is_file=True)
        return (root,)

    def _enter(self, folder: str) -> Iterable[str]:
        """A directory that came below a place: what is in it came too."""
        try:
            return list(self._walk(folder))
        except OSError as exc:
            root = next(root for root in self.roots if is_inside(folder, root))
            return self._poll(root, why_exhausted(exc))

    def _walk(self, top: str) -> Iterator[str]:
        """Watch a directory and all below it; the files there. First watched, then listed: so nothing comes
        in between. OSError: no more can be watched."""
        waiting = [(top, 0)]
        while waiting:
            folder, level = waiting.pop()
            if self._is_ignored(folder):
                continue
            try:
                self._add(folder, _ALL)
                self._whole.add(folder)
                with os.scandir(folder) as inside:
                    for entry in inside:
                        if not entry.is_dir(follow_symlinks=False):
                            yield entry.path
                        elif entry.name not in LEFT_OUT and level < DEEPEST:
                            waiting.append((entry.path, level + 1))
            except OSError as exc:
                if exc.errno in EXHAUSTED:
                    raise  # else it is gone, or not for us

    # -- watches

    def _add(self, path: str, events: int, *, is_file: bool = False) -> None:
        assert self._queue is not None
        number = self._queue.add_named(os.fsencode(path), events, is_file=is_file)
        before = self._paths.get(number)
        if before is not None and before != path:  # it was moved
            self._forget(before)
        self._numbers[path], self._paths[number] = number, path

    def _drop(self, top: str) -> None:
        """Watch nothing at and below a path."""
        for path in [one for one in self._numbers if is_inside(one, top)]:
            if self._queue is not None:
                self._queue.remove(self._numbers[path])
            self._forget(path)

    def _forget(self, path: str) -> None:
        self._paths.pop(self._numbers.pop(path), None)
        self._whole.discard(path)
        self._awaited.pop(path, None)


def file_meant(path: str, *, is_written: bool) -> str | None:
    """The file that a change is about: a database for its log. None: it says nothing, as when a program only
    opens a database."""
    if path.endswith("-shm"):
        return None
    if path.endswith("-wal"):
        return path[:-4] if is_written else None
    return path.removesuffix("-journal")


def why_exhausted(exc: OSError) -> str:
    """In plain words, with the next step."""
    if exc.errno == errno.ENOSPC:
        return (
            "the limit of watched directories is reached; raise it: "
            "sudo sysctl fs.inotify.max_user_watches=1048576"
        )
    if exc.errno in (errno.EMFILE, errno.ENFILE):
        return (
            "the limit of watchers is reached; raise it: sudo sysctl fs.inotify.max_user_instances=1024, "
            "or end programs that watch files"
        )
    return f"the system does not let it be watched ({exc.strerror or exc})"


def outermost(roots: Iterable[str]) -> list[str]:
    """Places that lie in no other one, as real paths."""
    kept: list[str] = []
    for root in sorted(set(map(os.path.realpath, roots))):
        if not any(is_inside(root, one) for one in kept):
            kept.append(root)
    return kept


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is this directory, or lies in it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _nearest(path: str) -> str:
    """A directory, or the nearest one above it that is there."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path
