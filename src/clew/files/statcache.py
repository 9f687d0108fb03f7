"""What the last scan of a root saw, so that the next one reads only what changed.

A cache of this machine that may be deleted at any time: what it says of a file is believed only while
the file's inode, size, mode and both times are what they were, and only if these times were well in the
past when it was read. A change soon after that might have left no trace in them (racy timestamps).

    file        MAGIC, XXH3 of the rest (8), then msgpack: root, key, list of folders
"""

from __future__ import annotations

import os
import struct
import sys
from typing import Final

import msgspec
from blake3 import blake3
from xxhash import xxh3_64_digest

from clew.core.hashing import DIGEST_SIZE

MAGIC: Final = b"clewsta1"
_HEAD: Final = len(MAGIC) + 8

STAT: Final = struct.Struct("<5q")
"""Of an entry: mode, inode, size, mtime_ns, ctime_ns."""

MARGIN: Final = 2_000_000_000
"""Nanoseconds; the coarsest clock of a file system in use, that of FAT, has two seconds."""

# What became of an entry: below these, it is stored, and this is its kind (see clew.core.objects).
IGNORED: Final = 0x40
GONE: Final = 0x41
SKIPPED: Final = 0x80
"""Plus the number of the reason."""


class Folder(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One directory as a scan saw it: packed, because there are many, and compared as a whole."""

    path: bytes
    identity: tuple[int, int]
    """Its inode and ctime_ns; the latter is 0 if it was racy."""
    above: bytes
    """The key of the rules that hold around it, and its mode."""
    rules: bytes
    """The key of the rules that hold in it, and its mode."""
    names: bytes
    """Of all entries that are no directories, in the order of the file system, with NUL between."""
    stats: bytes
    codes: bytes
    digests: bytes
    """Of those that are stored."""
    directories: bytes
    """Their names, with NUL between."""
    directory_codes: bytes
    """Of those that were entered: how (see clew.files.ignore)."""
    racy: tuple[int, ...]
    """Entries that have to be read again even if they look the same."""
    tree: bytes
    tree_size: int
    # Of this directory and all below:
    total_files: int
    total_links: int
    total_directories: int
    total_bytes: int
    total_skipped: int

    @property
    def mode(self) -> int:
        return self.rules[-1]

    @property
    def is_empty(self) -> bool:
        return not (self.total_files or self.total_links or self.total_directories)


class _File(msgspec.Struct, frozen=True, array_like=True):
    root: bytes
    key: bytes
    folders: list[Folder]


class StatCache:
    """The folders of one root, under one set of rules, for one store."""

    def __init__(self, path: str | None = None, root: str = "", key: bytes = b"") -> None:
        """Without a path it is kept in memory only."""
        self.folders: dict[bytes, Folder] = {}
        self.is_changed = False
        self._path = path
        self._root = os.fsencode(root)
        self._key = key

    @classmethod
    def open(cls, directory: str | os.PathLike[str], root: str, key: bytes) -> StatCache:
        """The cache of a root; it is empty if what is there has another key. `key` names what was removed
        from the store so far (`Shelf.collected`): objects that the store lost must never be believed in.
        Rules need not be in it: each folder knows those that it was seen under."""
        name = blake3(os.fsencode(root)).digest(16).hex()
        cache = cls(os.path.join(os.fspath(directory), f"{name}.stat"), root, key)
        cache._load()
        return cache

    @property
    def tree(self) -> bytes | None:
        root = self.folders.get(b"")
        return root.tree if root is not None else None

    def clear(self) -> None:
        self.is_changed = bool(self.folders)
        self.folders = {}

    def save(self) -> None:
        """Write it, if it changed. What can not be written is a slower scan next time, nothing worse."""
        if not self.is_changed or self._path is None:
            return
        body = msgspec.msgpack.encode(_File(self._root, self._key, list(self.folders.values())))
        try:
            _replace(self._path, MAGIC + xxh3_64_digest(body), body)
        except OSError:
            return
        self.is_changed = False

    def _load(self) -> None:
        try:
            content = _own_content(self._path or "")
        except OSError:
            return
        body = memoryview(content)[_HEAD:]
        if content[:_HEAD] != MAGIC + xxh3_64_digest(body):
            return
        try:
            file = msgspec.msgpack.decode(body, type=_File)
        except (msgspec.MsgspecError, ValueError):
            return
        if (file.root, file.key) == (self._root, self._key) and all(map(_is_whole, file.folders)):
            self.folders = {folder.path: folder for folder in file.folders}


def cache_directory(location: str) -> str | None:
    """Where this machine keeps the caches of a store; None: nowhere."""
    if location.startswith("memory:"):
        return None
    home = os.path.expanduser("~")
    usual = (
        os.path.join(home, "Library", "Caches") if sys.platform == "darwin" else os.path.join(home, ".cache")
    )
    base = os.environ.get("XDG_CACHE_HOME") or usual
    if not os.path.isabs(base):
        return None
    return os.path.join(base, "clew", "files", blake3(os.fsencode(location)).digest(16).hex())


def is_racy(mtime: int, ctime: int, began: int) -> bool:
    """Whether a later change might leave these times as they are. Nobody can set a ctime, so one that
    lies in the future says that the clock was set back; an mtime there says nothing."""
    horizon = began - MARGIN
    return ctime >= horizon or horizon <= mtime <= began + MARGIN


def _is_whole(folder: Folder) -> bool:
    return (
        len(folder.stats) == STAT.size * len(folder.codes)
        and len(folder.digests) == DIGEST_SIZE * sum(code < IGNORED for code in folder.codes)
        and len(folder.tree) == DIGEST_SIZE
    )


def _own_content(path: str) -> bytes:
    """A file of this user alone: what others could have written is not believed."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb", buffering=0) as file:
        stat = os.fstat(fd)
        if stat.st_uid != os.geteuid() or stat.st_mode & 0o022:
            raise PermissionError(f"{path} could have been written by others")
        return file.read()


def _replace(path: str, *parts: bytes) -> None:
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.writelines(parts)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
