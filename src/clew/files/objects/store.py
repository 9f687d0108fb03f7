"""Objects in a store: written many to a pack, read back one by one with their hash compared.

An object is small against what it costs to store one, and files that lie together resemble each other:
so they are gathered to packs of 256 KiB, which compress better and are one row each. What is larger has
a pack of its own. Compression happens in the thread that filled the pack, outside of any transaction.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.log import digest
from clew.core.log.rows import ObjectPlace
from clew.errors import CorruptError, ObjectMissingError, QuotaExceededError
from clew.files.objects.format import (
    CHUNKED,
    FOLDER,
    Chunk,
    Directory,
    GetDirectories,
    TreeEntry,
    decode_chunks,
    decode_directory,
    object_name,
)

if TYPE_CHECKING:
    from clew.core.engine.engine import Engine

# -- packs on their way to the store


class Pack(msgspec.Struct, frozen=True):
    """What `Transaction.add_pack` takes."""

    codec: int
    blob: bytes
    size: int
    members: list[tuple[bytes, int, int]]

    def add_to(self, tx: Transaction) -> None:
        tx.add_pack(self.codec, self.blob, self.size, self.members)

    def contents(self) -> Iterator[tuple[bytes, bytes]]:
        body = digest.unpack(self.codec, self.blob)
        for name, offset, size in self.members:
            yield name, body[offset : offset + size]


def compress(batch: Sequence[tuple[bytes, bytes]]) -> Pack:
    """A pack of names and contents."""
    members, offset = [], 0
    for name, content in batch:
        members.append((name, offset, len(content)))
        offset += len(content)
    body = batch[0][1] if len(batch) == 1 else b"".join(content for _, content in batch)
    return Pack(*digest.pack_objects(body), offset, members)


# -- objects

PACK_SIZE: Final = 256 * 1024
AT_ONCE: Final = 8 * 1024 * 1024
"""Stored bytes in one transaction, roughly: others wait for it to write their own."""
HELD_BACK: Final = 4 * 1024 * 1024
"""So much content may wait, in packs, for the transaction of the record."""
ROOM_LEFT: Final = 64 * 1024 * 1024
CACHED: Final = 8 * 1024 * 1024
RETRIES: Final = 5


class ObjectWriter:
    """The writing of one snapshot. Any number of threads may put; what is there already is not stored
    again. A failure of one is a failure of all: what was taken for stored may not be."""

    def __init__(self, engine: Engine, *, holds_back: bool = False) -> None:
        """`holds_back`: what is little is not stored by `flush`, but left in `unstored`. The caller puts it
        with the record, in one transaction: each has to wait for the disk."""
        self.new_objects = 0
        """Objects that the store did not hold, of what was flushed."""
        self.new_bytes = 0
        """Their content, before compression."""
        self._engine = engine
        self._holds_back = holds_back
        self._place = next((_directory(path) for path in engine.backend.own_paths()), None)
        """Where the disk has to have room; None: not on this machine."""
        self._state = threading.Condition()
        self._writing = threading.Lock()
        self._held: set[bytes] = set()
        """Names that the store holds, or that were put."""
        self._absent: set[bytes] = set()
        """Names that were asked for, and are not there."""
        self._gathered: list[tuple[bytes, bytes]] = []
        self._gathered_size = 0
        self._packs: list[Pack] = []
        self._packs_size = 0
        self._busy = 0
        """Threads that pack or write what was taken from the two lists."""
        self._failure: BaseException | None = None

    def has(self, name: bytes) -> bool:
        return name in self.known([name])

    def known(self, names: Sequence[bytes]) -> set[bytes]:
        """Those that the store holds, or that were put."""
        with self._state:
            unclear = [name for name in names if name not in self._held and name not in self._absent]
        if unclear:
            self._ask(unclear)
        with self._state:
            return self._held.intersection(names)

    def put(self, content: bytes, name: bytes | None = None) -> bytes:
        """Store an object; its name. It is durable after the next `flush`, or with what is `unstored`."""
        if name is None:
            name = object_name(content)
        with self._state:
            self._check()
            if name in self._held:
                return name
            self._held.add(name)
            batch = self._gather(name, content)
        if batch:
            self._work(batch)
        return name

    def flush(self) -> None:
        """Make all durable that was put."""
        while True:
            with self._state:
                self._state.wait_for(lambda: self._failure or self._is_more() or not self._busy)
                self._check()
                if not self._is_more():
                    break
                batch = self._take()
            self._work(batch, is_last=True)
        if self._packs:
            self._need_room(self._packs_size)

    @property
    def unstored(self) -> list[Pack]:
        """After a flush: what waits for the transaction of the record."""
        return self._packs

    def store_rest(self) -> None:
        """Store what was held back, because no record will be put."""
        self._holds_back = False
        self.flush()

    def _is_more(self) -> bool:
        return bool(self._gathered or (self._packs and self._is_due(is_last=True)))

    def _is_due(self, *, is_last: bool) -> bool:
        """Whether the packs are to be written now."""
        if is_last:
            return not self._holds_back or sum(pack.size for pack in self._packs) > HELD_BACK
        return self._packs_size >= AT_ONCE

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _gather(self, name: bytes, content: bytes) -> list[tuple[bytes, bytes]]:
        """Lay an object to the others; what is to be packed now."""
        size = len(content)
        if size >= PACK_SIZE:
            self._busy += 1
            return [(name, content)]
        batch = self._take() if self._gathered_size + size > PACK_SIZE else []
        self._gathered.append((name, content))
        self._gathered_size += size
        return batch

    def _take(self) -> list[tuple[bytes, bytes]]:
        """What was gathered, for a thread that is busy from now on."""
        batch, self._gathered, self._gathered_size = self._gathered, [], 0
        self._busy += 1
        return batch

    def _work(self, batch: list[tuple[bytes, bytes]], *, is_last: bool = False) -> None:
        try:
            pack = self._pack(batch, is_last=is_last)
            with self._state:
                if pack is not None:
                    self._packs.append(pack)
                    self._packs_size += len(pack.blob)
                ready: list[Pack] = []
                if self._is_due(is_last=is_last):
                    ready, self._packs, self._packs_size = self._packs, [], 0
            if ready:
                self._write(ready)
        except BaseException as exc:
            self._failure = exc
            raise
        finally:
            with self._state:
                self._busy -= 1
                self._state.notify_all()

    def _pack(self, batch: list[tuple[bytes, bytes]], *, is_last: bool) -> Pack | None:
        """The pack of those that the store does not hold; None: there are too few of them as yet."""
        with self._state:
            unclear = [name for name, _ in batch if name not in self._absent]
        there = self._ask(unclear) if unclear else set()
        batch = [(name, content) for name, content in batch if name not in there]
        size = sum(len(content) for _, content in batch)
        with self._state:
            if there and not is_last and self._gathered_size + size <= PACK_SIZE:
                self._gathered += batch
                self._gathered_size += size
                return None
            self._absent.difference_update(name for name, _ in batch)
            self.new_objects += len(batch)
            self.new_bytes += size
        return compress(batch) if batch else None

    def _ask(self, names: Sequence[bytes]) -> set[bytes]:
        """Those that the store holds."""
        with self._engine.read() as reader:
            there = set(reader.find_objects(names))
        with self._state:
            self._held |= there
            self._absent.update(name for name in names if name not in there)
        return there

    def _write(self, packs: list[Pack]) -> None:
        def work(tx: Transaction) -> None:
            for pack in packs:
                pack.add_to(tx)

        with self._writing:  # else a group commit makes one large transaction of those of all threads
            self._check()
            self._need_room(sum(len(pack.blob) for pack in packs))
            self._engine.run(work)

    def _need_room(self, size: int) -> None:
        """Twice the size: it is written to the log first. A full disk is no place for the user's work."""
        if self._place is None:
            return
        from shutil import disk_usage

        free, needed = disk_usage(self._place).free, ROOM_LEFT + 2 * size
        if free < needed:
            raise QuotaExceededError(
                f"{free} bytes are free in {self._place}; to store {size} more, {needed} have to be"
            )


