"""What a caller who may not see all sessions is told of one: in lists and in streams alike."""

from __future__ import annotations

import msgspec

from clew.backends.contract import Reader
from clew.core.conversation.points import find
from clew.core.conversation.sessions import info_of
from clew.core.streams.families import Counts
from clew.errors import CorruptError
from clew.model import SessionInfo
from clew.server.access.principal import Principal


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


def _is_seen(principal: Principal, reader: Reader, sid: int) -> bool:
    try:
        row = reader.get_session(sid)
        return row is not None and principal.sees(info_of(reader, row, reader.get_details(sid), None))
    except (KeyError, CorruptError):
        return False
