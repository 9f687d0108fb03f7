"""The user's disk: open files without being led astray, kinds of file systems, durable writes."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from clew.errors import InvalidUrlError

if TYPE_CHECKING:
    import ctypes

# ── Open files and directories that others may change meanwhile: follow no symlink, wait for no pipe ───

_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)
FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
FILE_FLAGS: Final = FLAGS | _NO_WAIT | getattr(os, "O_NOCTTY", 0)  # a FIFO in its place must not make us wait
DIRECTORY_FLAGS: Final = FLAGS | getattr(os, "O_DIRECTORY", 0)


def open_file(path: str | os.PathLike[str], buffering: int = -1) -> IO[bytes]:
    """A file, to be read; its name may be a link. OSError: it cannot be read, or it is a pipe or a device,
    which could wait forever."""
    raw = open(path, "rb", buffering=buffering, opener=_without_waiting)  # noqa: SIM115 (the opener)
    if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
        raw.close()
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return raw


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | _NO_WAIT)


def open_directory(root: int, path: bytes) -> int:
    """The descriptor of a directory below that of the root, or of the root again if `path` is empty. It is
    opened one name after the other: a directory that is swapped for a symlink meanwhile is not entered."""
    fd = root
    for name in path.split(b"/") if path else (b".",):
        try:
            below = os.open(name, DIRECTORY_FLAGS, dir_fd=fd)
        finally:
            if fd != root:
                os.close(fd)
        fd = below
    return fd


# ── Kinds of file systems, and making what was written to one durable ─────────────────────────────

# -- kinds

EXT4: Final = 0xEF53
XFS: Final = 0x58465342
BTRFS: Final = 0x9123683E
F2FS: Final = 0xF2F52010
TMPFS: Final = 0x01021994
OVERLAY: Final = 0x794C7630


def kind_of(fd: int) -> int | None:
    """The number of the kind, as Linux gives it; None: it is not known."""
    libc = library()
    if libc is None:
        return None
    import ctypes

    # The kind is the first field; the whole is smaller than this on every architecture.
    status = (ctypes.c_long * 64)()
    return None if libc.fstatfs(fd, status) != 0 else status[0] & 0xFFFFFFFF


@cache
def library() -> ctypes.CDLL | None:
    """The C library of Linux."""
    if sys.platform != "linux":
        return None
    import ctypes

    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.syncfs.argtypes = [ctypes.c_int]
        libc.fstatfs.argtypes = [ctypes.c_int, ctypes.c_void_p]
    except (OSError, AttributeError):
        return None
    return libc


def release() -> tuple[int, int]:
    """The version of the kernel."""
    major, minor, *_ = *os.uname().release.split("."), "0"
    try:
        return int(major), int("".join(filter(str.isdigit, minor)))
    except ValueError:
        return 0, 0


# -- make what was written durable
#
# One call costs about as much as one file does, so it wins where there are many. It is used only where it
# waits for the disk and tells of failures: on Linux from 5.8 on, for file systems that are known to do so.

MANY: Final = 32
"""So few files are better made durable by themselves: the one call waits for what others wrote, too."""
TELLS_OF_FAILURES: Final = (5, 8)
KNOWN: Final = frozenset({EXT4, XFS, BTRFS, F2FS, TMPFS})


def can_sync_all(fd: int) -> bool:
    """Whether `sync_all` can be trusted with the file system of this descriptor."""
    return kind_of(fd) in KNOWN and release() >= TELLS_OF_FAILURES


def sync_all(fd: int) -> None:
    """Wait until all that was written to the file system of this descriptor is on disk."""
    import ctypes

    libc = library()
    assert libc is not None
    if libc.syncfs(fd) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


# ── Files and directories that only their owner may read ──────────────────────────────────────────
# Files and directories for their owner only, whatever the umask, in places that no other user chose.

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


class NotPrivateError(Exception):
    """A file that others could have read or written is no secret of this user; the text says which."""


def read_private(path: str, most: int) -> bytes:
    """A secret of this user: of a regular file, in a directory that no other user may change. At most one
    byte more than `most` is read. FileNotFoundError: there is none. NotPrivateError: it is no secret."""
    directory = os.path.dirname(path)
    _check_owner(directory, os.stat(directory), 0o022, "may change")
    fd = os.open(path, FILE_FLAGS)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise NotPrivateError(f"{path} is no regular file: remove it")
        _check_owner(path, found, 0o077, "may read or change")
        return os.read(fd, most + 1)
    finally:
        os.close(fd)


def _check_owner(path: str, found: os.stat_result, forbidden: int, others: str) -> None:
    if not hasattr(os, "geteuid"):
        return
    if found.st_uid != os.geteuid():
        raise NotPrivateError(
            f"{path} belongs to another user: set CLEW_STATE_DIR to a directory of your own"
        )
    if found.st_mode & forbidden:
        raise NotPrivateError(f"other users {others} {path}: remove it, and a new one is made")


def write_private(path: str, content: bytes, *, replace: bool) -> None:
    """Keep a secret: it appears whole, and lasts. Without `replace` the one that is there stays: of two who
    make one at once, the first counts."""
    make_directories(Path(path).parent)
    temporary = f"{path}.{os.getpid()}.{secrets.token_hex(4)}"
    fd = create_file(temporary)
    try:
        try:
            os.write(fd, content)
            os.fsync(fd)
        finally:
            os.close(fd)
        if replace:
            os.replace(temporary, path)
        else:
            with suppress(FileExistsError):
                os.link(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    sync_directory(Path(path).parent)


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


def name_of_kind(mode: int) -> str:
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
