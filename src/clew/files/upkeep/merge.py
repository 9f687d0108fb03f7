"""Merging: the small packs that small snapshots leave become few packs, versions of a path side by side.

A snapshot of five edits leaves a pack of its own, whose content is nearly all in other packs already: the
same files and directories, one line older. Compressed together they take little more than one of them.
So the objects of small packs are laid behind an older version of the same path, in the order of that
one's pack, which is packed again for it if there is enough to win; what finds none is laid by its path.

An object moves in one transaction, and a pack goes when its last object has moved: a process that is
killed in between leaves packs with gaps, which the next collection closes as it does any others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from clew.backends.contract import Transaction
from clew.core.log import digest
from clew.core.log.rows import ObjectPlace
from clew.errors import CorruptError, ObjectMissingError
from clew.files.objects.format import FOLDER, TreeEntry, decode_directory
from clew.files.objects.store import PACK_SIZE, ObjectReader

SMALL: Final = PACK_SIZE // 2
FEWEST: Final = 8
"""Small packs: fewer of them are left for another time."""
MERGED: Final = 2 * PACK_SIZE
"""The most bytes of a merged pack: all of it is unpacked to read one object."""
WORTH: Final = 16
"""A larger pack is packed again for versions that have at least this part of its size."""
LEVEL: Final = 9
DIRECTORIES_AT_ONCE: Final = 256
PACKS_AT_ONCE: Final = 2
"""Packs that one transaction makes: others write in between."""

Member = tuple[bytes, int, int]
"""An object in its pack: (name, offset, size)."""
Placed = tuple[bytes, ObjectPlace]
Path = tuple[bytes, bytes, bool]
"""The directory, the name in it, and whether that is a directory."""


class PackMove(msgspec.Struct, frozen=True):
    """What one transaction moves."""

    places: dict[bytes, ObjectPlace]
    packs: list[tuple[int, bytes, int, list[Member]]]
    emptied: list[int]
    """Packs in which nothing is left afterwards."""

    def apply(self, tx: Transaction) -> bool:
        """False: something does not lie where it lay, and nothing was moved."""
        if tx.find_objects(list(self.places)) != self.places:
            return False
        # The counters stay as they are: no name is missing at any moment, so what a snapshot under way, or
        # a stat cache, found in the store is there still.
        tx.drop_objects(list(self.places))
        for codec, blob, size, members in self.packs:
            tx.add_pack(codec, blob, size, members)
        for pack in self.emptied:
            # Looked at once more: with a pack goes whatever lies in it.
            if any(info.pack == pack and not info.objects for info in tx.list_packs(pack - 1, 1)):
                tx.drop_pack(pack)
        return True


class Repacking:
    """The merging of one collection."""

    def __init__(
        self, objects: ObjectReader, sizes: Mapping[int, int], on_batch: Callable[[], object] = lambda: None
    ) -> None:
        """`sizes`: of the packs that may be packed again, whose objects are all needed."""
        self._objects = objects
        self._on_batch = on_batch
        self._sizes = {pack: size for pack, size in sizes.items() if size <= MERGED}
        self._small = {pack for pack, size in sizes.items() if size < SMALL}
        self._left: dict[int, int] = defaultdict(int)
        """How many objects are in each of the packs that are packed again."""

    @property
    def is_due(self) -> bool:
        return len(self._small) >= FEWEST

    def parcels(self, placed: Callable[[], Iterable[Placed]], trees: Sequence[bytes]) -> Iterator[PackMove]:
        """What to do, one transaction after the other. `placed`: asks for all objects. `trees`: of the
        snapshots, newest first, so that what changed is met before what it was at first."""
        small = {name: place for name, place in placed() if place.pack in self._small}
        paths = _Paths(self._objects, small, self._on_batch)
        for tree in trees:
            paths.walk(tree)
        joined, rest = self._joined(placed, paths, small)
        rows = _cut(self._in_order(joined, paths, rest, small))
        while batch := list(islice(rows, PACKS_AT_ONCE)):
            parcel = self._parcel(batch)
            if parcel.places:
                yield parcel

    def _joined(
        self, placed: Callable[[], Iterable[Placed]], paths: _Paths, small: Mapping[bytes, ObjectPlace]
    ) -> tuple[list[Placed], dict[bytes, None]]:
        """The objects of the larger packs that are packed again, as they lie; and of the small packs what
        has no place among them, in the order of paths."""
        gains: dict[int, int] = defaultdict(int)
        for name, place in placed():
            path = paths.olds.get(name)
            # Packs of one large object stay: beside it another pack would be left small.
            if path is not None and place.pack in self._sizes and place.size < PACK_SIZE:
                gains[place.pack] += sum(small[version].size for version in paths.versions[path])
        worth = {pack for pack, gain in gains.items() if gain * WORTH >= self._sizes[pack]}
        joined = [(name, place) for name, place in placed() if place.pack in worth]
        joined.sort(key=lambda one: (one[1].pack, one[1].offset))
        rest = dict.fromkeys(name for path in sorted(paths.versions) for name in paths.versions[path])
        rest |= dict.fromkeys(sorted(small, key=lambda name: (small[name].pack, small[name].offset)))
        for pack in (*(place.pack for _, place in joined), *(place.pack for place in small.values())):
            self._left[pack] += 1
        return joined, rest

    def _in_order(
        self,
        joined: Iterable[Placed],
        paths: _Paths,
        rest: dict[bytes, None],
        small: Mapping[bytes, ObjectPlace],
    ) -> Iterator[Placed]:
        for name, place in joined:
            yield name, place
            path = paths.olds.get(name)
            for version in paths.versions[path] if path is not None else ():
                if version in rest:
                    del rest[version]
                    yield version, small[version]
        for name in rest:
            yield name, small[name]

    def _parcel(self, rows: Sequence[Sequence[Placed]]) -> PackMove:
        contents = self._contents([name for row in rows for name, _ in row])
        places = {name: place for row in rows for name, place in row if name in contents}
        for place in places.values():
            self._left[place.pack] -= 1
        touched = dict.fromkeys(place.pack for place in places.values())
        emptied = [pack for pack in touched if not self._left[pack]]
        packs = [_packed([(name, contents[name]) for name, _ in row if name in contents]) for row in rows]
        self._on_batch()
        return PackMove(places, [pack for pack in packs if pack[3]], emptied)

    def _contents(self, names: Sequence[bytes]) -> dict[bytes, bytes]:
        """Without those that are damaged: they stay where they are, for `verify` to tell."""
        try:
            return dict(self._objects.get_many(names))
        except (CorruptError, ObjectMissingError):
            pass
        found = {}
        for name in names:
            try:
                found[name] = self._objects.get(name)
            except (CorruptError, ObjectMissingError):
                pass
        return found


class _Paths:
    """Where the objects of small packs stand in the trees, and what stood there before."""

    def __init__(
        self, objects: ObjectReader, small: Collection[bytes], on_batch: Callable[[], object]
    ) -> None:
        self.versions: dict[Path, list[bytes]] = {}
        """Objects of small packs, by the first path that they were met at."""
        self.olds: dict[bytes, Path] = {}
        """For paths that have versions in small packs: the newest one in another pack."""
        self._known: set[Path] = set()
        """Paths for which there is one."""
        self._objects = objects
        self._small = small
        self._on_batch = on_batch
        self._here: dict[bytes, set[bytes]] = defaultdict(set)
        """Names in each directory that have versions in small packs."""
        self._met: set[bytes] = set()
        self._entered: set[bytes] = set()

    def walk(self, tree: bytes) -> None:
        self._note(b"", TreeEntry(b"", FOLDER, tree, 0), self._here[b""])
        todo = [(b"", tree)] if tree not in self._entered else []
        while todo:
            some = {name: path for path, name in todo[-DIRECTORIES_AT_ONCE:]}
            del todo[-DIRECTORIES_AT_ONCE:]
            self._entered.update(some)
            for name, content in self._objects.get_many(list(some)):
                todo += self._enter(some[name], content)
            self._on_batch()

    def _enter(self, directory: bytes, content: bytes) -> Iterator[tuple[bytes, bytes]]:
        here = self._here.get(directory)
        for entry in decode_directory(content):
            if entry.digest in self._small or (here is not None and entry.name in here):
                here = self._here[directory]
                self._note(directory, entry, here)
            if entry.kind == FOLDER and entry.digest not in self._entered:
                yield directory + b"/" + entry.name, entry.digest

    def _note(self, directory: bytes, entry: TreeEntry, here: set[bytes]) -> None:
        if entry.digest in self._met:
            return
        path = (directory, entry.name, entry.kind == FOLDER)
        if entry.digest in self._small:
            self._met.add(entry.digest)
            here.add(entry.name)
            self.versions.setdefault(path, []).append(entry.digest)
        elif path in self.versions and path not in self._known:
            self._known.add(path)
            self._met.add(entry.digest)
            self.olds[entry.digest] = path


def _cut(objects: Iterable[Placed]) -> Iterator[list[Placed]]:
    """Rows that make one pack each."""
    row, size = list[Placed](), 0
    for one in objects:
        if row and size + one[1].size > MERGED:
            yield row
            row, size = [], 0
        row.append(one)
        size += one[1].size
    if row:
        yield row


def _packed(objects: Sequence[tuple[bytes, bytes]]) -> tuple[int, bytes, int, list[Member]]:
    """A new pack, as `Transaction.add_pack` takes it."""
    members, size = list[Member](), 0
    for name, content in objects:
        members.append((name, size, len(content)))
        size += len(content)
    return *digest.pack_objects(b"".join(content for _, content in objects), LEVEL), size, members
