"""LangChain messages as JSON that people and Clew can read, and back as equal objects.

The JSON is flat, `{"type": "ai", "content": …, "tool_calls": […], "id": …}`, without fields that have their
default. It names no constructor: `type` chooses one of the classes below, so a row that a stranger wrote into
the database can make a message and nothing else. A message that would not come back equal (of a class of the
user, or with an artifact that is not JSON) also carries the bytes of the serializer.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from clew.adapters.common import encode, mended
from clew.core.messages.dialects.base import type_of

_CLASSES: Final[dict[str, type[BaseMessage]]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
    "function": FunctionMessage,
    "chat": ChatMessage,
    "remove": RemoveMessage,
    "HumanMessageChunk": HumanMessageChunk,
    "AIMessageChunk": AIMessageChunk,
    "SystemMessageChunk": SystemMessageChunk,
    "ToolMessageChunk": ToolMessageChunk,
    "FunctionMessageChunk": FunctionMessageChunk,
    "ChatMessageChunk": ChatMessageChunk,
}
_SERIALIZED: Final = "$serialized"
"""The field for the serializer's type and bytes."""

_set = object.__setattr__
_fields = attrgetter("__dict__")
_extra = attrgetter("__pydantic_extra__")


class Kept(msgspec.Struct, frozen=True):
    """A message of a log, in memory."""

    raw: bytes
    message: BaseMessage | None
    """An object that is never given out. None: a message is made of `raw` each time."""
    entry: str = ""
    """The id of its entry; empty until there is one."""


def are_messages(value: Any) -> bool:
    """Whether a value is a list of messages, and of nothing else."""
    return type(value) is list and bool(value) and all(isinstance(each, BaseMessage) for each in value)


def keep(message: BaseMessage, serde: SerializerProtocol) -> Kept:
    """What to store of a message."""
    kind = message.type
    if type(message) is _CLASSES.get(kind):
        fields = {"type": kind, **message.model_dump(exclude_defaults=True)}
        try:
            raw = msgspec.json.encode(fields)
            again = _make(kind, msgspec.json.decode(raw))
        except UnicodeEncodeError:  # half a surrogate pair: LangGraph would write a question mark
            raw = encode(fields)
            return Kept(raw, _make(kind, msgspec.json.decode(mended(raw))))
        except Exception:  # noqa: BLE001 (whatever a field may hold: there is another way)
            pass
        else:
            if is_same(again, message):
                return Kept(raw, again)
    name, content = serde.dumps_typed(message)
    fields = {**_readable(message), _SERIALIZED: [name, b64encode(content).decode()]}
    return Kept(mended(encode(fields)), None)


def kept_from(raw: bytes, entry: str) -> Kept | None:
    """A message of the log, to be kept in memory; None: it is not one of LangGraph's."""
    fields = msgspec.json.decode(raw)
    if type_of(fields) not in _CLASSES or "content" not in fields:
        return None
    if _SERIALIZED in fields:
        return Kept(raw, None, entry)
    return Kept(raw, _make(fields["type"], fields), entry)


def message_of(kept: Kept, serde: SerializerProtocol) -> BaseMessage:
    """A new message object for a caller, who may change it."""
    if kept.message is not None:
        return copied(kept.message)
    fields = msgspec.json.decode(kept.raw)
    name, content = fields.pop(_SERIALIZED)
    found = serde.loads_typed((name, b64decode(content)))
    # A serializer that may not make this class gives its data: then the readable form is the message.
    return found if isinstance(found, BaseMessage) else _make(fields["type"], fields)


def is_same(one: BaseMessage, other: BaseMessage) -> bool:
    """Equality of two messages, without the steps of pydantic's own.

    With `_all_same`, turn 400 of benchmarks.adapters.langgraph takes 43 instead of 57 ms of processor time.
    """
    return (
        one.__class__ is other.__class__
        and one.__dict__ == other.__dict__
        and one.__pydantic_extra__ == other.__pydantic_extra__
    )


