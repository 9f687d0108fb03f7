"""What the last scan of a root saw, so that the next one reads only what changed.

A cache of this machine that may be deleted at any time: what it says of a file is believed only while
the file's inode, size, mode and both times are what they were, and only if these times were well in the
past when it was read: see clew.files.snapshot.listing.

    file        MAGIC, then parts: length (8, big endian), XXH3 (8), msgpack
    first part  root, key, list of folders
    others      folders that changed, paths of those that went; since the part before
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from blake3 import blake3
from xxhash import xxh3_64_digest

from clew.core.disk import create_file, make_directories
from clew.core.log.digest import DIGEST_SIZE
from clew.files.snapshot.listing import ROW_SIZE

# -- caches that this process read or wrote last
#
# The next snapshot need not read them again. One is used only while its file is the one that was read or
# written then: a file that was deleted, replaced or added to is read again.

MOST: Final = 4
LARGEST: Final = 12 * 1024 * 1024
"""Bytes of a file; a larger one is read each time, for the sake of memory."""

Mark: TypeAlias = tuple[int, int, int, int]
"""Of a file: inode, size, mtime_ns, ctime_ns."""


class Recent(msgspec.Struct, frozen=True):
    """What a file holds. It never changes, so any number of threads may have it."""

    mark: Mark
    root: bytes
    key: bytes
    folders: dict[bytes, Folder]
    first: int


_kept: Final[dict[str, Recent]] = {}
"""By path; that which was used last is at the end. Each access is one step: a lock could be held by
another thread when this one forks."""


def keep(path: str, recent: Recent) -> None:
    _kept.pop(path, None)
    if recent.mark[1] <= LARGEST:
        _kept[path] = recent
    for other in list(_kept)[:-MOST]:
        _kept.pop(other, None)


def recall(path: str) -> Recent | None:
    """What the file holds; None: it has to be read."""
    recent = _kept.pop(path, None)
    if recent is None or recent.mark != mark_of(path):
        return None
    _kept[path] = recent
    return recent


def mark_of(path: str) -> Mark | None:
    """What changes when a file is written to or replaced; None: it is not there."""
    try:
        stat = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


# -- the cache of a root

MAGIC: Final = b"clewsta3"
_part_head: Final = struct.Struct(">Q8s")

# What became of an entry: below these, it is stored, and this is its kind (see clew.files.objects.format).
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
    """Of these entries (see clew.files.snapshot.listing)."""
    codes: bytes
    digests: bytes
    """Of those that are stored."""
    directories: bytes
    """Their names, with NUL between."""
    directory_codes: bytes
    """Of those that were entered: how (see clew.files.snapshot.ignore)."""
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


class _Change(msgspec.Struct, frozen=True, array_like=True):
    folders: list[Folder]
    gone: list[bytes]


class StatCache:
    """The folders of one root, under one set of rules, for one store."""

    def __init__(self, path: str | None = None, root: str = "", key: bytes = b"") -> None:
        """Without a path it is kept in memory only."""
        self.folders: dict[bytes, Folder] = {}
        self.is_changed = False
        self._path = path
        self._root = os.fsencode(root)
        self._key = key
        self._saved: dict[bytes, Folder] = {}
        """The folders that the file holds."""
        self._inode, self._first, self._length = 0, 0, 0
        """Of the file: which one it is, the length of its first part, and of all."""

    @classmethod
    def open(cls, directory: str | os.PathLike[str], root: str, key: bytes) -> StatCache:
        """The cache of a root; it is empty if what is there has another key. `key` names what was removed
        from the store so far (`SnapshotCounters.collected`): objects that the store lost must never be
        believed in. Rules need not be in it: each folder knows those that it was seen under."""
        cache = cls(_path_of(directory, os.fsencode(root)), root, key)
        if not cache._recall():
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
        """Write it, if it changed. What cannot be written is a slower scan next time, nothing worse."""
        if not self.is_changed or self._path is None:
            return
        try:
            if not self._append():
                self._rewrite()
        except OSError:
            return
        self._saved = dict(self.folders)
        self.is_changed = False
        self._keep_in_memory()

    def _rewrite(self) -> None:
        part = _part(_File(self._root, self._key, list(self.folders.values())))
        self._inode = _replace(self._path or "", MAGIC, part)
        self._first = self._length = len(MAGIC) + len(part)

    def _append(self) -> bool:
        """Add what changed, if that is little; False: the file has to be written as a whole. Only to the file
        as it was read, or written last: folders of two scans do not go together."""
        folders = [folder for path, folder in self.folders.items() if self._saved.get(path) is not folder]
        part = _part(_Change(folders, [path for path in self._saved if path not in self.folders]))
        if not self._inode or self._length + len(part) > 2 * self._first:
            return False
        fd = os.open(
            self._path or "", os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
        with open(fd, "ab", buffering=0) as file:
            if not _is_alone(fd):
                return False
            stat = os.fstat(fd)
            if (stat.st_ino, stat.st_size) != (self._inode, self._length):
                return False
            file.write(part)
        self._length += len(part)
        return True

    def _load(self) -> None:
        try:
            content, inode = _own_content(self._path or "")
        except OSError:
            return
        parts = list(_parts(content))
        try:
            file = msgspec.msgpack.decode(parts[0], type=_File) if parts else None
            changes = [msgspec.msgpack.decode(part, type=_Change) for part in parts[1:]]
        except (msgspec.MsgspecError, ValueError):
            return
        if file is None or (file.root, file.key) != (self._root, self._key):
            return
        folders = {folder.path: folder for folder in file.folders}
        for change in changes:
            folders.update((folder.path, folder) for folder in change.folders)
            for path in change.gone:
                folders.pop(path, None)
        if all(map(_is_whole, folders.values())):
            self.folders, self._saved = folders, dict(folders)
            sizes = [_part_head.size + len(part) for part in parts]
            self._inode, self._first = inode, len(MAGIC) + sizes[0]
            self._length = len(MAGIC) + sum(sizes)
            self._keep_in_memory()

    def _keep_in_memory(self) -> None:
        """For the next snapshot in this process, unless another process wrote to the file since."""
        path = self._path or ""
        mark = mark_of(path)
        if mark is not None and mark[:2] == (self._inode, self._length):
            keep(path, Recent(mark, self._root, self._key, self._saved, self._first))

    def _recall(self) -> bool:
        """Take what this process read or wrote last, if the file still holds just that."""
        known = recall(self._path or "")
        if known is None or (known.root, known.key) != (self._root, self._key):
            return False
        self.folders, self._saved = dict(known.folders), known.folders
        (self._inode, self._length, *_), self._first = known.mark, known.first
        return True


def _part(value: _File | _Change) -> bytes:
    body = msgspec.msgpack.encode(value)
    return _part_head.pack(len(body), xxh3_64_digest(body)) + body


def _parts(content: bytes) -> Iterator[memoryview]:
    """The parts up to the first that is not whole: it was cut off, and says nothing. None is copied: of
    a large tree the first one has many megabytes."""
    if not content.startswith(MAGIC):
        return
    at, view = len(MAGIC), memoryview(content)
    while at + _part_head.size <= len(content):
        length, digest = _part_head.unpack_from(content, at)
        at += _part_head.size
        body = view[at : at + length]
        if len(body) != length or xxh3_64_digest(body) != digest:
            return
        yield body
        at += length


def _is_alone(fd: int) -> bool:
    """Whether no other process is adding to the file; the lock ends with the descriptor."""
    try:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def forget_root(location: str, root: bytes) -> None:
    """Remove the cache of a root of a store: it holds names."""
    directory = cache_directory(location)
    if directory is not None:
        with suppress(OSError):
            os.unlink(_path_of(directory, root))


def _path_of(directory: str | os.PathLike[str], root: bytes) -> str:
    return os.path.join(os.fspath(directory), f"{blake3(root).digest(16).hex()}.stat")


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


def _is_whole(folder: Folder) -> bool:
    return (
        len(folder.stats) == ROW_SIZE * len(folder.codes)
        and len(folder.digests) == DIGEST_SIZE * sum(code < IGNORED for code in folder.codes)
        and len(folder.tree) == DIGEST_SIZE
    )


def _own_content(path: str) -> tuple[bytes, int]:
    """A file of this user alone, and which one it is: what others could have written is not believed."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb", buffering=0) as file:
        stat = os.fstat(fd)
        if stat.st_uid != os.geteuid() or stat.st_mode & 0o022:
            raise PermissionError(f"{path} could have been written by others")
        return file.read(), stat.st_ino


def _replace(path: str, *parts: bytes) -> int:
    """Write a file as a whole; its inode."""
    directory = os.path.dirname(path)
    make_directories(Path(directory))
    temporary = f"{path}.{os.urandom(8).hex()}"
    fd = create_file(temporary)
    try:
        with open(fd, "wb") as file:
            file.writelines(parts)
            inode = os.fstat(fd).st_ino
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return inode
