"""The status of another program's session: finished or not, and where the program stands in it."""

from __future__ import annotations

from contextlib import suppress
from itertools import dropwhile
from typing import Final

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.conversation import history
from clew.core.conversation.checkpoints import decode_checkpoint, prompt_hash
from clew.core.conversation.points import head_of, path_of, tip_at
from clew.core.load.entries import State, sign, time_of
from clew.core.log.ids import is_id
from clew.core.log.rows import COMPLETED, EMPTY, NO_TIME, NOWHERE, PENDING, AgentTip, HeadRow, SessionRow
from clew.core.messages.codec import encode_json
from clew.core.messages.dialects import role_of
from clew.core.messages.repair import is_notice
from clew.core.messages.tool_calls import open_calls
from clew.core.redact.incoming import Incoming
from clew.core.redact.markers import count_markers
from clew.core.runs.status import RunRecord, error_text, put_run, run_of, set_status, status_number
from clew.errors import ClewError, CorruptError
from clew.model import STATUSES, Head, Json, Progress
from clew.model.source import SourceRun

_STATUS: Final = "status"
_TAILS: Final = (16, 256)
"""Messages at the end that are looked at, and if these do not tell: an answer whose calls lie further back is
not finished."""
_ANSWERS: Final = frozenset({"assistant", "model"})


def settle_status(
    tx: Transaction,
    row: SessionRow,
    told: SourceRun | None,
    state: State,
    by: str,
    *,
    has_grown: bool,
    redactor: Incoming | None = None,
) -> tuple[SessionRow, State]:
    """Give a session the status that its source tells of, unless it was given another one here. The row is
    stored; the state says what was set."""
    if row.fence:
        return row, state  # a worker of this store has it
    if told is not None:
        wanted = status_number(told.status)
    elif has_grown or _STATUS not in state.settings:
        wanted = COMPLETED if _is_answered(tx, row) else PENDING
    else:
        return row, state
    if told is not None:
        _keep_run(tx, row, told, by, redactor)
    before = state.settings.get(_STATUS, sign(STATUSES[PENDING]))
    if wanted is None or sign(STATUSES[row.status]) != before:
        return row, state
    if wanted != row.status:
        row = set_status(tx, row, wanted, row.updated, by=by)
        tx.set_session(row)
    if state.settings.get(_STATUS) != (now := sign(STATUSES[wanted])):
        state = msgspec.structs.replace(state, settings={**state.settings, _STATUS: now})
    return row, state


def is_with_program(reader: Reader, row: SessionRow, state: State) -> bool:
    """Whether the head of a session is where its program stands, or stood before it was moved here: then it
    goes along with what the program writes."""
    head = head_of(reader, row.head)
    if head == state.head:
        return True
    agent = reader.get_details(row.sid).agent
    return agent is not None and head == Head(agent.uid, agent.position)


def settle_agent(
    tx: Transaction, sid: int, place: Head | None, state: State, turn: str | None, written: int
) -> bool:
    """Note where the program stands, and whether it has something to do. `place` None: where it stood;
    `written`: when it wrote last, or NO_TIME. False: nothing of it is new."""
    details = tx.get_details(sid)
    before = details.agent
    if place is None:
        place = None if before is None else Head(before.uid, before.position)
    if place is None:
        return False
    tip = tip_of(tx, place)
    left = tip.messages
    if state.head != place:  # the session was moved away when the program stood there
        with suppress(CorruptError):  # where it stood is damaged: then nothing counts as new
            left = _shared(tx, tip, tip_of(tx, state.head))
    told = turn if turn is not None else "" if before is None else before.turn
    agent = AgentTip(
        uid=place.branch,
        position=place.position,
        messages=tip.messages,
        left=left,
        time=max(NO_TIME if before is None else before.time, written),
        turn="open" if told == "open" else "ended" if told == "ended" else "",
    )
    if agent == before:
        return False
    tx.set_details(sid, msgspec.structs.replace(details, agent=agent))
    return True


def touch_agent(tx: Transaction, parent: str, written: int) -> None:
    """The program wrote to a subagent: so it is at work in the session that started it, too."""
    row = tx.find_session(parent)
    details = None if row is None else tx.get_details(row.sid)
    if row is None or details is None or details.agent is None or details.agent.time >= written:
        return
    agent = msgspec.structs.replace(details.agent, time=written)
    tx.set_details(row.sid, msgspec.structs.replace(details, agent=agent))


