"""Appending to a session's path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from uuid_utils import uuid7

from clew.backends.contract import Reader, Transaction
from clew.core.conversation.history import entry_of
from clew.core.conversation.points import head_of, path_of
from clew.core.engine.commit import repeatable
from clew.core.engine.notices import RECENT, notice
from clew.core.log.digest import batch_digest
from clew.core.log.ids import check_id, check_time
from clew.core.log.keys import key_name
from clew.core.log.records import Count, Position, decoder
from clew.core.log.rows import MESSAGE, REDACTED, REPLACED, Draft, EntryRow, HeadRow, SessionRow
from clew.core.log.tree import chain, locate
from clew.core.messages.codec import Prepared, decode_json, prepare
from clew.core.messages.dialects import is_user_turn, prompt_of
from clew.core.messages.text import snippet
from clew.core.runs.access import Access, require_write
from clew.errors import HeadMovedError, KeyReusedError, LeaseLostError
from clew.model import Entry, Head, Message

if TYPE_CHECKING:
    from clew.core.redact.incoming import Incoming

TITLE_LENGTH: Final = 60
PREVIEW_LENGTH: Final = 160
PREVIEW_KEPT: Final = 2 * PREVIEW_LENGTH
"""So many characters are stored unchanged; commands and pages shorten them for display."""

MessageLike: TypeAlias = Message | str | bytes | bytearray | memoryview
"""A message: a JSON object, or its JSON text."""


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Validated messages, ready to be appended as one batch."""

    drafts: list[Draft]
    first_said: str
    """The first words of the user in it, for a title; empty if there are none."""
    last_said: str | None
    """The beginning of the last ones, for a preview."""


class KeyUse(msgspec.Struct, frozen=True, array_like=True):
    """What an idempotency key stands for."""

    uid: str
    first: Position
    count: Count
    digest: str


decode_uses: Callable[[bytes], list[KeyUse]] = decoder(list[KeyUse], "the record of a key")


def batch_of(
    messages: Sequence[MessageLike], *, strict: bool = False, redactor: Incoming | None = None
) -> Batch:
    """Check the messages, before any lock is taken: a refused message delays no other writer. `redactor`
    takes secrets out of them."""
    single = len(messages) == 1
    drafts: list[Draft] = []
    first = ""
    last: str | None = None
    for index, message in enumerate(messages):
        item = prepare(message, strict=strict, index=None if single else index)
        if redactor is not None:
            item = without_secrets(item, redactor)
        is_turn = is_user_turn(item.value)
        if is_turn:
            text = prompt_of(item.value)
            first = first or text
            last = text
        drafts.append(Draft(MESSAGE, item.body, flags_of(item), is_turn))
    return Batch(drafts, first, last if last is None else last[:PREVIEW_KEPT])


def without_secrets(item: Prepared, redactor: Incoming) -> Prepared:
    clean = redactor.body(item.body)
    return item if clean is item.body else Prepared(clean, decode_json(clean), item.replaced, True)


def flags_of(item: Prepared) -> int:
    return (REPLACED if item.replaced else 0) | (REDACTED if item.redacted else 0)


def new_branch(tx: Transaction, row: SessionRow, after: HeadRow) -> tuple[int, str]:
    """Open a branch of this session's behind a place."""
    uid = uuid7().hex
    return tx.add_branch(uid, row.tree, row.sid, after.branch, after.position), uid


def place(
    tx: Transaction, row: SessionRow, drafts: Sequence[Draft], now: int, epoch: int
) -> tuple[str, list[EntryRow], HeadRow]:
    """Write entries behind the head, on its branch if that can grow, else on a new one."""
    if row.grows:
        branch, uid = row.head.branch, tx.get_branch(row.head.branch).uid
    else:
        branch, uid = new_branch(tx, row, row.head)
    rows, tip = chain(row.head, branch, drafts, now, epoch)
    tx.add_entries(branch, rows)
    return uid, rows, tip


