"""What a caller who may not see all sessions is told of one: in lists and in streams alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from clew.backends.contract import Reader
from clew.core.conversation.kin import Kin
from clew.core.conversation.listing import list_page
from clew.core.conversation.points import find
from clew.core.conversation.sessions import info_of
from clew.core.log.rows import SessionRow
from clew.core.streams.families import Counts, roll_up
from clew.errors import CorruptError
from clew.model import Page, SessionInfo
from clew.model.usage import FamilyUsage
from clew.server.access.principal import Principal
from clew.session import Session
from clew.store import Store


def seen_info(principal: Principal, reader: Reader, info: SessionInfo) -> SessionInfo:
    """A session without the name of a base that is not the caller's to see."""
    if info.forked_from is None or not principal.is_bound:
        return info
    row = find(reader, info.forked_from.session)
    if row is not None and _is_seen(principal, reader, row.sid):
        return info
    return msgspec.structs.replace(info, forked_from=None)


def counted_for(principal: Principal) -> Counts | None:
    """Which subagents count in sums for this caller; None: all."""
    if not principal.is_bound:
        return None
    return lambda reader, sid: _is_seen(principal, reader, sid)


def page_for(store: Store, principal: Principal, **query: Any) -> Page:
    """`store.list`, in which subagents that are not the caller's to see do not count."""
    counts = counted_for(principal)
    if counts is None:
        return store.list(**query)
    with store._engine.read() as reader:
        return list_page(reader, **query, counts=counts)


def forks_of(reader: Reader, principal: Principal, rows: Sequence[SessionRow | None]) -> list[int]:
    """How many forks and copies each of these sessions has, and these have, that the caller may see."""
    kin = Kin(reader)
    families = [() if row is None or row.deleted is not None else kin.below(row) for row in rows]
    if not principal.is_bound:
        return [len(family) for family in families]
    return [sum(_is_seen(principal, reader, one.sid) for one in family) for family in families]


def forks_of_all(store: Store, principal: Principal, infos: Sequence[SessionInfo]) -> list[int]:
    with store._engine.read() as reader:
        rows = [None if info.damaged or info.deleted_at else reader.find_session(info.id) for info in infos]
        return forks_of(reader, principal, rows)


def used_by(session: Session, principal: Principal) -> FamilyUsage:
    """What a session and those of its subagents that the caller may see have used."""
    with session._look() as (reader, row):
        return roll_up(reader, [row], counted_for(principal))[0]


def _is_seen(principal: Principal, reader: Reader, sid: int) -> bool:
    try:
        row = reader.get_session(sid)
        return row is not None and principal.sees(info_of(reader, row, reader.get_details(sid), None))
    except (KeyError, CorruptError):
        return False
