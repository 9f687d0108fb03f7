"""Whether records that came from elsewhere say only what we write into them.

Each kind of record has its own check. Those of kinds that are of one store only (leases, marks of copies,
snapshots) have none: they do not come with a session.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from clew.backends.contract import RecordKind
from clew.core.conversation.append import KeyUse
from clew.core.conversation.checkpoints import Record as CheckpointRecord
from clew.core.conversation.history import note_name
from clew.core.conversation.moves import Move
from clew.core.load.memory import PREFIX, STATE, Run, StateUse
from clew.core.log.ids import MAX_POSITION, check_id
from clew.core.log.rows import NOWHERE
from clew.core.messages.codec import check_json
from clew.core.runs.status import Change, RunRecord
from clew.core.transfer.untrusted.rows import LARGEST, MOST, check_number, check_text, check_time, check_uid
from clew.errors import InvalidError
from clew.model import STATUSES, Head

LONGEST_ID: Final = 64
"""Of a snapshot."""
_NUMBER: Final = re.compile(r"[0-9]{12}", re.ASCII)
_FURTHEST: Final = 10**11
T = TypeVar("T")


def check_record(kind: str, name: str, value: bytes) -> None:
    """InvalidError: a session has no such record."""
    check = _CHECKS.get(kind)
    if check is None:
        raise InvalidError(f"a session has no record of kind {kind!r}")
    check(name, value)


def check_note(name: str, value: bytes) -> str | None:
    """An annotation of an entry; its label, if it has one."""
    uid, _, digits = name.rpartition(".")
    check_uid(uid, "the branch of an annotation")
    if not digits.isascii() or not digits.isdigit() or len(digits) != 10 or int(digits) > MAX_POSITION:
        raise InvalidError(f"{name!r} is no name of an annotation")
    assert note_name(uid, int(digits)) == name
    fields = check_json(value, "annotation")
    if type(fields) is not dict:
        raise InvalidError("an annotation must be a JSON object")
    return check_id(fields["label"], "label") if "label" in fields else None


def check_label(value: bytes) -> None:
    for name in decoded(value, list[str]):
        check_id(name, "the place of a label")


def decoded(value: bytes, type: type[T]) -> T:
    try:
        return msgspec.json.decode(value, type=type)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidError(f"it cannot be read: {error}") from error


def check_head(head: Head, what: str) -> None:
    check_number(head.position, NOWHERE, MAX_POSITION, f"the position of {what}")
    if (head.branch == "") != (head.position == NOWHERE):
        raise InvalidError(f"{what} is on no branch, or before its beginning")
    if head.branch:
        check_uid(head.branch, f"the branch of {what}")


def number_of(name: str) -> int:
    """The number that a record has for its name."""
    if _NUMBER.fullmatch(name) is None or not 0 < int(name) < _FURTHEST:
        raise InvalidError(f"{name[:40]!r} is no number of a record")
    return int(name)


def _var(name: str, value: bytes) -> None:
    check_id(name, "variable name")
    check_json(value, "the variable")


def _document(name: str, value: bytes) -> None:
    check_id(name, "document name")  # its bytes are its owner's


def _checkpoint(name: str, value: bytes) -> None:
    check_id(name, "checkpoint name")
    record = decoded(value, CheckpointRecord)
    check_head(Head(record.uid, record.position), "a checkpoint")
    check_time(record.time)
    check_json(bytes(record.state), "state")
    check_text(record.snapshot, "the snapshot", LONGEST_ID)
    run = record.run
    if run is not None:
        for field in ("epoch", "number", "input_tokens", "output_tokens"):
            check_number(getattr(run, field), 0, LARGEST, field)
        if run.iteration is not None:
            check_number(run.iteration, -LARGEST, LARGEST, "iteration")
        for field in ("task", "model", "prompt_hash"):
            check_text(getattr(run, field), field)


def _move(name: str, value: bytes) -> None:
    number = number_of(name)
    move = decoded(value, Move)
    check_time(move.time)
    check_head(move.came_from, "a move")
    check_head(move.went_to, "a move")
    # Each leads to an older one, so that undo comes to an end.
    check_number(move.link, 0, number - 1, "the link of a move")
    if move.files is not None:
        check_text(move.files.safety, "the snapshot", LONGEST_ID)
        check_text(move.files.target, "the snapshot", LONGEST_ID)


def _key(name: str, value: bytes) -> None:
    check_id(name, "key")
    uses: list[Any]
    if name == STATE:
        uses = decoded(value, list[StateUse])
        if len(uses) != 1:
            raise InvalidError("what is known of a load is one thing")
        check_head(uses[0].state.head, "a load")
        return
    is_load = name.startswith(PREFIX)
    uses = decoded(value, list[Run]) if is_load else decoded(value, list[KeyUse])
    for use in uses:
        check_uid(use.uid)
        check_number(use.first, 0, MAX_POSITION, "the position of a key")
        check_number(use.count, 1, MAX_POSITION + 1 - use.first, "the entries of a key")
        check_text(use.digest, "the hash of a key", 64)
        if is_load:
            if len(use.names) != use.count:
                raise InvalidError("a load names as many entries as it has")
            for one in use.names:
                check_id(one, "the name of an entry")


def _run(name: str, value: bytes) -> None:
    if name != "":
        raise InvalidError("a session has one record of its run")
    run = decoded(value, RunRecord)
    check_text(run.owner, "owner")
    check_time(run.started, "started")
    if run.ended is not None:
        check_time(run.ended, "ended")
    for field in ("epoch", "checkpoints"):
        check_number(getattr(run, field), 0, MOST, field)
    for field in ("task", "error", "resume"):
        check_text(getattr(run, field), field)
    check_json(bytes(run.request), "request")
    check_json(bytes(run.response), "response")


def _status(name: str, value: bytes) -> None:
    number_of(name)
    change = decoded(value, Change)
    for status in (change.was, change.status):
        check_number(status, 0, len(STATUSES) - 1, "status")
    check_time(change.time)
    check_text(change.by, "by")
    check_number(change.epoch, 0, MOST, "epoch")


_CHECKS: Final[dict[RecordKind | str, Callable[[str, bytes], None]]] = {
    "checkpoint": _checkpoint,
    "document": _document,
    "key": _key,
    "move": _move,
    "run": _run,
    "status": _status,
    "var": _var,
}
