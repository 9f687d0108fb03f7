"""Private folders for files that nobody needs afterwards, in the temporary directory or beside a new file.

A process that is killed cannot remove its folders, so the next one does. A folder is in use for as long as a
process holds the lock on a file in it, which the system drops however that process ends; its age says
nothing. Folders of other users, and of other programs, stay; links are not followed.
"""

from __future__ import annotations

import atexit
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from clew.core.disk import DIRECTORY, DIRECTORY_FLAGS, FILE_FLAGS, create_file

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: nothing says whether a folder is in use, so all stay
    fcntl = None  # type: ignore[assignment]

LOCK: Final = "in-use"
"""The file that is locked."""
FILES: Final = "files"
"""The folder below it for whoever asked for one."""
_NAME: Final = re.compile(r"\.?clew-[a-z]+-[0-9a-f]{16}")


class _Held(NamedTuple):
    lock: int
    pid: int


_held: Final[dict[Path, _Held]] = {}
_looked_at: Final[set[Path]] = set()
"""Without a lock, which a fork could leave locked: to look twice does no harm."""


@contextmanager
def work_folder(purpose: str, parent: Path | None = None) -> Iterator[Path]:
    """Yield a new folder, which is removed with all that is in it at the end of the block."""
    folder = make_work_folder(purpose, parent)
    try:
        yield folder
    finally:
        remove_work_folder(folder)


def make_work_folder(purpose: str, parent: Path | None = None) -> Path:
    """Make a new folder, and remove those beside it whose processes were killed.

    Args:
        purpose: One word, which becomes part of its name.
        parent: Where to make it, under a hidden name. None: in the temporary directory.
    """
    base = _temporary() if parent is None else parent
    if parent is not None or base not in _looked_at:
        _looked_at.add(base)
        remove_abandoned(base)
    while True:
        place = base / f"{'' if parent is None else '.'}clew-{purpose}-{secrets.token_hex(8)}"
        os.mkdir(place, DIRECTORY)
        lock = _locked(place)
        if lock is not None:
            _held[place / FILES] = _Held(lock, os.getpid())
            return place / FILES


def remove_work_folder(folder: Path) -> None:
    """Remove a folder that `make_work_folder` made; a forked child leaves that of its parent."""
    held = _held.pop(folder, None)
    if held is None:
        return
    try:
        if held.pid == os.getpid():
            with suppress(OSError):
                base = os.open(folder.parent.parent, DIRECTORY_FLAGS)
                try:
                    _remove(base, folder.parent.name)
                finally:
                    os.close(base)
    finally:
        os.close(held.lock)


@atexit.register
def _remove_held() -> None:
    """What nobody removed, such as the folder of a store that was never closed."""
    for folder in list(_held):
        remove_work_folder(folder)


def remove_abandoned(base: Path | None = None) -> None:
    """Remove the folders of this user whose processes were killed. None: those in the temporary directory."""
    if fcntl is None:
        return
    with suppress(OSError):
        handle = os.open(_temporary() if base is None else base, DIRECTORY_FLAGS)
        try:
            for name in os.listdir(handle):
                if _NAME.fullmatch(name):
                    with suppress(OSError):
                        _remove_unless_used(handle, name)
        finally:
            os.close(handle)


def _temporary() -> Path:
    import tempfile

    return Path(os.path.realpath(tempfile.gettempdir()))


def _locked(place: Path) -> int | None:
    """Return the descriptor of the lock in a new folder; None if another process took the folder for one that
    was left behind."""
    with suppress(FileNotFoundError):
        lock = create_file(place / LOCK)
        if _lock(lock) and os.path.samestat(os.stat(place / LOCK), os.fstat(lock)):
            os.mkdir(place / FILES, DIRECTORY)
            return lock
        os.close(lock)
    return None


def _lock(handle: int) -> bool:
    """Report whether no other process holds the lock."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: nobody removes the folder but its process
        pass
    return True


def _remove_unless_used(base: int, name: str) -> None:
    folder = os.open(name, DIRECTORY_FLAGS, dir_fd=base)
    try:
        if os.fstat(folder).st_uid != os.geteuid():
            return
        try:
            lock = os.open(LOCK, FILE_FLAGS | os.O_RDWR, dir_fd=folder)
        except FileNotFoundError:
            os.rmdir(name, dir_fd=base)  # killed before it was locked, or while it was removed: it is empty
            return
        try:
            if stat.S_ISREG(os.fstat(lock).st_mode):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(base, name)
        finally:
            os.close(lock)
    finally:
        os.close(folder)


def _remove(base: int, name: str) -> None:
    """The lock goes last: until then the folder says that it was one of ours."""
    folder = os.open(name, DIRECTORY_FLAGS, dir_fd=base)
    try:
        shutil.rmtree(FILES, ignore_errors=True, dir_fd=folder)
        if set(os.listdir(folder)) <= {LOCK}:
            with suppress(FileNotFoundError):
                os.unlink(LOCK, dir_fd=folder)
            os.rmdir(name, dir_fd=base)
    finally:
        os.close(folder)
