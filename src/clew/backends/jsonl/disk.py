"""Every file operation of this backend passes here: so faults can be put in, and what was done recorded.

Directories and files are reached by descriptors: no link leads out of a store. The root is opened by its
path, as the user named it. The other directories are opened in the root, and each file in its directory,
and nowhere on this way is a link followed. What is not a plain file, or directory, is refused: a
user who hands over a store, or may write in its directory, cannot aim at a file elsewhere.

A file of any user may be read. A file is written in place only if

- it has no second name: a hard link may be a file outside of the store;
- it belongs to this user, to root or to the owner of the root directory; or to its group, if that directory
  is shared with its group only.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

from clew.core.disk import DIRECTORY, FILE, is_in_public, make_directories, name_of_kind

# -- directories, and the files in them

HAS_DESCRIPTORS: Final = {os.open, os.stat, os.unlink, os.rename, os.mkdir} <= os.supports_dir_fd
"""Windows has none: there files are opened by their paths."""
NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


class StrangeFileError(OSError):
    """Something in a store is not the plain file, or directory, that has to be there."""

    def __init__(self, path: object, found: int, wanted: str) -> None:
        kind = "a file" if stat.S_ISREG(found) else name_of_kind(found)
        super().__init__(f"{path} is {kind}, not {wanted}: Clew does not touch it; move it away")


class NotOursError(OSError):
    """A file of a store can be read, but must not be written."""


class Opened:
    """A directory that stays open as long as this is in use: so closing a store takes nothing away from
    threads that still read."""

    __slots__ = ("fd", "found")

    def __init__(self, fd: int | None, found: os.stat_result) -> None:
        self.fd = fd
        self.found = found

    def __del__(self, close=os.close) -> None:  # type: ignore[no-untyped-def]
        if self.fd is not None:
            close(self.fd)


class Directory:
    """A directory of a store. One that is held stays open; others are opened each time."""

    def __init__(self, path: Path, root: Directory | None = None, *, held: bool) -> None:
        self.path = path
        self._root = root
        self._is_held = held
        self._opened: Opened | None = None

    def file(self, name: str) -> File:
        if not name or name in (".", "..") or "/" in name or "\0" in name or os.sep in name:
            raise ValueError(f"{name!r} is no name of a file")
        return File(self, name)

    def opened(self) -> Opened:
        found = self._opened
        if found is None:
            found = self._open()
            if self._is_held:
                self._opened = found
        return found

    def let_go(self) -> None:
        """It will be opened again."""
        self._opened = None

    def has_moved(self) -> bool:
        """Whether its name leads to another directory than the one that is held."""
        held = self._opened
        if held is None:
            return False
        try:
            found = self._look()
        except OSError:
            return True
        return (found.st_ino, found.st_dev) != (held.found.st_ino, held.found.st_dev)

    def check(self) -> None:
        """Refuse what is there if it is no directory, or another user's; nothing there will do."""
        try:
            found = self.opened().found
        except FileNotFoundError:
            return
        if not self.may_write(found):
            raise NotOursError(_foreign(self.path, found))

    def refuse_public(self) -> None:
        """Refuse a directory of another user where all users may make one: what is written is theirs then."""
        owner = self.opened().found.st_uid
        if owner and hasattr(os, "geteuid") and owner != os.geteuid() and is_in_public(self.path):
            raise NotOursError(
                f"{self.path} belongs to user {owner}, and lies where all users may write:"
                " copy the store to a directory of your own"
            )

    def may_write(self, found: os.stat_result) -> bool:
        """Whether a file, or directory, belongs to a user who is trusted in this store."""
        root = (self._root or self).opened().found
        if found.st_uid == root.st_uid or found.st_uid == 0 or found.st_uid == os.geteuid():
            return True
        is_shared = root.st_mode & (stat.S_IWGRP | stat.S_IWOTH) == stat.S_IWGRP
        return is_shared and found.st_gid == root.st_gid

    def _look(self) -> os.stat_result:
        if self._root is None:
            return os.stat(self.path)
        above = self._root.opened()
        return os.stat(_from(above, self), dir_fd=above.fd, follow_symlinks=False)

    def _open(self) -> Opened:
        above = None if self._root is None else self._root.opened()
        if not HAS_DESCRIPTORS:  # pragma: no cover - Windows
            return Opened(None, self._plain(self._look()))
        try:
            if above is None:
                fd = os.open(self.path, _FOLDER)
            else:
                fd = os.open(self.path.name, _FOLDER | NO_LINK, dir_fd=above.fd)
        except OSError as exc:
            exc.filename = str(self.path)
            if not isinstance(exc, FileNotFoundError):
                self._plain(self._look())
            raise
        return Opened(fd, os.fstat(fd))

    def _plain(self, found: os.stat_result) -> os.stat_result:
        if not stat.S_ISDIR(found.st_mode):
            raise StrangeFileError(self.path, found.st_mode, "a directory")
        return found


