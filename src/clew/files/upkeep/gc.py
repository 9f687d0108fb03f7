"""Garbage collection: remove the objects that no snapshot needs (see clew.files.records for why this is
safe while snapshots are taken).

First the snapshots that are not needed any more are forgotten, then all that the others reach is marked,
and then what is not marked goes: whole packs where nothing else lies in them, single objects elsewhere,
and a pack of which less than half is left is packed again. If it is asked for, the small packs that small
snapshots leave are merged at last (see clew.files.upkeep.merge). Small transactions: each leaves the store in
order, so it may be killed anywhere, and the next one goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from clew.backends.contract import Transaction
from clew.core.log import digest
from clew.core.log.lease import Lease
from clew.core.log.rows import ObjectPlace, PackInfo
from clew.core.retention import records
from clew.errors import ClewError, CorruptError, ObjectMissingError
from clew.files import records as snapshots
from clew.files.objects.store import PACK_SIZE, ObjectReader, Reach
from clew.files.upkeep.merge import PackMove, Repacking
from clew.files.upkeep.needs import drop_unneeded, trees_of_restores, unneeded
from clew.model.files import FileProgress, GcReport, OnProgress

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike

PAGE: Final = 5000
PACKS_AT_ONCE: Final = 32
SNAPSHOTS_AT_ONCE: Final = 500
OBJECTS_AT_ONCE: Final = 500
BYTES_AT_ONCE: Final = 1024 * 1024
"""The most that one transaction drops or writes: others write in between. What SQLite drops it overwrites,
and so writes it to its log."""
ROW: Final = 512
"""Bytes that an object counts for beside its content: its row, and its place in the index."""
RENEW_EVERY: Final = snapshots.CLAIM_TTL // 4

Member = tuple[bytes, int, int]
"""An object in its pack: (name, offset, size)."""


def gc(
    engine: EngineLike,
    *,
    dry_run: bool = False,
    thorough: bool = False,
    merge: bool = False,
    on_progress: OnProgress | None = None,
) -> GcReport:
    """Remove what no snapshot needs.

    `thorough`: pack again whatever has a gap, so that no byte of what is removed stays in a pack.
    `merge`: join the small packs of small snapshots.
    LeaseHeldError: another process collects, or must not be disturbed. CorruptError, ObjectMissingError:
    a snapshot is damaged, so that what it needs is not known; no object was removed.
    """
    if dry_run:
        return _Collection(engine, None, thorough, on_progress).run(merge=merge)
    lease = engine.run(lambda tx: snapshots.take_claim(tx, engine.host))
    try:
        return _Collection(engine, lease, thorough, on_progress).run(merge=merge)
    finally:
        _give_back(engine, lease)


def _give_back(engine: EngineLike, lease: Lease) -> None:
    try:
        engine.run(lambda tx: snapshots.end_claim(tx, lease))
    except ClewError:
        pass  # it ends by itself, and this must not hide what went wrong


class _Task(msgspec.Struct, frozen=True):
    """What one transaction does to some packs."""

    drop: tuple[int, ...]
    forget: tuple[bytes, ...]
    add: tuple[tuple[int, bytes, int, list[Member]], ...] = ()
    objects: int = 0
    """That are gone after it; and their size."""
    size: int = 0


class _Collection:
    """One run. `lease` None: a dry run, which writes nothing."""

    def __init__(
        self, engine: EngineLike, lease: Lease | None, thorough: bool, on_progress: OnProgress | None
    ) -> None:
        self._engine = engine
        self._lease = lease
        self._thorough = thorough
        self._on_progress = on_progress
        self._reader = ObjectReader(engine.read)
        self._reach = Reach(self._reader, self._tick)
        self._marked: set[str] = set()
        self._trees: list[bytes] = []
        """Of the snapshots that were marked, oldest first."""
        self._taken = 0
        """Snapshots that had been taken when the marking began."""
        self._dead: dict[int, list[tuple[bytes, int]]] = defaultdict(list)
        """Of each pack the objects, with their sizes, that are not needed."""
        self._members: dict[int, list[Member]] = defaultdict(list)
        """Of each pack that is to be packed again, what is needed."""
        self._empty: frozenset[int] = frozenset()
        self._renewed = engine.host.moment().steady
        self._objects = self._bytes = 0

    def run(self, *, merge: bool) -> GcReport:
        forgotten, spared = self._forget_snapshots()
        self._mark(spared)
        for packs in self._plan():
            self._sweep(packs)
        return GcReport(
            dry_run=self._lease is None,
            snapshots=forgotten,
            objects=self._objects,
            bytes=self._bytes,
            merged=self._merge() if merge else 0,
        )

    # -- snapshots

    def _forget_snapshots(self) -> tuple[int, set[str]]:
        """How many; and of a dry run those that would be."""
        moment = self._engine.host.moment()
        with self._engine.read() as reader:
            now = records.time_of(reader, moment)
            ids = unneeded(reader, now)
        if self._lease is None:
            return len(ids), set(ids)
        count = 0
        for first in range(0, max(len(ids), 1), SNAPSHOTS_AT_ONCE):
            some = ids[first : first + SNAPSHOTS_AT_ONCE]
            count += self._engine.run_in_turn(partial(self._drop_snapshots, ids=some, now=now))
        return count, set()

    def _drop_snapshots(self, tx: Transaction, *, ids: Sequence[str], now: int) -> int:
        self._renew(tx)
        return drop_unneeded(tx, ids, now)

    def _mark(self, spared: Iterable[str] = ()) -> None:
        """Mark what the snapshots reach that were not looked at yet. The counters are read first: what comes
        after that is noticed by the next transaction."""
        self._marked.update(spared)
        with self._engine.read() as reader:
            self._taken = snapshots.counters_of(reader).taken
            found = [
                (f"snapshot {id}", snapshots.decode_record(id, value).tree)
                for id, value in snapshots.scan(reader)
                if id not in self._marked
            ]
            self._marked.update(name.removeprefix("snapshot ") for name, _ in found)
            found += [(f"restore {id}", tree) for id, tree in trees_of_restores(reader)]
        for name, tree in found:
            self._trees.append(tree)
            try:
                self._reach.add(tree)
            except (CorruptError, ObjectMissingError) as error:
                error.add_note(f"the {name} needs it; gc removes nothing while that is there")
                raise

    # -- packs

    def _plan(self) -> Iterator[list[int]]:
        """Packs to deal with, as many as are good for one transaction."""
        # The packs first: one that a snapshot adds now is not known here, and so is left alone.
        packs = list(self._all_packs())
        sizes = {info.pack: info.size for info in packs}
        weights = {info.pack: info.stored + ROW * info.objects for info in packs}
        live: dict[int, int] = {}
        for name, place in self._all_objects():
            if name in self._reach.names:
                live[place.pack] = live.get(place.pack, 0) + place.size
            elif place.pack in sizes:
                self._dead[place.pack].append((name, place.size))
        empty = [pack for pack in sizes if pack not in live]
        self._empty = frozenset(empty)
        left = [(pack, size) for pack, size in sizes.items() if pack in live]
        sparse = {pack for pack, size in left if live[pack] < (size if self._thorough else size / 2)}
        holed = [pack for pack, _ in left if pack not in sparse and pack in self._dead]
        if sparse and self._lease is not None:
            for name, place in self._all_objects():
                if place.pack in sparse and name in self._reach.names:
                    self._members[place.pack].append((name, place.offset, place.size))
        yield from _batched(empty, weights, BYTES_AT_ONCE)
        yield from _batched(holed, {pack: len(self._dead[pack]) for pack in holed}, OBJECTS_AT_ONCE)
        yield from _batched(
            sorted(sparse), {pack: weights[pack] + live[pack] for pack in sparse}, BYTES_AT_ONCE
        )

    def _all_packs(self) -> Iterator[PackInfo]:
        after = 0
        while True:
            with self._engine.read() as reader:
                found = reader.list_packs(after, PAGE)
            yield from found
            if len(found) < PAGE:
                return
            after = found[-1].pack

    def _all_objects(self) -> Iterator[tuple[bytes, ObjectPlace]]:
        after = b""
        while True:
            with self._engine.read() as reader:
                found = reader.scan_objects(after, PAGE)
            yield from found
            if len(found) < PAGE:
                return
            after = found[-1][0]
            self._tick(len(self._reach.names))

    # -- removing

    def _sweep(self, packs: Sequence[int]) -> None:
        task = self._task(packs)
        while self._lease is not None and not self._engine.run_in_turn(partial(self._apply, task=task)):
            self._mark()
            task = self._task(packs)
        self._objects += task.objects
        self._bytes += task.size
        self._tick(len(self._reach.names))

    def _task(self, packs: Sequence[int]) -> _Task:
        drop, gone, forget = list[int](), list[tuple[bytes, int]](), list[bytes]()
        moved: list[tuple[bytes, bytes]] = []
        for pack in packs:
            dead = [one for one in self._dead.get(pack, ()) if one[0] not in self._reach.names]
            gone += dead
            is_as_planned = len(dead) == len(self._dead.get(pack, ()))
            if pack in self._members:
                live = self._cut(pack) if is_as_planned else None
            else:
                live = [] if is_as_planned and pack in self._empty else None
            if live is None:
                forget += (name for name, _ in dead)
            else:
                moved += live
                drop.append(pack)
        return _Task(
            tuple(drop), tuple(forget), tuple(_packed(moved)), len(gone), sum(size for _, size in gone)
        )

    def _cut(self, pack: int) -> list[tuple[bytes, bytes]] | None:
        """What is needed of a pack; None: it is damaged, and stays as it is."""
        try:
            with self._engine.read() as reader:
                raw = reader.get_pack(pack)
        except (CorruptError, KeyError):
            return None
        return [(name, raw[offset : offset + size]) for name, offset, size in self._members[pack]]

    def _apply(self, tx: Transaction, *, task: _Task) -> bool:
        """False: a snapshot was taken meanwhile, and may need some of it."""
        self._renew(tx)
        if snapshots.counters_of(tx).taken != self._taken:
            return False
        if task.drop or task.forget:
            snapshots.note_collected(tx)
            for pack in task.drop:
                tx.drop_pack(pack)
            tx.drop_objects(task.forget)
            for codec, blob, size, members in task.add:
                tx.add_pack(codec, blob, size, members)
        return True

    # -- merging

    def _merge(self) -> int:
        """Pack what small snapshots left as one would pack it had it come at once; the stored bytes that this
        saves. A dry run makes the packs but writes none, and passes over packs that hold garbage."""
        packs = list(self._all_packs())
        sizes = {info.pack: info.size for info in packs}
        stored = {info.pack: info.stored for info in packs}
        saved = 0
        if not Repacking(self._reader, sizes).is_due:
            return saved
        for name, place in self._all_objects():
            if name not in self._reach.names:  # of a snapshot that is being taken: none of ours yet
                sizes.pop(place.pack, None)
        repacking = Repacking(self._reader, sizes, lambda: self._tick(len(self._reach.names)))
        if not repacking.is_due:
            return saved
        for parcel in repacking.parcels(self._all_objects, self._trees[::-1]):
            if self._lease is not None and not self._engine.run_in_turn(partial(self._move, parcel=parcel)):
                break
            saved += sum(stored[pack] for pack in parcel.emptied)
            saved -= sum(len(blob) for _, blob, _, _ in parcel.packs)
        return max(saved, 0)

    def _move(self, tx: Transaction, *, parcel: PackMove) -> bool:
        self._renew(tx)
        return parcel.apply(tx)

    # -- getting on

    def _renew(self, tx: Transaction) -> None:
        """Every transaction begins with this: a process that was frozen must not go on."""
        if self._lease is not None:
            snapshots.renew_claim(tx, self._lease, self._engine.host)
            self._renewed = self._engine.host.moment().steady

    def _tick(self, objects: int) -> None:
        if self._on_progress is not None:
            self._on_progress(FileProgress(phase="scan", files=objects, bytes=0, total_files=None))
        if self._lease is not None and self._engine.host.moment().steady - self._renewed > RENEW_EVERY:
            self._engine.run(self._renew)


def _packed(objects: Sequence[tuple[bytes, bytes]]) -> Iterator[tuple[int, bytes, int, list[Member]]]:
    """New packs, as `Transaction.add_pack` takes them."""
    members, parts, size = list[Member](), list[bytes](), 0
    for name, content in objects:
        if parts and size + len(content) > PACK_SIZE:
            yield *digest.pack_objects(b"".join(parts)), size, members
            members, parts, size = [], [], 0
        members.append((name, size, len(content)))
        parts.append(content)
        size += len(content)
    if parts:
        yield *digest.pack_objects(b"".join(parts)), size, members


def _batched(packs: Sequence[int], weights: Mapping[int, int], most: int) -> Iterator[list[int]]:
    """Up to PACKS_AT_ONCE packs that together weigh no more than `most`, or one pack."""
    batch, weight = list[int](), 0
    for pack in packs:
        if batch and (weight + weights[pack] > most or len(batch) >= PACKS_AT_ONCE):
            yield batch
            batch, weight = [], 0
        batch.append(pack)
        weight += weights[pack]
    if batch:
        yield batch