def append(
    tx: Transaction,
    access: Access,
    batch: Batch,
    now: int,
    *,
    key: str | None,
    expect: Head | None,
    at: int | None = None,
) -> list[Entry]:
    """Write the batch behind the head, all of it or nothing. `at`: the time of its entries; None: now."""
    try:
        row = require_write(tx, access)
    except LeaseLostError as lost:
        lost.messages = tuple(decode_json(draft.body) for draft in batch.drafts)
        raise
    digest = ""
    uses: list[KeyUse] = []
    if key is not None:
        digest = batch_digest([draft.body for draft in batch.drafts]).hex()
        uses = _uses(tx, row.sid, key)
        known = _known(tx, row, key, uses, digest)
        if known is not None:
            return known
    if expect is not None and expect != (actual := head_of(tx, row.head)):
        raise HeadMovedError(expect, actual)
    time = now if at is None else at
    uid, rows, tip = place(tx, row, batch.drafts, time, access.epoch)
    preview = row.preview if batch.last_said is None else batch.last_said
    # What has not happened yet is no activity: the session would never be idle, and always listed first.
    updated = max(row.updated, min(time, now))
    tx.set_head(row.sid, tip, updated, title_after(row, batch), preview)
    if at is not None:
        if row.due:
            tx.set_due(row.sid, 0)  # rules go by times, and here is one that no sweep has seen
        if updated < now - RECENT:
            notice(tx, row.sid, now)  # its activity lies in the past, where watchers do not look
    if key is not None:
        use = KeyUse(uid, rows[0].position, len(rows), digest)
        _keep(tx, row.sid, key, [*uses, use])
    return [entry_of(uid, entry) for entry in rows]


def appending(
    access: Access,
    messages: Sequence[MessageLike],
    now: int,
    key: str | None = None,
    expect: Head | None = None,
    strict: bool = False,
    at: datetime | None = None,
    redactor: Incoming | None = None,
) -> Callable[[Transaction], list[Entry]] | None:
    """The operation that appends these messages, checked here, before any lock is taken; None: there are
    none."""
    time = None if at is None else check_time(at, "at")
    if not messages:
        return None
    batch = batch_of(messages, strict=strict, redactor=redactor)
    if key is not None:
        check_id(key, "key")
    work = partial(append, access=access, batch=batch, now=now, key=key, expect=expect, at=time)
    return work if key is None else repeatable(work)


def title_after(row: SessionRow, batch: Batch) -> str | None:
    """The title of a session after a batch: the first words of its user, unless it has one."""
    return row.title if row.title is not None else snippet(batch.first_said, TITLE_LENGTH) or None


def _known(
    tx: Transaction, row: SessionRow, key: str, uses: Sequence[KeyUse], digest: str
) -> list[Entry] | None:
    """The entries that this key stands for already, if they are on the path.

    After a rewind they may not be: then the key is free, because the turn that it named is done again.
    After an undo they may be again: so every use is kept.
    """
    for use in reversed(uses):
        branch = tx.find_branch(use.uid)
        last = use.first + use.count - 1
        if branch is not None and locate(path_of(tx, row.head), last) == branch.branch:
            if use.digest != digest:
                raise KeyReusedError(row.id, key)
            return [entry_of(use.uid, entry) for entry in tx.read_entries(branch.branch, use.first, last)]
    return None


def _uses(reader: Reader, sid: int, key: str) -> list[KeyUse]:
    value = _record_of(reader, sid, key)
    return [] if value is None else decode_uses(value)


def _record_of(reader: Reader, sid: int, key: str) -> bytes | None:
    former = reader.get_record(sid, "key", key)  # older versions stored the key itself
    value = reader.get_record(sid, "key", key_name(key))
    return former if value is None else value


def _keep(tx: Transaction, sid: int, key: str, uses: list[KeyUse]) -> None:
    tx.put_record(sid, "key", key_name(key), msgspec.json.encode(uses))
    if uses[:-1]:  # an older version may have written those before
        tx.drop_record(sid, "key", key)


def holds_key(reader: Reader, sid: int, key: str) -> bool:
    """Whether something was done in a session by this key."""
    return _record_of(reader, sid, key) is not None


def hold_key(tx: Transaction, sid: int, key: str) -> None:
    """Note that a session was made by this key, though nothing was appended by it yet."""
    if not holds_key(tx, sid, key):
        _keep(tx, sid, key, [])
