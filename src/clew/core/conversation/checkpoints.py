"""Checkpoints: names for points, and what a worker can go on from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from blake3 import blake3

from clew.backends.contract import Reader, Transaction
from clew.core.conversation import history
from clew.core.conversation.points import head_of, path_of, resolve, tip_at
from clew.core.log.ids import check_id
from clew.core.log.labels import is_outside
from clew.core.log.records import Position, Time, decoder, json_in
from clew.core.log.rows import NOWHERE, HeadRow, SessionRow
from clew.core.messages.codec import encode_json
from clew.core.messages.tool_calls import open_calls
from clew.core.runs.access import Access, require_write
from clew.core.runs.status import RunRecord, put_run, run_of
from clew.errors import CheckpointNotFoundError, CorruptError, OpenCallsError
from clew.model import Checkpoint, Head, Json, Progress, Resumption, utc

# ── Names for points. A fork begins with copies of those of its base that lie on its path ─────────


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


def on_path(reader: Reader, tip: HeadRow) -> Callable[[Head], bool]:
    """Tells of many points whether they lie on the path to a place: the path is looked up once."""
    parts = {reader.get_branch(part.branch).uid: part for part in path_of(reader, tip)}

    def lies_there(head: Head) -> bool:
        part = parts.get(head.branch)
        return head.position == NOWHERE or (part is not None and part.first <= head.position <= part.last)

    return lies_there


def _anywhere(_: Head) -> bool:
    """Whatever branch of the tree it lies on: a fork reaches them all."""
    return True


def newest_snapshot(reader: Reader, row: SessionRow) -> str | None:
    """The snapshot of the last checkpoint with files on the path; of several at one place: the newest, but
    those of files outside of the workspace come last."""
    found = [one for one in list_checkpoints(reader, row) if one.snapshot is not None]
    if not found:
        return None
    lies_there = on_path(reader, row.head)
    there = [one for one in found if lies_there(one.head)]
    newest = max(there, key=lambda one: (one.position, not is_outside(one.name), one.snapshot), default=None)
    return None if newest is None else newest.snapshot


def copy_checkpoints(tx: Transaction, base: int, fork: int, tip: HeadRow | None) -> None:
    """Give a fork the checkpoints of its base that lie on the path to where it begins; None: all of them."""
    found = tx.scan_records(base, "checkpoint")
    if not found:
        return
    lies_there = _anywhere if tip is None else on_path(tx, tip)
    for name, value in found:
        try:
            record = decode_checkpoint(value)
        except CorruptError:
            continue  # damaged: that costs this checkpoint, not the fork
        if lies_there(Head(record.uid, record.position)):
            tx.put_record(fork, "checkpoint", name, value)


# ── Checkpoints that a worker can go on from ──────────────────────────────────────────────────────

CHUNK: Final = 16


class Standing(msgspec.Struct, frozen=True):
    """What a worker says of itself at a checkpoint."""

    iteration: int | None
    model: str | None
    prompt_hash: str | None
    tools_hash: str | None


def prompt_hash(system_prompt: Json) -> str | None:
    """Names a system prompt, given as text or as any JSON value."""
    if system_prompt is None:
        return None
    text = system_prompt if isinstance(system_prompt, str) else None
    given = (
        encode_json(system_prompt, what="system_prompt") if text is None else text.encode("utf-8", "replace")
    )
    return blake3(given).hexdigest()


def set_progress(
    tx: Transaction,
    access: Access,
    name: str | None,
    state: bytes,
    standing: Standing,
    now: int,
    *,
    force: bool,
    snapshot: str | None = None,
) -> Checkpoint:
    """Name the head as a point to resume from. One read of the last round, two small writes."""
    row = require_write(tx, access)
    if not force:
        waiting = _open_calls(tx, row)
        if waiting:
            raise OpenCallsError(row.id, waiting)
    run = run_of(tx, row.sid) or RunRecord(access.host.name, now)
    number = run.checkpoints + 1
    if name is None:
        # A fork may have taken one of that name along, and anybody may have given it.
        while tx.get_record(row.sid, "checkpoint", f"run-{access.epoch}-{number}") is not None:
            number += 1
        name = f"run-{access.epoch}-{number}"
    check_id(name, "checkpoint name")
    usage = tx.last_usage(row.sid)
    progress = Progress(
        epoch=access.epoch,
        number=number,
        task=run.task,
        iteration=standing.iteration,
        input_tokens=usage.all_input if usage else 0,
        output_tokens=usage.all_output if usage else 0,
        model=standing.model or tx.get_details(row.sid).model,
        prompt_hash=standing.prompt_hash,
        tools_hash=standing.tools_hash,
    )
    checkpoint = put_checkpoint(tx, row, name, state, now, progress, snapshot)
    put_run(tx, row.sid, msgspec.structs.replace(run, checkpoints=number, resume=name))
    return checkpoint


def resume(
    reader: Reader, row: SessionRow, system_prompt: Json, tools_hash: str | None, model: str | None
) -> Resumption:
    checkpoint = _newest(reader, row)
    if checkpoint is None or checkpoint.run is None:
        raise CheckpointNotFoundError(row.id, None, f"session {row.id!r} has no checkpoint that a run set")
    tip = tip_at(reader, *resolve(reader, row, checkpoint.head))
    there = msgspec.structs.replace(row, head=tip)
    was = checkpoint.run
    given = {
        "system_prompt": (prompt_hash(system_prompt), was.prompt_hash),
        "tools_hash": (tools_hash, was.tools_hash),
        "model": (model, was.model),
    }
    return Resumption(
        checkpoint=checkpoint,
        messages=history.messages(reader, there, None, None, None, newest_first=False),
        ahead=head_of(reader, row.head) != checkpoint.head,
        changed=tuple(name for name, (now, then) in given.items() if now is not None and now != then),
    )


def _newest(reader: Reader, row: SessionRow) -> Checkpoint | None:
    run = run_of(reader, row.sid)
    if run is not None and run.resume is not None:
        found = find_checkpoint(reader, row, run.resume)
        if found is not None and found.run is not None:
            return found
    # It was deleted, or this is a fork: look for the newest that is left.
    of_runs = [(c.created_at, c.run.number, c) for c in list_checkpoints(reader, row) if c.run is not None]
    return max(of_runs, key=lambda item: item[:2])[2] if of_runs else None


def _open_calls(reader: Reader, row: SessionRow) -> list[str]:
    """The tool calls that still wait for their results at the end of the path, oldest first."""
    segments, reach = path_of(reader, row.head), CHUNK
    while True:
        found = history.read_messages(reader, segments, 0, row.head.position, reverse=True, limit=reach)
        waiting = open_calls([message for _, message in reversed(found)], complete=len(found) < reach)
        if waiting is not None:
            return [call.id or call.name or "" for call in waiting]
        reach *= 4
