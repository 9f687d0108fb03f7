"""Messages of Pydantic AI as entries of a session: their bytes, their ids, their places, what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

import msgspec
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_ai.conversation_store import ConversationEntry
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse

import clew
from clew.adapters.common.jsontext import encode_model, with_numbers

NOWHERE: Final = clew.Head("", -1)
"""The place before the first entry of a history."""

_MESSAGE: Final[TypeAdapter[ModelMessage]] = TypeAdapter(
    ModelMessage, config=ConfigDict(defer_build=True, ser_json_bytes="base64", val_json_bytes="base64")
)
"""One message as `ModelMessagesTypeAdapter` writes a list of them."""


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
    """Of a response: what the call cost."""


def draft_of(entry: ConversationEntry) -> Draft:
    body = dumped(_MESSAGE, entry.message)
    named = b'{"entry_id":' + msgspec.json.encode(entry.id) + b"," + body[1:]
    usage = usage_of(entry.message) if isinstance(entry.message, ModelResponse) else None
    return Draft(entry.id, entry.parent_id, named, usage)


def dumped(kind: TypeAdapter[Any], value: Any) -> bytes:
    """The JSON text of a value, fit for the store."""
    return encode_model(value, kind.dump_json, partial(kind.dump_python, mode="json"))


def usage_of(response: ModelResponse) -> dict[str, Any]:
    """What `add_usage` is told of a call."""
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
    """The id under which the framework knows an entry. What came by another way has that of the store."""
    return _decode_name(entry.raw).entry_id or entry.id


def place_of(entry: clew.Entry) -> clew.Head:
    return place_named(entry.id)


def place_named(id: str) -> clew.Head:
    """The place that the store's own id of an entry leads to; empty: before the first."""
    branch, _, position = id.rpartition(".")
    return clew.Head(branch, int(position)) if branch else NOWHERE


def name_of(place: clew.Head) -> str:
    return f"{place.branch}.{place.position}" if place.branch else ""


def newest_first(session: clew.Session, at: clew.Head | None = None) -> Iterator[clew.Entry]:
    """The messages on the path to a place (the head), without marks."""
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
