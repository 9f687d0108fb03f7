"""Walking a tree: every directory is listed once and compared with what the cache has of it.

Each directory is opened from the one above it, and no symlink is followed: a directory that is swapped for a
symlink while we look leads nowhere. Nothing is read here but rule files and the targets of links.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeAlias

import msgspec

from clew.core.disk import DIRECTORY_FLAGS, open_directory
from clew.errors import RootRefusedError
from clew.files.snapshot.classify import Decider, Draft, Place, code_of, key_of, skip_code
from clew.files.snapshot.ignore import NORMAL, Rules
from clew.files.snapshot.listing import Beginning, Listing, list_directory, may_have_rules, rule_files, split
from clew.files.snapshot.read import reason_of
from clew.files.snapshot.statcache import GONE, IGNORED, Folder

_OPEN_AT_ONCE: Final = 128
"""Descriptors of directories; a path may have two thousand names."""

_AGAIN: Final = frozenset(
    {GONE, code_of("unreadable"), code_of("changing"), code_of("other mount"), code_of("read error")}
)
"""Codes of directories that are tried again each time."""

Seen: TypeAlias = Folder | Draft
"""A directory: just as the cache has it, or else."""


class _Frame(msgspec.Struct):
    """A directory whose subdirectories are being walked."""

    place: Place
    fd: int | None
    number: int
    """Its place in `seen`."""
    left: Iterator[tuple[int, bytes]]
    is_listed: bool
    """Now, not only known from the cache."""
    is_unsure: bool
    """The watcher that vouches for what is below may not have known this directory."""


class Walk:
    """One walk. `seen` gets every directory that was looked at, those above before those below."""

    def __init__(
        self,
        decider: Decider,
        cached: dict[bytes, Folder],
        changed: Collection[bytes] | None,
        began: Beginning,
        on_files: Callable[[int], object],
    ) -> None:
        """`changed`: only these directories are listed, and those that the cache does not know."""
        self.seen: list[Seen] = []
        self.refreshed: dict[bytes, Folder] = {}
        """Directories that are as the cache has them, but for what their own inode says."""
        self._decider = decider
        self._cached = cached
        self._changed: frozenset[bytes] | None = None
        if changed is not None:
            self._changed = frozenset(changed).union(path for path, folder in cached.items() if folder.racy)
        self._on_the_way = _with_parents(self._changed or ())
        self._began = began
        self._on_files = on_files
        self._frames: list[_Frame] = []
        self._device = 0

    def run(self, root: str) -> None:
        try:
            fd = os.open(root, DIRECTORY_FLAGS)
            self._device = os.fstat(fd).st_dev
            self._look(fd, b"", self._decider.ignore.root, NORMAL, is_unsure=False)
        except OSError as exc:
            reason_of(exc)
            raise RootRefusedError(root, f"{exc.filename or root} cannot be read ({exc.strerror})") from exc
        try:
            while self._frames:
                self._step(self._frames[-1])
        finally:
            for frame in self._frames:
                if frame.fd is not None:
                    os.close(frame.fd)

    def _step(self, frame: _Frame) -> None:
        """Go on to the next directory below the last frame that has others below it, or back."""
        depth = len(self._frames)
        for index, name in frame.left:
            code = known = self.seen[frame.number].directory_codes[index]
            if code in _AGAIN:
                code = self._decider.directory(frame.place, os.fsdecode(name))
            path = frame.place.path + b"/" + name if frame.place.path else name
            if code >= IGNORED or (
                self._changed is not None and self._is_vouched_for(frame, name, path, code)
            ):
                continue
            code = self._enter(frame, name, path, code)
            if code != known:
                self._set_code(frame.number, index, code)
            if len(self._frames) > depth:
                return
        self._frames.pop()
        if frame.fd is not None:
            os.close(frame.fd)

    def _is_vouched_for(self, frame: _Frame, name: bytes, path: bytes, mode: int) -> bool:
        """Whether a watcher knows that nothing changed in this directory and below."""
        if frame.is_unsure or path in self._on_the_way:
            return False
        folder = self._cached.get(path)
        if folder is None or folder.above != key_of(frame.place.rules, mode):
            return False
        if not frame.is_listed:
            return True
        try:  # what is new in the listing may have an old name
            stat = os.stat(name, dir_fd=self._descriptor(), follow_symlinks=False)
        except OSError:
            return False
        return folder.identity == (stat.st_ino, stat.st_ctime_ns)

    def _is_replaced(self, folder: Folder, stat: os.stat_result) -> bool:
        """Whether another directory took the place of the one that the cache knows, so that notices
        of the old one say nothing about the new one."""
        if self._changed is None:
            return False
        inode, changed_at = folder.identity
        return inode != stat.st_ino or (folder.path not in self._changed and changed_at != stat.st_ctime_ns)

    def _enter(self, frame: _Frame, name: bytes, path: bytes, mode: int) -> int:
        """Look at a directory below the last frame; its code."""
        try:
            fd = os.open(name, DIRECTORY_FLAGS, dir_fd=self._descriptor())
            if not self._look(fd, path, frame.place.rules, mode, is_unsure=frame.is_unsure):
                return code_of("other mount")
        except OSError as exc:
            return skip_code(reason_of(exc))
        return mode

    def _look(self, fd: int, path: bytes, above: Rules, mode: int, *, is_unsure: bool) -> bool:
        """List the directory if need be, and compare it; it becomes a frame if there are others below.
        False: it is another mount."""
        is_frame = False
        try:
            stat = os.fstat(fd)
            if stat.st_dev != self._device:
                return False
            folder = self._cached.get(path)
            is_unsure = is_unsure or folder is None or self._is_replaced(folder, stat)
            changed_at = 0 if self._began.is_racy(stat.st_ctime_ns, stat.st_ctime_ns) else stat.st_ctime_ns
            is_listed = is_unsure or self._changed is None or path in self._changed
            listing = list_directory(fd) if is_listed else None
            place = Place(path, above, mode, key_of(above, mode), (stat.st_ino, changed_at))
            seen, place, listing = self._compare(fd, place, listing, folder)
            if listing is not None:
                self._on_files(listing.length)
                if isinstance(seen, Folder) and seen.identity != place.identity:
                    self.refreshed[path] = msgspec.structs.replace(seen, identity=place.identity)
            self.seen.append(seen)
            if seen.directories:
                number, left = len(self.seen) - 1, enumerate(_names(seen))
                self._frames.append(_Frame(place, fd, number, left, listing is not None, is_unsure))
                is_frame = True
            return True
        finally:
            if not is_frame:
                os.close(fd)

    def _compare(
        self, fd: int, place: Place, listing: Listing | None, folder: Folder | None
    ) -> tuple[Seen, Place, Listing | None]:
        """The directory beside the cache, its place under its own rules, and its listing if one was
        needed. `place`: under the rules from above, and most have no others."""
        names = listing.names if listing is not None else folder.names if folder is not None else b""
        if may_have_rules(names):
            rules = place.rules.below(place.prefix, rule_files(fd, split(names)))
            place = msgspec.structs.replace(place, rules=rules)
        if listing is None and folder is not None and folder.rules == place.key:
            return folder, place, None
        listing = listing or list_directory(fd)
        return self._decider.compare(fd, place, listing, folder), place, listing

    def _descriptor(self) -> int:
        """That of the last frame. Of a deep path not all can be open: some are opened again."""
        frames = self._frames
        frame = frames[-1]
        if frame.fd is None:
            assert frames[0].fd is not None
            fd = open_directory(frames[0].fd, frame.place.path)
            found = os.fstat(fd)
            if (found.st_dev, found.st_ino) != (self._device, frame.place.identity[0]):
                os.close(fd)
                raise NotADirectoryError(errno.ENOTDIR, "another directory is in its place")
            frame.fd = fd
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


def _names(seen: Seen) -> list[bytes]:
    """Of the directories in it."""
    if isinstance(seen, Folder):
        return seen.directories.split(b"\0")
    return [os.fsencode(name) for name in seen.directories]