def _directory(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _check_size(entry: TreeEntry, size: int) -> None:
    if size != entry.size:
        raise CorruptError(f"{entry.name!r} has {size} bytes in the store; its directory says {entry.size}")


class ObjectReader:
    """Reads objects, and lets none pass whose content is not what its name says. Safe from any thread."""

    def __init__(self, read: Callable[[], AbstractContextManager[Reader]]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._cache: OrderedDict[int, bytes] = OrderedDict()
        self._cache_size = 0

    def get(self, name: bytes) -> bytes:
        for _ in range(RETRIES):
            place = self._places([name])[name]
            try:
                return self._cut(name, place)
            except KeyError:  # gc moved it to another pack since
                continue
        raise ObjectMissingError(name.hex())

    def get_many(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Names and contents, in the order in which they lie; each pack is read once. Raises before the
        first if one is missing."""
        places = self._places(names)
        for name in sorted(places, key=lambda name: (places[name].pack, places[name].offset)):
            try:
                content = self._cut(name, places[name])
            except KeyError:
                content = self.get(name)
            yield name, content

    def check_there(self, names: Sequence[bytes]) -> None:
        """ObjectMissingError: one of them is not."""
        self._places(names)

    def directory(self, name: bytes) -> list[TreeEntry]:
        content = self.get(name)
        try:
            return decode_directory(content)
        except ValueError as exc:
            raise CorruptError(f"the object {name.hex()} is no directory of a snapshot: {exc}") from exc

    def pieces(self, entry: TreeEntry) -> Iterator[bytes]:
        """The content of a file or a link, chunk by chunk: never more than its directory says. CorruptError
        before the first one if it is not as long as that."""
        if not entry.kind & CHUNKED:
            content = self.get(entry.digest)
            _check_size(entry, len(content))
            yield content
            return
        chunks = self._chunks(entry.digest)
        _check_size(entry, sum(chunk.size for chunk in chunks))
        for chunk in chunks:
            yield self._chunk(entry, chunk)

    def slices(self, entry: TreeEntry, start: int, end: int) -> Iterator[bytes]:
        """The content from `start` to `end`, chunk by chunk; chunks that have none of it are not read."""
        if not entry.kind & CHUNKED:
            for content in self.pieces(entry):
                yield content[start:end]
            return
        chunks = self._chunks(entry.digest)
        _check_size(entry, sum(chunk.size for chunk in chunks))
        at = 0
        for chunk in chunks:
            if at < end and start < at + chunk.size:
                yield self._chunk(entry, chunk)[max(start - at, 0) : end - at]
            at += chunk.size

    def _chunk(self, entry: TreeEntry, chunk: Chunk) -> bytes:
        content = self.get(chunk.digest)
        if len(content) != chunk.size:
            raise CorruptError(f"a chunk of {entry.name!r} has {len(content)} bytes, not {chunk.size}")
        return content

    def _chunks(self, name: bytes) -> list[Chunk]:
        content = self.get(name)
        try:
            return decode_chunks(content)
        except ValueError as exc:
            raise CorruptError(f"the object {name.hex()} is no list of chunks: {exc}") from exc

    def _places(self, names: Sequence[bytes]) -> dict[bytes, ObjectPlace]:
        with self._read() as reader:
            places = reader.find_objects(names)
        for name in names:
            if name not in places:
                raise ObjectMissingError(name.hex())
        return places

    def _cut(self, name: bytes, place: ObjectPlace) -> bytes:
        """The object, compared with its name. KeyError: there is no such pack."""
        try:
            pack = self._pack(place.pack)
        except CorruptError as exc:
            raise CorruptError(f"the object {name.hex()} is damaged: {exc}") from exc
        content = pack[place.offset : place.offset + place.size]
        if object_name(content) != name:
            raise CorruptError(f"the object {name.hex()} is damaged: its content has another hash")
        return content

    def _pack(self, pack: int) -> bytes:
        with self._lock:
            content = self._cache.get(pack)
            if content is not None:
                self._cache.move_to_end(pack)
                return content
        with self._read() as reader:
            content = reader.get_pack(pack)
        with self._lock:
            if len(content) <= CACHED and pack not in self._cache:
                self._cache[pack] = content
                self._cache_size += len(content)
                while self._cache_size > CACHED:
                    self._cache_size -= len(self._cache.popitem(last=False)[1])
        return content


# -- objects that are on their way to the store


class Overlay(ObjectReader):
    """Another reader, and what was laid over it: a restore is planned before its safety snapshot is
    stored, so that both are written down at once."""

    def __init__(self, base: ObjectReader) -> None:
        self._base = base
        self._contents: dict[bytes, bytes] = {}

    def lay(self, packs: Iterable[Pack]) -> None:
        for pack in packs:
            self._contents.update(pack.contents())

    def get(self, name: bytes) -> bytes:
        content = self._contents.get(name)
        return self._base.get(name) if content is None else content

    def get_many(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        yield from self._base.get_many([name for name in names if name not in self._contents])
        yield from ((name, self._contents[name]) for name in dict.fromkeys(names) if name in self._contents)

    def check_there(self, names: Sequence[bytes]) -> None:
        self._base.check_there([name for name in names if name not in self._contents])


# -- trees: their directories, and all objects that they need

DIRECTORIES_AT_ONCE: Final = 256


def directories_of(reader: ObjectReader) -> GetDirectories:
    """The directories of trees; one that was read is not read again."""
    read: dict[bytes, Directory] = {}

    def get(names: Collection[bytes]) -> dict[bytes, Directory]:
        missing = [name for name in names if name not in read]
        for name, content in reader.get_many(missing) if missing else ():
            try:
                read[name] = Directory(content)
            except ValueError as exc:
                raise CorruptError(f"the object {name.hex()} is no directory of a snapshot: {exc}") from exc
        return read

    return get


class Reach:
    """Everything that the trees that were added need. Of no use once `add` has raised: what is missing
    of it would be taken for garbage."""

    def __init__(self, objects: ObjectReader, on_batch: Callable[[int], object] = lambda _: None) -> None:
        """`on_batch`: called from time to time with the number of objects so far."""
        self.names: set[bytes] = set()
        self.new: list[bytes] = []
        """Names that came since the caller emptied it."""
        self._objects = objects
        self._on_batch = on_batch
        # A file may hold the bytes of a directory, and be the same object: so it is not enough that an
        # object was reached, it must have been entered, and as what it is here.
        self._folders: set[bytes] = set()
        self._lists: set[bytes] = set()

    def add(self, tree: bytes) -> None:
        """CorruptError, ObjectMissingError: the objects that this tree needs cannot be told."""
        folders, lists = list[bytes](), list[bytes]()
        self._note(tree, self._folders, folders)
        while folders or lists:
            some, folders[-DIRECTORIES_AT_ONCE:] = folders[-DIRECTORIES_AT_ONCE:], []
            for name, content in self._objects.get_many(some):
                self._enter_folder(name, content, folders, lists)
            some, lists[-DIRECTORIES_AT_ONCE:] = lists[-DIRECTORIES_AT_ONCE:], []
            for name, content in self._objects.get_many(some):
                self._enter_list(name, content)
            self._on_batch(len(self.names))

    def _add_name(self, name: bytes) -> None:
        if name not in self.names:
            self.names.add(name)
            self.new.append(name)

    def _note(self, name: bytes, known: set[bytes], todo: list[bytes]) -> None:
        self._add_name(name)
        if name not in known:
            known.add(name)
            todo.append(name)

    def _enter_folder(self, name: bytes, content: bytes, folders: list[bytes], lists: list[bytes]) -> None:
        try:
            entries = decode_directory(content)
        except ValueError as exc:
            raise CorruptError(f"the object {name.hex()} is no directory of a snapshot: {exc}") from exc
        for entry in entries:
            if entry.kind == FOLDER:
                self._note(entry.digest, self._folders, folders)
            elif entry.kind & CHUNKED:
                self._note(entry.digest, self._lists, lists)
            else:
                self._add_name(entry.digest)

    def _enter_list(self, name: bytes, content: bytes) -> None:
        try:
            for chunk in decode_chunks(content):
                self._add_name(chunk.digest)
        except ValueError as exc:
            raise CorruptError(f"the object {name.hex()} is no list of chunks: {exc}") from exc
