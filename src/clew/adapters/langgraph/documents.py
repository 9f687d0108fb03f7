"""How a thread lies in the documents of its session.

    c/<namespace>/<checkpoint>                a checkpoint: everything but the values that are kept elsewhere
    w/<namespace>/<checkpoint>/<task>         the writes of a task after it, until the next checkpoint comes
    v/<digest>                                a value, once, however many checkpoints have it
    l/<namespace>/<channel>/<checkpoint>.<n>  the elements that a list has more than the one before; see lists
    r/<run>                                   a run that made checkpoints here

Names sort like checkpoint ids, so the newest checkpoint of a namespace is the last name of its prefix.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec
from blake3 import blake3
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

import clew
from clew.core.log.digest import ZSTD, pack_objects, unpack

# -- which values come back as objects
#
# LangGraph's own serializer calls anything that a stored value names, functions of the system included, and
# only logs a warning. A store may come from anywhere, so here a value may name only a class of data: one that
# LangGraph's serializer writes, and that the program itself has imported.


_KNOWN: Final = [
    ("langchain_core.agents", name)
    for name in ("AgentAction", "AgentActionMessageLog", "AgentFinish", "AgentStep")
]
"""Records of LangChain's own, beside those that LangGraph lets through."""


def default_serializer(allow: Iterable[type] | None) -> JsonPlusSerializer:
    """LangGraph's own with the rule above; with `allow`: only for types known to be safe, and for these."""
    if allow is not None:
        return JsonPlusSerializer(allowed_msgpack_modules=[*_KNOWN, *allow])
    own = JsonPlusSerializer()
    if own._allowed_msgpack_modules is not True:
        # LangGraph's own rule is the strict one; then it allows the classes of a graph's schema itself.
        return own.with_msgpack_allowlist(_KNOWN)
    return JsonPlusSerializer(__unpack_ext_hook__=jsonplus._create_msgpack_ext_hook(_DataClasses()))


class _DataClasses(set[tuple[str, ...]]):
    """A set that seems to hold the names of all classes of data that the program has imported."""

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, tuple) or len(key) != 2 or not all(isinstance(name, str) for name in key):
            return False
        module, name = key
        if not is_data_class(getattr(sys.modules.get(module), name, None), module, name):
            return False
        jsonplus._warn_once(
            jsonplus._warned_unregistered_types,
            (module, name),
            "made a value of the unregistered type %s.%s from a checkpoint; to allow only classes that you"
            " name, use ClewSaver(store, allow=[...])",
            module,
            name,
        )
        return True


def is_data_class(found: object, module: str, name: str) -> bool:
    """Whether this is a class of data, and its real name is this one."""
    if not isinstance(found, type) or (found.__module__, found.__name__) != (module, name):
        return False
    return (
        dataclasses.is_dataclass(found)
        or issubclass(found, Enum)
        or (issubclass(found, tuple) and hasattr(found, "_asdict"))
        or any(base.__name__ == "BaseModel" and _is_pydantic(base) for base in found.__mro__)
    )


def _is_pydantic(base: type) -> bool:
    return base.__module__.partition(".")[0] == "pydantic"


# -- names and contents

_ESCAPED: Final = str.maketrans({"%": "%25", "/": "%2F", "\0": "%00"})
_LONGEST: Final = 150
"""The longest part of a name, in bytes: three parts and a digest fit into a name."""

_OPEN: Final = b"o"
_SEALED: Final = b"s"
_PACKED: Final = b"z"
"""The first byte of a document says how to read it: as it is, by the serializer, or unpacked by zstd."""

# The fields that every checkpoint has, under short names: a turn makes three checkpoints.
_SHORT: Final = {
    "v": "v",
    "ts": "t",
    "channel_versions": "c",
    "versions_seen": "s",
    "updated_channels": "u",
}

Ref = list[Any]
"""Where the value of a channel is: one of the four kinds below, and its arguments."""

INLINE: Final = "i"
VALUE: Final = "v"
LOG: Final = "m"
LIST: Final = "l"


class Write(msgspec.Struct, array_like=True, frozen=True):
    """One write of a task."""

    idx: int
    channel: str
    path: str
    type: str
    content: bytes


TaskWrites = tuple[str, list[Write]]


class Head(msgspec.Struct, array_like=True):
    """The content of a checkpoint's document."""

    id: str
    ns: str
    parent: str | None
    fields: dict[str, Any]
    other: tuple[str, bytes] | None
    """The parts of a checkpoint that are not in `fields`, serialized."""
    metadata: tuple[str, bytes]
    refs: dict[str, Ref]
    writes: list[TaskWrites] = []
    """The writes of tasks between this checkpoint and the next one; later writes have documents of their
    own."""
    at: str | None = None
    """If no channel is in the log: the entry at which the session stood; empty: before the first entry."""

    def version(self, channel: str) -> Any:
        return self.fields.get("c", {}).get(channel)