def shared(path: Sequence[Kept], messages: Sequence[Any], serde: SerializerProtocol) -> int:
    """How many messages two lists have in common, from the first on.

    All messages are compared, also objects that were compared before: a message can be changed in place.
    """
    count = min(len(path), len(messages))
    known = [kept.message for kept in path[:count]]
    if _all_same(messages[:count], known):
        return count
    for at in range(count):
        if not _is_kept(messages[at], path[at], serde):
            return at
    return count


def _all_same(messages: Sequence[Any], known: Sequence[BaseMessage | None]) -> bool:
    # `is_same` for each pair, in loops that run in C: this is done for every checkpoint.
    try:
        return (
            list(map(type, messages)) == list(map(type, known))
            and list(map(_fields, messages)) == list(map(_fields, known))
            and list(map(_extra, messages)) == list(map(_extra, known))
        )
    except AttributeError:
        return False  # a message that is made of its bytes each time, or no message


def _is_kept(message: Any, kept: Kept, serde: SerializerProtocol) -> bool:
    if not isinstance(message, BaseMessage):
        return False
    if kept.message is None:
        # A message with NaN is not equal to itself, so the bytes to be stored are compared too.
        return message_of(kept, serde) == message or keep(message, serde).raw == kept.raw
    return is_same(message, kept.message) or _is_cut(message, kept.message)


def _is_cut(message: Any, known: BaseMessage) -> bool:
    """Whether a message with halves of surrogate pairs became the known one when it was stored."""
    if type(message) is not type(known):
        return False
    fields = message.model_dump(exclude_defaults=True)
    try:
        msgspec.json.encode(fields)
    except UnicodeEncodeError:
        return is_same(_make(message.type, msgspec.json.decode(mended(encode(fields)))), known)
    except Exception:  # noqa: BLE001 (whatever a field may hold: it has no such halves)
        pass
    return False


def copied(message: BaseMessage) -> BaseMessage:
    """An equal message that shares nothing that can be changed.

    Turn 400 of benchmarks.adapters.langgraph takes 1.3 times as long with `model_copy(deep=True)`.
    """
    copy = message.__class__.__new__(message.__class__)
    fields = message.__dict__.copy()
    # Most of these are empty.
    for name, value in fields.items():
        if value.__class__ is dict:
            fields[name] = _copied(value) if value else {}
        elif value.__class__ is list:
            fields[name] = _copied(value) if value else []
    extra = message.__pydantic_extra__
    if extra is not None:
        extra = _copied(extra) if extra else {}
    _set(copy, "__dict__", fields)
    _set(copy, "__pydantic_fields_set__", message.__pydantic_fields_set__.copy())
    _set(copy, "__pydantic_extra__", extra)
    _set(copy, "__pydantic_private__", None)
    return copy


def _copied(value: Any) -> Any:
    """A deep copy of a dict or a list of JSON values."""
    if value.__class__ is dict:
        made = value.copy()
        for name, each in made.items():
            if each.__class__ is dict or each.__class__ is list:
                made[name] = _copied(each)
        return made
    return [_copied(each) if each.__class__ is dict or each.__class__ is list else each for each in value]


def _make(kind: str, fields: dict[str, Any]) -> BaseMessage:
    return _CLASSES[kind](**fields)


def _readable(message: BaseMessage) -> dict[str, Any]:
    kind = message.type if message.type in _CLASSES else _nearest(message)
    try:
        fields = message.model_dump(mode="json", exclude_defaults=True)
        fields = {"type": kind, "content": "", **{name: fields[name] for name in fields if name != "type"}}
        _make(kind, msgspec.json.decode(msgspec.json.encode(fields)))
    except Exception:  # noqa: BLE001 (nothing that a message holds must keep it from being stored)
        text = str(message.text).encode("utf-8", "replace").decode()
        return {"type": kind, "content": text, **_required(message)}
    return fields


def _required(message: BaseMessage) -> dict[str, Any]:
    names = ("tool_call_id", "name", "role", "id")
    return {name: value for name in names if isinstance(value := getattr(message, name, None), str)}


def _nearest(message: BaseMessage) -> str:
    """The type of the LangChain class that a class of the user is derived from."""
    classes: Iterable[tuple[str, type[BaseMessage]]] = _CLASSES.items()
    return next((kind for kind, each in classes if isinstance(message, each)), "chat")
