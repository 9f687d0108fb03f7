"""The directories of a store and the files in them, reached by descriptors: no link leads out of a store.

The root is opened by its path, as the user named it. The other directories are opened in the root, and each
file in its directory, and nowhere on this way is a link followed. What is not a plain file, or directory,
is refused: nobody who hands over a store, or may write in its directory, can aim at a file elsewhere.

Anybody's file may be read. A file is written in place only if

- it has no second name: a hard link may be a file outside of the store;
- it belongs to this user, to root or to the owner of the root directory; or to its group, if that directory
  is shared with its group and with nobody else.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

from clew.backends.private_files import is_in_public, kind_of

HAS_DESCRIPTORS: Final = {os.open, os.stat, os.unlink, os.rename, os.mkdir} <= os.supports_dir_fd
"""Windows has none: there files are opened by their paths."""
NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


class StrangeFileError(OSError):
    """Something in a store is not the plain file, or directory, that has to be there."""

    def __init__(self, path: object, found: int, wanted: str) -> None:
        kind = "a file" if stat.S_ISREG(found) else kind_of(found)
        super().__init__(f"{path} is {kind}, not {wanted}: Clew does not touch it; move it away")


class NotOursError(OSError):
    """A file of a store can be read, but must not be written."""


class Opened:
    """A directory that is open as long as anybody has this: so whoever closes a store takes nothing away from
    those who still read."""

    __slots__ = ("fd", "found")

    def __init__(self, fd: int | None, found: os.stat_result) -> None:
        self.fd = fd
        self.found = found

    def __del__(self, close=os.close) -> None:  # type: ignore[no-untyped-def]
        if self.fd is not None:
            close(self.fd)


class Directory:
    """A directory of a store. One that is held stays open; others are opened anew each time."""

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
        """It will be opened anew."""
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
        """Refuse what is there if it is no directory, or somebody else's; nothing is there: that will do."""
        try:
            found = self.opened().found
        except FileNotFoundError:
            return
        if not self.may_write(found):
            raise NotOursError(_foreign(self.path, found))

    def refuse_public(self) -> None:
        """Refuse a directory of another user where everybody may make one: what is written is theirs then."""
        owner = self.opened().found.st_uid
        if owner and hasattr(os, "geteuid") and owner != os.geteuid() and is_in_public(self.path):
            raise NotOursError(
                f"{self.path} belongs to user {owner}, and lies where everybody may write:"
                " copy the store to a directory of your own"
            )

    def may_write(self, found: os.stat_result) -> bool:
        """Whether a file, or directory, belongs to somebody who is trusted in this store."""
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
                f"{self} has {found.st_nlink} names (hard links), and whoever writes it changes a file"
                " outside of the store too: remove the other names, or copy the store and use the copy"
            )
        if not self.directory.may_write(found):
            raise NotOursError(_foreign(self, found))


def _foreign(path: object, found: os.stat_result) -> str:
    return (
        f"{path} belongs to user {found.st_uid}, who owns neither this process nor the store:"
        " copy the store and use the copy"
    )