def _from(above: Opened, directory: Directory) -> str:
    return directory.path.name if above.fd is not None else str(directory.path)


class File(NamedTuple):
    """A file by its directory and its name there, whether it is there or not."""

    directory: Directory
    name: str

    @property
    def path(self) -> Path:
        return self.directory.path / self.name

    def __str__(self) -> str:
        return f"{self.directory.path}{os.sep}{self.name}"

    def beside(self, name: str) -> File:
        """Another one in the same directory."""
        return self.directory.file(name)

    def where(self, at: Opened) -> str:
        """What to call it beside `dir_fd=at.fd`."""
        return self.name if at.fd is not None else str(self)

    def check(self, found: os.stat_result, *, writes: bool) -> None:
        """Refuse what is no plain file, and what must not be written."""
        if not stat.S_ISREG(found.st_mode):
            raise StrangeFileError(self, found.st_mode, "a file")
        if not writes:
            return
        if found.st_nlink > 1:
            raise NotOursError(
                f"{self} has {found.st_nlink} names (hard links), and writing it changes a file"
                " outside of the store too: remove the other names, or copy the store and use the copy"
            )
        if not self.directory.may_write(found):
            raise NotOursError(_foreign(self, found))


def _foreign(path: object, found: os.stat_result) -> str:
    return (
        f"{path} belongs to user {found.st_uid}, who owns neither this process nor the store:"
        " copy the store and use the copy"
    )


# -- operations

# A pipe in the place of a file must not make a process wait.
_PLAIN: Final = (
    getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | NO_LINK
)


def make_root(path: Path) -> None:
    """Make a private directory, with those above it, if it is not there."""
    for place in {made.parent for made in make_directories(path)}:
        sync_directory(Directory(place, held=False))


def make_directory(directory: Directory, within: Directory) -> None:
    """Make a private directory inside another one, if it is not there."""
    at = within.opened()
    file = within.file(directory.path.name)
    try:
        os.mkdir(file.where(at), DIRECTORY, dir_fd=at.fd)
    except FileExistsError:
        return
    made = directory.opened()
    os.chmod(directory.path if made.fd is None else made.fd, DIRECTORY)
    sync_directory(within)


def open_for_reading(file: File) -> int:
    return _open(file, os.O_RDONLY, writes=False)


def open_for_appending(file: File) -> int:
    """Open a file to write at its end; it is made if it is not there."""
    return _open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, writes=True)


def open_for_patching(file: File) -> int:
    """Open a file to write anywhere in it; it is made if it is not there."""
    return _open(file, os.O_RDWR | os.O_CREAT, writes=True)


def create(file: File) -> int:
    """Make a file that is not there yet."""
    return _open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, writes=True)


def _open(file: File, flags: int, *, writes: bool) -> int:
    at = file.directory.opened()
    if not NO_LINK:  # pragma: no cover - Windows
        check(file, writes=False)
    try:
        handle = os.open(file.where(at), flags | _PLAIN, FILE, dir_fd=at.fd)
    except OSError as exc:
        exc.filename = str(file)
        if not isinstance(exc, FileNotFoundError | FileExistsError):
            check(file, writes=False)
        raise
    if not flags & os.O_EXCL:
        try:
            file.check(os.fstat(handle), writes=writes)
        except BaseException:
            os.close(handle)
            raise
    return handle


