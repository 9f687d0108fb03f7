"""Check the rows and records of a store that came from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

import msgspec

from clew.backends.contract import RecordKind
from clew.core.check.records import LATEST, after
from clew.core.conversation.append import PREVIEW_KEPT, KeyUse
from clew.core.conversation.checkpoints import Record as CheckpointRecord
from clew.core.conversation.history import note_name
from clew.core.conversation.moves import Move
from clew.core.conversation.sessions import MAX_DURATION
from clew.core.load.entries import PREFIX, STATE, Run, StateUse
from clew.core.log.digest import DIGEST_SIZE, LOST, entry_digest
from clew.core.log.ids import MAX_POSITION, check_id
from clew.core.log.lines import decode_lines, lines_name
from clew.core.log.records import MAX_TITLE
from clew.core.log.rows import (
    ALL_FLAGS,
    COMPACTION,
    ERASED,
    KIND_NAMES,
    MESSAGE,
    NEVER,
    NO_TIME,
    NOWHERE,
    REMOVED,
    SUMMARY,
    TRUNCATION,
    TURNS,
    BranchRow,
    Details,
    Draft,
    EntryRow,
    EventRow,
    HeadRow,
    SessionRow,
    UsageRow,
)
from clew.core.log.tree import chain
from clew.core.messages.codec import check_json, prepare
from clew.core.messages.dialects import is_human_turn
from clew.core.runs.status import Change, RunRecord
from clew.core.streams.usage import MOST_TOKENS
from clew.errors import CorruptError, InvalidError
from clew.model import STATUSES, Head

# ── Whether rows from elsewhere hold only what this store would have written itself ───────────────
# The author of a session file, or of a store, is not known. Each check takes what `create`, `append`,
# `add_event` and the others would have taken, and raises their InvalidError for all else.

MOST: Final = 2**53
"""More leases, moves or forks than there can have been."""
MOST_BYTES: Final = 2**62
LARGEST: Final = 2**63 - 1
"""What storage can hold as a number."""
_UID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_LONGEST: Final = MAX_DURATION // timedelta(microseconds=1)
_FROM_BODY: Final = ("turns", "size", "last_user_turn")
"""Counters that are lost with the body of an entry."""


class _Compaction(msgspec.Struct):
    start: int
    messages: list[msgspec.Raw]
    tokens: int | None = None


class _Truncation(msgspec.Struct):
    start: int


class _Summary(msgspec.Struct):
    text: str | None


class _Turns(msgspec.Struct):
    user_turns: int


def check_number(number: Any, lowest: int, highest: int, what: str) -> int:
    if type(number) is not int or not lowest <= number <= highest:
        raise InvalidError(f"{what} is a number from {lowest} to {highest}, not {shown(number)}")
    return number


def check_time(time: Any, what: str = "its time") -> None:
    if type(time) is not int or not 0 <= time <= LATEST:
        raise InvalidError(f"{what} must lie between the years 1970 and 9999, not at {shown(time)}")


def check_text(text: Any, what: str, longest: int | None = None) -> None:
    if text is None:
        return
    if type(text) is not str:
        raise InvalidError(f"{what} must be text, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidError(f"{what} is not valid Unicode (lone surrogate)") from exc
    if longest is not None and len(text) > longest:
        raise InvalidError(f"{what} has {len(text)} characters; at most {longest} are allowed")


def shown(value: object) -> str:
    """A value as an error tells it: short, however large it is."""
    if isinstance(value, int) and not -(2**128) < value < 2**128:
        return "a number far beyond"
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


def check_uid(uid: Any, what: str = "the uid of a branch") -> None:
    """The name of a branch is a part of other names: it has letters, digits and `-` only."""
    if type(uid) is not str or _UID.fullmatch(uid) is None:
        raise InvalidError(f"{what} is at most 64 letters, digits and '-', not {shown(uid)}")


# -- sessions and branches


def check_session(row: SessionRow) -> None:
    check_id(row.id)
    for number, what in ((row.sid, "sid"), (row.tree, "tree")):
        check_number(number, 1, LARGEST, what)
    check_time(row.created, "created")
    check_time(row.updated, "updated")
    if row.deleted is not None:
        check_time(row.deleted, "deleted")
    check_tip(row.head)
    check_text(row.title, "title", MAX_TITLE)
    if row.preview is None:
        raise InvalidError("preview must be text")
    check_text(row.preview, "preview", PREVIEW_KEPT)
    check_text(row.workspace, "workspace")
    check_number(row.status, 0, len(STATUSES) - 1, "status")
    for name in ("moves", "forks", "epoch"):
        check_number(getattr(row, name), 0, MOST, name)
    for name in ("undo", "redo"):
        check_number(getattr(row, name), 0, row.moves, name)
    check_number(row.fence, 0, LARGEST, "fence")
    check_number(row.due, 0, LARGEST, "due")


def check_tip(tip: HeadRow) -> None:
    check_number(tip.branch, 0, LARGEST, "the branch of the head")
    check_number(tip.position, NOWHERE, MAX_POSITION, "the position of the head")
    if (tip.branch == 0) != (tip.position == NOWHERE):
        raise InvalidError("the head is on no branch, or before its beginning")
    check_digest(tip.digest)
    _check_counters(tip, tip.position)


def _check_counters(tip: HeadRow | EntryRow, position: int) -> None:
    check_number(tip.messages, 0, position + 1, "messages")
    check_number(tip.turns, 0, 2 * MAX_POSITION, "turns")
    check_number(tip.size, 0, MOST_BYTES, "size")
    for name in ("view_start", "summary", "last_user_turn"):
        check_number(getattr(tip, name), NOWHERE, position, name)


def check_digest(digest: Any) -> None:
    if type(digest) is not bytes or len(digest) != DIGEST_SIZE:
        raise InvalidError(f"a hash has {DIGEST_SIZE} bytes")


def check_details(details: Details) -> None:
    for name in ("workspace_given", "vendor", "endpoint", "model"):
        check_text(getattr(details, name), name)
    for what, names in (("tag", details.tags), ("alias", details.aliases)):
        for name in names:
            check_id(name, what)
        if len(set(names)) != len(names):
            raise InvalidError(f"one {what} occurs twice")
    if type(check_json(bytes(details.metadata), "metadata")) is not dict:
        raise InvalidError("metadata must be a JSON object")
    if details.expires is not None and details.expires != NEVER:
        check_time(details.expires, "expires")
    if details.idle is not None:
        check_number(details.idle, 1, _LONGEST, "idle")
    if details.agent is not None:
        check_number(details.agent.position, NOWHERE, MAX_POSITION, "the position of its agent")
        if details.agent.time != NO_TIME:
            check_time(details.agent.time, "the time at which its agent wrote")
        if details.agent.uid:
            check_uid(details.agent.uid, "the branch of its agent")
    if details.origin is not None:
        check_id(details.origin.session, "the session that it was forked from")
        check_number(details.origin.sid, 0, LARGEST, "the sid that it was forked from")
        check_number(details.origin.branch, 0, LARGEST, "the branch that it was forked from")
        check_number(details.origin.position, NOWHERE, MAX_POSITION, "the position that it was forked at")
        if details.origin.uid:
            check_uid(details.origin.uid, "the branch that it was forked from")


def check_branch(row: BranchRow) -> None:
    check_uid(row.uid)
    for number, what in ((row.branch, "branch"), (row.tree, "tree")):
        check_number(number, 1, LARGEST, what)
    for number, what in ((row.owner, "owner"), (row.parent, "parent")):
        check_number(number, 0, LARGEST, what)
    check_number(row.fork, NOWHERE, MAX_POSITION - 1, "fork")
    if (row.parent == 0) != (row.fork == NOWHERE):
        raise InvalidError("a branch continues an entry of its parent, or begins at the root")


# -- entries


def check_entry(row: EntryRow) -> Draft:
    """What was appended, as far as an entry tells it by itself."""
    _check_fields(row)
    _check_counters(row, row.position)
    return draft_of(row)


def _check_fields(row: EntryRow) -> None:
    check_number(row.position, 0, MAX_POSITION, "position")
    check_number(row.kind, 0, len(KIND_NAMES) - 1, "the type of an entry")
    check_time(row.time)
    check_number(row.flags, 0, ALL_FLAGS, "flags")
    check_number(row.epoch, 0, MOST, "epoch")
    check_digest(row.digest)


def draft_of(row: EntryRow) -> Draft:
    """What was appended; InvalidError: no body of an entry of its kind is such."""
    kind = row.kind
    if kind == MESSAGE:
        found = prepare(row.body)
        if found.body != row.body:
            raise InvalidError("the message holds a lone surrogate, which is not JSON")
        return Draft(kind, row.body, row.flags, is_human_turn(found.value, row.flags))
    if kind == REMOVED:
        if row.body != ERASED:
            raise InvalidError("its message was removed, and something stands in its place")
        return Draft(MESSAGE, row.body, row.flags)
    if kind == TURNS:
        turns = _body(row, _Turns).user_turns
        return Draft(kind, row.body, row.flags, turns=check_number(turns, 0, MAX_POSITION, "user_turns"))
    if kind == SUMMARY:
        _body(row, _Summary)
        check_json(row.body, "the summary")
    elif kind == TRUNCATION:
        _check_start(_body(row, _Truncation).start, row)
    else:
        assert kind == COMPACTION
        compaction = _body(row, _Compaction)
        _check_start(compaction.start, row)
        if compaction.tokens is not None and compaction.tokens < 0:
            raise InvalidError("the tokens of a compaction are a number from 0 on")
        for message in compaction.messages:
            if prepare(bytes(message)).body != bytes(message):
                raise InvalidError("a message of the compaction holds a lone surrogate, which is not JSON")
    return Draft(kind, row.body, row.flags)


def _body(row: EntryRow, type: Any) -> Any:
    try:
        return msgspec.json.decode(row.body, type=type)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidError(f"malformed body of a {KIND_NAMES[row.kind]}: {error}") from error


def _check_start(start: int, row: EntryRow) -> None:
    check_number(start, 0, row.position, f"the start of a {KIND_NAMES[row.kind]}")


def check_next(row: EntryRow, before: HeadRow) -> HeadRow:
    """The place of an entry that comes behind `before`. Its hash and its counters are made anew."""
    if row.kind == MESSAGE:
        tip = _quick_tip(row, before)
        if tip is not None:
            return tip
    draft = check_entry(row)
    if row.position != before.position + 1:
        raise InvalidError(f"entry {row.position} stands behind entry {before.position}")
    tip = chain(before, before.branch, (draft,), row.time)[1]
    actual = row.tip(before.branch)
    if actual == tip:
        return actual
    if row.kind == REMOVED:
        told = {name: getattr(actual, name) for name in _FROM_BODY}
        tip = msgspec.structs.replace(tip, digest=actual.digest, **told)
    elif before.digest == LOST:
        tip = msgspec.structs.replace(tip, digest=actual.digest)
    if actual.digest != tip.digest:
        raise InvalidError("its hash is not that of its content and of what is before it")
    if actual != tip:
        raise InvalidError("its counters are not those of what is before it")
    return actual


def _quick_tip(row: EntryRow, before: HeadRow) -> HeadRow | None:
    """The same for most messages, without naming what is wrong: None leaves that to the exact check.

    Without it, a copy of files of `benchmarks/imports/files.py` (4 MB each) took 1.03 to 1.09 times as long.
    """
    position, time, flags, body = row.position, row.time, row.flags, row.body
    if position != before.position + 1 or not 0 <= time <= LATEST or not 0 <= row.epoch <= MOST:
        return None
    if row.digest != entry_digest(before.digest, position, MESSAGE, time, flags, body):
        return None
    found = prepare(body)
    if found.body is not body or not 0 <= flags <= ALL_FLAGS:
        return None
    is_turn = is_human_turn(found.value, flags)
    if (
        row.messages == before.messages + 1
        and row.size == before.size + len(body)
        and row.turns == before.turns + is_turn
        and row.last_user_turn == (position if is_turn else before.last_user_turn)
        and row.view_start == before.view_start
        and row.summary == before.summary
    ):
        return row.tip(before.branch)
    return None


# -- events and calls


def check_event(row: EventRow) -> None:
    check_number(row.number, 1, MAX_POSITION, "the number of an event")
    check_time(row.time)
    check_id(row.type, "type")
    if row.stream != "":
        check_id(row.stream, "stream")
    if row.id is not None:
        check_id(row.id, "id")
    check_json(row.data, "data")


def check_call(row: UsageRow) -> None:
    check_number(row.number, 1, MAX_POSITION, "the number of a call")
    check_time(row.time)
    for name in ("id", "source"):
        if getattr(row, name) is not None:
            check_id(getattr(row, name), name)
    for name in ("model", "vendor", "endpoint", "priced_by"):
        check_text(getattr(row, name), name)
    check_number(row.branch, 0, LARGEST, "branch")
    check_number(row.position, NOWHERE, MAX_POSITION, "position")
    for name in ("input", "output", "cache_read", "cache_write", "reasoning"):
        check_number(getattr(row, name), 0, MOST_TOKENS, name)
    if row.cost is not None:
        check_number(row.cost, 0, LARGEST, "cost")
    elif row.priced_by is not None:
        raise InvalidError("it names a price list, and no cost")
    for name in row.__struct_fields__:
        if name.startswith("all_"):
            check_number(getattr(row, name), 0, LARGEST, name)


def check_next_call(row: UsageRow, before: UsageRow | None) -> None:
    """The sums of a call are made anew from those of the one before it."""
    check_call(row)
    if row.number != (before.number if before else 0) + 1:
        raise InvalidError(f"call {row.number} is not the next one")
    sums = {} if before is None else _sums(before)
    if after(sums, row) != _sums(row):
        raise InvalidError("its sums are not those of the calls before it")


def _sums(row: UsageRow) -> dict[str, int]:
    return {
        name.removeprefix("all_"): getattr(row, name)
        for name in row.__struct_fields__
        if name.startswith("all_")
    }


# ── Whether records that came from elsewhere say only what we write into them ─────────────────────
# Each kind of record has its own check. Those of kinds that are of one store only (leases, marks of copies,
# snapshots) have none: they do not come with a session.

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


def _annotation(name: str, value: bytes) -> None:
    check_note(name, value)


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
        check_text(uses[0].state.title, "title", MAX_TITLE)
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


def _line(name: str, value: bytes) -> None:
    try:
        numbers = decode_lines(value).numbers
    except CorruptError as error:
        raise InvalidError(str(error)) from error
    if name != lines_name(numbers[0]) or numbers[-1] > LARGEST:
        raise InvalidError("a record of lines is called by its first line")


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
    "annotation": _annotation,
    "checkpoint": _checkpoint,
    "document": _document,
    "key": _key,
    "line": _line,
    "move": _move,
    "run": _run,
    "status": _status,
    "var": _var,
}
