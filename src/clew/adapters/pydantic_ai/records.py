"""The record of a conversation, as a document beside the conversation.

The head of the session is the truth. When somebody moved it by other means than the framework (a rewind on
the command line, a fork), the record is told as if the framework had branched there; its revision changes
too, so that who loaded it before can not save over the move.
"""

from __future__ import annotations

import dataclasses
from typing import Final, NamedTuple

import msgspec
from pydantic import TypeAdapter
from pydantic_ai.conversation_store import ConversationRecord

import clew
from clew.adapters.common.jsontext import mended, with_numbers
from clew.adapters.common.sessions import find_own, session_id
from clew.adapters.pydantic_ai.entries import dumped, id_of, name_of, newest_first, place_named

FRAMEWORK: Final = "pydantic-ai"
DOCUMENT: Final = "record"

_RECORD: Final = TypeAdapter(ConversationRecord)


class _Kept(msgspec.Struct):
    """The document."""

    record: msgspec.Raw
    head: str
    """Where the session stood when the record was written: the store's own id of that entry."""
    tips: dict[str, str]
    """Where the last entries of the branches are."""


_decode = msgspec.json.Decoder(_Kept).decode


class _Gist(msgspec.Struct):
    head_id: str | None


_decode_gist = msgspec.json.Decoder(_Gist).decode


class Standing(NamedTuple):
    """A record, and where in the session the entries are that it names."""

    record: ConversationRecord
    places: dict[str, clew.Head]


def encoded(record: ConversationRecord) -> bytes:
    return mended(dumped(_RECORD, record))


def document(record: bytes, head: clew.Head, tips: dict[str, clew.Head]) -> bytes:
    names = {tip: name_of(place) for tip, place in tips.items()}
    return msgspec.json.encode(_Kept(msgspec.Raw(record), name_of(head), names))


def standing_in(store: clew.Store, conversation_id: str) -> Standing | None:
    return standing_of(find_own(store, session_id(conversation_id), FRAMEWORK))


def standing_of(session: clew.Session | None) -> Standing | None:
    """What the framework is told of a session; None: it is no conversation of this framework."""
    if session is None:
        return None
    content = session.get_document(DOCUMENT)
    if content is None:
        return _without_record(session)
    kept = _decode(content)
    record = _RECORD.validate_json(with_numbers(bytes(kept.record)))
    places = {tip: place_named(name) for tip, name in kept.tips.items()}
    head = session.head
    if name_of(head) != kept.head:
        return _moved(session, record, places, head, place_named(kept.head))
    if record.head_id is not None:
        places[record.head_id] = head
    return Standing(record, places)


def places_of(session: clew.Session) -> dict[str, clew.Head]:
    """Where the entries are that the record of a session names; without the cost of the whole record."""
    content = session.get_document(DOCUMENT)
    kept = None if content is None else _decode(content)
    if kept is None or name_of(head := session.head) != kept.head:
        standing = standing_of(session)
        return {} if standing is None else standing.places
    places = {tip: place_named(name) for tip, name in kept.tips.items()}
    head_id = _decode_gist(kept.record).head_id
    return places if head_id is None else {**places, head_id: head}


def _moved(
    session: clew.Session,
    record: ConversationRecord,
    places: dict[str, clew.Head],
    head: clew.Head,
    was: clew.Head,
) -> Standing:
    """The head is not where the framework left it."""
    head_id = _last_id(session)
    if head_id is not None:
        places[head_id] = head
    if head_id == record.head_id:
        return Standing(record, places)  # only a mark was put behind the last message
    branches = [tip for tip in record.branches if tip not in (head_id, record.head_id)]
    if record.head_id is not None:
        branches.append(record.head_id)
        places[record.head_id] = was
    moved = dataclasses.replace(
        record,
        head_id=head_id,
        branches=branches,
        deferred_tool_requests=None,
        revision=f"{record.revision}@{name_of(head)}",
    )
    return Standing(moved, places)


def _without_record(session: clew.Session) -> Standing | None:
    """A fork that the framework did not make has the messages, but no record yet."""
    info = session.info
    if info.metadata.get("framework") != FRAMEWORK or info.head.position < 0:
        return None
    head_id = _last_id(session)
    if head_id is None:
        return None
    scope = info.metadata.get("scope")
    base = info.forked_from
    record = ConversationRecord(
        conversation_id=info.id,
        head_id=head_id,
        scope=scope if isinstance(scope, str) else None,
        forked_from=None if base is None else base.session,
        revision=f"@{name_of(info.head)}",
        updated_at=info.updated_at,
    )
    return Standing(record, {head_id: info.head})


def _last_id(session: clew.Session) -> str | None:
    last = next(newest_first(session), None)
    return None if last is None else id_of(last)
