"""Carry out the steps of a restore, file by file, below one root descriptor."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec
from blake3 import blake3

from clew.core.disk import filesystems
from clew.core.disk.open import DIRECTORY_FLAGS, FILE_FLAGS, open_directory
from clew.files.journal import TEMPORARY
from clew.files.objects.format import CHUNKED, LINK, Chunk, TreeEntry, object_name
from clew.files.restore.plan import Step
from clew.files.restore.write import (
    CHANGED,
    DAMAGE,
    BatchWriter,
    FileWriter,
    RefusedError,
    Threads,
    is_folder,
    is_leaf,
)

if TYPE_CHECKING:
    from clew.files.objects.store import ObjectReader

# ── Root ──────────────────────────────────────────────────────────────────────────────────────────
# Work below one directory by file descriptors: no name is looked up from `/`, no symlink is followed.
#
# Each path is opened again, one name after the other, from the descriptor of the root: a directory that
# is swapped for a symlink meanwhile is not entered. Only POSIX systems have such calls.

NEW_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
PIECE: Final = 1024 * 1024
PERMISSIONS: Final = 0o777
"""All that a restore sets of a mode: set-user-id, set-group-id and sticky bits come from nowhere."""
NO_HARD_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})


class Root:
    """A directory that stays open, so that its own name does not matter any more."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, DIRECTORY_FLAGS)
        self.device = os.fstat(self.fd).st_dev

    def __enter__(self) -> Root:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self.fd)

    def open_folder(self, path: bytes) -> int:
        """The descriptor of a directory below, the root itself for an empty path; close it."""
        return open_directory(self.fd, path)

    @contextmanager
    def folder(self, path: bytes) -> Iterator[int]:
        """The same, as long as it is needed."""
        fd = self.open_folder(path)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def parent(self, path: bytes) -> Iterator[tuple[int, bytes]]:
        """The descriptor of the directory that a path lies in, and its name there."""
        above, _, name = path.rpartition(b"/")
        with self.folder(above) as fd:
            yield fd, name


class Nearby:
    """The directory of the last path stays open: the next one is likely to lie in it."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._path: bytes | None = None
        self._fd = -1

    def __enter__(self) -> Nearby:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def parent(self, path: bytes) -> tuple[int, bytes]:
        """As that of `Root`, good until the next call."""
        above, _, name = path.rpartition(b"/")
        if above != self._path:
            self._leave()
            self._fd = self._root.open_folder(above)
            self._path = above
        return self._fd, name

    def _leave(self) -> None:
        if self._path is not None:
            self._path = None
            os.close(self._fd)


def status(fd: int, name: bytes) -> os.stat_result | None:
    """Of what is there, a link too; None: nothing."""
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def is_same(one: os.stat_result | None, other: os.stat_result) -> bool:
    """Whether nothing happened to a file between two looks at it."""
    return one is not None and _identity(one) == _identity(other)


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return (
        status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns,
    )  # fmt: skip


def is_executable(status: os.stat_result) -> bool:
    return bool(status.st_mode & 0o111)


def holds(fd: int, name: bytes, found: os.stat_result, entry: TreeEntry, chunks: Sequence[Chunk]) -> bool:
    """Whether a file or link has exactly the content of an entry, by its hash. `chunks` of a chunked one."""
    if entry.kind == LINK:
        return stat.S_ISLNK(found.st_mode) and object_name(os.readlink(name, dir_fd=fd)) == entry.digest
    if not entry.is_file or not stat.S_ISREG(found.st_mode) or found.st_size != entry.size:
        return False
    file = os.open(name, FILE_FLAGS, dir_fd=fd)
    try:
        if not is_same(os.fstat(file), found):
            return False
        is_equal = (
            _has_chunks(file, chunks)
            if entry.kind & CHUNKED
            else _hash(file, min(found.st_size + 1, PIECE)) == entry.digest
        )
        return is_equal and is_same(os.fstat(file), found)
    finally:
        os.close(file)


def _hash(file: int, piece_size: int) -> bytes:
    hasher = blake3()
    while piece := os.read(file, piece_size):
        hasher.update(piece)
    return hasher.digest()


def _has_chunks(file: int, chunks: Sequence[Chunk]) -> bool:
    for chunk in chunks:
        hasher, left = blake3(), chunk.size
        while left and (piece := os.read(file, min(left, PIECE))):
            hasher.update(piece)
            left -= len(piece)
        if left or hasher.digest() != chunk.digest:
            return False
    return not os.read(file, 1)


def write_all(file: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]


def put_in_place(fd: int, temporary: bytes, name: bytes) -> None:
    """Give a file its name where there is none. FileExistsError: there is one by now."""
    try:
        os.link(temporary, name, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
    except OSError as exc:
        if exc.errno not in NO_HARD_LINKS:
            raise
        if status(fd, name) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(name)) from exc
        os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
    else:
        os.unlink(temporary, dir_fd=fd)


def remove_file(fd: int, name: bytes) -> None:
    """It may be gone already."""
    try:
        os.unlink(name, dir_fd=fd)
    except FileNotFoundError:
        pass


# ── Carry out the steps of a restore, in an order in which each finds its place free ──────────────
# First goes what must go, then folders are made, then files are written. What fails costs its own path; a
# full disk stops the whole. Each step can be repeated after it was cut off.

FATAL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What will hit the next path too: better to stop, and to go on later."""
NOT_EMPTY: Final = "a directory with files that no snapshot knows is in its place"
DAMAGED: Final = "the stored content is damaged"


