"""Write and remove the files and links of a restore: each by itself, or many at a time.

A file is written beside its place, under a name that the journal knows; it is made durable; then it is
renamed. What is there already as it should be is done; what is neither that nor what the safety snapshot saw
has changed meanwhile, and is left alone.

All of a batch are written beside their places first, in parts of one thread each, which reads what it needs
itself. Then they are made durable together, and only then they get their names. So the disk is waited for a
few times, not once for each file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgspec

from clew.core import disk
from clew.errors import CorruptError, ObjectMissingError
from clew.files.objects.format import (
    CHUNKED,
    EXECUTABLE,
    FOLDER,
    LINK,
    Chunk,
    TreeEntry,
    decode_chunks,
    object_name,
)
from clew.files.restore.plan import Step
from clew.files.restore.root import (
    NEW_FLAGS,
    PERMISSIONS,
    Nearby,
    Root,
    holds,
    is_executable,
    is_same,
    put_in_place,
    remove_file,
    status,
    write_all,
)

if TYPE_CHECKING:
    from clew.files.objects.store import ObjectReader

# -- one file or link; nothing else is touched by that

CHANGED: Final = "changed while restoring"
IN_THE_WAY: Final = "a directory is in its place"


class RefusedError(Exception):
    """One path cannot be made what it should be; the others can."""


class Ready(msgspec.Struct):
    """A file or link that waits beside its place."""

    step: Step
    temporary: bytes
    found: os.stat_result | None
    """What it will replace."""
    file: int | None = None
    """Its descriptor, until it is durable."""

    @property
    def replaces_link(self) -> bool:
        """Of a file that has other names, too."""
        return self.found is not None and self.found.st_nlink > 1

    def close(self) -> None:
        file, self.file = self.file, None
        if file is not None:
            os.close(file)


class FileWriter:
    """The files and links of a restore."""

    def __init__(
        self,
        root: Root,
        objects: ObjectReader,
        temporary: Mapping[bytes, bytes],
        modes: Mapping[bytes, int] | None,
    ) -> None:
        """`temporary`: the name for each path beside it; `modes` as for `Applier`."""
        self._root = root
        self._objects = objects
        self._temporary = temporary
        self._modes = modes

    def remove(self, step: Step) -> None:
        assert step.old is not None
        try:
            with self._root.parent(step.path) as (fd, name):
                found = status(fd, name)
                if found is None or (stat.S_ISDIR(found.st_mode) and is_folder(step.new)):
                    return
                self._check_unchanged(fd, name, found, step.old)
                os.unlink(name, dir_fd=fd)
        except (FileNotFoundError, NotADirectoryError):
            pass  # the directory is not there any more, so neither is the file

    def prepare(self, fd: int, name: bytes, step: Step, pieces: Iterable[bytes]) -> Ready | None:
        """Write what a path is to become beside it. None: it is as it should be already."""
        new, old = step.new, step.old
        assert new is not None
        found = status(fd, name)
        if found is not None:
            if stat.S_ISDIR(found.st_mode):
                raise RefusedError(IN_THE_WAY)
            if self._is_done(fd, name, found, new):
                return None
            if old is None or is_folder(old):
                raise RefusedError(CHANGED)
            # That it is the same still is seen once more before it is replaced.
            if not holds(fd, name, found, old, self._chunks(old)):
                raise RefusedError(CHANGED)
        temporary = self._temporary[step.path]
        if new.kind == LINK:
            os.symlink(b"".join(pieces), temporary, dir_fd=fd)
            return Ready(step, temporary, found)
        mode = self._mode(step.path, new, found)
        return Ready(step, temporary, found, self._write_beside(fd, temporary, pieces, new, mode))

    def place(self, fd: int, name: bytes, ready: Ready) -> None:
        """Give what was prepared, and is durable by now, its name."""
        try:
            self._give_name(fd, ready, name)
        except BaseException:
            try_to_remove(fd, ready.temporary)
            raise

    def _is_done(self, fd: int, name: bytes, found: os.stat_result, new: TreeEntry) -> bool:
        if new.is_file and is_executable(found) != bool(new.kind & EXECUTABLE):
            return False
        return holds(fd, name, found, new, self._chunks(new))

    def _write_beside(
        self,
        fd: int,
        temporary: bytes,
        pieces: Iterable[bytes],
        new: TreeEntry,
        mode: int | None,
    ) -> int:
        """The descriptor, still open: it has to be made durable."""
        usual = 0o777 if new.kind & EXECUTABLE else 0o666
        file = os.open(temporary, NEW_FLAGS, usual if mode is None else 0o600, dir_fd=fd)
        try:
            for piece in pieces:
                write_all(file, piece)
            if mode is not None:
                os.fchmod(file, mode)
        except BaseException:
            os.close(file)
            try_to_remove(fd, temporary)
            raise
        return file

    def _give_name(self, fd: int, ready: Ready, name: bytes) -> None:
        if ready.found is None:
            try:
                put_in_place(fd, ready.temporary, name)
            except FileExistsError:
                raise RefusedError(CHANGED) from None
            return
        if not is_same(status(fd, name), ready.found):
            self._check_link(fd, name, ready.found, ready.step.old)
        os.rename(ready.temporary, name, src_dir_fd=fd, dst_dir_fd=fd)

    def _check_link(self, fd: int, name: bytes, before: os.stat_result, old: TreeEntry | None) -> None:
        """A file with several names is touched when another of them is replaced: look into it again."""
        found = status(fd, name)
        is_touched = found is not None and before.st_nlink > 1 and found.st_mode == before.st_mode
        if not is_touched or found is None or old is None:
            raise RefusedError(CHANGED)
        self._check_unchanged(fd, name, found, old)

    def _mode(self, path: bytes, new: TreeEntry, found: os.stat_result | None) -> int | None:
        """The permissions to set; None: as the umask says."""
        is_executed = bool(new.kind & EXECUTABLE)
        if self._modes is not None and path in self._modes:
            return self._modes[path] & PERMISSIONS
        if found is None or not stat.S_ISREG(found.st_mode):
            return None if self._modes is None else 0o755 if is_executed else 0o644
        if is_executed == is_executable(found):
            return found.st_mode & PERMISSIONS
        readable = found.st_mode & 0o666
        return readable | (readable & 0o444) >> 2 | 0o100 if is_executed else readable

    def _chunks(self, entry: TreeEntry) -> Sequence[Chunk]:
        return decode_chunks(self._objects.get(entry.digest)) if entry.kind & CHUNKED else ()

    def _check_unchanged(self, fd: int, name: bytes, found: os.stat_result, old: TreeEntry) -> None:
        """P13: only what is in the safety snapshot, byte for byte, may go."""
        if not holds(fd, name, found, old, self._chunks(old)) or not is_same(status(fd, name), found):
            raise RefusedError(CHANGED)


def try_to_remove(fd: int, name: bytes) -> None:
    try:
        remove_file(fd, name)
    except OSError:
        pass


def is_folder(entry: TreeEntry | None) -> bool:
    return entry is not None and entry.kind == FOLDER


def is_leaf(entry: TreeEntry | None) -> bool:
    return entry is not None and entry.kind != FOLDER


# -- many at a time

T = TypeVar("T")

THREADS: Final = 8
"""They wait for the disk most of the time, and those that wait together share a flush."""
WRITERS: Final = min(4, os.cpu_count() or 1)
"""Those that unpack and write keep a processor busy: with more of them, each only waits for the others."""
SMALL_PART: Final = 8
"""So few files are written faster by one thread."""
BATCH: Final = 512
BATCH_WITH_OPEN_FILES: Final = 64
"""Where each file has to stay open until it is durable."""
BATCH_BYTES: Final = 32 * 1024 * 1024
BATCH_FOLDERS: Final = 128
"""Each stays open until all of the batch have their names, or are removed."""
DAMAGE: Final = (CorruptError, ObjectMissingError)
"""Of the store; costs the paths that need what is damaged."""


class Attempt(Protocol):
    """Does something for a step and notes what came of it; raises what stops the whole."""

    def __call__(self, step: Step, act: Callable[[Step], None], *, is_last: bool = True) -> None: ...


class Threads:
    """Started when they are needed first."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._pool: Any = None

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def each(self, act: Callable[[T], None], things: Sequence[T]) -> None:
        """All are over when it returns or raises."""
        if len(things) < 2:
            for thing in things:
                act(thing)
            return
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = self._stack.enter_context(ThreadPoolExecutor(THREADS, "clew-restore"))
        from concurrent.futures import wait

        futures = [self._pool.submit(act, thing) for thing in things]
        wait(futures)
        for future in futures:
            future.result()


