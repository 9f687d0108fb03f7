"""The journal of restores: written before the first change, so that a killed one can be gone on with.

The steps themselves are not in it: they follow from the trees, which the store holds. A record stays when
its restore is over, because `undo_restore` needs it; `gc` removes those that are too old.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.lease import Holder
from clew.errors import ConflictError, CorruptError, NotFoundError
from clew.here import Here
from clew.work.snapshots import Shelf, rely

RestoreState: TypeAlias = Literal["pending", "done", "rolled back"]


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
    known: bytes | None = None
    """The tree that stands in the root by our own doing when this is done; None: only parts of it do."""
    created: int
    token: str
    """In the names of temporary files."""
    holder: Holder | None = None
    """The process that works on it; None: it gave up."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Restore).decode

PAGE: Final = 50

_lock: Final = threading.Lock()
_active: Final[set[str]] = set()
"""Restores that a thread of this process works on."""


def pending(reader: Reader) -> list[Restore]:
    """Restores that are not over, oldest first; those too that are just being carried out."""
    records = (_read(name, value) for name, value in reader.scan_records(STORE_WIDE, "restore"))
    return [record for record in records if record.state == "pending"]


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
        yield from (_read(name, value) for name, value in found if name != last)
        if len(found) < PAGE:
            return
        last = found[-1][0]


def get(reader: Reader, id: str) -> Restore:
    value = reader.get_record(STORE_WIDE, "restore", id)
    if value is None:
        raise NotFoundError(f"no restore {id!r}")
    return _read(id, value)


def begin(tx: Transaction, record: Restore) -> None:
    """Two restores at once in the same directory would take each other's work for the user's."""
    check_free(tx, record.root)
    _put(tx, record)


def check_free(reader: Reader, root: bytes) -> None:
    for other in pending(reader):
        if _overlap(other.root, root):
            raise ConflictError(
                f"restore {other.id} of {os.fsdecode(other.root)} is not over: finish or undo it first"
            )


def claim(tx: Transaction, id: str, here: Here) -> Restore:
    """Take over a restore that was cut off. ConflictError: it is over, or another process still works
    on it. Whether a thread of this one does is for `Working` to say, first."""
    record = get(tx, id)
    if record.state != "pending":
        raise ConflictError(f"restore {id} is {record.state}")
    holder = record.holder
    if holder is not None and holder != here.me and not here.is_gone(holder):
        raise ConflictError(f"restore {id} is being carried out")
    record = msgspec.structs.replace(record, holder=here.me)
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


def adopt(tx: Transaction, record: Restore, seen: Shelf) -> None:
    """Keep the record of a restore of another store, which is over. `seen` as for `snapshots.put`."""
    if tx.get_record(STORE_WIDE, "restore", record.id) is None:
        rely(tx, seen, f"the restore {record.id} was copied")
        _put(tx, record)


def _put(tx: Transaction, record: Restore) -> None:
    tx.put_record(STORE_WIDE, "restore", record.id, _encode(record))


def _read(name: str, value: bytes) -> Restore:
    try:
        return _decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise CorruptError(f"the record of restore {name!r} is damaged: {exc}") from exc


def _overlap(one: bytes, other: bytes) -> bool:
    one, other = one.rstrip(b"/") + b"/", other.rstrip(b"/") + b"/"
    return one.startswith(other) or other.startswith(one)
