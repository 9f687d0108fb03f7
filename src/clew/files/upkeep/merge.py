"""What needs a snapshot: who asked for it, a checkpoint, a restore, a move that can be undone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.conversation.checkpoints import decode_checkpoint
from clew.core.conversation.moves import decode_move
from clew.core.log import digest
from clew.core.log.rows import ObjectPlace
from clew.core.retention.rules import DAY
from clew.errors import CorruptError, ObjectMissingError
from clew.files import journal, records
from clew.files.objects.format import FOLDER, TreeEntry, decode_directory
from clew.files.objects.store import PACK_SIZE, ObjectReader

SAFETY_AGE: Final = 30 * DAY
"""How long a restore can be undone at least."""


def unneeded(reader: Reader, now: int) -> list[str]:
    """Ids of snapshots. It is looked at again before they go: what names them may change meanwhile."""
    needs = _Needs(reader, now)
    return [id for id, value in records.scan(reader) if not needs.need(id, value)]


def drop_unneeded(tx: Transaction, ids: Iterable[str], now: int) -> int:
    """Forget those of these snapshots that are still not needed, and restores that are too old to be undone;
    how many snapshots there were."""
    needs = _Needs(tx, now)
    count = 0
    for id in ids:
        value = tx.get_record(STORE_WIDE, "snapshot", id)
        if value is not None and not needs.need(id, value):
            count += records.delete(tx, id)
    for id in needs.old_restores:
        tx.drop_record(STORE_WIDE, "restore", id)
    return count


class Left(msgspec.Struct, frozen=True):
    """Records of files that belong to sessions which are gone."""

    snapshots: tuple[str, ...]
    restores: tuple[str, ...]
    roots: set[bytes]

    def __bool__(self) -> bool:
        return bool(self.snapshots or self.restores)


def left_by_purged(reader: Reader, *, drops_pending: bool) -> Left:
    """What cannot be asked for any more, because the session is gone that could. Of a tree of which a fork
    lives on, too: what no session of it names. `drops_pending`: restores that are not over count."""
    gone = [
        record
        for record in journal.readable(reader)
        if _is_session_gone(reader, record) and (drops_pending or record.state != "pending")
    ]
    restores = {record.id for record in gone}
    needs = _Needs(reader, 0, without=restores)
    found = [
        (id, kept.root)
        for id, value in records.scan(reader)
        if (kept := _readable_kept(id, value)) is not None and needs.is_left(id, kept)
    ]
    roots = {root for _, root in found} | {record.root for record in gone}
    return Left(tuple(id for id, _ in found), tuple(sorted(restores)), roots)


def _is_session_gone(reader: Reader, record: journal.Restore) -> bool:
    sid = journal.moved_by(record).sid
    try:
        return bool(sid) and reader.get_session(sid) is None
    except CorruptError:
        return False


def _readable_kept(id: str, value: bytes) -> records.SnapshotRecord | None:
    try:
        return records.decode_record(id, value)
    except CorruptError:
        return None


def trees_of_restores(reader: Reader) -> Iterator[tuple[str, bytes]]:
    """Trees that restores need to be finished or undone, with the ids of the restores: the snapshots that
    they are of may have been deleted."""
    for id, _ in reader.scan_records(STORE_WIDE, "restore"):
        record = _restore(reader, id)
        if record is not None:
            trees = {record.target, record.now, record.last, record.known}
            yield from ((id, tree) for tree in trees if tree and reader.find_objects([tree]))


class _Needs:
    """What names snapshots, read once."""

    def __init__(self, reader: Reader, now: int, *, without: Collection[str] = ()) -> None:
        """`without`: restores that do not count."""
        self._reader = reader
        self._now = now
        self._is_in_doubt = bool(reader.damaged_sessions())
        """To which tree a damaged session belongs is not known."""
        self._by_sessions: dict[int, set[str | None]] = {}
        self._restores: list[bytes] = []
        self.old_restores: list[str] = []
        for id, value in reader.scan_records(STORE_WIDE, "restore"):
            if id in without:
                continue
            if self._is_old(_restore(reader, id)):
                self.old_restores.append(id)
            else:
                self._restores.append(value)

    def need(self, id: str, value: bytes) -> bool:
        kept = records.decode_record(id, value)
        if kept.kind == "snapshot" or self.is_named_by_restore(id):
            return True
        try:
            if kept.sessions and not self._reader.tree_sessions(kept.sessions):
                return self._is_in_doubt
            if kept.kind == "safety" and self._now - kept.time < SAFETY_AGE:
                return True
            return bool(kept.sessions) and id in self._named_by(kept.sessions)
        except CorruptError:
            return True  # a session that cannot be read may name it

    def is_left(self, id: str, kept: records.SnapshotRecord) -> bool:
        """Whether it was of sessions, and none of them, nor a restore, names it."""
        if not kept.sessions or kept.kind == "snapshot" or self.is_named_by_restore(id):
            return False
        try:
            if self._is_in_doubt and not self._reader.tree_sessions(kept.sessions):
                return False
            return id not in self._named_by(kept.sessions)
        except CorruptError:
            return False  # a session that cannot be read may name it

    def is_named_by_restore(self, id: str) -> bool:
        # A record that is damaged counts: an id that stands nowhere in it is not named by it.
        return any(id.encode() in value for value in self._restores)

    def _is_old(self, record: journal.Restore | None) -> bool:
        if record is None or record.state == "pending":
            return False
        sid = journal.moved_by(record).sid
        if _is_session_gone(self._reader, record):
            return True  # it was purged, and its files go with it
        if self._now - record.created < SAFETY_AGE:
            return False
        return not sid or record.safety not in _named_by_moves(self._reader, sid)

    def _named_by(self, tree: int) -> set[str | None]:
        """What the checkpoints of these sessions name, and the moves that may be undone; a session in
        the trash counts too."""
        if tree not in self._by_sessions:
            names: set[str | None] = set()
            for row in self._reader.tree_sessions(tree):
                found = self._reader.scan_records(row.sid, "checkpoint")
                names.update(named_by_checkpoint(value) for _, value in found)
                names |= _named_by_moves(self._reader, row.sid)
            self._by_sessions[tree] = names
        return self._by_sessions[tree]


def _restore(reader: Reader, id: str) -> journal.Restore | None:
    """None: it is damaged."""
    try:
        return journal.get(reader, id)
    except CorruptError:
        return None


def named_by_checkpoint(value: bytes) -> str | None:
    return decode_checkpoint(value).snapshot


def _named_by_moves(reader: Reader, sid: int) -> set[str | None]:
    found = reader.scan_records(sid, "move")
    return {id for _, value in found for id in named_by_move(value)}


def named_by_move(value: bytes) -> set[str | None]:
    files = decode_move(value).files
    return set() if files is None else {files.safety, files.target}


# ── Merge ─────────────────────────────────────────────────────────────────────────────────────────
# Merging: the small packs that small snapshots leave become few packs, versions of a path side by side.
#
# A snapshot of five edits leaves a pack of its own, whose content is nearly all in other packs already: the
# same files and directories, one line older. Compressed together they take little more than one of them.
# So the objects of small packs are laid behind an older version of the same path, in the order of that
# one's pack, which is packed again for it if there is enough to win; what finds none is laid by its path.
#
# An object moves in one transaction, and a pack goes when its last object has moved: a process that is
# killed in between leaves packs with gaps, which the next collection closes as it does any others.

SMALL: Final = PACK_SIZE // 2
FEWEST: Final = 8
"""Small packs: fewer of them are left for another time."""
MERGED: Final = 2 * PACK_SIZE
"""The most bytes of a merged pack: all of it is unpacked to read one object."""
WORTH: Final = 16
"""A larger pack is packed again for versions that have at least this part of its size."""
LEVEL: Final = 9
DIRECTORIES_AT_ONCE: Final = 256
PACKS_AT_ONCE: Final = 8

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
