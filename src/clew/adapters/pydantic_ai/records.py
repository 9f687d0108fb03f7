"""Messages of Pydantic AI as entries of a session, and the record of their conversation in a document.

The head of the session decides. A rewind on the command line, or a fork, moves it without the framework: then
the record is given as if the framework had branched there, with another revision. So a program that loaded
the record before cannot save over the move.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse

import clew
from clew.adapters.common.history import BEGINNING, entry_at
from clew.adapters.common.jsontext import encode_model, mended, with_numbers
from clew.adapters.common.sessions import find_own, session_id

_MESSAGE: Final[TypeAdapter[ModelMessage]] = TypeAdapter(
    ModelMessage, config=ConfigDict(defer_build=True, ser_json_bytes="base64", val_json_bytes="base64")
)
"""Writes one message as `ModelMessagesTypeAdapter` writes a list of them."""


class _Named(msgspec.Struct):
    entry_id: str | None = None


_decode_name = msgspec.json.Decoder(_Named).decode


class Draft(msgspec.Struct, frozen=True):
    """An entry on its way into a session."""

    id: str
    parent_id: str | None
    body: bytes
    """The framework's JSON of the message, with the id of the entry as one more field."""
    usage: dict[str, Any] | None
    """Of a response: the arguments of `add_usage`."""


def draft_of(entry: ConversationEntry) -> Draft:
    body = dumped(_MESSAGE, entry.message)
    named = b'{"entry_id":' + msgspec.json.encode(entry.id) + b"," + body[1:]
    usage = usage_of(entry.message) if isinstance(entry.message, ModelResponse) else None
    return Draft(entry.id, entry.parent_id, named, usage)


def dumped(kind: TypeAdapter[Any], value: Any) -> bytes:
    """The JSON text of a value, in the form that the store keeps."""
    return encode_model(value, kind.dump_json, partial(kind.dump_python, mode="json"))


def usage_of(response: ModelResponse) -> dict[str, Any]:
    """The arguments of `add_usage` for a call."""
    used = response.usage
    return {
        "model": response.model_name,
        "vendor": response.provider_name,
        "input_tokens": max(used.input_tokens, 0),
        "output_tokens": max(used.output_tokens, 0),
        "cache_read_tokens": max(used.cache_read_tokens, 0),
        "cache_write_tokens": max(used.cache_write_tokens, 0),
        "reasoning_tokens": max(used.output_reasoning_tokens, 0),
        "cost": used.cost,
        "at": response.timestamp,
    }


def id_of(entry: clew.Entry) -> str:
    """The framework's id of an entry. An entry that the framework did not write has the id of the store."""
    return _decode_name(entry.raw).entry_id or entry.id


def place_of(entry: clew.Entry) -> clew.Head:
    return place_named(entry.id)


def place_named(id: str) -> clew.Head:
    """The place of the entry with this id of the store; empty: before the first entry."""
    branch, _, position = id.rpartition(".")
    return clew.Head(branch, int(position)) if branch else BEGINNING


def newest_first(session: clew.Session, at: clew.Head | None = None) -> Iterator[clew.Entry]:
    """The messages on the path to a place (by default the head), without marks."""
    return (entry for entry in session.entries(at=at, newest_first=True) if entry.kind == "message")


def history(session: clew.Session, at: clew.Head, limit: int | None) -> list[ConversationEntry]:
    """The entries up to a place, in order; only the last `limit` of them."""
    found = _messages(session, at, None if limit is None else limit + 1)  # with the parent of the first
    names = [id_of(entry) for entry in found]
    messages = _decoded(session, found)
    parents = [None, *names]
    entries = [
        ConversationEntry(id=name, parent_id=parent, message=message)
        for name, parent, message in zip(names, parents, messages, strict=False)
    ]
    return entries if limit is None else entries[-limit:]


def _messages(session: clew.Session, at: clew.Head, last: int | None) -> list[clew.Entry]:
    found = [entry for entry in session.entries(at=at, last=last) if entry.kind == "message"]
    if last is None or len(found) == last or at.position < last:
        return found
    return list(islice(newest_first(session, at), last))[::-1]  # there are marks among them


def _decoded(session: clew.Session, found: Sequence[clew.Entry]) -> list[ModelMessage]:
    try:
        return ModelMessagesTypeAdapter.validate_json(
            b"[" + b",".join(with_numbers(entry.raw) for entry in found) + b"]"
        )
    except ValidationError as exc:
        index = exc.errors(include_url=False, include_context=False)[0]["loc"][0]
        place = f"entry {found[index].id}" if isinstance(index, int) else "an entry"
        raise clew.InvalidError(
            f"{place} of session {session.id!r} is no message of Pydantic AI: rewind the session to before it"
        ) from exc


# -- the record

FRAMEWORK: Final = "pydantic-ai"
DOCUMENT: Final = "record"

_RECORD: Final = TypeAdapter(ConversationRecord)


class _Kept(msgspec.Struct):
    """The document."""

    record: msgspec.Raw
    head: str
    """The store's id of the entry at which the session stood when the record was written."""
    tips: dict[str, str]
    """The store's ids of the last entries of the branches."""


_decode = msgspec.json.Decoder(_Kept).decode


class _Gist(msgspec.Struct):
    head_id: str | None


_decode_gist = msgspec.json.Decoder(_Gist).decode


class Standing(NamedTuple):
    """A record, and the places of the entries that it names."""

    record: ConversationRecord
    places: dict[str, clew.Head]


def encoded(record: ConversationRecord) -> bytes:
    return mended(dumped(_RECORD, record))


def document(record: bytes, head: clew.Head, tips: dict[str, clew.Head]) -> bytes:
    names = {tip: entry_at(place) for tip, place in tips.items()}
    return msgspec.json.encode(_Kept(msgspec.Raw(record), entry_at(head), names))


def standing_in(store: clew.Store, conversation_id: str) -> Standing | None:
    return standing_of(find_own(store, session_id(conversation_id), FRAMEWORK))


def standing_of(session: clew.Session | None) -> Standing | None:
    """The record of a session for the framework; None: it is no conversation of this framework."""
    if session is None:
        return None
    content = session.get_document(DOCUMENT)
    if content is None:
        return _without_record(session)
    kept = _decode(content)
    record = _RECORD.validate_json(with_numbers(bytes(kept.record)))
    places = {tip: place_named(name) for tip, name in kept.tips.items()}
    head = session.head
    if entry_at(head) != kept.head:
        return _moved(session, record, places, head, place_named(kept.head))
    if record.head_id is not None:
        places[record.head_id] = head
    return Standing(record, places)


def places_of(session: clew.Session) -> dict[str, clew.Head]:
    """The places of the entries that the record of a session names, without decoding the whole record."""
    content = session.get_document(DOCUMENT)
    kept = None if content is None else _decode(content)
    if kept is None or entry_at(head := session.head) != kept.head:
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
    """The record after the head was moved without the framework."""
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
        revision=f"{record.revision}@{entry_at(head)}",
    )
    return Standing(moved, places)


def _without_record(session: clew.Session) -> Standing | None:
    """A record for a fork that the framework did not make: it has messages, but no record yet."""
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
        revision=f"@{entry_at(info.head)}",
        updated_at=info.updated_at,
    )
    return Standing(record, {head_id: info.head})


def _last_id(session: clew.Session) -> str | None:
    last = next(newest_first(session), None)
    return None if last is None else id_of(last)
