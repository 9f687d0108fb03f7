"""Whether all is there that snapshots need, and is what its name says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from clew.core.objects import (
    CHUNKED,
    FOLDER,
    TreeEntry,
    decode_chunks,
    decode_directory,
    object_name,
)
from clew.core.rows import ObjectPlace
from clew.errors import ClewError, CorruptError
from clew.files.blame import paths_to
from clew.files.objects import ObjectReader
from clew.model.files import FileProgress, OnProgress, VerifyReport
from clew.work import snapshots

if TYPE_CHECKING:
    from clew.work.sweep import Machinery

AT_ONCE: Final = 256
PAGE: Final = 5000


def verify(engine: Machinery, *, full: bool = False, on_progress: OnProgress | None = None) -> VerifyReport:
    """Walk through every snapshot; `full`: compare the content of every object with its name, too."""
    check = _Check(engine, on_progress)
    check.snapshots()
    if full:
        check.contents()
    return VerifyReport(objects=check.objects, bytes=check.bytes, problems=tuple(check.problems()))


class _Check:
    def __init__(self, engine: Machinery, on_progress: OnProgress | None) -> None:
        self._engine = engine
        self._on_progress = on_progress
        self._reader = ObjectReader(engine.read)
        self._sizes: dict[bytes, int] = {}
        """Objects that are there, of those that snapshots need; and how long they are."""
        self._folders: set[bytes] = set()
        self._lists: set[bytes] = set()
        self._trees: dict[str, bytes] = {}
        self._records: list[str] = []
        """What is wrong with records."""
        self._wrong: dict[bytes, str] = {}
        """What is wrong with objects."""
        self.objects = self.bytes = 0

    # -- what snapshots need

    def snapshots(self) -> None:
        with self._engine.read() as reader:
            for id, value in snapshots.scan_kept(reader):
                try:
                    self._trees[id] = snapshots.decode_kept(id, value).tree
                except CorruptError as error:
                    self._records.append(str(error))
        for tree in self._trees.values():
            self._walk(tree)
        self.objects, self.bytes = len(self._sizes), sum(self._sizes.values())

    def _walk(self, tree: bytes) -> None:
        folders = [tree] if tree not in self._folders else []
        self._folders.add(tree)
        while folders:
            some, folders[-AT_ONCE:] = folders[-AT_ONCE:], []
            entries: list[TreeEntry] = []
            for name in self._present(some):
                entries += self._entries(name)
            self._present([entry.digest for entry in entries])
            for entry in entries:
                if entry.kind == FOLDER and entry.digest not in self._folders:
                    self._folders.add(entry.digest)
                    folders.append(entry.digest)
                elif entry.kind != FOLDER:
                    self._check_file(entry)
            self._tick()

    def _present(self, names: Sequence[bytes]) -> list[bytes]:
        """Those of these objects that are there; what is missing is noted."""
        unknown = [
            name for name in dict.fromkeys(names) if name not in self._sizes and name not in self._wrong
        ]
        if unknown:
            with self._engine.read() as reader:
                places = reader.find_objects(unknown)
            for name in unknown:
                if name in places:
                    self._sizes[name] = places[name].size
                else:
                    self._wrong[name] = "is missing"
        return [name for name in names if name in self._sizes]

    def _entries(self, folder: bytes) -> list[TreeEntry]:
        content = self._get(folder)
        if content is None:
            return []
        try:
            return decode_directory(content)
        except ValueError as error:
            self._wrong[folder] = f"is no directory of a snapshot: {error}"
            return []

    def _check_file(self, entry: TreeEntry) -> None:
        size = self._sizes.get(entry.digest)
        if entry.kind & CHUNKED and size is not None:
            self._check_chunks(entry)
        elif size is not None and size != entry.size:
            self._wrong.setdefault(entry.digest, f"has {size} bytes; a directory says {entry.size}")

    def _check_chunks(self, entry: TreeEntry) -> None:
        if entry.digest in self._lists:
            return
        self._lists.add(entry.digest)
        content = self._get(entry.digest)
        if content is None:
            return
        try:
            chunks = decode_chunks(content)
        except ValueError as error:
            self._wrong[entry.digest] = f"is no list of chunks: {error}"
            return
        self._present([chunk.digest for chunk in chunks])
        lengths = [self._sizes.get(chunk.digest, chunk.size) for chunk in chunks]
        if lengths != [chunk.size for chunk in chunks] or sum(lengths) != entry.size:
            self._wrong[entry.digest] = f"lists {sum(lengths)} bytes; a directory says {entry.size}"

    def _get(self, name: bytes) -> bytes | None:
        try:
            return self._reader.get(name)
        except ClewError as error:
            self._wrong[name] = _reason(error)
            return None

    # -- contents

    def contents(self) -> None:
        """Look into every pack once."""
        members = self._members()
        self.objects = self.bytes = 0
        for pack, inside in sorted(members.items()):
            self._check_pack(pack, inside)
            self._tick()

    def _members(self) -> dict[int, list[tuple[bytes, ObjectPlace]]]:
        members: dict[int, list[tuple[bytes, ObjectPlace]]] = defaultdict(list)
        for name, place in self._all_objects():
            members[place.pack].append((name, place))
        return members

    def _all_objects(self) -> Iterator[tuple[bytes, ObjectPlace]]:
        after = b""
        while True:
            with self._engine.read() as reader:
                found = reader.scan_objects(after, PAGE)
            yield from found
            if len(found) < PAGE:
                return
            after = found[-1][0]

    def _check_pack(self, pack: int, inside: Sequence[tuple[bytes, ObjectPlace]]) -> None:
        self.objects += len(inside)
        self.bytes += sum(place.size for _, place in inside)
        try:
            with self._engine.read() as reader:
                content = reader.get_pack(pack)
        except CorruptError as error:
            for name, _ in inside:
                self._wrong[name] = f"is damaged: {error}"
            return
        except KeyError:
            self._check_moved(pack, [name for name, _ in inside])
            return
        for name, place in inside:
            if object_name(content[place.offset : place.offset + place.size]) != name:
                self._wrong[name] = "is damaged: its content has another hash"

    def _check_moved(self, pack: int, names: Sequence[bytes]) -> None:
        """The pack is not there (any more): gc has moved what is needed of it, unless it is lost."""
        with self._engine.read() as reader:
            places = reader.find_objects(names)
        for name, place in places.items():
            if place.pack == pack:
                self._wrong[name] = f"is missing: there is no pack {pack}"
            else:
                self._get(name)

    # -- what was found

    def problems(self) -> Iterator[str]:
        yield from self._records
        if not self._wrong:
            return
        # What was deleted and collected while this looked is no problem.
        with self._engine.read() as reader:
            left = {id: tree for id, tree in self._trees.items() if snapshots.find_kept(reader, id)}
            there = reader.find_objects(list(self._wrong))
        needed_by = paths_to(set(self._wrong), left, self._reader)
        is_all_known = not any(name in self._folders or name in self._lists for name in needed_by)
        nobody = "no snapshot needs it" if is_all_known else "what needs it can not be told"
        for name, wrong in sorted(self._wrong.items()):
            paths = needed_by.get(name)
            if paths:
                yield f"the object {name.hex()} {wrong}; {paths}"
            elif name in there:
                yield f"the object {name.hex()} {wrong}; {nobody}"

    def _tick(self) -> None:
        if self._on_progress is not None:
            done = FileProgress(phase="scan", files=len(self._sizes), bytes=self.bytes, total_files=None)
            self._on_progress(done)


def _reason(error: ClewError) -> str:
    return f"can not be read: {error}"
