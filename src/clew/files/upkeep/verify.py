"""Whether all is there that conversations and snapshots need, and is what its name says."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from clew.backends.contract import STORE_WIDE
from clew.core.check.scan import scan
from clew.core.check.verify import EnoughError, Findings, check_conversations
from clew.core.log.ids import check_seconds
from clew.core.log.rows import ObjectPlace
from clew.errors import ClewError, CorruptError, NotFoundError
from clew.files import journal, records
from clew.files.objects.format import CHUNKED, FOLDER, TreeEntry, decode_chunks, decode_directory, object_name
from clew.files.objects.store import ObjectReader
from clew.model.files import FileProgress, OnProgress, VerifyProblem, VerifyReport

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike

# -- which paths of which snapshots need an object that is missing or damaged

MOST_PATHS: Final = 3
LONGEST: Final = 64 * 1024
"""Longer paths are not told: no program could open them."""


def paths_to(wrong: Collection[bytes], trees: Mapping[str, bytes], objects: ObjectReader) -> dict[bytes, str]:
    """For each of these objects that a snapshot needs: a few words on the paths that need it.

    `trees`: the roots of the snapshots, by id. What cannot be read is passed over.
    """
    leading = _Leading(wrong, objects)
    for tree in trees.values():
        leading.look(tree)
    leading.spread()
    for id, tree in trees.items():
        leading.walk(id, tree)
    return {name: _told(places) for name, places in leading.places.items()}


class _Leading:
    """The folders that lead to something that is wrong: only those are walked through once for every
    path; all others are looked at once, however many snapshots have them in common."""

    def __init__(self, wrong: Collection[bytes], objects: ObjectReader) -> None:
        self._wrong = wrong
        self._objects = objects
        self._parents: dict[bytes, set[bytes]] = defaultdict(set)
        self._seen: set[bytes] = set()
        self._lists: dict[bytes, set[bytes]] = {}
        """Of each list of chunks those that are wrong."""
        self._folders: set[bytes] = set()
        self._entered: Counter[bytes] = Counter()
        self.places: dict[bytes, list[tuple[str, bytes]]] = defaultdict(list)
        """Snapshots and paths, at most one more than are told."""

    def look(self, tree: bytes) -> None:
        todo = [tree]
        while todo:
            folder = todo.pop()
            if folder in self._seen:
                continue
            self._seen.add(folder)
            if folder in self._wrong:
                self._folders.add(folder)
            for entry in self._entries(folder):
                if entry.kind == FOLDER:
                    self._parents[entry.digest].add(folder)
                    todo.append(entry.digest)
                elif self._faults(entry):
                    self._folders.add(folder)

    def spread(self) -> None:
        """What leads to a folder that leads to something wrong does so, too."""
        todo = list(self._folders)
        while todo:
            new = self._parents[todo.pop()] - self._folders
            self._folders |= new
            todo += new

    def walk(self, id: str, tree: bytes) -> None:
        todo = [(tree, b"")]
        while todo:
            folder, path = todo.pop()
            # Each time it is entered, what is wrong below it gets one more path; more are not told.
            if folder not in self._folders or self._entered[folder] > MOST_PATHS:
                continue
            self._entered[folder] += 1
            if len(path) > LONGEST:
                continue
            if folder in self._wrong:
                self._note(folder, id, path or b".")
            for entry in self._entries(folder):
                where = path + b"/" + entry.name if path else entry.name
                if entry.kind == FOLDER:
                    todo.append((entry.digest, where))
                else:
                    for name in self._faults(entry):
                        self._note(name, id, where)

    def _note(self, name: bytes, id: str, path: bytes) -> None:
        if len(self.places[name]) <= MOST_PATHS:
            self.places[name].append((id, path))

    def _entries(self, folder: bytes) -> list[TreeEntry]:
        try:
            return self._objects.directory(folder)
        except ClewError:
            return []

    def _faults(self, entry: TreeEntry) -> set[bytes]:
        """What is wrong with a file or a link."""
        own = {entry.digest} if entry.digest in self._wrong else set[bytes]()
        if not entry.kind & CHUNKED:
            return own
        if entry.digest not in self._lists:
            try:
                chunks = decode_chunks(self._objects.get(entry.digest))
            except (ClewError, ValueError):
                chunks = []
            self._lists[entry.digest] = {chunk.digest for chunk in chunks if chunk.digest in self._wrong}
        return own | self._lists[entry.digest]


def _told(places: list[tuple[str, bytes]]) -> str:
    told = [f"{os.fsdecode(path)!r} of the snapshot {id}" for id, path in places[:MOST_PATHS]]
    return "needed by " + ", ".join(told) + (", and more" if len(places) > MOST_PATHS else "")


# -- verify

AT_ONCE: Final = 256
UNREADABLE: Final = (CorruptError, msgspec.MsgspecError, UnicodeDecodeError)
PAGE: Final = 5000


def verify(
    engine: EngineLike,
    *,
    full: bool = False,
    time_limit: float | None = None,
    on_progress: OnProgress | None = None,
) -> VerifyReport:
    """Walk through every conversation and every snapshot; `full`: compare the content of every entry and
    of every object with its hash, too. `time_limit`: seconds after which it ends with what it has found."""
    if time_limit is not None:
        check_seconds(time_limit, "time_limit", least=0)
    findings = Findings(time_limit, on_progress)
    check = _Check(engine, findings)
    conversations = partial(check_conversations, engine.read, findings, full=full)
    storage = partial(check.storage, full=full)
    stages: list[Callable[[], None]] = [conversations, check.snapshots, check.restores, storage]
    complete = False
    try:
        for stage in [*stages, check.contents] if full else stages:
            try:
                stage()
            except UNREADABLE as error:  # not all of this can be read
                findings.add(VerifyProblem(kind="record", text=str(error)))
        complete = True
    except EnoughError:
        pass
    details = (*findings.problems, *check.problems())
    return VerifyReport(
        objects=check.objects,
        bytes=check.bytes,
        problems=tuple(problem.text for problem in details),
        details=details,
        sessions=findings.sessions,
        entries=findings.entries,
        complete=complete,
    )


class _Check:
    """The snapshots and their objects."""

    def __init__(self, engine: EngineLike, findings: Findings) -> None:
        self._engine = engine
        self._findings = findings
        self._reader = ObjectReader(engine.read)
        self._sizes: dict[bytes, int] = {}
        """Objects that are there, of those that snapshots need; and how long they are."""
        self._folders: set[bytes] = set()
        self._lists: set[bytes] = set()
        self._trees: dict[str, bytes] = {}
        self._wrong: dict[bytes, str] = {}
        """What is wrong with objects."""
        self.objects = self.bytes = 0

    def storage(self, *, full: bool) -> None:
        """What the backend itself knows to be damaged."""
        with self._engine.read() as reader:
            for text in reader.damage(full=full, go_on=self._findings.check_time):
                self._findings.add(VerifyProblem(kind="record", text=text))

    # -- what snapshots need

    def snapshots(self) -> None:
        with self._engine.read() as reader:
            for id, value in records.scan(reader):
                try:
                    self._trees[id] = records.decode_record(id, value).tree
                except CorruptError as error:
                    self._findings.add(VerifyProblem(kind="snapshot", text=str(error)))
        try:
            for tree in self._trees.values():
                self._walk(tree)
        finally:
            self.objects, self.bytes = len(self._sizes), sum(self._sizes.values())

    def restores(self) -> None:
        """The records that undo, or finish, a restore."""
        with self._engine.read() as reader:
            for id, _ in scan(reader, STORE_WIDE, "restore"):
                try:
                    journal.get(reader, id)
                except NotFoundError:
                    pass  # it was dropped meanwhile
                except CorruptError as error:
                    self._findings.add(VerifyProblem(kind="record", text=str(error)))
                self._findings.check_time()

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

    def problems(self) -> Iterator[VerifyProblem]:
        if not self._wrong:
            return
        # What was deleted and collected while this looked is no problem.
        with self._engine.read() as reader:
            left = {id: tree for id, tree in self._trees.items() if records.find_record(reader, id)}
            there = reader.find_objects(list(self._wrong))
        needed_by = paths_to(set(self._wrong), left, self._reader)
        is_all_known = not any(name in self._folders or name in self._lists for name in needed_by)
        need = "no snapshot needs it" if is_all_known else "what needs it cannot be told"
        for name, wrong in sorted(self._wrong.items()):
            paths = needed_by.get(name)
            if paths:
                yield VerifyProblem(kind="object", text=f"the object {name.hex()} {wrong}; {paths}")
            elif name in there:
                yield VerifyProblem(kind="object", text=f"the object {name.hex()} {wrong}; {need}")

    def _tick(self) -> None:
        done = FileProgress(phase="scan", files=len(self._sizes), bytes=self.bytes, total_files=None)
        self._findings.tell(done)


def _reason(error: ClewError) -> str:
    return f"cannot be read: {error}"
