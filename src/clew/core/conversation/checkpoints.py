"""Names for points. A fork begins with copies of those of its base that lie on its path."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.conversation.points import head_of, path_of
from clew.core.log.records import Position, Time, decoder, json_in
from clew.core.log.rows import NOWHERE, SessionRow, Tip
from clew.core.runs.access import Access, require_write
from clew.errors import CorruptError
from clew.model import Checkpoint, Head, Progress, utc


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """A checkpoint as it is kept."""

    uid: str
    position: Position
    time: Time
    state: msgspec.Raw = msgspec.Raw(b"null")
    run: Progress | None = None
    snapshot: str | None = None


decode_checkpoint = decoder(Record, "the record of a checkpoint")


def _checkpoint(session: str, name: str, value: bytes) -> Checkpoint:
    record = decode_checkpoint(value)
    return Checkpoint(
        name,
        session,
        Head(record.uid, record.position),
        utc(record.time),
        json_in(record.state, f"the state of checkpoint {name!r}"),
        record.run,
        record.snapshot,
    )


def set_checkpoint(
    tx: Transaction, access: Access, name: str, state: bytes, now: int, snapshot: str | None = None
) -> Checkpoint:
    """Name the head; again: move the name."""
    return put_checkpoint(tx, require_write(tx, access), name, state, now, snapshot=snapshot)


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


def find_checkpoint(reader: Reader, row: SessionRow, name: str) -> Checkpoint | None:
    value = reader.get_record(row.sid, "checkpoint", name)
    return None if value is None else _checkpoint(row.id, name, value)


def list_checkpoints(reader: Reader, row: SessionRow) -> list[Checkpoint]:
    """By time, then by name."""
    found = [_checkpoint(row.id, name, value) for name, value in reader.scan_records(row.sid, "checkpoint")]
    return sorted(found, key=lambda c: (c.created_at, c.name))


def delete_checkpoint(tx: Transaction, access: Access, name: str) -> bool:
    return tx.drop_record(require_write(tx, access).sid, "checkpoint", name)


def on_path(reader: Reader, tip: Tip) -> Callable[[Head], bool]:
    """Tells of many points whether they lie on the path to a place: the path is looked up once."""
    parts = {reader.get_branch(part.branch).uid: part for part in path_of(reader, tip)}

    def lies_there(head: Head) -> bool:
        part = parts.get(head.branch)
        return head.position == NOWHERE or (part is not None and part.first <= head.position <= part.last)

    return lies_there


def copy_checkpoints(tx: Transaction, base: int, fork: int, tip: Tip) -> None:
    """Give a fork the checkpoints of its base that lie on the path to where it begins."""
    found = tx.scan_records(base, "checkpoint")
    if not found:
        return
    lies_there = on_path(tx, tip)
    for name, value in found:
        try:
            record = decode_checkpoint(value)
        except CorruptError:
            continue  # damaged: that costs this checkpoint, not the fork
        if lies_there(Head(record.uid, record.position)):
            tx.put_record(fork, "checkpoint", name, value)
