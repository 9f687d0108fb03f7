"""Files and directories for their owner only, whatever the umask, in places that no other user chose."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from clew.errors import InvalidUrlError

FILE: Final = 0o600
DIRECTORY: Final = 0o700
MOST_LINKS: Final = 40
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_OTHERS_WRITE: Final = stat.S_IWOTH | stat.S_ISVTX
_KINDS: Final = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def make_directories(path: Path) -> list[Path]:
    """Make a private directory, with those above it; those that were missing, the deepest first."""
    missing = [place for place in (path, *path.parents) if not place.exists()]
    for place in reversed(missing):
        try:
            place.mkdir(DIRECTORY)
            place.chmod(DIRECTORY)
        except FileExistsError:  # another process was faster
            pass
    return missing


def create_file(path: str | os.PathLike[str], *, dir_fd: int | None = None) -> int:
    """The descriptor of a new private file. Raises FileExistsError, and follows no link."""
    handle = os.open(path, _NEW, FILE, dir_fd=dir_fd)
    if hasattr(os, "fchmod"):
        os.fchmod(handle, FILE)
    return handle


def sync_directory(directory: Path) -> None:
    """Until this returns, a new name in the directory may be lost with the power."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a directory; 0: there is nothing."""
    total = 0
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    if not stat.S_ISDIR(found.st_mode):
        return found.st_size
    for directory, _, files in os.walk(path):
        for file in files:
            try:
                total += os.lstat(os.path.join(directory, file)).st_size
            except FileNotFoundError:
                pass
    return total


def kind_of(mode: int) -> str:
    """What a thing is that is no regular file."""
    return next((name for is_it, name in _KINDS if is_it(mode)), "no regular file")


def resolve(path: str | os.PathLike[str]) -> Path:
    """Where a path leads. Links of the user and of root are followed; not those that another user put into
    a directory in which all users may write, as /tmp is."""
    real = os.path.realpath(path)
    if os.name != "posix" or real == os.path.abspath(path):
        return Path(real)
    done, pending, links = "/", _names(os.path.join(os.getcwd(), os.fspath(path))), 0
    while pending:
        name = pending.pop()
        if name == "..":
            done = os.path.dirname(done)
            continue
        place = os.path.join(done, name)
        try:
            found = os.lstat(place)
        except OSError:  # it is not there yet: so it is no link
            done = place
            continue
        if not stat.S_ISLNK(found.st_mode):
            done = place
            continue
        links += 1
        _refuse_planted_link(place, found.st_uid, done)
        target = os.readlink(place)
        if links > MOST_LINKS:
            raise InvalidUrlError(f"{os.fspath(path)} leads through more than {MOST_LINKS} links")
        pending += _names(target)
        done = "/" if target.startswith("/") else done
    return Path(done)


def _names(path: str) -> list[str]:
    """The last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _refuse_planted_link(place: str, owner: int, directory: str) -> None:
    if owner in (os.geteuid(), 0) or not os.stat(directory).st_mode & _OTHERS_WRITE:
        return
    raise InvalidUrlError(
        f"{place} is a link of another user in a directory where all users may write: it is not followed;"
        " name the place that you mean"
    )


def is_in_public(path: Path) -> bool:
    """Whether all users may put files beside it."""
    try:
        return bool(os.stat(path.parent).st_mode & _OTHERS_WRITE)
    except FileNotFoundError:
        return False
