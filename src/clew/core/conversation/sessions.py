"""Creating, changing, naming and deleting sessions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.backends.listing import make_cursor, read_cursor, wanted
from clew.core.conversation.append import PREVIEW_KEPT, PREVIEW_LENGTH
from clew.core.conversation.moves import title_at
from clew.core.conversation.points import find, find_deleted, head_of
from clew.core.conversation.settings import Changes, normalised
from clew.core.engine.host import Here
from clew.core.log import checks
from clew.core.log.arguments import check_limit
from clew.core.log.ids import check_id
from clew.core.log.records import is_time
from clew.core.log.rows import EMPTY, NEVER, NOWHERE, RUNNING, Details, Listed, SessionQuery, SessionRow
from clew.core.messages.text import snippet
from clew.core.runs.access import Access, end_lease, refuse_if_held, require_write, require_write_beside
from clew.core.runs.status import run_info, status_number
from clew.core.watch.notices import notice
from clew.errors import (
    AliasExistsError,
    CorruptError,
    CorruptSessionError,
    InvalidQueryError,
    SessionExistsError,
    SessionNotFoundError,
)
from clew.model import STATUSES, ForkPoint, Head, Json, Page, SessionInfo, Stats, utc

DAY: Final = 86_400_000_000
_IN_ROW: Final = ("title", "workspace")


def _given(changes: Changes) -> dict[str, Json]:
    values = {name: getattr(changes, name) for name in changes.__struct_fields__}
    return {name: value for name, value in values.items() if value is not msgspec.UNSET}


def check_free(reader: Reader, id: str) -> None:
    """SessionExistsError: a session, or an alias, has this id."""
    found = find(reader, id)
    if found is not None:
        raise SessionExistsError(id, None if found.id == id else found.id)


def create(tx: Transaction, id: str, changes: Changes, now: int, created: int | None = None) -> SessionRow:
    """`created`: when it began elsewhere; that is its last activity too, unless it lies in the future."""
    check_free(tx, id)
    created = now if created is None else created
    row = SessionRow(0, id, 0, created, min(created, now), None, EMPTY, False, None, False, "", None)
    row, details = _changed(row, Details(), changes)
    sid = tx.add_session(row, details)
    return msgspec.structs.replace(row, sid=sid, tree=sid)


def open_or_create(
    tx: Transaction, id: str, changes: Changes, now: int, created: int | None = None
) -> SessionRow:
    return find(tx, id) or create(tx, id, changes, now, created)


def update(tx: Transaction, access: Access, changes: Changes) -> None:
    row = require_write_beside(tx, access)
    details = tx.get_details(row.sid)
    new_row, new_details = _changed(row, details, changes)
    if changes.title is None:
        new_row = msgspec.structs.replace(new_row, title=title_at(tx, row.head))
    if (new_details.expires, new_details.idle, new_details.tags) != (
        details.expires, details.idle, details.tags
    ):  # fmt: skip
        new_row = msgspec.structs.replace(new_row, due=0)
    if new_row != row:
        tx.set_session(new_row)
    if new_details != details:
        tx.set_details(row.sid, new_details)


def _changed(row: SessionRow, details: Details, changes: Changes) -> tuple[SessionRow, Details]:
    given = _given(changes)
    in_row: dict[str, Json] = {name: given.pop(name) for name in _IN_ROW if name in given}
    if "title" in in_row:
        in_row["titled"] = in_row["title"] is not None
    return msgspec.structs.replace(row, **in_row), msgspec.structs.replace(details, **given)


def touch(tx: Transaction, access: Access, now: int) -> None:
    row = require_write_beside(tx, access)
    if now > row.updated:
        tx.set_session(msgspec.structs.replace(row, updated=now))


def add_alias(tx: Transaction, access: Access, alias: str, *, move: bool) -> None:
    sid = require_write_beside(tx, access).sid
    holder = find(tx, alias)
    if holder is not None and holder.sid == sid:
        return
    if holder is not None:
        if not move or holder.id == alias:
            raise AliasExistsError(alias, holder.id)
        _forget_alias(tx, holder.sid, alias)
    tx.put_record(STORE_WIDE, "alias", alias, str(sid).encode())
    details = tx.get_details(sid)
    tx.set_details(sid, msgspec.structs.replace(details, aliases=(*details.aliases, alias)))


def remove_alias(tx: Transaction, access: Access, alias: str) -> bool:
    sid = require_write_beside(tx, access).sid
    if tx.get_record(STORE_WIDE, "alias", alias) != str(sid).encode():
        return False
    tx.drop_record(STORE_WIDE, "alias", alias)
    _forget_alias(tx, sid, alias)
    return True


def _forget_alias(tx: Transaction, sid: int, alias: str) -> None:
    details = tx.get_details(sid)
    kept = tuple(name for name in details.aliases if name != alias)
    tx.set_details(sid, msgspec.structs.replace(details, aliases=kept))


def delete(tx: Transaction, id: str, now: int, here: Here, *, force: bool) -> bool:
    """Put the session in the trash. Its forks are not touched, nor is any entry."""
    row = find(tx, id)
    if row is None:
        return False
    if not force:
        refuse_if_held(tx, row, here)
    trash(tx, row, now, here)
    return True


def trash(tx: Transaction, row: SessionRow, now: int, here: Here) -> None:
    if row.fence:
        row = end_lease(tx, row, here)
    tx.set_session(msgspec.structs.replace(row, deleted=max(now, row.updated), due=0))


def delete_all(tx: Transaction, now: int, here: Here, *, force: bool) -> int:
    """Put every session in the trash; how many."""
    if not force:
        refuse_if_any_held(tx, here)
    count = 0
    while found := tx.list_sessions(SessionQuery(limit=1000)):
        for one in found:
            trash(tx, one.row, now, here)
        count += len(found)
    return count


def refuse_if_any_held(reader: Reader, here: Here) -> None:
    for one in reader.list_sessions(SessionQuery(limit=2**31, status=RUNNING)):
        refuse_if_held(reader, one.row, here)


def restore(tx: Transaction, id: str, now: int) -> SessionRow:
    row = find_deleted(tx, id)
    if row is None:
        raise SessionNotFoundError(id)
    check_free(tx, row.id)
    restored = msgspec.structs.replace(row, deleted=None, due=0)
    tx.set_session(restored)
    notice(tx, row.sid, now)
    for alias in tx.get_details(row.sid).aliases:
        # What was an alias of this session may lead elsewhere by now: it stays there.
        if tx.get_record(STORE_WIDE, "alias", alias) != str(row.sid).encode():
            _forget_alias(tx, row.sid, alias)
        elif tx.find_session(alias) is not None:
            tx.drop_record(STORE_WIDE, "alias", alias)
            _forget_alias(tx, row.sid, alias)
    return restored


def set_var(tx: Transaction, access: Access, name: str, value: bytes) -> None:
    sid = require_write(tx, access).sid
    tx.put_record(sid, "var", name, value)


def delete_var(tx: Transaction, access: Access, name: str) -> bool:
    sid = require_write(tx, access).sid
    return tx.drop_record(sid, "var", name)


def listed_info(reader: Reader, one: Listed) -> SessionInfo:
    """The session as it is listed; one that can not be read says what is wrong with it."""
    damage = one.damage
    if not damage:
        try:
            return info_of(reader, one.row, one.details, one.run)
        except CorruptSessionError as error:
            damage = error.reason
        except CorruptError as error:
            damage = str(error)
    row = one.row
    return SessionInfo(
        id=row.id,
        title=row.title,
        title_is_auto=row.title is not None and not row.titled,
        preview=snippet(row.preview[:PREVIEW_KEPT], PREVIEW_LENGTH),
        workspace=row.workspace,
        workspace_given=None,
        tags=(),
        vendor=None,
        endpoint=None,
        model=None,
        metadata={},
        aliases=(),
        created_at=_shown_time(row.created),
        updated_at=_shown_time(row.updated),
        deleted_at=None if row.deleted is None else _shown_time(row.deleted),
        messages=row.head.messages,
        user_turns=row.head.turns,
        entries=row.head.position + 1,
        bytes=row.head.size,
        head=Head("", NOWHERE),
        hash=row.head.digest.hex(),
        forked_from=None,
        status=STATUSES[row.status],
        run=None,
        epoch=row.epoch,
        damaged=damage,
    )


def _shown_time(moment: int) -> datetime:
    return utc(moment if is_time(moment) else 0)


def info_of(reader: Reader, row: SessionRow, details: Details, run: bytes | None) -> SessionInfo:
    origin = details.origin
    bounded = details.expires is not None and details.expires != NEVER
    return SessionInfo(
        id=row.id,
        title=row.title,
        title_is_auto=row.title is not None and not row.titled,
        preview=snippet(row.preview, PREVIEW_LENGTH),
        workspace=row.workspace,
        workspace_given=details.workspace_given,
        tags=details.tags,
        vendor=details.vendor,
        endpoint=details.endpoint,
        model=details.model,
        metadata=checks.metadata(row.id, details),
        aliases=details.aliases,
        created_at=utc(row.created),
        updated_at=utc(row.updated),
        deleted_at=None if row.deleted is None else utc(row.deleted),
        messages=row.head.messages,
        user_turns=row.head.turns,
        entries=row.head.position + 1,
        bytes=row.head.size,
        head=head_of(reader, row.head),
        hash=row.head.digest.hex(),
        forked_from=ForkPoint(origin.session, Head(origin.uid, origin.position)) if origin else None,
        status=STATUSES[row.status],
        run=run_info(run),
        epoch=row.epoch,
        expires_at=utc(details.expires) if bounded and details.expires is not None else None,
        never_expires=details.expires == NEVER,
        idle_timeout=None if details.idle is None else timedelta(microseconds=details.idle),
    )


def list_page(
    reader: Reader,
    *,
    status: str | None,
    workspace: str | os.PathLike[str] | None,
    tag: str | Sequence[str] | None,
    where: Mapping[str, Json] | None,
    limit: int,
    cursor: str | None,
    deleted: bool,
) -> Page:
    """One page of sessions, newest activity first."""
    limit = check_limit(limit)
    number = None if status is None else status_number(status)
    if status is not None and number is None:
        raise InvalidQueryError(f"status is one of {', '.join(STATUSES)}; not {status!r}")
    tags = () if tag is None else (tag,) if isinstance(tag, str) else tag
    query = SessionQuery(
        limit=limit + 1,
        workspace=None if workspace is None else normalised(workspace),
        tags=tuple(check_id(name, "tag") for name in tags),
        where=wanted(where or {}),
        after=None if cursor is None else read_cursor(cursor),
        deleted=deleted,
        status=number,
        damaged=True,
    )
    found = reader.list_sessions(query)
    infos = tuple(listed_info(reader, one) for one in found[:limit])
    if len(found) <= limit:
        return Page(infos, None)
    last = found[limit - 1]
    moment = last.row.updated if last.row.deleted is None else last.row.deleted
    return Page(infos, make_cursor(*(last.behind or (moment, last.row.id))))


def latest(reader: Reader, workspace: str | os.PathLike[str] | None) -> SessionRow | None:
    """The session with the newest activity that has messages."""
    place = None if workspace is None else normalised(workspace)
    found = reader.list_sessions(SessionQuery(limit=1, workspace=place, nonempty=True))
    return found[0].row if found else None


def stats(reader: Reader, now: int, bytes_on_disk: int) -> Stats:
    """Totals of a store."""
    totals = reader.totals(now - DAY)
    usage = reader.sum_usage(None, None)
    return Stats(
        sessions=totals.sessions,
        deleted=totals.deleted,
        messages=totals.messages,
        entries=totals.entries,
        bytes=totals.size,
        bytes_on_disk=bytes_on_disk,
        by_status={name: totals.by_status.get(number, 0) for number, name in enumerate(STATUSES)},
        active_24h={name: totals.active.get(number, 0) for number, name in enumerate(STATUSES)},
        created_24h=totals.created,
        calls=sum(group.calls for group in usage),
        input_tokens=sum(group.input for group in usage),
        output_tokens=sum(group.output for group in usage),
    )
