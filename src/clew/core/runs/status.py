"""The status of a session: which step may follow which, and the record of each change."""

from __future__ import annotations

from typing import Final

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.engine.notices import notice
from clew.core.log.ids import check_id
from clew.core.log.records import Count, StatusNumber, Time, decoder, json_in, number_in
from clew.core.log.rows import CLOSED, COMPLETED, EXPIRED, FAILED, INTERRUPTED, PENDING, RUNNING, SessionRow
from clew.core.runs.access import Access, require_write
from clew.errors import InvalidError, InvalidTransitionError
from clew.model import STATUSES, RunInfo, StatusChange, utc

# ── Which status may follow which ─────────────────────────────────────────────────────────────────

_FROM_REST: Final = frozenset({RUNNING, COMPLETED, FAILED, EXPIRED, CLOSED})
LEGAL: Final[dict[int, frozenset[int]]] = {
    PENDING: _FROM_REST,
    RUNNING: frozenset({COMPLETED, FAILED, INTERRUPTED, CLOSED}),
    COMPLETED: _FROM_REST - {COMPLETED},
    FAILED: _FROM_REST - {FAILED},
    INTERRUPTED: _FROM_REST,
    EXPIRED: _FROM_REST - {EXPIRED} | {PENDING},
    CLOSED: frozenset({PENDING}),
}


def status_after(session: str, was: int, wanted: int) -> int:
    """The status after a step that asks for `wanted`: the same, if there is nothing to change.

    Who opens an open session finds it open. A run that ends after the session was closed leaves it closed.
    """
    if wanted == was or (wanted == PENDING and wanted not in LEGAL[was]):
        return was
    if was == CLOSED and wanted in (COMPLETED, FAILED):
        return was
    if wanted not in LEGAL[was]:
        raise InvalidTransitionError(session, STATUSES[was], STATUSES[wanted])
    return wanted


def status_number(status: str) -> int | None:
    """The number of a status; None: no status has that name."""
    return STATUSES.index(status) if status in STATUSES else None


# ── The status of a session: each change of it is kept with who and when ──────────────────────────
# A step that finds the status that it asks for changes none.

NULL = msgspec.Raw(b"null")


class Change(msgspec.Struct, frozen=True, array_like=True):
    """A change of status, as it is kept."""

    was: StatusNumber
    status: StatusNumber
    time: Time
    by: str
    epoch: Count


class RunRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The latest run of a session, as it is kept."""

    owner: str
    started: Time
    epoch: Count = 0
    task: str | None = None
    ended: Time | None = None
    request: msgspec.Raw = NULL
    response: msgspec.Raw = NULL
    error: str | None = None
    checkpoints: Count = 0
    """How many checkpoints the runs of this session have set."""
    resume: str | None = None
    """The name of the newest of them."""


decode_change = decoder(Change, "the record of a change of status")
decode_run = decoder(RunRecord, "the record of a run")
_encode = msgspec.json.Encoder().encode


def change(tx: Transaction, row: SessionRow, status: int, now: int, *, by: str, epoch: int = 0) -> SessionRow:
    """Note a change of status, if it is one; the row that goes with it, for the caller to store."""
    status = status_after(row.id, row.status, status)
    return row if status == row.status else set_status(tx, row, status, now, by=by, epoch=epoch)


def set_status(
    tx: Transaction, row: SessionRow, status: int, now: int, *, by: str, epoch: int = 0
) -> SessionRow:
    """Note a change of status, whichever it is: of a session whose steps were made in another program."""
    newest = tx.scan_records(row.sid, "status", reverse=True, limit=1)
    number = number_in(newest[0][0], "the name of a change of status") + 1 if newest else 1
    record = Change(row.status, status, now, by, epoch)
    tx.put_record(row.sid, "status", f"{number:012d}", _encode(record))
    return msgspec.structs.replace(row, status=status, due=0)


def changes(reader: Reader, row: SessionRow) -> list[StatusChange]:
    found = (decode_change(value) for _, value in reader.scan_records(row.sid, "status"))
    return [
        StatusChange(
            was=STATUSES[one.was], status=STATUSES[one.status], at=utc(one.time), by=one.by, epoch=one.epoch
        )
        for one in found
    ]


def run_of(reader: Reader, sid: int) -> RunRecord | None:
    value = reader.get_record(sid, "run", "")
    return None if value is None else decode_run(value)


def put_run(tx: Transaction, sid: int, record: RunRecord) -> None:
    tx.put_record(sid, "run", "", _encode(record))


def run_info(value: bytes | None) -> RunInfo | None:
    if value is None:
        return None
    record = decode_run(value)
    return RunInfo(
        owner=record.owner,
        task=record.task,
        epoch=record.epoch,
        started_at=utc(record.started),
        ended_at=None if record.ended is None else utc(record.ended),
        request=json_in(record.request, "the request of a run"),
        response=json_in(record.response, "the response of a run"),
        error=record.error,
    )


def active(row: SessionRow, now: int) -> SessionRow:
    """A row whose session was active now."""
    return msgspec.structs.replace(row, updated=max(row.updated, now))


def begin(
    tx: Transaction, row: SessionRow, now: int, *, owner: str, epoch: int, request: bytes, task: str | None
) -> SessionRow:
    """Let a run start: what belongs to the one before it is cleared."""
    row = active(change(tx, row, RUNNING, now, by=owner, epoch=epoch), now)
    record = RunRecord(owner, now, epoch, task, None, msgspec.Raw(request))
    put_run(tx, row.sid, _after(run_of(tx, row.sid), record))
    return row


def _after(before: RunRecord | None, record: RunRecord) -> RunRecord:
    """The record of a run that follows another one: checkpoints are counted on."""
    if before is None:
        return record
    return msgspec.structs.replace(record, checkpoints=before.checkpoints, resume=before.resume)


def finish(
    tx: Transaction,
    access: Access,
    status: int,
    now: int,
    *,
    by: str,
    response: bytes = b"null",
    error: str | None = None,
) -> None:
    """End a run, and the lease under which it ran. Where none was started it is one that is over at once."""
    row = require_write(tx, access)
    record = run_of(tx, row.sid)
    if row.status == status == COMPLETED and record is not None and response == bytes(NULL):
        return  # it has ended well already, and this says nothing new
    if record is None or row.status == PENDING:
        record = _after(record, RunRecord(by, now, access.epoch))
    record = msgspec.structs.replace(record, ended=now, response=msgspec.Raw(response), error=error)
    put_run(tx, row.sid, record)
    ended = active(change(tx, row, status, now, by=by, epoch=access.epoch), now)
    tx.set_session(_without_lease(tx, ended))


def _without_lease(tx: Transaction, row: SessionRow) -> SessionRow:
    if not row.fence:
        return row
    tx.drop_record(row.sid, "lease", "")
    return msgspec.structs.replace(row, fence=0)


def start(tx: Transaction, access: Access, request: bytes, task: str | None, now: int) -> None:
    """A run without a lease."""
    row = require_write(tx, access)
    started = begin(tx, row, now, owner=access.host.name, epoch=access.epoch, request=request, task=task)
    tx.set_session(started)


def complete(tx: Transaction, access: Access, response: bytes, now: int, by: str) -> None:
    finish(tx, access, COMPLETED, now, by=by, response=response)


def fail(tx: Transaction, access: Access, error: str, now: int, by: str) -> None:
    finish(tx, access, FAILED, now, by=by, error=error)


def close(tx: Transaction, access: Access, now: int, by: str) -> None:
    """A run that is under way ends with it, without an outcome."""
    row = require_write(tx, access)
    if row.status == CLOSED:
        return
    record = run_of(tx, row.sid)
    if row.status == RUNNING and record is not None:
        put_run(tx, row.sid, msgspec.structs.replace(record, ended=now))
    closed = change(tx, row, CLOSED, now, by=by, epoch=access.epoch)
    tx.set_session(_without_lease(tx, closed))
    notice(tx, row.sid, now)


def reopen(tx: Transaction, access: Access, now: int) -> None:
    row = require_write(tx, access)
    opened = change(tx, row, PENDING, now, by=access.host.name)
    if opened is not row:
        tx.set_session(active(opened, now))


def check_task(task: str | None) -> None:
    if task is not None:
        check_id(task, "task")


def error_text(error: str | BaseException) -> str:
    """An error as it is kept with a run; lone surrogates in it are replaced."""
    if isinstance(error, BaseException):
        error = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if not isinstance(error, str):
        raise InvalidError(f"an error is a text or an exception, not {type(error).__name__}")
    return error.encode("utf-8", "replace").decode()
