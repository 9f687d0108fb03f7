"""Which calls a caller may make, and what it does not get to see.

The rows door is for callers that may see the whole store. `read` may read; `write` may do all that the
ordinary methods of a session do; what removes content for good, or sets what removes it, needs `admin`; the
contents of files need `files`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from clew.backends.contract import STORE_WIDE
from clew.backends.http.calls.base import Call, Write
from clew.backends.http.calls.beside import DropRecord, GetRecord, PutRecord, ScanRecords
from clew.backends.http.calls.log import AdoptBranch, DisownBranch, DropBranch, DropEntries, EraseEntries
from clew.backends.http.calls.objects import (
    AddPack,
    AddTexts,
    DropObjects,
    DropPack,
    FindObjects,
    GetPack,
    ListPacks,
    ScanObjects,
    SetSearched,
)
from clew.backends.http.calls.sessions import (
    DropSession,
    DueSessions,
    FindSession,
    GetSession,
    ListSessions,
    SetDue,
    TreeSessions,
)
from clew.backends.http.wire import blob, unblob
from clew.core.log.lease import decode_lease, encode_lease
from clew.core.log.rows import SessionRow
from clew.errors import CorruptError
from clew.server.access import audit
from clew.server.access.principal import Principal
from clew.server.problems import Problem
from clew.server.routing import Scope

REMOVING: Final = (
    DropSession, DropBranch, AdoptBranch, DisownBranch, DropEntries, EraseEntries, DropObjects, DropPack,
    AddTexts, SetSearched,
)  # fmt: skip
"""Calls that remove content. Whoever writes the index can hide messages from it; the server writes it."""
FILES: Final = (FindObjects, ScanObjects, GetPack, ListPacks, AddPack, DropObjects, DropPack)
SECRET: Final = frozenset({"token", "share"})
"""Kinds of records that only an administrator sees: for others there are none."""
RULES: Final = frozenset({"redaction", "removal", "retention", "unscrubbed"}) | SECRET
"""Kinds of records that say what is removed, or that it was."""
KEPT: Final = frozenset({"key", "move", "run", "snapshot", "status"}) | RULES
"""Kinds of records that no ordinary method of a session drops."""


def permit(principal: Principal, call: Call[Any]) -> None:
    """Problem: this caller may not make this call."""
    name = str(type(call).__struct_config__.tag)
    if isinstance(call, Write):
        need(principal, "write", name)
    if isinstance(call, FILES):
        need(principal, "files", name)
    if isinstance(call, REMOVING) or (isinstance(call, SetDue) and call.sid is None):
        need(principal, "admin", name)
    if isinstance(call, PutRecord) and call.kind in RULES and not _is_new_key(call):
        need(principal, "admin", f"{name} of kind {call.kind}")
    if isinstance(call, DropRecord) and call.kind in KEPT:
        need(principal, "admin", f"{name} of kind {call.kind}")
    if isinstance(call, DropSession):
        audit.note("removes a session", by=principal.name, number=str(call.sid))
    elif isinstance(call, PutRecord | DropRecord) and call.kind in SECRET:
        done = "makes" if isinstance(call, PutRecord) else "removes"
        audit.note(f"{done} a {call.kind}", by=principal.name, id=call.name)


def _is_new_key(call: PutRecord) -> bool:
    """The key of redaction is made by the first who needs it; `Soundness` sees that there is none yet."""
    return (call.sid, call.kind, call.name) == (STORE_WIDE, "redaction", "key")


def need(principal: Principal, scope: Scope, what: str) -> None:
    if not principal.may(scope):
        raise Problem(
            403,
            "forbidden",
            "The token does not allow this",
            f"{what} needs the scope {scope}, which the token {principal.name!r} does not have",
            next=f"open the store with a token that has it: clew token add makes one, with --scope={scope}",
        )


def refuse_bound(principal: Principal) -> None:
    """Rows know nothing of workspaces, tags and shares: a caller that is bound to some sees none."""
    if principal.is_bound:
        raise Problem(
            403,
            "bound",
            "The token is for some sessions only",
            "a store can be opened with a token that is bound to no workspace, tag or session",
            next="use the HTTP API with this token, or open the store with one that is not bound",
        )


# -- what is not shown: tokens, and to a caller that cannot write the secrets of leases and of redaction

_SESSIONS: Final = (FindSession, GetSession, ListSessions, DueSessions, TreeSessions)


def shown(principal: Principal, call: Call[Any], answer: Any) -> Any:
    """An answer as this caller may see it."""
    if isinstance(call, GetRecord | ScanRecords) and call.kind in SECRET and not principal.may("admin"):
        return None if isinstance(call, GetRecord) else ([], False)
    if principal.may("write"):
        return answer
    if isinstance(call, _SESSIONS):
        return _without_fences(answer)
    if isinstance(call, GetRecord) and answer is not None:
        if call.kind == "lease":
            return blob(_without_fence(unblob(answer)))
        if call.kind == "redaction" and call.name == "key":
            return None
    if isinstance(call, ScanRecords):
        records, has_more = answer
        if call.kind == "lease":
            records = [(name, blob(_without_fence(unblob(value)))) for name, value in records]
        if call.kind == "redaction":
            records = [(name, value) for name, value in records if name != "key"]
        return records, has_more
    return answer


def _without_fences(answer: Any) -> Any:
    if isinstance(answer, list):
        return [_without_fences(one) for one in answer]
    if isinstance(answer, SessionRow):
        return msgspec.structs.replace(answer, fence=1) if answer.fence else answer
    if isinstance(answer, msgspec.Struct) and hasattr(answer, "row"):
        return msgspec.structs.replace(answer, row=_without_fences(answer.row))
    return answer


def _without_fence(value: bytes) -> bytes:
    try:
        return encode_lease(msgspec.structs.replace(decode_lease(value), fence=1))
    except CorruptError:
        return b"{}"
