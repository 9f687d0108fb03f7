"""The session that a text means: a short id, as people see and type it, or any other name."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from clew.core.conversation.sessions import info_of
from clew.core.log.rows import SessionName
from clew.errors import CorruptError, SessionDeletedError, SessionNotFoundError
from clew.importers.short_ids import meant, short_ids, stands_for, was_shown_as
from clew.server.call import Call
from clew.server.problems import Problem
from clew.server.routing import Routes
from clew.server.wire.sessions import NamedSession

routes = Routes()

SHOWN: Final = 4
"""Sessions that a problem names."""


@routes.get("/names/{text}", answer=NamedSession)
def find_named(call: Call, text: str) -> NamedSession:
    """Find the session that a text means: its id, an alias, its short id, or another beginning of its id.

    409 `ambiguous_id` if it fits several sessions; `sessions` has the first of them. A token that is bound to
    some sessions looks among these only, and gets whole ids.
    """
    found = _seen(call, text)
    living = [one for one in found if not one.deleted]
    if not living or any(one.id == text and one.deleted for one in found):
        raise SessionDeletedError(found[0].id) if found else SessionNotFoundError(text)
    living += [one for one in found if one.deleted and was_shown_as(text, one.id)]
    shown = _described(call, living[:SHOWN])
    if len(living) > 1 or not stands_for(text, living[0].id):
        many = f"{len(living)} sessions begin" if len(living) > 1 else "only a subagent or a fork begins"
        raise Problem(
            409,
            "ambiguous_id",
            "The id fits no single session",
            f"{many} with {text!r}: {', '.join(one.short_id for one in shown)}",
            next="send more letters of the id",
            fields={"sessions": shown},
        )
    return shown[0]


def _seen(call: Call, text: str) -> list[SessionName]:
    with call.store._engine.read() as reader:
        found = meant(reader, text)
        if not call.principal.is_bound:
            return found
        seen = []
        for one in found:
            try:
                row = reader.get_session(one.sid)
                info = None if row is None else info_of(reader, row, reader.get_details(one.sid), None)
            except CorruptError:
                continue
            if info is not None and call.principal.sees(info):
                seen.append(one)
        return seen


def _described(call: Call, found: list[SessionName]) -> list[NamedSession]:
    """With whole ids for a bound caller: how short one can be tells of sessions that are another's."""
    is_bound = call.principal.is_bound
    shown = {} if is_bound else short_ids(call.store, [one.id for one in found])
    return [NamedSession(one.id, shown.get(one.id, one.id), _title(call, one)) for one in found]


def _title(call: Call, one: SessionName) -> str | None:
    with call.store._engine.read() as reader, suppress(CorruptError):
        row = reader.get_session(one.sid)
        return None if row is None else row.title
    return None  # it cannot be read
