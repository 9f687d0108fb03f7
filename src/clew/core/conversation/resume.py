"""Checkpoints that a worker can go on from."""

from __future__ import annotations

from typing import Final

import msgspec
from blake3 import blake3

from clew.backends.contract import Reader, Transaction
from clew.core.conversation import history
from clew.core.conversation.checkpoints import find_checkpoint, list_checkpoints, put_checkpoint
from clew.core.conversation.points import head_of, path_of, resolve, tip_at
from clew.core.log.ids import check_id
from clew.core.log.rows import SessionRow
from clew.core.messages.codec import encode_json
from clew.core.messages.tool_calls import open_calls
from clew.core.runs.access import Access, require_write
from clew.core.runs.status import RunRecord, put_run, run_of
from clew.errors import CheckpointNotFoundError, OpenCallsError
from clew.model import Checkpoint, Json, Progress, Resumption

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
    run = run_of(tx, row.sid) or RunRecord(access.here.name, now)
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
