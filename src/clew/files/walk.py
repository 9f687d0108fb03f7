"""Walking a tree: every directory is listed once and compared with what the cache has of it.

Each directory is opened from the one above it, and no symlink is followed: whoever swaps one for a
symlink while we look leads us nowhere. Nothing is read here but rule files and the targets of links.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeAlias

import msgspec

from clew.errors import RootRefusedError
from clew.files.deciding import Decider, Place, key_of, skip_code
from clew.files.drafts import Draft, code_of, joined, split
from clew.files.ignore import NORMAL, Rules
from clew.files.listing import list_directory, rule_files
from clew.files.reading import DIRECTORY_FLAGS, open_directory, reason_of
from clew.files.statcache import GONE, IGNORED, Folder

_OPEN_AT_ONCE: Final = 128
"""Descriptors of directories; a path may have two thousand names."""

_AGAIN: Final = frozenset({GONE, code_of("unreadable"), code_of("changing"), code_of("other mount")})
"""Codes of directories that are tried anew each time."""

Seen: TypeAlias = Folder | Draft
"""A directory: just as the cache has it, or else."""


class _Frame(msgspec.Struct):
    """A directory whose subdirectories are being walked."""

    place: Place
    fd: int | None
    identity: tuple[int, int]
    number: int
    """Its place in `seen`."""
    left: Iterator[tuple[int, str]]


class Walk:
    """One walk. `seen` gets every directory that was looked at, those above before those below."""

    def __init__(
        self,
        decider: Decider,
        cached: dict[bytes, Folder],
        changed: Collection[bytes] | None,
        on_files: Callable[[int], object],
    ) -> None:
        """`changed`: only these directories are listed, and those that the cache does not know."""
        self.seen: list[Seen] = []
        self._decider = decider
        self._cached = cached
        self._changed = None if changed is None else frozenset(changed)
        self._on_the_way = _with_parents(changed or ())
        self._on_files = on_files
        self._frames: list[_Frame] = []
        self._device = 0

    def run(self, root: str) -> None:
        try:
            fd = os.open(root, DIRECTORY_FLAGS)
            self._device = os.fstat(fd).st_dev
            self._look(fd, b"", "", self._decider.ignore.root, NORMAL)
        except OSError as exc:
            reason_of(exc)
            raise RootRefusedError(root, f"{exc.filename or root} can not be read ({exc.strerror})") from exc
        try:
            while self._frames:
                self._step(self._frames[-1])
        finally:
            for frame in self._frames:
                if frame.fd is not None:
                    os.close(frame.fd)

    def _step(self, frame: _Frame) -> None:
        """Go on to the next directory below the last frame, or back."""
        for index, name in frame.left:
            code = self.seen[frame.number].directory_codes[index]
            if code in _AGAIN:
                code = self._decider.directory(frame.place, name)
            path = joined(frame.place.path, name)
            if code >= IGNORED or self._is_vouched_for(path, key_of(frame.place.rules, code)):
                continue
            depth = len(self._frames)
            self._set_code(frame.number, index, self._enter(name, path, frame.place, code))
            if len(self._frames) > depth:
                return
        self._frames.pop()
        if frame.fd is not None:
            os.close(frame.fd)

    def _is_vouched_for(self, path: bytes, above: bytes) -> bool:
        """Whether somebody knows that nothing changed in this directory and below."""
        if self._changed is None or path in self._on_the_way:
            return False
        folder = self._cached.get(path)
        return folder is not None and folder.above == above

    def _enter(self, name: str, path: bytes, parent: Place, mode: int) -> int:
        """Look at a directory below the last frame; its code."""
        try:
            fd = os.open(name, DIRECTORY_FLAGS, dir_fd=self._descriptor())
            if os.fstat(fd).st_dev != self._device:
                os.close(fd)
                return code_of("other mount")
            self._look(fd, path, f"{parent.prefix}{name}/", parent.rules, mode)
        except OSError as exc:
            return skip_code(reason_of(exc))
        return mode

    def _look(self, fd: int, path: bytes, prefix: str, above: Rules, mode: int) -> None:
        """List the directory, compare it, make a frame of it."""
        try:
            folder = self._cached.get(path)
            is_listed = folder is None or self._changed is None or path in self._changed or bool(folder.racy)
            listing = list_directory(fd) if is_listed else None
            names = listing.names if listing else split(folder.names if folder else b"")
            rules = above.below(prefix, rule_files(fd, names))
            place = Place(path, prefix, rules, mode, key_of(above, mode))
            if listing is None and folder is not None and folder.rules == place.key:
                seen: Seen = folder
            else:
                listing = listing or list_directory(fd)
                self._on_files(len(listing.names))
                seen = self._decider.compare(fd, place, listing, folder)
            stat = os.fstat(fd)
        except BaseException:
            os.close(fd)
            raise
        directories = seen.directories if isinstance(seen, Draft) else split(seen.directories)
        self.seen.append(seen)
        left = iter(enumerate(directories))
        self._frames.append(_Frame(place, fd, (stat.st_dev, stat.st_ino), len(self.seen) - 1, left))

    def _descriptor(self) -> int:
        """That of the last frame. Of a deep path not all can be open: some are opened anew."""
        frames = self._frames
        frame = frames[-1]
        if frame.fd is None:
            assert frames[0].fd is not None
            frame.fd = open_directory(frames[0].fd, frame.place.path)
            found = os.fstat(frame.fd)
            if (found.st_dev, found.st_ino) != frame.identity:
                raise NotADirectoryError(errno.ENOTDIR, "another directory is in its place")
        if len(frames) > _OPEN_AT_ONCE:
            far = frames[-_OPEN_AT_ONCE]
            if far.fd is not None:
                os.close(far.fd)
                far.fd = None
        return frame.fd

    def _set_code(self, number: int, index: int, code: int) -> None:
        seen = self.seen[number]
        if seen.directory_codes[index] == code:
            return
        if isinstance(seen, Folder):
            seen = self.seen[number] = Draft.of(seen)
        seen.directory_codes[index] = code


def _with_parents(paths: Collection[bytes]) -> frozenset[bytes]:
    """The paths, and all that lead to them; the root is one of them."""
    found = {b""}
    for path in paths:
        while path not in found:
            found.add(path)
            path = path.rpartition(b"/")[0]
    return frozenset(found)