class Outcome(msgspec.Struct):
    """What became of the steps so far."""

    done: set[bytes]
    failed: dict[bytes, str]
    stays: set[bytes]
    """Folders that were to be removed, but hold something that is not ours."""


class Applier:
    """Carries out steps once, or once more."""

    def __init__(
        self,
        root: Root,
        objects: ObjectReader,
        steps: Sequence[Step],
        token: str,
        modes: Mapping[bytes, int] | None = None,
        on_file: Callable[[int], None] | None = None,
    ) -> None:
        """`modes`: permissions of what is made, where they are not the usual ones; None: as the umask
        says, and those of the file that is replaced. `on_file` is told the size of each file."""
        self.outcome = Outcome(set(), {}, set())
        self._root = root
        self._objects = objects
        self._steps = steps
        self._temporary = {
            step.path: f"{TEMPORARY}{token}-{number}".encode() for number, step in enumerate(steps)
        }
        self._leaves = FileWriter(root, objects, self._temporary, modes)
        self._modes = modes
        self._threads = Threads()
        self._telling = threading.Lock()
        self._on_file = on_file or (lambda size: None)
        self._is_stopped = False

    def run(self) -> None:
        """An OSError that is not about one path stops it; `outcome` then says how far it came."""
        for step in self._steps:
            if is_leaf(step.old) and not is_leaf(step.new):
                self._attempt(step, self._leaves.remove, is_last=step.new is None)
        for step in reversed(self._steps):
            if is_folder(step.old) and not is_folder(step.new):
                self._attempt(step, self._remove_folder, is_last=step.new is None)
        for step in self._steps:
            if is_folder(step.new) and not is_folder(step.old):
                self._attempt(step, self._make_folder)
        with self._threads:
            leaves = [step for step in self._steps if is_leaf(step.new)]
            BatchWriter(self._root, self._objects, self._leaves, self._attempt, self._threads).write(leaves)
            self._set_folder_modes()
            self._make_durable()

    def clean(self) -> None:
        """Remove what an earlier attempt left half-written."""
        for step in self._steps:
            try:
                with self._root.parent(step.path) as (fd, _):
                    remove_file(fd, self._temporary[step.path])
            except OSError as exc:
                if exc.errno in FATAL:
                    raise

    def _attempt(self, step: Step, act: Callable[[Step], None], *, is_last: bool = True) -> None:
        if step.path in self.outcome.failed or self._is_stopped:
            return
        try:
            act(step)
        except RefusedError as exc:
            self.outcome.failed[step.path] = str(exc)
        except OSError as exc:
            if exc.errno in FATAL:
                self._is_stopped = True
                raise
            self.outcome.failed[step.path] = exc.strerror or str(exc)
        except (*DAMAGE, ValueError) as exc:
            self.outcome.failed[step.path] = f"{DAMAGED}: {exc}"
        else:
            if is_last and step.path not in self.outcome.stays:
                self.outcome.done.add(step.path)
                if step.new is not None and is_leaf(step.new):
                    with self._telling:
                        self._on_file(step.new.size)

    # -- removing

    def _remove_folder(self, step: Step) -> None:
        try:
            with self._root.parent(step.path) as (fd, name):
                found = status(fd, name)
                if found is not None and stat.S_ISDIR(found.st_mode):
                    os.rmdir(name, dir_fd=fd)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as exc:
            if exc.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if step.new is not None:
                raise RefusedError(NOT_EMPTY) from exc
            self.outcome.stays.add(step.path)

    # -- making

    def _make_folder(self, step: Step) -> None:
        with self._root.parent(step.path) as (fd, name):
            try:
                os.mkdir(name, 0o777 if self._modes is None else 0o700, dir_fd=fd)
            except FileExistsError:
                found = status(fd, name)
                if found is None or not stat.S_ISDIR(found.st_mode):
                    raise RefusedError(CHANGED) from None

    def _set_folder_modes(self) -> None:
        """Last: a folder that must not be written to had to be filled first."""
        if self._modes is None:
            return
        for step in reversed(self._steps):
            if is_folder(step.new) and not is_folder(step.old):
                self._attempt(step, self._set_folder_mode)

    def _set_folder_mode(self, step: Step) -> None:
        assert self._modes is not None
        with self._root.folder(step.path) as fd:
            os.fchmod(fd, self._modes.get(step.path, 0o755) & PERMISSIONS)

    def _make_durable(self) -> None:
        """What was done to the names in a directory."""
        folders = list(dict.fromkeys(step.path.rpartition(b"/")[0] for step in self._steps))
        if len(folders) >= filesystems.MANY and filesystems.can_sync_all(self._root.fd):
            filesystems.sync_all(self._root.fd)
        else:
            self._threads.each(self._sync_folder, folders)

    def _sync_folder(self, path: bytes) -> None:
        try:
            with self._root.folder(path) as fd:
                os.fsync(fd)
        except OSError as exc:
            if exc.errno in FATAL:
                raise