class BatchWriter:
    def __init__(
        self, root: Root, objects: ObjectReader, leaves: FileWriter, attempt: Attempt, threads: Threads
    ) -> None:
        self._root = root
        self._objects = objects
        self._leaves = leaves
        self._attempt = attempt
        self._threads = threads
        self._syncs_all = False
        self._homes: dict[bytes, int] = {}
        """The directories of a batch: what waits in them is found again wherever they are moved to."""

    def write(self, steps: Sequence[Step]) -> None:
        plain: dict[bytes, list[Step]] = {}
        for step in steps:
            assert step.new is not None
            if step.new.kind & CHUNKED:
                self._write_batch([step])
            else:
                plain.setdefault(step.path.rpartition(b"/")[0], []).append(step)
        in_order = [step for folder in plain.values() for step in folder]
        self._syncs_all = len(in_order) >= disk.MANY and disk.can_sync_all(self._root.fd)
        most = BATCH if self._syncs_all else BATCH_WITH_OPEN_FILES
        for batch in _cut(in_order, most, BATCH_BYTES, BATCH_FOLDERS):
            self._write_batch(batch)

    def _write_batch(self, steps: Sequence[Step]) -> None:
        ready: list[Ready] = []
        try:
            size = max(SMALL_PART, -(-len(steps) // WRITERS))
            parts = list(_cut(steps, size, BATCH_BYTES // WRITERS))
            self._threads.each(lambda part: self._prepare(part, ready), parts)
            self._make_durable(ready)
            self._place_all(ready)
        except BaseException:
            self._drop(ready)
            raise
        finally:
            while self._homes:
                os.close(self._homes.popitem()[1])

    # -- beside their places

    def _prepare(self, steps: Sequence[Step], ready: list[Ready]) -> None:
        digests = {step.new.digest for step in steps if step.new and not step.new.kind & CHUNKED}
        contents = dict(self._contents(list(digests)))
        for step in steps:
            self._prepare_one(step, contents, ready)

    def _prepare_one(self, step: Step, contents: dict[bytes, bytes | Exception], ready: list[Ready]) -> None:
        made: list[Ready | None] = []

        def prepare(step: Step) -> None:
            pieces = self._pieces(step, contents)
            folder, _, name = step.path.rpartition(b"/")
            made.append(self._leaves.prepare(self._home(folder), name, step, pieces))

        self._attempt(step, prepare, is_last=False)
        if made == [None]:
            self._attempt(step, lambda step: None)
        for one in made:
            if one is not None:
                ready.append(one)
                if one.file is not None and self._is_synced_with_all(one.file):
                    one.close()

    def _home(self, folder: bytes) -> int:
        """A folder is of one part, or of two where it is cut: then of two threads."""
        fd = self._homes.get(folder)
        if fd is None:
            opened = self._root.open_folder(folder)
            fd = self._homes.setdefault(folder, opened)
            if fd != opened:
                os.close(opened)
        return fd

    def _is_synced_with_all(self, file: int) -> bool:
        return self._syncs_all and os.fstat(file).st_dev == self._root.device

    def _pieces(self, step: Step, contents: dict[bytes, bytes | Exception]) -> Iterable[bytes]:
        assert step.new is not None
        if step.new.kind & CHUNKED:
            return self._objects.pieces(step.new)
        content = contents[step.new.digest]
        if isinstance(content, Exception):
            raise content
        # Once more after the reader: this is the last look before it becomes the user's file.
        if object_name(content) != step.new.digest or step.new.size != len(content):
            raise CorruptError(f"{step.path!r} has another hash or size than its directory says")
        return [content]

    def _contents(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, bytes | Exception]]:
        """All contents, pack by pack; one that is damaged costs only those that need it."""
        left = dict.fromkeys(names)
        try:
            for name, content in self._objects.get_many(names):
                del left[name]
                yield name, content
        except DAMAGE:
            for name in left:
                try:
                    yield name, self._objects.get(name)
                except DAMAGE as exc:
                    yield name, exc

    # -- durable, and then in their places

    def _make_durable(self, ready: Sequence[Ready]) -> None:
        self._threads.each(_sync, [one for one in ready if one.file is not None])
        if self._syncs_all and ready:
            disk.sync_all(self._root.fd)

    def _place_all(self, ready: Sequence[Ready]) -> None:
        in_order = sorted(ready, key=lambda one: one.step.path.rpartition(b"/"))
        alone = [one for one in in_order if not one.replaces_link]
        # Not as many as write: the disk is told of what a file that goes had, and may be waited for.
        size = max(SMALL_PART, -(-len(alone) // THREADS))
        self._threads.each(self._place, [alone[at : at + size] for at in range(0, len(alone), size)])
        # One after the other: a name that goes touches the file, and so all of its other names.
        self._place([one for one in in_order if one.replaces_link])

    def _place(self, ready: Sequence[Ready]) -> None:
        with Nearby(self._root) as nearby:
            for one in ready:
                placed: list[Ready] = []

                def place(step: Step, one: Ready = one, placed: list[Ready] = placed) -> None:
                    fd, name = nearby.parent(step.path)
                    self._leaves.place(fd, name, one)
                    placed.append(one)

                self._attempt(one.step, place)
                if not placed:
                    self._remove_temporary(one)

    def _drop(self, ready: Sequence[Ready]) -> None:
        """Remove what did not get its name; what did is not there under the other any more."""
        for one in ready:
            one.close()
            self._remove_temporary(one)

    def _remove_temporary(self, one: Ready) -> None:
        """Where it was made: its directory may have been moved since."""
        home = self._homes.get(one.step.path.rpartition(b"/")[0])
        if home is not None:
            try_to_remove(home, one.temporary)


def _sync(ready: Ready) -> None:
    assert ready.file is not None
    try:
        os.fsync(ready.file)
    finally:
        ready.close()


def _cut(
    steps: Sequence[Step], most: int, most_bytes: int, most_folders: int = BATCH
) -> Iterator[list[Step]]:
    """Parts of at most so many steps, in so many folders, and of not much more than so many bytes."""
    part: list[Step] = []
    folders: set[bytes] = set()
    size = 0
    for step in steps:
        part.append(step)
        folders.add(step.path.rpartition(b"/")[0])
        size += step.new.size if step.new else 0
        if len(part) >= most or size >= most_bytes or len(folders) >= most_folders:
            yield part
            part, folders, size = [], set(), 0
    if part:
        yield part
