"""The journal of restores: written before the first change, so that a killed one can be gone on with.

The steps themselves are not in it: they follow from the trees, which the store holds. A record stays when
its restore is over, because `undo_restore` needs it; `gc` removes those that are too old.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, Literal, TypeAlias

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.engine.host import Host
from clew.core.log.digest import DIGEST_SIZE
from clew.core.log.lease import Holder
from clew.core.log.records import Time, decoder
from clew.errors import ConflictError, CorruptError, NotFoundError
from clew.files.records import SnapshotCounters, note_taken
from clew.model import Head

RestoreState: TypeAlias = Literal["pending", "done", "rolled back"]
IsInTheWay: TypeAlias = Callable[["Restore"], bool]


class Restore(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A restore as it is kept; new fields need defaults. Paths are bytes: they may be no UTF-8."""

    id: str
    state: RestoreState = "pending"
    root: bytes
    snapshot: str
    target: bytes
    last: bytes | None
    last_id: str | None = None
    """Named here, so that no gc takes a tree that `finish` needs."""
    safety: str
    """The snapshot of the state before, and its tree."""
    now: bytes
    paths: tuple[bytes, ...] | None
    overwrite: bool
    clears: bool = False
    """What no snapshot knew goes too."""
    folders: tuple[bytes, ...] = ()
    blocked: tuple[bytes, ...] = ()
    modes: dict[bytes, int] = {}
    """Permissions of what goes, where they are not the usual ones."""
    new_modes: dict[bytes, int] | None = None
    """Permissions of what comes; None: no more than the snapshot says."""
    move: bytes = b""
    """The `HeadMove` of the session that this restore belongs to."""
    known: bytes | None = None
    """The tree that stands in the root by our own doing when this is done; None: only parts of it do."""
    created: Time
    token: str
    """In the names of temporary files."""
    holder: Holder | None = None
    """The process that works on it; None: it gave up."""
    signature: bytes = b""
    """By the user who began it in `root` (see clew.files.roots)."""


class HeadMove(msgspec.Struct, frozen=True):
    """How a head moves when the files are where they should be; kept as `move`."""

    sid: int
    session: str
    kind: Literal["rewind", "undo", "redo"]
    to: Head | None = None


class MovedBy(msgspec.Struct, frozen=True):
    """The part of a `HeadMove` that says whose head moves with a restore."""

    sid: int = 0
    session: str | None = None


encode_move: Final = msgspec.json.Encoder().encode
_decode_move: Final = msgspec.json.Decoder(HeadMove).decode
_decode_moved_by: Final = msgspec.json.Decoder(MovedBy).decode
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = decoder(Restore, "its record", packed=True)

TEMPORARY: Final = ".clew-restore-"
"""How the names of the temporary files of a restore begin; its token follows."""
PAGE: Final = 50
_TOKEN: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)

_lock: Final = threading.Lock()
_active: Final[set[str]] = set()
"""Restores that a thread of this process works on."""


def pending(reader: Reader) -> list[Restore]:
    """Restores that are not over, oldest first; those too that are just being carried out."""
    return [record for record in readable(reader) if record.state == "pending"]


def readable(reader: Reader) -> Iterator[Restore]:
    """All restores but those whose record is damaged, oldest first."""
    return _readable(reader.scan_records(STORE_WIDE, "restore"))


def moved_by(record: Restore) -> MovedBy:
    """The session whose head moves with a restore; sid 0: none."""
    return _decode_moved_by(record.move) if record.move else MovedBy()


def decode_move(value: bytes) -> HeadMove:
    """CorruptError for what `encode_move` never makes."""
    try:
        move = _decode_move(value)
    except (msgspec.MsgspecError, ValueError) as exc:
        raise CorruptError(f"how the head moves with the files is damaged: {exc}") from exc
    if move.kind == "rewind" and move.to is None:
        raise CorruptError("how the head moves with the files is damaged: it does not say where to")
    return move


def newest_known(reader: Reader, root: bytes) -> Restore | None:
    """The last restore of a root after which all that stands there is known."""
    done = (record for record in _newest_first(reader) if (record.root, record.state) == (root, "done"))
    return next((record for record in done if record.known), None)


def find_by_safety(reader: Reader, safety: str) -> Restore | None:
    """The restore that took this safety snapshot."""
    return next((record for record in _newest_first(reader) if record.safety == safety), None)


