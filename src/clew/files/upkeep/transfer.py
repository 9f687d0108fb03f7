"""Bringing snapshots from one store to another: objects first, then the records that need them.

The snapshots that a session names become visible with it, in one transaction, and only if all that they need
is in the target then. What the source removes meanwhile, because the session changed, is noticed: the
session is read again. What the target collects meanwhile is noticed too, as for any snapshot.

Objects are named by their content, so what the target holds is not copied again, and what is copied has
its hash compared on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.check.scan import GoneError, scan_damaged
from clew.core.log.records import decoder
from clew.core.log.rows import ObjectPlace
from clew.errors import ConflictError, CorruptError, NotFoundError, ObjectMissingError, ReadOnlyError
from clew.files import journal, records
from clew.files.objects.store import AT_ONCE, PACK_SIZE, ObjectReader, Pack, Reach, compress
from clew.files.records import CollectedError, SnapshotRecord, claimed
from clew.model.transfer import LostRecord

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike

PAGE: Final = 5000
PLACES: Final = 200_000
"""Places of objects in memory at once: they are read in the order in which they lie."""
TRIES: Final = 5

Lost = Callable[[LostRecord], object]
Trees = Mapping[int, int]
"""Trees of sessions that were copied: numbers in the source and in the target."""
Adopt: TypeAlias = Callable[[Transaction, int], object]
"""Puts the snapshots that a tree names, whose objects are in the target, for the tree of that number there.
CollectedError: some of the objects may be gone."""


class FileTransfer:
    """The files of a store on their way to another. With `lost`, what is damaged is reported and left out;
    else it raises."""

    def __init__(
        self,
        source: EngineLike,
        target: EngineLike,
        *,
        on_bytes: Callable[[int], object] = lambda _: None,
        lost: Lost | None = None,
    ) -> None:
        self._source = source
        self._target = target
        self._on_bytes = on_bytes
        self._lost = lost
        self._reader = ObjectReader(source.read)
        self._reach = Reach(self._reader)
        self._counters: records.SnapshotCounters | None = None
        """That of the target, before the first question about an object of `_reach`: all of them are there,
        unless something was collected since."""
        self._adopted: set[str] = set()
        self.objects = self.bytes = 0

    @property
    def new_snapshots(self) -> int:
        """How many the target did not have."""
        return len(self._adopted)

    # -- the files of one tree of sessions

    def bring(self, named: Collection[str], session: str, *, is_same: bool) -> Adopt | None:
        """Bring over the files of snapshots that a tree of sessions names; None: it names none.

        GoneError, which names `session`: some of them are not in the source any more. `is_same`: they were
        gone the last time too, and the tree has not changed since; then they are left out.
        """
        if not named:
            return None
        with self._source.read() as reader:
            found = {id: records.find_record(reader, id) for id in sorted(named)}
        if None in found.values() and not is_same:
            raise GoneError(f"files of session {session!r} were removed while it was copied")
        known, lacking = self._compared({id: kept for id, kept in found.items() if kept is not None})
        try:
            counters = self._bring_trees([kept.tree for kept in lacking.values()])
        except ObjectMissingError as error:
            if is_same:
                raise
            raise GoneError(str(error)) from error

        def adopt(tx: Transaction, tree: int) -> None:
            if any(records.find_record(tx, id) is None for id in known):
                raise CollectedError("snapshots were removed while the session that names them was copied")
            self._adopt(tx, lacking, {kept.sessions: tree for kept in lacking.values()}, counters)

        return adopt

    def _compared(self, found: Mapping[str, SnapshotRecord]) -> tuple[list[str], dict[str, SnapshotRecord]]:
        """Those that the target has, with all that they need, and those that it has not."""
        with self._target.read() as reader:
            there = {id: records.find_record(reader, id) for id in found}
        lacking = {
            id: kept
            for id, kept in found.items()
            if (known := there[id]) is None or (known.tree, bool(known.sessions)) != (kept.tree, True)
        }
        return [id for id in found if id not in lacking], lacking

    def _adopt(
        self,
        tx: Transaction,
        found: Mapping[str, SnapshotRecord],
        trees: Trees,
        counters: records.SnapshotCounters,
    ) -> None:
        moved = {
            id: msgspec.structs.replace(kept, sessions=trees.get(kept.sessions, 0))
            for id, kept in found.items()
        }
        self._adopted.update(id for id, kept in moved.items() if records.adopt(tx, id, kept, counters))

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Keep `gc` out of both stores for a while, where that can be done."""
        with ExitStack() as held:
            for engine in (self._target, self._source):
                with suppress(ReadOnlyError):
                    held.enter_context(claimed(engine))
            yield

    # -- records

    def copy_records(self, trees: Trees, sids: Mapping[int, int], *, is_all: bool) -> None:
        """Snapshots, and restores that are over, which did not come with a session. `trees`, `sids`: all
        that were copied. Not `is_all`: only what belongs to them."""
        only_of = None if is_all else trees
        if self._lost is not None:
            self._counters = self._copy_all_objects()
        for id, kept in self._kept(only_of):
            # A snapshot of sessions that were not copied stays behind: nothing there would need it.
            if not kept.sessions or kept.sessions in trees:
                self._copy_record(id, kept, trees)
        if is_all:
            self._copy_restores(sids)

    def _copy_record(self, id: str, kept: SnapshotRecord, trees: Trees) -> None:
        def copy() -> None:
            if not self._is_there(id, kept, trees):
                counters = self._bring_trees([kept.tree])
                try:
                    self._target.run(lambda tx: self._adopt(tx, {id: kept}, trees, counters))
                except CollectedError:
                    raise
                except ConflictError:
                    pass  # what the target holds under this id stays as it is

        self._copy_if_there(copy, lambda reader: records.find_record(reader, id) == kept)

    def _is_there(self, id: str, kept: SnapshotRecord, trees: Trees) -> bool:
        with self._target.read() as reader:
            found = records.find_record(reader, id)
        return found == msgspec.structs.replace(kept, sessions=trees.get(kept.sessions, 0))

    def _copy_if_there(self, copy: Callable[[], None], is_there: Callable[[Reader], bool]) -> None:
        """What the source removes meanwhile stays behind; what the target collects is brought again."""
        for attempt in range(TRIES):
            try:
                with self.undisturbed() if attempt else nullcontext():
                    copy()
                return
            except CollectedError:
                if attempt == TRIES - 1:
                    raise
            except ObjectMissingError:
                with self._source.read() as reader:
                    if not is_there(reader):
                        return
                if attempt == TRIES - 1:
                    raise

    # -- objects

    def _bring_trees(self, trees: Sequence[bytes]) -> records.SnapshotCounters:
        """See to it that the target holds all that these trees need; its counters as they were before. With
        `lost`, all that there is was brought before."""
        if self._lost is not None:
            assert self._counters is not None
            return self._counters
        with self._target.read() as reader:
            counters = records.counters_of(reader)
        if self._counters is None or self._counters.collected != counters.collected:
            self._reach, self._counters = Reach(self._reader), counters
        try:
            for tree in trees:
                self._reach.add(tree)
            for first in range(0, len(self._reach.new), PAGE):
                self._bring(self._reach.new[first : first + PAGE])
        except BaseException:
            self._counters = None  # it is not known what is there
            raise
        self._reach.new.clear()
        return self._counters

    def _bring(self, names: Sequence[bytes]) -> None:
        with self._target.read() as reader:
            there = reader.find_objects(names)
        missing = [name for name in names if name not in there]
        with self._source.read() as reader:
            places = reader.find_objects(missing)
        gone = next((name for name in missing if name not in places), None)
        if gone is not None:
            raise ObjectMissingError(gone.hex())
        self._store([(name, places[name]) for name in missing])

    def _copy_all_objects(self) -> records.SnapshotCounters:
        """Bring over what of a damaged store can be read; the counters of the target as they were before."""
        with self._target.read() as reader:
            counters = records.counters_of(reader)
        missing: list[tuple[bytes, ObjectPlace]] = []
        for found in self._all_objects():
            with self._target.read() as reader:
                there = reader.find_objects([name for name, _ in found])
            missing += [one for one in found if one[0] not in there]
            if len(missing) >= PLACES:
                self._store(missing)
                missing = []
        self._store(missing)
        return counters

    def _all_objects(self) -> Iterator[list[tuple[bytes, ObjectPlace]]]:
        after = b""
        while True:
            try:
                with self._source.read() as reader:
                    found = reader.scan_objects(after, PAGE)
            except CorruptError as error:
                self._tell(LostRecord(kind="object", reason=f"not all can be listed: {error}"), error)
                return
            yield found
            if len(found) < PAGE:
                return
            after = found[-1][0]

    def _tell(self, lost: LostRecord, error: Exception) -> None:
        if self._lost is None:
            raise error
        self._lost(lost)

    def _store(self, missing: list[tuple[bytes, ObjectPlace]]) -> None:
        missing.sort(key=lambda one: (one[1].pack, one[1].offset))
        packs, size = list[Pack](), 0
        for batch in _rows(self._contents([name for name, _ in missing])):
            packs.append(compress(batch))
            size += len(packs[-1].blob)
            if size >= AT_ONCE:
                self._write(packs)
                packs, size = [], 0
        self._write(packs)

    def _contents(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        for name in names:
            try:
                yield name, self._reader.get(name)
            except ObjectMissingError:
                if self._lost is None:
                    raise
            except CorruptError as error:
                self._tell(LostRecord(kind="object", name=name.hex(), reason=str(error)), error)

    def _write(self, packs: Sequence[Pack]) -> None:
        def work(tx: Transaction) -> None:
            for pack in packs:
                pack.add_to(tx)

        if packs:
            self._target.run(work)
            self.objects += sum(len(pack.members) for pack in packs)
            size = sum(pack.size for pack in packs)
            self.bytes += size
            self._on_bytes(size)

    # -- reading

    def _kept(self, only_of: Trees | None) -> Iterator[tuple[str, SnapshotRecord]]:
        for id, value in self._scan("snapshot"):
            try:
                kept = records.decode_record(id, value)
            except CorruptError as error:
                self._tell(LostRecord(kind="snapshot", name=id, reason=str(error)), error)
                continue
            if only_of is None or kept.sessions in only_of:
                yield id, kept

    def _scan(self, kind: Literal["snapshot", "restore"]) -> list[tuple[str, bytes]]:
        """Records of a kind; the counters, which have no name, are none of them."""

        def tell(error: Exception) -> None:
            reason = f"some records of this kind cannot be read: {error}"
            self._tell(LostRecord(kind="record", name=kind, reason=reason), CorruptError(reason))

        found = scan_damaged(self._source.read, STORE_WIDE, kind, tell, "0")
        return [(name, value) for name, value in found if name]

    def _copy_restores(self, sids: Mapping[int, int]) -> None:
        """Those that are over: one that was cut off is for the store to finish that began it."""
        for name, _ in self._scan("restore"):
            try:
                with self._source.read() as reader:
                    record = journal.get(reader, name)
            except NotFoundError:
                continue  # collected since
            except CorruptError as error:
                self._tell(LostRecord(kind="record", name=f"restore {name}", reason=str(error)), error)
                continue
            if record.state != "pending":
                self._copy_restore(record, sids)

    def _copy_restore(self, record: journal.Restore, sids: Mapping[int, int]) -> None:
        """With the trees that an undo needs, whose snapshots may be deleted."""
        needed = {record.target, record.now, record.last, record.known}

        def copy() -> None:
            with self._target.read() as reader:
                if reader.get_record(STORE_WIDE, "restore", record.id) is not None:
                    return
            with self._source.read() as reader:
                trees = [tree for tree in needed if tree and reader.find_objects([tree])]
            counters = self._bring_trees(trees)
            self._target.run(lambda tx: journal.adopt(tx, _moved(record, sids), counters))

        def is_there(reader: Reader) -> bool:
            return reader.get_record(STORE_WIDE, "restore", record.id) is not None

        self._copy_if_there(copy, is_there)


_decode_move: Callable[[bytes], dict[str, Any]]
_decode_move = decoder(dict[str, Any], "what a restore keeps for its session")


def _moved(record: journal.Restore, sids: Mapping[int, int]) -> journal.Restore:
    if not record.move:
        return record
    move = _decode_move(record.move)
    move["sid"] = sids.get(move.get("sid", 0), 0)
    return msgspec.structs.replace(record, move=msgspec.json.encode(move))


def _rows(contents: Iterator[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    """What makes one pack each."""
    row, size = list[tuple[bytes, bytes]](), 0
    for name, content in contents:
        if row and size + len(content) > PACK_SIZE:
            yield row
            row, size = [], 0
        row.append((name, content))
        size += len(content)
    if row:
        yield row
