"""Write or remove one file or link of a restore; nothing else is touched by that.

A file is written beside its place, under a name that the journal knows; whoever asked for it makes it
durable; then it is renamed.
What is there already as it should be is done; what is neither that nor what the safety snapshot saw has
changed meanwhile, and is left alone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from clew.files.objects.format import CHUNKED, EXECUTABLE, FOLDER, LINK, Chunk, TreeEntry, decode_chunks
from clew.files.restore.plan import Step
from clew.files.restore.rooted import (
    NEW_FLAGS,
    PERMISSIONS,
    Root,
    holds,
    is_executable,
    is_same,
    put_in_place,
    remove_file,
    status,
    write_all,
)

if TYPE_CHECKING:
    from clew.files.objects.store import ObjectReader

CHANGED: Final = "changed while restoring"
IN_THE_WAY: Final = "a directory is in its place"


class RefusedError(Exception):
    """One path can not be made what it should be; the others can."""


class Ready(msgspec.Struct):
    """A file or link that waits beside its place."""

    step: Step
    temporary: bytes
    found: os.stat_result | None
    """What it will replace."""
    file: int | None = None
    """Its descriptor, until it is durable."""

    @property
    def replaces_link(self) -> bool:
        """Of a file that has other names, too."""
        return self.found is not None and self.found.st_nlink > 1

    def close(self) -> None:
        file, self.file = self.file, None
        if file is not None:
            os.close(file)


class Leaves:
    """The files and links of a restore."""

    def __init__(
        self,
        root: Root,
        objects: ObjectReader,
        temporary: Mapping[bytes, bytes],
        modes: Mapping[bytes, int] | None,
    ) -> None:
        """`temporary`: the name for each path beside it; `modes` as for `Applier`."""
        self._root = root
        self._objects = objects
        self._temporary = temporary
        self._modes = modes

    def remove(self, step: Step) -> None:
        assert step.old is not None
        try:
            with self._root.parent(step.path) as (fd, name):
                found = status(fd, name)
                if found is None or (stat.S_ISDIR(found.st_mode) and is_folder(step.new)):
                    return
                self._check_unchanged(fd, name, found, step.old)
                os.unlink(name, dir_fd=fd)
        except (FileNotFoundError, NotADirectoryError):
            pass  # the directory is not there any more, so neither is the file

    def prepare(self, fd: int, name: bytes, step: Step, pieces: Iterable[bytes]) -> Ready | None:
        """Write what a path is to become beside it. None: it is as it should be already."""
        new, old = step.new, step.old
        assert new is not None
        found = status(fd, name)
        if found is not None:
            if stat.S_ISDIR(found.st_mode):
                raise RefusedError(IN_THE_WAY)
            if self._is_done(fd, name, found, new):
                return None
            if old is None or is_folder(old):
                raise RefusedError(CHANGED)
            # That it is the same still is seen once more before it is replaced.
            if not holds(fd, name, found, old, self._chunks(old)):
                raise RefusedError(CHANGED)
        temporary = self._temporary[step.path]
        if new.kind == LINK:
            os.symlink(b"".join(pieces), temporary, dir_fd=fd)
            return Ready(step, temporary, found)
        mode = self._mode(step.path, new, found)
        return Ready(step, temporary, found, self._write_beside(fd, temporary, pieces, new, mode))

    def place(self, fd: int, name: bytes, ready: Ready) -> None:
        """Give what was prepared, and is durable by now, its name."""
        try:
            self._give_name(fd, ready, name)
        except BaseException:
            try_to_remove(fd, ready.temporary)
            raise

    def _is_done(self, fd: int, name: bytes, found: os.stat_result, new: TreeEntry) -> bool:
        if new.is_file and is_executable(found) != bool(new.kind & EXECUTABLE):
            return False
        return holds(fd, name, found, new, self._chunks(new))

    def _write_beside(
        self,
        fd: int,
        temporary: bytes,
        pieces: Iterable[bytes],
        new: TreeEntry,
        mode: int | None,
    ) -> int:
        """The descriptor, still open: it has to be made durable."""
        usual = 0o777 if new.kind & EXECUTABLE else 0o666
        file = os.open(temporary, NEW_FLAGS, usual if mode is None else 0o600, dir_fd=fd)
        try:
            for piece in pieces:
                write_all(file, piece)
            if mode is not None:
                os.fchmod(file, mode)
        except BaseException:
            os.close(file)
            try_to_remove(fd, temporary)
            raise
        return file

    def _give_name(self, fd: int, ready: Ready, name: bytes) -> None:
        if ready.found is None:
            try:
                put_in_place(fd, ready.temporary, name)
            except FileExistsError:
                raise RefusedError(CHANGED) from None
            return
        if not is_same(status(fd, name), ready.found):
            self._check_link(fd, name, ready.found, ready.step.old)
        os.rename(ready.temporary, name, src_dir_fd=fd, dst_dir_fd=fd)

    def _check_link(self, fd: int, name: bytes, before: os.stat_result, old: TreeEntry | None) -> None:
        """A file with several names is touched when another of them is replaced: look into it again."""
        found = status(fd, name)
        is_touched = found is not None and before.st_nlink > 1 and found.st_mode == before.st_mode
        if not is_touched or found is None or old is None:
            raise RefusedError(CHANGED)
        self._check_unchanged(fd, name, found, old)

    def _mode(self, path: bytes, new: TreeEntry, found: os.stat_result | None) -> int | None:
        """The permissions to set; None: as the umask says."""
        is_executed = bool(new.kind & EXECUTABLE)
        if self._modes is not None and path in self._modes:
            return self._modes[path] & PERMISSIONS
        if found is None or not stat.S_ISREG(found.st_mode):
            return None if self._modes is None else 0o755 if is_executed else 0o644
        if is_executed == is_executable(found):
            return found.st_mode & PERMISSIONS
        readable = found.st_mode & 0o666
        return readable | (readable & 0o444) >> 2 | 0o100 if is_executed else readable

    def _chunks(self, entry: TreeEntry) -> Sequence[Chunk]:
        return decode_chunks(self._objects.get(entry.digest)) if entry.kind & CHUNKED else ()

    def _check_unchanged(self, fd: int, name: bytes, found: os.stat_result, old: TreeEntry) -> None:
        """P13: only what is in the safety snapshot, byte for byte, may go."""
        if not holds(fd, name, found, old, self._chunks(old)) or not is_same(status(fd, name), found):
            raise RefusedError(CHANGED)


def try_to_remove(fd: int, name: bytes) -> None:
    try:
        remove_file(fd, name)
    except OSError:
        pass


def is_folder(entry: TreeEntry | None) -> bool:
    return entry is not None and entry.kind == FOLDER


def is_leaf(entry: TreeEntry | None) -> bool:
    return entry is not None and entry.kind != FOLDER
