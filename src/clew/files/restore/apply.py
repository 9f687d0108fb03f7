"""Carry out the steps of a restore, in an order in which each finds its place free.

First goes what must go, then folders are made, then files are written. What fails costs its own path; a
full disk stops the whole. Each step can be repeated after it was cut off.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from clew.core import disk
from clew.files.journal import TEMPORARY
from clew.files.restore.plan import Step
from clew.files.restore.root import PERMISSIONS, Root, remove_file, status
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
        if len(folders) >= disk.MANY and disk.can_sync_all(self._root.fd):
            disk.sync_all(self._root.fd)
        else:
            self._threads.each(self._sync_folder, folders)

    def _sync_folder(self, path: bytes) -> None:
        try:
            with self._root.folder(path) as fd:
                os.fsync(fd)
        except OSError as exc:
            if exc.errno in FATAL:
                raise
