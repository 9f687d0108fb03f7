"""Scanning a directory tree to the objects of a snapshot.

Three steps: walk the tree and find what changed, read that, then make the objects of the directories
from the leaves to the root. A directory in which nothing changed costs its listing, and neither its
object nor anything below is asked of the store.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from clew.core.disk import DIRECTORY_FLAGS, open_directory
from clew.files.snapshot.classify import REASONS, Decider, Draft, Limits, joined, skip_code
from clew.files.snapshot.ignore import Ignore
from clew.files.snapshot.listing import Beginning, row_of, split
from clew.files.snapshot.read import FileRead, in_threads, reason_of, store_file
from clew.files.snapshot.statcache import IGNORED, SKIPPED, Folder, StatCache
from clew.files.snapshot.walk import Walk
from clew.model.files import FileProgress, OnProgress, Skipped

if TYPE_CHECKING:
    from clew.files.objects.store import ObjectWriter

_THREADS: Final = 4
_FEW_FILES: Final = 32
"""As many are read before a thread was started."""
_JOB: Final = 256
"""Files that one thread takes at a time."""
_REPORT_EVERY: Final = 1000


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """What was found: the whole tree by its name, and what is not in it."""

    tree: bytes
    ignored: tuple[bytes, ...] = ()
    """Files, and directories that were not entered; empty unless they were asked for."""
    files: int
    links: int
    directories: int
    """Below the root."""
    bytes: int
    skipped: tuple[Skipped, ...]


def scan(
    root: str,
    writer: ObjectWriter,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    also: Collection[bytes] = (),
    limits: Limits,
    cache: StatCache | None,
    never: Collection[str] = (),
    on_progress: OnProgress | None = None,
    changed_dirs: Collection[bytes] | None = None,
    lists_ignored: bool = False,
) -> Scan:
    """Store the tree below `root` (see `check_root`); all of it was given to the writer when this returns.

    `also`: paths that are taken whatever the rules say. `never`: absolute paths of the store's own files.
    `changed_dirs`: of a watcher that vouches that nothing changed anywhere else since the scan that the
    cache is of; then the cache is left for the caller to save.
    """
    began = Beginning.now(root)
    cache = cache if cache is not None else StatCache()
    if cache.tree is not None and not writer.has(cache.tree):
        cache.clear()
    inside = _inside(root, never)
    salt = msgspec.msgpack.encode([limits.max_file_bytes, sorted(inside)])
    decider = Decider(root, Ignore(include, exclude, also, salt), limits, inside)
    if also or not cache.folders:
        changed_dirs = None
    progress = _Progress(on_progress)
    walk = Walk(decider, cache.folders, changed_dirs, began, progress.found)
    walk.run(root)
    drafts = [seen for seen in walk.seen if isinstance(seen, Draft)]
    progress.begin_storing(decider.unread_files)
    _read(root, drafts, writer, limits, progress)
    finish = _Finish(cache, decider, writer, began, is_whole=changed_dirs is None)
    top = finish.run(walk)
    limits.check(root, top.total_files, top.total_bytes)
    writer.flush()
    finish.remember()
    if changed_dirs is None:
        cache.save()
    return Scan(
        tree=top.tree,
        files=top.total_files,
        links=top.total_links,
        directories=top.total_directories,
        bytes=top.total_bytes,
        skipped=finish.skipped(top),
        ignored=finish.ignored() if lists_ignored else (),
    )


def _inside(root: str, never: Collection[str]) -> frozenset[bytes]:
    """Of absolute paths those below the root, relative to it."""
    found = set()
    for path in never:
        directory, name = os.path.split(path)
        resolved = os.path.join(os.path.realpath(directory), name)
        if resolved.startswith(root.rstrip("/") + "/"):
            found.add(os.fsencode(os.path.relpath(resolved, root)))
    return frozenset(found)


def _read(
    root: str, drafts: Sequence[Draft], writer: ObjectWriter, limits: Limits, progress: _Progress
) -> None:
    for draft in drafts:
        for target in draft.targets:
            writer.put(target)
    if not any(draft.unread for draft in drafts):
        return
    fd = os.open(root, DIRECTORY_FLAGS)
    try:
        jobs = [
            partial(_read_some, fd, draft, draft.unread[at : at + _JOB], writer, limits, progress)
            for draft in drafts
            for at in range(0, len(draft.unread), _JOB)
        ]
        is_little = sum(len(draft.unread) for draft in drafts) <= _FEW_FILES
        in_threads(jobs, 1 if is_little else min(_THREADS, os.cpu_count() or 1))
    finally:
        os.close(fd)


def _read_some(
    root: int, draft: Draft, indexes: Sequence[int], writer: ObjectWriter, limits: Limits, progress: _Progress
) -> None:
    """Read files of a directory."""
    try:
        directory = open_directory(root, draft.path)
    except OSError as exc:
        reason = reason_of(exc)
        for index in indexes:
            draft.codes[index] = skip_code(reason)
        return
    stored = 0
    try:
        for index in indexes:
            read = store_file(directory, draft.names[index], writer, limits.max_file_bytes)
            if isinstance(read, FileRead):
                draft.codes[index], draft.digests[index] = read.kind, read.digest
                draft.rows[index] = row_of(read.stat)
                stored += read.stat.st_size
            else:
                draft.codes[index] = skip_code(read)
    finally:
        os.close(directory)
    progress.stored(len(indexes), stored)


class _Finish:
    """Makes directories of drafts, from the leaves to the root, and brings the cache up to date."""

    def __init__(
        self, cache: StatCache, decider: Decider, writer: ObjectWriter, began: Beginning, *, is_whole: bool
    ) -> None:
        self._cache = cache
        self._decider = decider
        self._writer = writer
        self._began = began
        self._is_whole = is_whole
        """Whether every directory was looked at."""
        self._made: dict[bytes, Folder] = {}
        self._refreshed: dict[bytes, Folder] = {}
        self._forced: list[bytes] = []
        self._seen: set[bytes] = set()

    def run(self, walk: Walk) -> Folder:
        """The root."""
        self._refreshed = walk.refreshed
        outdated: set[bytes] = set()
        for seen in reversed(walk.seen):
            path = seen.path
            if isinstance(seen, Folder):
                if path not in outdated:
                    continue
                seen = Draft.of(seen)
            folder = seen.unchanged(self._began) if path not in outdated else None
            if folder is None:
                needed, put = self._decider.ignore.is_needed, self._writer.put
                folder = seen.folder(self._find, needed, put, self._began)
            self._made[path] = folder
            if seen.is_forced:
                self._forced.append(path)
            old = self._cache.folders.get(path)
            if path and (old is None or _appearance(old) != _appearance(folder)):
                outdated.add(path.rpartition(b"/")[0])
        if self._is_whole:
            self._seen = {seen.path for seen in walk.seen}
        return self._made.get(b"") or self._cache.folders[b""]

    def _find(self, path: bytes) -> Folder | None:
        return self._made.get(path) or self._cache.folders.get(path)

    def remember(self) -> None:
        """Nothing of a scan that failed half-way may be in the cache: so this is done at the end."""
        cache = self._cache
        cache.folders.update(self._refreshed)
        gone = self._gone()
        if not self._made and not gone:
            return
        cache.is_changed = True
        for path in gone:
            cache.folders.pop(path, None)
        cache.folders.update(self._made)
        for path in self._forced:
            del cache.folders[path]

    def _gone(self) -> list[bytes]:
        """Directories of the cache that are not there, or not entered, any more."""
        known = self._cache.folders
        if self._is_whole:
            return [path for path in known if path not in self._seen] if len(known) != len(self._seen) else []
        lost = [
            joined(path, name) + b"/"
            for path, folder in self._made.items()
            if path in known
            for name in set(_entered(known[path])).difference(_entered(folder))
        ]
        return [path for path in known if (path + b"/").startswith(tuple(lost))] if lost else []

    def skipped(self, top: Folder) -> tuple[Skipped, ...]:
        if not top.total_skipped:
            return ()
        found = sorted(self._with_codes(lambda codes: max(codes, default=0) >= SKIPPED))
        return tuple(
            Skipped(os.fsdecode(path), REASONS[code - SKIPPED]) for path, code in found if code >= SKIPPED
        )

    def ignored(self) -> tuple[bytes, ...]:
        found = self._with_codes(lambda codes: IGNORED in codes)
        return tuple(sorted(path for path, code in found if code == IGNORED))

    def _with_codes(self, is_wanted: Callable[[bytes | bytearray], bool]) -> Iterator[tuple[bytes, int]]:
        """The paths in those directories of which the codes are wanted, with their codes."""
        for folder in {**self._cache.folders, **self._made}.values():
            for names, codes in (
                (folder.names, folder.codes), (folder.directories, folder.directory_codes)
            ):  # fmt: skip
                if is_wanted(codes):
                    for name, code in zip(split(names), codes, strict=True):
                        yield joined(folder.path, name), code


def _appearance(folder: Folder) -> tuple[object, ...]:
    """What of a directory is seen in the one above it."""
    return folder.tree, folder.total_skipped, folder.mode


def _entered(folder: Folder) -> list[str]:
    names = split(folder.directories)
    return [name for name, code in zip(names, folder.directory_codes, strict=True) if code < IGNORED]


class _Progress:
    """Tells the caller from time to time how far it is."""

    def __init__(self, tell: OnProgress | None) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._files = self._told = self._bytes = 0
        self._total: int | None = None

    def found(self, files: int) -> None:
        self._files += files
        if self._tell and self._files - self._told >= _REPORT_EVERY:
            self._told = self._files
            self._tell(FileProgress(phase="scan", files=self._files, bytes=0, total_files=None))

    def begin_storing(self, total: int) -> None:
        if self._tell:
            self._tell(FileProgress(phase="scan", files=self._files, bytes=0, total_files=self._files))
        self._files = self._bytes = 0
        self._total = total

    def stored(self, files: int, size: int) -> None:
        with self._lock:
            self._files += files
            self._bytes += size
            if self._tell:
                progress = FileProgress(
                    phase="store", files=self._files, bytes=self._bytes, total_files=self._total
                )
                self._tell(progress)