def tip_of(reader: Reader, place: Head) -> HeadRow:
    """The place with its counters. A branch that is not there any more counts as the beginning."""
    found = reader.find_branch(place.branch) if place.branch else None
    return EMPTY if found is None else tip_at(reader, found.branch, place.position)


def _shared(reader: Reader, one: HeadRow, other: HeadRow) -> int:
    """How many messages two paths have in common."""
    common = 0, NOWHERE
    for mine, its in zip(path_of(reader, one), path_of(reader, other), strict=False):
        if mine.branch != its.branch:
            break
        common = mine.branch, min(mine.last, its.last)
        if mine.last != its.last:
            break
    return tip_at(reader, *common).messages


def _is_answered(tx: Transaction, row: SessionRow) -> bool:
    """Whether the conversation ends with an answer or a notice of its program, and no call waits for its
    result. What the program put behind that in the user's name, as the output of a command, asks nothing."""
    segments = path_of(tx, row.head)
    for reach in _TAILS:
        entries = history.read_path(tx, row.sid, segments, 0, row.head.position, reverse=True, limit=reach)
        found = [(entry.message, entry.injected) for entry in entries if entry.kind == "message"]
        said = dropwhile(lambda one: one[1] and role_of(one[0]) == "user", found)
        last, _ = next(said, ({}, False))
        if not is_notice(last) and role_of(last) not in _ANSWERS:
            return False
        messages = [message for message, _ in reversed(found)]
        waiting = open_calls(messages, complete=len(entries) < reach)
        if waiting is not None:
            return not waiting
    return False


def _keep_run(tx: Transaction, row: SessionRow, told: SourceRun, by: str, redactor: Incoming | None) -> None:
    """The work as the newest run, and its checkpoint as one that a run set: `resume()` goes on from there."""
    known = run_of(tx, row.sid)
    if known is not None and known.owner != by:
        return  # a run of this store came after it
    ended = time_of(told.ended_at, -1)
    if ended < 0 and told.status not in ("pending", "running"):
        ended = row.updated
    record = RunRecord(
        by,
        time_of(told.started_at, row.created),
        task=told.task if told.task is not None and is_id(told.task) else None,
        ended=None if ended < 0 else ended,
        request=_raw(told.request),
        response=_raw(told.response),
        error=None if told.error is None else error_text(told.error),
    )
    if known is not None and redactor is not None:
        record = _as_it_was(record, known, redactor)
    value = None if told.checkpoint is None else tx.get_record(row.sid, "checkpoint", told.checkpoint)
    if told.checkpoint is not None and value is not None:
        number = known.checkpoints if known is not None and known.resume == told.checkpoint else 0
        number = number or (known.checkpoints if known else 0) + 1
        record = msgspec.structs.replace(record, checkpoints=number, resume=told.checkpoint)
        progress = Progress(
            epoch=0,
            number=number,
            task=record.task,
            iteration=told.iteration,
            input_tokens=told.input_tokens,
            output_tokens=told.output_tokens,
            model=told.model,
            prompt_hash=prompt_hash(told.system_prompt),
            tools_hash=None,
        )
        kept = decode_checkpoint(value)
        if kept.run != progress:
            changed = msgspec.structs.replace(kept, run=progress)
            tx.put_record(row.sid, "checkpoint", told.checkpoint, msgspec.json.encode(changed))
    if record != known:
        put_run(tx, row.sid, record)


def _as_it_was(record: RunRecord, known: RunRecord, redactor: Incoming) -> RunRecord:
    """With the words that are here already, if they were kept when fewer secrets were known. The key of the
    store is known if there is a marker."""
    same: dict[str, msgspec.Raw | str] = {}
    for name in ("request", "response"):
        now, before = bytes(getattr(record, name)), bytes(getattr(known, name))
        if count_markers(now) and redactor.body(before) == now:
            same[name] = msgspec.Raw(before)
    error = record.error or ""
    if known.error and count_markers(error.encode()) and redactor.text(known.error) == error:
        same["error"] = known.error
    return msgspec.structs.replace(record, **same)


def _raw(value: Json) -> msgspec.Raw:
    try:
        return msgspec.Raw(encode_json(value, strict=False))
    except ClewError:
        return msgspec.Raw(b"null")  # what cannot be kept of it is in the metadata
