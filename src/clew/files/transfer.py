"""Bringing snapshots from one store to another: objects first, then the records that need them.

Objects are named by their content, so what the target holds is not copied again, and what is copied has
its hash compared on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from clew.backends.contract import STORE_WIDE, Transaction
from clew.core.rows import ObjectPlace
from clew.errors import CorruptError, NotFoundError, ObjectMissingError
from clew.files import journal
from clew.files.objects import AT_ONCE, PACK_SIZE, ObjectReader
from clew.files.packing import Pack, compress
from clew.files.reach import Reach
from clew.model.care import LostRecord
from clew.work import snapshots
from clew.work.salvage_records import RecordSalvage, refuse
from clew.work.snapshots import CollectedError, Kept

if TYPE_CHECKING:
    from clew.work.sweep import Machinery

PAGE: Final = 5000
PLACES: Final = 200_000
"""Places of objects in memory at once: they are read in the order in which they lie."""
TRIES: Final = 5

Lost = Callable[[LostRecord], object]
Trees = Mapping[int, int]
"""Trees of sessions that were copied: numbers in the source and in the target."""


class FileTransfer:
    """The files of a store on their way to another. With `lost`, what is damaged is told of and left out;
    else it raises."""

    def __init__(
        self,
        source: Machinery,
        target: Machinery,
        *,
        only_of: Trees | None = None,
        on_bytes: Callable[[int], object] = lambda _: None,
        lost: Lost | None = None,
    ) -> None:
        """`only_of`: only the snapshots that checkpoints and moves of these trees may name."""
        self._source = source
        self._target = target
        self._only_of = only_of
        self._on_bytes = on_bytes
        self._lost = lost
        self._reader = ObjectReader(source.read)
        self.objects = self.snapshots = self.bytes = 0

    def copy_objects(self) -> snapshots.Shelf:
        """Bring over what the target lacks; its shelf as it was before."""
        with self._target.read() as reader:
            shelf = snapshots.shelf_of(reader)
        missing: list[tuple[bytes, ObjectPlace]] = []
        for found in self._needed():
            with self._target.read() as reader:
                there = reader.find_objects([name for name, _ in found])
            missing += [one for one in found if one[0] not in there]
            if len(missing) >= PLACES:
                self._store(missing)
                missing = []
        self._store(missing)
        return shelf

    def copy_records(self, trees: Trees, sids: Mapping[int, int]) -> None:
        """Snapshots, and restores that are over. `trees`, `sids`: all that were copied."""
        for attempt in range(TRIES):
            shelf = self.copy_objects()
            try:
                for id, kept in self._kept():
                    self._put(id, kept, trees, shelf)
                break
            except CollectedError:
                if attempt == TRIES - 1:
                    raise
        if self._only_of is None:
            self._copy_restores(sids)

    # -- objects

    def _needed(self) -> Iterator[list[tuple[bytes, ObjectPlace]]]:
        if self._only_of is not None:
            yield from self._reached()
            return
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

    def _reached(self) -> Iterator[list[tuple[bytes, ObjectPlace]]]:
        reach = Reach(self._reader)
        for _, kept in self._kept():
            reach.add(kept.tree)
        names = sorted(reach.names)
        for first in range(0, len(names), PAGE):
            with self._source.read() as reader:
                yield list(reader.find_objects(names[first : first + PAGE]).items())

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
                pass  # collected since: nobody needs it
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

    # -- records

    def _kept(self) -> Iterator[tuple[str, Kept]]:
        for id, value in self._scan("snapshot"):
            try:
                kept = snapshots.decode_kept(id, value)
            except CorruptError as error:
                self._tell(LostRecord(kind="snapshot", name=id, reason=str(error)), error)
                continue
            if self._only_of is None or kept.sessions in self._only_of:
                yield id, kept

    def _scan(self, kind: Literal["snapshot", "restore"]) -> list[tuple[str, bytes]]:
        """Records of a kind; the shelf, which has no name, is none of them."""
        found = RecordSalvage(self._source.read, self._lost or refuse).scan(STORE_WIDE, kind, None, "0")
        return [(name, value) for name, value in found if name]

    def _put(self, id: str, kept: Kept, trees: Trees, shelf: snapshots.Shelf) -> None:
        """A snapshot of sessions that were not copied stays behind: nothing there would need it."""
        if kept.sessions and kept.sessions not in trees:
            return
        kept = msgspec.structs.replace(kept, sessions=trees.get(kept.sessions, 0))
        if self._target.run(lambda tx: snapshots.adopt(tx, id, kept, shelf)):
            self.snapshots += 1

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
                moved = _moved(record, sids)
                self._target.run(lambda tx, moved=moved: journal.adopt(tx, moved))  # type: ignore[misc]


def _moved(record: journal.Restore, sids: Mapping[int, int]) -> journal.Restore:
    if not record.move:
        return record
    move = msgspec.json.decode(record.move)
    move["sid"] = sids.get(move["sid"], 0)
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