class Place(NamedTuple):
    """A checkpoint, or the writes of one, in a session."""

    ns: str
    id: str


def escaped(part: str) -> str:
    part = part.translate(_ESCAPED)
    if len(content := part.encode("utf-8", "surrogatepass")) <= _LONGEST and is_text(part):
        return part
    return "~" + blake3(content).hexdigest()


def is_text(part: str) -> bool:
    return part.isascii() or not any("\ud800" <= each <= "\udfff" for each in part)


def checkpoints_of(ns: str) -> str:
    return f"c/{escaped(ns)}/"


def checkpoint_name(place: Place) -> str:
    return f"c/{escaped(place.ns)}/{escaped(place.id)}"


def all_writes_of(ns: str) -> str:
    return f"w/{escaped(ns)}/"


def writes_of(place: Place) -> str:
    return f"w/{escaped(place.ns)}/{escaped(place.id)}/"


def task_name(place: Place, task: str) -> str:
    return writes_of(place) + escaped(task)


def run_name(run: str) -> str:
    return f"r/{escaped(run)}"


def value_name(digest: bytes) -> str:
    return f"v/{digest.hex()}"


def list_prefix(ns: str, channel: str) -> str:
    return f"l/{escaped(ns)}/{escaped(channel)}/"


def merged(writes: Iterable[TaskWrites]) -> list[TaskWrites]:
    """The writes of each task, each index once: the later write counts."""
    tasks: dict[str, dict[int, Write]] = {}
    for task, each in writes:
        tasks.setdefault(task, {}).update({write.idx: write for write in each})
    return [(task, list(found.values())) for task, found in tasks.items()]


def digest_of(content: bytes) -> bytes:
    return blake3(content).digest(16)


class Codec:
    """Writes and reads documents. A serializer that is not LangGraph's own may encrypt: then all is
    written by it."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self.serde = serde
        self.is_open = type(serde) is JsonPlusSerializer

    def encode_head(self, head: Head) -> bytes:
        content = msgspec.msgpack.encode(head)
        return _OPEN + content if self.is_open else self._sealed(content)

    def pack(self, document: bytes) -> bytes:
        """A document that is rarely read from now on, in fewer bytes if that is possible.

        A sealed document stays as it is: encrypted bytes cannot be compressed.
        """
        codec, content = pack_objects(document) if document[:1] == _OPEN else (None, b"")
        return _PACKED + content if codec == ZSTD else document

    def decode_head(self, document: bytes) -> Head:
        return msgspec.msgpack.decode(self._content(document), type=Head)

    def fields_of(self, checkpoint: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, bytes] | None]:
        """The fields of a checkpoint that are kept as they are, and the others, serialized.

        The values and the id are kept elsewhere.
        """
        fields = {short: _copied(checkpoint[name]) for name, short in _SHORT.items() if name in checkpoint}
        left = {
            name: value
            for name, value in checkpoint.items()
            if name not in _SHORT and name not in ("id", "channel_values")
        }
        # An old field for the same purpose, which is always empty in checkpoints of today.
        if left == {"pending_sends": []}:
            return {**fields, "p": True}, None
        return fields, self.serde.dumps_typed(left) if left else None

    def checkpoint_of(self, head: Head, values: dict[str, Any]) -> dict[str, Any]:
        found = {name: _copied(head.fields[short]) for name, short in _SHORT.items() if short in head.fields}
        found |= {"id": head.id, "channel_values": values}
        if "p" in head.fields:
            found["pending_sends"] = []
        return found | (self.serde.loads_typed(head.other) if head.other else {})

    def encode_writes(self, task: str, writes: list[Write]) -> bytes:
        return _OPEN + msgspec.msgpack.encode([task, writes])

    def decode_writes(self, document: bytes) -> TaskWrites:
        found: TaskWrites = msgspec.msgpack.decode(self._content(document), type=TaskWrites)
        return found

    def _sealed(self, content: bytes) -> bytes:
        return _SEALED + msgspec.msgpack.encode(self.serde.dumps_typed(content))

    def _content(self, document: bytes) -> bytes:
        match document[:1]:
            case b"o":
                return document[1:]
            case b"s":
                found = self.serde.loads_typed(msgspec.msgpack.decode(document[1:], type=tuple[str, bytes]))
                if isinstance(found, bytes):
                    return found
            case b"z":
                try:
                    packed = unpack(ZSTD, document[1:])
                except ValueError as error:
                    raise clew.CorruptError(
                        f"a document of a LangGraph thread cannot be read: {error}"
                    ) from error
                if packed[:1] == _OPEN:
                    return packed[1:]
        raise clew.CorruptError(
            f"a document of a LangGraph thread cannot be read: it begins with {document[:8]!r}"
        )


def _copied(value: Any) -> Any:
    """A copy of a field: LangGraph changes its checkpoints, and the memory of a saver must not change
    with them."""
    if isinstance(value, dict):
        return {name: _copied(each) for name, each in value.items()}
    return list(value) if isinstance(value, list) else value
