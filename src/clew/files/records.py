"""The records of snapshots, and how taking one and collecting garbage stay out of each other's way.

A snapshot relies on objects that it found in the store, and puts its own before its record, or with it;
`gc` removes what no record reaches. Neither locks the other out. Each counts what it does in one record
(`SnapshotCounters`), inside its transactions, and sees there whether the other one did something since:

    a snapshot   reads the counters, then asks which objects are there. Its record is refused if anything
                 was collected since then (`CollectedError`): it is taken again.
    gc           reads the counters, then marks what the records reach. It removes nothing if a record came
                 since then: it marks what that one reaches, and goes on.

Time has no part in this, so a process that was frozen or killed cannot do any harm. The claim, a lease, only
sees to it that both get on: one `gc` at a time, and none while a snapshot is taken for the second time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from uuid_utils import uuid7

from clew.backends.contract import STORE_WIDE, Reader, RecordKind, Transaction
from clew.core.engine.host import Host
from clew.core.log.lease import Lease
from clew.core.log.records import Count, Time, decoder
from clew.core.runs import lease as store_lease
from clew.errors import (
    ClewError,
    ConflictError,
    CorruptError,
    LeaseHeldError,
    SnapshotNotFoundError,
    StoreBusyError,
)
from clew.model import microseconds, utc
from clew.model.files import Skipped, SkipReason, Snapshot, SnapshotKind

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike

T = TypeVar("T")

CLAIM_TTL: Final = 60_000_000
MOST_BYTES: Final = 2**63 - 1
PAGE: Final = 100
NO_ROOT: Final = b""
"""Of a snapshot that was taken of no directory of this machine."""
_LATEST: Final = 2**48 - 1
"""The last time, in milliseconds, that fits into an id."""
_FIRST: Final = "0"
"""Before the first id; the counters are kept under the name before it."""


class CollectedError(ConflictError):
    """Objects were removed while the snapshot was taken, maybe some that it relies on."""

    retryable = True


class SnapshotRecord(msgspec.Struct, frozen=True, array_like=True):
    """A snapshot as it is kept; new fields come last. Names are bytes: they may be no UTF-8."""

    kind: SnapshotKind
    root: bytes
    tree: bytes
    time: Time
    files: Count
    links: Count
    directories: Count
    size: Count
    new_size: Count
    skipped: tuple[tuple[bytes, SkipReason], ...] = ()
    sessions: Count = 0
    """The tree of sessions whose checkpoints, or moves, may name it; 0: none."""
    include: tuple[bytes, ...] = ()
    exclude: tuple[bytes, ...] = ()
    max_file_bytes: int | None = None
    signature: bytes = b""
    """By the user who took it in `root` (see clew.files.roots); only they can check it."""


class SnapshotCounters(msgspec.Struct, frozen=True, array_like=True):
    """What has happened so far."""

    taken: Count = 0
    """Records of snapshots that were put."""
    collected: Count = 0
    """Transactions that removed objects."""


_encode = msgspec.msgpack.Encoder().encode
_decode = decoder(SnapshotRecord, "its record", packed=True)
_decode_counters = decoder(SnapshotCounters, "the record of what was collected", packed=True)


# -- records


def next_id(reader: Reader, now: int) -> str:
    """An id for a snapshot, or for a restore, that sorts behind all that are there: which of two came later
    is told by ids, and a clock may be set back. So the time in it is `now`, or just after the newest."""
    newest = max((_milliseconds(name) for name in _newest_names(reader)), default=0)
    since_1970 = min(max(now // 1000, newest + 1), _LATEST)
    # The time is the first 48 bits. Versions of uuid_utils disagree on how a time is passed to uuid7.
    return f"{since_1970:012x}{uuid7().hex[12:]}"


def _newest_names(reader: Reader) -> Iterator[str]:
    kinds: tuple[RecordKind, ...] = ("snapshot", "restore")
    for kind in kinds:
        for name, _ in reader.scan_records(STORE_WIDE, kind, _FIRST, None, reverse=True, limit=1):
            yield name


def _milliseconds(id: str) -> int:
    """The time in an id; 0: it has none."""
    try:
        return int(id[:12], 16)
    except ValueError:
        return 0


def put(
    tx: Transaction, snapshot: Snapshot, seen: SnapshotCounters, *, sessions: int = 0, signature: bytes = b""
) -> None:
    """Keep a snapshot, all of whose objects are durable, or become so with this transaction. Take one by
    `retry_if_collected`.

    `seen`: the counters as they were before the first question about an object. `sessions`: of a snapshot
    that a checkpoint or a move will name, the tree of its session; a checkpoint is to be put in the same
    transaction.
    """
    if snapshot.kind == "checkpoint" and not sessions:
        raise ValueError(f"the snapshot {snapshot.id} is for a checkpoint of no session")
    note_taken(tx, seen, f"the snapshot {snapshot.id} was taken")
    kept = SnapshotRecord(
        snapshot.kind,
        os.fsencode(snapshot.root),
        bytes.fromhex(snapshot.tree),
        microseconds(snapshot.created_at),
        snapshot.files,
        snapshot.links,
        snapshot.directories,
        snapshot.bytes,
        snapshot.new_bytes,
        tuple((os.fsencode(one.path), one.reason) for one in snapshot.skipped),
        sessions,
        tuple(map(os.fsencode, snapshot.include)),
        tuple(map(os.fsencode, snapshot.exclude)),
        None if snapshot.max_file_bytes is None else min(snapshot.max_file_bytes, MOST_BYTES),
        signature,
    )
    tx.put_record(STORE_WIDE, "snapshot", snapshot.id, _encode(kept))


def adopt(tx: Transaction, id: str, kept: SnapshotRecord, seen: SnapshotCounters) -> bool:
    """Keep the record of a snapshot of another store; False: it is there. `seen` as for `put`.

    ConflictError: there is another one of this id, or it belongs to another session.
    """
    value = _encode(kept)
    before = find_record(tx, id)
    if before is not None:
        if _encode(before) == value:
            return False
        if before.tree != kept.tree or before.sessions not in (0, kept.sessions):
            raise ConflictError(f"the snapshot {id} cannot be copied: there is another one of this id")
    note_taken(tx, seen, f"the snapshot {id} was copied")
    tx.put_record(STORE_WIDE, "snapshot", id, value)
    return True


def give_to_checkpoint(tx: Transaction, id: str, sessions: int) -> bool:
    """Let a snapshot be that of a checkpoint, which is put in the same transaction, and of no directory.
    False: it is not there, or belongs to another session."""
    kept = find_record(tx, id)
    if kept is None or kept.kind != "snapshot":
        return kept is not None and kept.kind == "checkpoint" and kept.sessions == sessions
    given = msgspec.structs.replace(kept, kind="checkpoint", root=NO_ROOT, sessions=sessions, signature=b"")
    tx.put_record(STORE_WIDE, "snapshot", id, _encode(given))
    counters = counters_of(tx)
    _set_counters(tx, msgspec.structs.replace(counters, taken=counters.taken + 1))
    return True


def find(reader: Reader, id: str) -> Snapshot | None:
    kept = find_record(reader, id)
    return None if kept is None else _snapshot(id, kept)


def get(reader: Reader, id: str) -> Snapshot:
    found = find(reader, id)
    if found is None:
        raise SnapshotNotFoundError(id)
    return found


def find_record(reader: Reader, id: str) -> SnapshotRecord | None:
    value = reader.get_record(STORE_WIDE, "snapshot", id) if id >= _FIRST else None
    return None if value is None else decode_record(id, value)


def scan(reader: Reader) -> Iterator[tuple[str, bytes]]:
    """Ids and records of all snapshots, oldest first; a page at a time."""
    first = _FIRST
    while True:
        found = reader.scan_records(STORE_WIDE, "snapshot", first, limit=PAGE)
        yield from found
        if len(found) < PAGE:
            return
        first = found[-1][0] + "\0"


def iterate(reader: Reader, root: str | None = None, before: str | None = None) -> Iterator[Snapshot]:
    """Newest first, of one root or of all; a page at a time. `before`: only those older than this one."""
    wanted = None if root is None else os.fsencode(root)
    last = before
    while True:
        found = reader.scan_records(STORE_WIDE, "snapshot", _FIRST, last, reverse=True, limit=PAGE)
        for id, value in found:
            if id == last:
                continue
            kept = decode_record(id, value)
            if wanted is None or kept.root == wanted:
                yield _snapshot(id, kept)
        if len(found) < PAGE:
            return
        last = found[-1][0]


def list_all(
    reader: Reader, root: str | None = None, limit: int | None = None, before: str | None = None
) -> list[Snapshot]:
    """Newest first."""
    found: list[Snapshot] = []
    for snapshot in iterate(reader, root, before):
        if limit is not None and len(found) >= limit:
            break
        found.append(snapshot)
    return found


def latest(reader: Reader, root: str) -> Snapshot | None:
    """The newest snapshot of this root that a user asked for: not one that a restore took."""
    return next((one for one in iterate(reader, root) if one.kind != "safety"), None)


def delete(tx: Transaction, id: str) -> bool:
    """Forget a snapshot. Its objects stay until `gc` finds that no record needs them."""
    return id >= _FIRST and tx.drop_record(STORE_WIDE, "snapshot", id)


def decode_record(id: str, value: bytes) -> SnapshotRecord:
    try:
        return _decode(value)
    except CorruptError as error:
        raise CorruptError(f"the record of the snapshot {id} is damaged: {error.__cause__}") from error


def _snapshot(id: str, kept: SnapshotRecord) -> Snapshot:
    return Snapshot(
        id=id,
        kind=kept.kind,
        root=os.fsdecode(kept.root),
        tree=kept.tree.hex(),
        created_at=utc(kept.time),
        files=kept.files,
        links=kept.links,
        directories=kept.directories,
        bytes=kept.size,
        new_bytes=kept.new_size,
        skipped=tuple(Skipped(os.fsdecode(path), reason) for path, reason in kept.skipped),
        include=tuple(map(os.fsdecode, kept.include)),
        exclude=tuple(map(os.fsdecode, kept.exclude)),
        max_file_bytes=kept.max_file_bytes,
    )


# -- the counters


def counters_of(reader: Reader) -> SnapshotCounters:
    value = reader.get_record(STORE_WIDE, "snapshot", "")
    return SnapshotCounters() if value is None else _decode_counters(value)


def note_taken(tx: Transaction, seen: SnapshotCounters, when: str) -> None:
    """Every transaction that puts a record which needs objects says so here, with the counters as they were
    before the first question about them. CollectedError: some may be gone."""
    counters = counters_of(tx)
    if counters.collected != seen.collected:
        raise CollectedError(f"objects were removed while {when}")
    _set_counters(tx, msgspec.structs.replace(counters, taken=counters.taken + 1))


def note_collected(tx: Transaction) -> None:
    """Every transaction that removes objects says so here. One that only moves them need not: no name is
    missing at any moment."""
    counters = counters_of(tx)
    _set_counters(tx, msgspec.structs.replace(counters, collected=counters.collected + 1))


def _set_counters(tx: Transaction, counters: SnapshotCounters) -> None:
    tx.put_record(STORE_WIDE, "snapshot", "", _encode(counters))


# -- the claim


def take_claim(tx: Transaction, host: Host, ttl: int = CLAIM_TTL) -> Lease:
    """The right to collect, or to keep others from it, for one process and one thread at a time."""
    return store_lease.take_claim(tx, "objects", host, ttl)


def refuse_if_claimed(reader: Reader, host: Host) -> None:
    store_lease.refuse_if_claimed(reader, "objects", host)


def renew_claim(tx: Transaction, lease: Lease, host: Host) -> None:
    store_lease.renew_claim(tx, "objects", lease, host)


def end_claim(tx: Transaction, lease: Lease) -> None:
    store_lease.end_claim(tx, "objects", lease)


# -- taking a snapshot while `gc` may be at work

TRIES: Final = 8
WAIT: Final = 30.0
SHORTEST_PAUSE: Final = 0.001
LONGEST_PAUSE: Final = 0.02
TTL: Final = 600_000_000
"""It is not renewed: a snapshot that takes longer than this may have to be taken again."""


def retry_if_collected(engine: EngineLike, work: Callable[[SnapshotCounters], T]) -> T:
    """Do work that takes a snapshot: `work` scans with an ObjectWriter of its own, and passes on to `put` the
    counters that it gets. It is called again if `gc` came in between, and then `gc` has to wait."""
    try:
        return work(_counters(engine))
    except CollectedError:
        pass
    for _ in range(TRIES - 1):
        try:
            with claimed(engine):
                return work(_counters(engine))
        except CollectedError:
            continue
    raise StoreBusyError(f"objects were removed while the snapshot was taken, {TRIES} times; it was not kept")


@contextmanager
def claimed(engine: EngineLike) -> Iterator[None]:
    """Keep `gc` out, unless it takes too long to end."""
    claim = _claim(engine)
    try:
        yield
    finally:
        if claim is not None:
            _give_back(engine, claim)


def _counters(engine: EngineLike) -> SnapshotCounters:
    with engine.read() as reader:
        return counters_of(reader)


def _claim(engine: EngineLike) -> Lease | None:
    """Keep `gc` out, once it is done; None: it takes too long, so try without."""
    end, pause = time.monotonic() + WAIT, SHORTEST_PAUSE
    while True:
        try:
            with engine.read() as reader:  # first: to ask for the right to write holds up others
                refuse_if_claimed(reader, engine.host)
            return engine.run(lambda tx: take_claim(tx, engine.host, TTL))
        except LeaseHeldError:
            if time.monotonic() > end:
                return None
        time.sleep(pause)
        pause = min(1.5 * pause, LONGEST_PAUSE)


def _give_back(engine: EngineLike, claim: Lease) -> None:
    try:
        engine.run(lambda tx: end_claim(tx, claim))
    except ClewError:
        pass  # it ends by itself, and must not hide what became of the snapshot
