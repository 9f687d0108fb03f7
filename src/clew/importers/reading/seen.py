"""What a reader looked at: so that the next import can tell whether reading again would tell anything new.

Every function of this package that opens a file notes it here. A reader that only asks whether a file is
there, or looks into a directory, notes that itself. Nothing is noted outside of `watching`.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Final

import msgspec
from blake3 import blake3
from msgspec import Meta

from clew.model import Json

ABSENT: Final = 0
FILE: Final = 1
PRESENT: Final = 2
"""Only that it is there matters, not what it holds."""
FOLDER: Final = 3
"""All files in it matter, but none below them."""
ENTRY: Final = 4
"""A list of which one entry matters."""

RECENT: Final = 2_000_000_000
"""Nanoseconds. A file that was changed so shortly before it was read can be changed once more without another
time or size: some disks count in steps of two seconds."""
MOST: Final = 4096
"""A reader that looked at more is asked again each time."""

Number = int
OnList = Callable[[str, str], Json]
"""A path and a key: what the list at that path says of the key now."""


class Stamp(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How a path was found."""

    path: str
    kind: Annotated[int, Meta(ge=ABSENT, le=ENTRY)] = ABSENT
    device: Number = 0
    inode: Number = 0
    size: Number = 0
    changed: Number = 0
    """The time of its content, which programs can set,"""
    touched: Number = 0
    """and the one of the system, which they cannot; both in nanoseconds."""
    digest: str = ""
    """Of the names and times in a folder, or of an entry."""
    key: str = ""
    """Of an entry."""


class Seen:
    """What was looked at during one read."""

    def __init__(self) -> None:
        self._stamps: dict[tuple[str, str], Stamp] = {}
        self._folders: set[str] = set()
        self.is_settled = True
        """False: it may change once more without looking changed, or it could not be read well."""

    @property
    def stamps(self) -> tuple[Stamp, ...]:
        return tuple(self._stamps.values())

    def add(self, path: str, key: str = "", *, make: Callable[[str], Stamp]) -> None:
        """The first look counts: what is written after it is news."""
        if (path, key) in self._stamps or (make is _file and os.path.dirname(path) in self._folders):
            return
        found = make(path)
        self._stamps[path, key] = found
        if found.kind == FOLDER:
            self._folders.add(path)
        self.is_settled = self.is_settled and _is_old(found) and len(self._stamps) <= MOST

    def go_on_from(self, before: Iterable[Stamp]) -> None:
        """Add what was looked at when the file was read before, and is as it was."""
        for stamp in before:
            if (stamp.path, stamp.key) not in self._stamps:
                self._stamps[stamp.path, stamp.key] = stamp
                self.is_settled = self.is_settled and _is_old(stamp) and len(self._stamps) <= MOST


_seen: ContextVar[Seen | None] = ContextVar("seen", default=None)


@contextmanager
def watching() -> Iterator[Seen]:
    """Note what is looked at in the block."""
    seen = Seen()
    token = _seen.set(seen)
    try:
        yield seen
    finally:
        _seen.reset(token)


@contextmanager
def unseen() -> Iterator[None]:
    """Do not: what is read in the block is remembered for other files, or noted in another way."""
    token = _seen.set(None)
    try:
        yield
    finally:
        _seen.reset(token)


def note(path: str | os.PathLike[str]) -> None:
    """The content of a file matters, or that it is not there."""
    if (seen := _seen.get()) is not None:
        seen.add(os.fspath(path), make=_file)


def note_presence(path: str | os.PathLike[str]) -> None:
    """Only whether it is there matters."""
    if (seen := _seen.get()) is not None:
        seen.add(os.fspath(path), make=_presence)


def note_folder(path: str | os.PathLike[str]) -> None:
    """All files of a folder matter."""
    if (seen := _seen.get()) is not None:
        seen.add(os.fspath(path), make=_folder)


def entry_of(path: str | os.PathLike[str], key: str, listed: OnList) -> Json:
    """Of a list that many sessions share, what it says of one of them. Only that matters: `listed` is asked
    again when the list has changed."""
    place = os.fspath(path)
    seen = _seen.get()
    before = None if seen is None else _file(place)
    with unseen():
        value = listed(place, key)
    if seen is not None and before is not None:
        found = msgspec.structs.replace(before, kind=ENTRY, digest=_digest(value), key=key)
        seen.add(place, key, make=lambda _: found)
    return value


def doubt() -> None:
    """What is read now may read otherwise the next time, though nothing changed."""
    if (seen := _seen.get()) is not None:
        seen.is_settled = False


class Looking:
    """Whether paths are as they were, in one pass over many of them: a folder that many files could have
    something in is looked into once."""

    def __init__(self) -> None:
        self._names: dict[str, frozenset[str] | None] = {}

    def is_same(self, stamp: Stamp, listed: OnList) -> bool:
        """Whether a path is as it was. The number of a device does not count: some systems give another one
        each time they start."""
        path = stamp.path
        match stamp.kind:
            case 0:
                return not self._is_there(path)
            case 1:
                try:
                    now = os.stat(path)
                except (OSError, ValueError):
                    return False
                return (
                    now.st_mtime_ns == stamp.changed
                    and now.st_ctime_ns == stamp.touched
                    and now.st_ino == stamp.inode
                    and (now.st_size == stamp.size or not stat.S_ISREG(now.st_mode))
                )
            case 2:
                return os.path.exists(path)
            case 3:
                return _folder(path) == stamp
        found = msgspec.structs.replace(
            _file(path), kind=ENTRY, digest=stamp.digest, key=stamp.key, device=stamp.device
        )
        return found == stamp or _digest(listed(path, stamp.key)) == stamp.digest

    def _is_there(self, path: str) -> bool:
        folder, name = os.path.split(path)
        if folder not in self._names:  # one file of it is no reason to look at all
            self._names[folder] = None
            return os.path.exists(path)
        names = self._names[folder]
        if names is None:
            try:
                names = frozenset(os.listdir(folder))
            except (FileNotFoundError, NotADirectoryError):
                names = frozenset()
            except (OSError, ValueError):
                return os.path.exists(path)
            self._names[folder] = names
        return name in names and os.path.exists(path)


def _file(path: str) -> Stamp:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return Stamp(path)
    size = found.st_size if stat.S_ISREG(found.st_mode) else 0
    return Stamp(path, FILE, found.st_dev, found.st_ino, size, found.st_mtime_ns, found.st_ctime_ns)


def _presence(path: str) -> Stamp:
    return Stamp(path, PRESENT if os.path.exists(path) else ABSENT)


def _folder(path: str) -> Stamp:
    try:
        with os.scandir(path) as inside:
            found = [(entry.name, entry.stat()) for entry in inside]
    except OSError:
        return Stamp(path)
    told = [
        (os.fsencode(name), one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns)
        for name, one in sorted(found)
    ]
    changed = max((one.st_mtime_ns for _, one in found), default=0)
    touched = max((one.st_ctime_ns for _, one in found), default=0)
    return Stamp(path, FOLDER, changed=changed, touched=touched, digest=_digest(repr(told)))


def _digest(value: Json) -> str:
    return blake3(repr(value).encode("utf-8", "surrogatepass")).hexdigest(8)


def _is_old(stamp: Stamp) -> bool:
    now = time.time_ns()
    return all(abs(now - moment) >= RECENT for moment in (stamp.changed, stamp.touched))
