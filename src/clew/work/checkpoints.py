"""Names for points. A fork sees those of its base that lie before the fork."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.codec import encode_json
from clew.core.ids import check_id
from clew.core.rows import NOWHERE, ForkOrigin, SessionRow
from clew.core.tree import locate, path
from clew.model import Checkpoint, Head, Json, Progress, microseconds, utc
from clew.work.access import Access, admit
from clew.work.places import head_of


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """A checkpoint as it is kept."""

    uid: str
    position: int
    time: int
    state: msgspec.Raw = msgspec.Raw(b"null")
    run: Progress | None = None
    snapshot: str | None = None


HIDDEN = b"null"
"""Kept in a fork that deleted a checkpoint of its base."""

_decode = msgspec.json.Decoder(Record).decode


def _checkpoint(session: str, name: str, value: bytes) -> Checkpoint:
    record = _decode(value)
    return Checkpoint(
        name,
        session,
        Head(record.uid, record.position),
        utc(record.time),
        msgspec.json.decode(record.state),
        record.run,
        record.snapshot,
    )


def set_checkpoint(
    tx: Transaction, access: Access, name: str, state: Json, now: int, snapshot: str | None = None
) -> Checkpoint:
    """Name the head; again: move the name."""
    row = admit(tx, access)
    check_id(name, "checkpoint name")
    return put_checkpoint(tx, row, name, encode_json(state, what="state"), now, snapshot=snapshot)


def put_checkpoint(
    tx: Transaction,
    row: SessionRow,
    name: str,
    state: bytes,
    now: int,
    run: Progress | None = None,
    snapshot: str | None = None,
) -> Checkpoint:
    head = head_of(tx, row.head)
    value = msgspec.json.encode(Record(head.branch, head.position, now, msgspec.Raw(state), run, snapshot))
    tx.put_record(row.sid, "checkpoint", name, value)
    return _checkpoint(row.id, name, value)


def _lineage(reader: Reader, row: SessionRow) -> Iterator[tuple[int, str, list[ForkOrigin]]]:
    """The session, its base, the base of that one, and so on; each with the forks between it and here."""
    sid, session, forks = row.sid, row.id, list[ForkOrigin]()
    while True:
        yield sid, session, forks
        origin = reader.get_details(sid).origin
        if origin is None:
            return
        forks.append(origin)
        sid, session = origin.sid, origin.session


def find_checkpoint(reader: Reader, row: SessionRow, name: str) -> Checkpoint | None:
    for sid, session, forks in _lineage(reader, row):
        value = reader.get_record(sid, "checkpoint", name)
        if value is not None:
            return _seen_through(reader, session, name, value, forks)
    return None


def list_checkpoints(reader: Reader, row: SessionRow) -> list[Checkpoint]:
    """By time, then by name."""
    found: dict[str, Checkpoint | None] = {}
    for sid, session, forks in _lineage(reader, row):
        for name, value in reader.scan_records(sid, "checkpoint"):
            if name not in found:
                found[name] = _seen_through(reader, session, name, value, forks)
    return sorted((c for c in found.values() if c), key=lambda c: (c.created_at, c.name))


def _seen_through(
    reader: Reader, session: str, name: str, value: bytes, forks: Sequence[ForkOrigin]
) -> Checkpoint | None:
    """A checkpoint as those see it who forked away: only if it lies before every fork."""
    if value == HIDDEN:
        return None
    checkpoint = _checkpoint(session, name, value)
    return checkpoint if all(_lies_before(reader, checkpoint.head, fork) for fork in forks) else None


def delete_checkpoint(tx: Transaction, access: Access, name: str) -> bool:
    row = admit(tx, access)
    if find_checkpoint(tx, row, name) is None:
        return False
    tx.drop_record(row.sid, "checkpoint", name)
    if find_checkpoint(tx, row, name) is not None:  # the base has one of that name
        tx.put_record(row.sid, "checkpoint", name, HIDDEN)
    return True


def inherit_checkpoints(tx: Transaction, base: SessionRow, fork: SessionRow, origin: ForkOrigin) -> None:
    """Before a base is purged: give its fork a copy of what the fork sees through it."""
    for checkpoint in list_checkpoints(tx, base):
        if tx.get_record(fork.sid, "checkpoint", checkpoint.name) is None and _lies_before(
            tx, checkpoint.head, origin
        ):
            record = Record(
                checkpoint.head.branch,
                checkpoint.head.position,
                microseconds(checkpoint.created_at),
                msgspec.Raw(msgspec.json.encode(checkpoint.state)),
                checkpoint.run,
                checkpoint.snapshot,
            )
            tx.put_record(fork.sid, "checkpoint", checkpoint.name, msgspec.json.encode(record))


def _lies_before(reader: Reader, head: Head, origin: ForkOrigin) -> bool:
    """Whether a point is on the path that a fork shares with its base."""
    if head.position == NOWHERE:
        return True
    branch = reader.find_branch(head.branch)
    if branch is None:
        return False
    return locate(path(origin.branch, origin.position, reader.get_branch), head.position) == branch.branch