def _newest_first(reader: Reader) -> Iterator[Restore]:
    last: str | None = None
    while True:
        found = reader.scan_records(STORE_WIDE, "restore", "", last, reverse=True, limit=PAGE)
        yield from _readable((name, value) for name, value in found if name != last)
        if len(found) < PAGE:
            return
        last = found[-1][0]


def get(reader: Reader, id: str) -> Restore:
    value = reader.get_record(STORE_WIDE, "restore", id)
    if value is None:
        raise NotFoundError(f"no restore {id!r}")
    return _read(id, value)


def begin(tx: Transaction, record: Restore, is_in_the_way: IsInTheWay = lambda _: True) -> None:
    """Two restores at once in the same directory would take each other's work for the user's."""
    check_free(tx, record.root, is_in_the_way)
    _put(tx, record)


def check_free(reader: Reader, root: bytes, is_in_the_way: IsInTheWay = lambda _: True) -> None:
    for other in pending(reader):
        if _overlap(other.root, root) and is_in_the_way(other):
            raise ConflictError(
                f"restore {other.id} of {os.fsdecode(other.root)} is not over: finish or undo it first"
            )


def claim(
    tx: Transaction, id: str, host: Host, check: Callable[[Restore], object] = lambda _: None
) -> Restore:
    """Take over a restore that was cut off, if `check` does not refuse it. ConflictError: it is over, or
    another process still works on it. Whether a thread of this one does is for `Working` to say, first."""
    record = get(tx, id)
    check(record)
    if record.state != "pending":
        raise ConflictError(f"restore {id} is {record.state}")
    holder = record.holder
    if holder is not None and holder != host.me and not host.is_gone(holder):
        raise ConflictError(f"restore {id} is being carried out")
    record = msgspec.structs.replace(record, holder=host.me)
    _put(tx, record)
    return record


def give_up(tx: Transaction, id: str) -> None:
    """Let others take it over, although this process lives on."""
    _put(tx, msgspec.structs.replace(get(tx, id), holder=None))


def close(tx: Transaction, id: str, state: RestoreState, *, whole: bool = True) -> None:
    """`whole`: every step was carried out, so that what stands in the root is known."""
    record = get(tx, id)
    known = record.known if whole else None
    _put(tx, msgspec.structs.replace(record, state=state, holder=None, known=known))


class Working:
    """Says, as long as it is entered, that this process works on a restore."""

    def __init__(self, id: str) -> None:
        self._id = id

    def __enter__(self) -> None:
        with _lock:
            if self._id in _active:
                raise ConflictError(f"restore {self._id} is being carried out")
            _active.add(self._id)

    def __exit__(self, *_: object) -> None:
        with _lock:
            _active.discard(self._id)


def adopt(tx: Transaction, record: Restore, seen: SnapshotCounters) -> None:
    """Keep the record of a restore of another store, which is over. `seen` as for `snapshots.put`."""
    if tx.get_record(STORE_WIDE, "restore", record.id) is None:
        note_taken(tx, seen, f"the restore {record.id} was copied")
        _put(tx, record)


def _put(tx: Transaction, record: Restore) -> None:
    tx.put_record(STORE_WIDE, "restore", record.id, _encode(record))


def _readable(found: Iterable[tuple[str, bytes]]) -> Iterator[Restore]:
    """Without those that are damaged: each costs only itself, and `verify` tells of it."""
    for name, value in found:
        with suppress(CorruptError):
            yield _read(name, value)


def _read(name: str, value: bytes) -> Restore:
    try:
        record = _decode(value)
        _check(name, record)
    except (CorruptError, msgspec.MsgspecError, ValueError) as exc:
        raise CorruptError(f"the record of restore {name!r} is damaged: {exc}") from exc
    return record


def _check(name: str, record: Restore) -> None:
    """ValueError for what `begin` never writes. The token becomes part of names, and the root is opened."""
    trees = (record.target, record.now, record.last, record.known)
    if record.id != name:
        raise ValueError(f"it says that it is {record.id!r}")
    if not _TOKEN.fullmatch(record.token):
        raise ValueError(f"{record.token!r} is no token")
    if not record.root.startswith(b"/") or b"\0" in record.root:
        raise ValueError(f"{record.root!r} is no directory")
    if any(tree is not None and len(tree) != DIGEST_SIZE for tree in trees):
        raise ValueError("it names what is no tree")
    moved_by(record)


def _overlap(one: bytes, other: bytes) -> bool:
    one, other = one.rstrip(b"/") + b"/", other.rstrip(b"/") + b"/"
    return one.startswith(other) or other.startswith(one)