def check(file: File, *, writes: bool) -> None:
    """Refuse what is there if it is no plain file, or must not be written; nothing is there: that will do."""
    found = status(file)
    if found is not None:
        file.check(found, writes=writes)


def status(file: File) -> os.stat_result | None:
    """Of what is there, be it a link; None: nothing."""
    at = file.directory.opened()
    try:
        return os.stat(file.where(at), dir_fd=at.fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def exists(file: File) -> bool:
    """Whether anything is there."""
    try:
        return status(file) is not None
    except (FileNotFoundError, NotADirectoryError):  # nor is its directory
        return False


def length(file: File) -> int:
    at = file.directory.opened()
    return os.stat(file.where(at), dir_fd=at.fd, follow_symlinks=False).st_size


def names(directory: Directory) -> list[str]:
    """All that is there, in order."""
    at = directory.opened()
    if at.fd is None:
        return sorted(os.listdir(directory.path))
    # A descriptor of its own: where a listing has come to belongs to it.
    own = os.open(".", os.O_RDONLY | getattr(os, "O_CLOEXEC", 0), dir_fd=at.fd)
    try:
        return sorted(os.listdir(own))
    finally:
        os.close(own)


def close(handle: int) -> None:
    os.close(handle)


def size(handle: int) -> int:
    return os.fstat(handle).st_size


def inode(handle: int) -> int:
    return os.fstat(handle).st_ino


def write(handle: int, data: bytes) -> None:
    """One call, and more only if the system took less than all."""
    written = os.write(handle, data)
    while written < len(data):
        written += os.write(handle, memoryview(data)[written:])


def write_at(handle: int, data: bytes, offset: int) -> None:
    written = 0
    while written < len(data):
        written += os.pwrite(handle, memoryview(data)[written:], offset + written)


def read_at(handle: int, count: int, offset: int) -> bytes:
    """`count` bytes, or fewer at the end of the file."""
    data = os.pread(handle, count, offset)
    if len(data) == count or not data:
        return data
    parts = [data]
    offset += len(data)
    count -= len(data)
    while count and (data := os.pread(handle, count, offset)):
        parts.append(data)
        offset += len(data)
        count -= len(data)
    return b"".join(parts)


def truncate(handle: int, length: int) -> None:
    os.ftruncate(handle, length)


def sync(handle: int) -> None:
    """Until this returns, what was written may be lost with the power."""
    getattr(os, "fdatasync", os.fsync)(handle)


def sync_directory(directory: Directory) -> None:
    """Until this returns, a new name in the directory may be lost with the power."""
    at = directory.opened()
    if at.fd is not None:
        os.fsync(at.fd)


def replace(source: File, target: File) -> None:
    one, other = source.directory.opened(), target.directory.opened()
    os.replace(source.where(one), target.where(other), src_dir_fd=one.fd, dst_dir_fd=other.fd)


def remove(file: File) -> None:
    """Remove a file, or a link, if it is there; a directory is let be."""
    at = file.directory.opened()
    try:
        os.unlink(file.where(at), dir_fd=at.fd)
    except (FileNotFoundError, IsADirectoryError):
        pass
    except PermissionError:  # what macOS says of a directory
        found = status(file)
        if found is None or not stat.S_ISDIR(found.st_mode):
            raise


def write_whole(file: File, data: bytes, *, durable: bool = True) -> None:
    """A file of this content is there as a whole, or not at all."""
    # A name that cannot be known before: two threads may open a new store at once, and others wait for it.
    beside = file.beside(f"{file.name}.{os.urandom(8).hex()}.new")
    handle = create(beside)
    try:
        try:
            write(handle, data)
            if durable:
                sync(handle)
        finally:
            close(handle)
        replace(beside, file)
    except BaseException:
        remove(beside)
        raise
    if durable:
        sync_directory(file.directory)
