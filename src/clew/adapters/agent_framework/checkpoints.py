"""Workflow checkpoints of the Microsoft Agent Framework in a store."""

from __future__ import annotations

import base64
import json
import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Final, NamedTuple
from uuid import UUID

from agent_framework import Content, Message, WorkflowCheckpoint, WorkflowCheckpointException
from agent_framework._workflows import _checkpoint_encoding
from blake3 import blake3

import clew
from clew.adapters.agent_framework.history import FRAMEWORK
from clew.adapters.common import encode, faces, find_own, open_own, session_id

# ── Any value of a workflow as JSON, and back: data only, of types that were allowed by name ──────
# The framework pickles values that are not JSON. A pickle is a program, so none is used here. An object is
# kept as its type and its state. It is restored without calling its constructor, and only if its type is
# allowed.

_KIND: Final = "$"
"""The key of a JSON object that stands for a value of another kind."""
_VALUE: Final = "value"
_TYPE: Final = "type"

_FRAMEWORK: Final = ("agent_framework.", "agent_framework_orchestrations.", "openai.types.")
_PLAIN: Final = {
    f"builtins:{kind.__qualname__}": kind
    for kind in (str, int, float, bool, bytes, list, dict, tuple, set, frozenset, object, type(None))
}
"""Types that may stand for themselves."""
_BASES: Final[tuple[type[Any], ...]] = (str, int, float, list, dict)

Code = tuple[Callable[[Any], Any], Callable[[Any], Any]]

_TEXTS: Final[Mapping[type, tuple[str, Code]]] = {
    bytes: ("bytes", (lambda v: base64.b64encode(v).decode(), base64.b64decode)),
    bytearray: (
        "bytearray",
        (lambda v: base64.b64encode(v).decode(), lambda v: bytearray(base64.b64decode(v))),
    ),
    datetime: ("datetime", (datetime.isoformat, datetime.fromisoformat)),
    date: ("date", (date.isoformat, date.fromisoformat)),
    time: ("time", (time.isoformat, time.fromisoformat)),
    timedelta: ("timedelta", (lambda v: [v.days, v.seconds, v.microseconds], lambda v: timedelta(*v))),
    UUID: ("uuid", (str, UUID)),
    Decimal: ("decimal", (str, Decimal)),
    complex: (
        "complex",
        (lambda v: [repr(v.real), repr(v.imag)], lambda v: complex(float(v[0]), float(v[1]))),
    ),
    float: ("float", (repr, float)),
}
_GROUPS: Final[Mapping[type, tuple[str, Callable[[list[Any]], Any]]]] = {
    tuple: ("tuple", tuple),
    set: ("set", set),
    frozenset: ("frozenset", frozenset),
    deque: ("deque", deque),
}
_PAIRS: Final[Mapping[type, tuple[str, Callable[[list[Any]], Any]]]] = {
    dict: ("dict", dict),
    OrderedDict: ("ordered", OrderedDict),
    Counter: ("counter", lambda pairs: Counter(dict(pairs))),
}
_FROM_TEXT: Final = {name: back for name, (_, back) in _TEXTS.values()}
_FROM_GROUP: Final = dict(_GROUPS.values())
_FROM_PAIRS: Final = dict(_PAIRS.values())


class Values:
    """Encodes and decodes under a list of allowed types, each named "module:qualname"."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self._allowed = allowed

    def encode(self, value: Any) -> Any:
        return self._encode(value, ())

    def decode(self, value: Any) -> Any:
        try:
            return self._decode(value)
        except WorkflowCheckpointException:
            raise
        except Exception as exc:
            raise WorkflowCheckpointException(f"a value of the checkpoint cannot be restored: {exc}") from exc

    def is_allowed(self, key: str) -> bool:
        registered = getattr(_checkpoint_encoding, "_REGISTERED_CHECKPOINT_TYPE_KEYS", ())
        return key in self._allowed or key in registered or key.startswith(_FRAMEWORK)

    # -- there

    def _encode(self, value: Any, around: tuple[int, ...]) -> Any:
        kind = type(value)
        if kind in (str, int, bool, type(None)) or (kind is float and math.isfinite(value)):
            return value
        if kind in _TEXTS:
            name, (there, _) = _TEXTS[kind]
            return {_KIND: name, _VALUE: there(value)}
        if id(value) in around:
            raise WorkflowCheckpointException(f"a {kind.__qualname__} that contains itself cannot be kept")
        return self._encode_holder(value, kind, (*around, id(value)))

    def _encode_holder(self, value: Any, kind: type[Any], around: tuple[int, ...]) -> Any:
        """What may hold other values."""
        if kind is list:
            return [self._encode(item, around) for item in value]
        if kind is dict and _KIND not in value and all(type(key) is str for key in value):
            return {key: self._encode(item, around) for key, item in value.items()}
        if kind in _GROUPS:
            return {_KIND: _GROUPS[kind][0], _VALUE: [self._encode(item, around) for item in value]}
        if kind in _PAIRS:
            return {_KIND: _PAIRS[kind][0], _VALUE: self._pairs(value, around)}
        if kind is defaultdict:
            made = None if value.default_factory is None else self._encode(value.default_factory, around)
            return {_KIND: "default", "factory": made, _VALUE: self._pairs(value, around)}
        if isinstance(value, type):
            return {_KIND: "type", _TYPE: self._key(value)}
        if isinstance(value, Enum):
            return {_KIND: "enum", _TYPE: self._key(kind), _VALUE: self._encode(value.value, around)}
        if kind in (Message, Content):
            return {_KIND: "message", _TYPE: _key_of(kind), _VALUE: self._encode(value.to_dict(), around)}
        return self._encode_object(value, kind, around)

    def _encode_object(self, value: Any, kind: type[Any], around: tuple[int, ...]) -> Any:
        key = self._key(kind)
        base = next((base for base in _BASES if isinstance(value, base)), None)
        if base is not None:
            return {_KIND: "kind of", _TYPE: key, _VALUE: self._encode(base(value), around)}
        if any(getattr(kind, name) is not getattr(object, name) for name in ("__reduce__", "__reduce_ex__")):
            raise WorkflowCheckpointException(
                f"an object of {key} says itself how to be pickled, and no pickle is kept: "
                "keep a dataclass or a Pydantic model instead"
            )
        return {_KIND: "object", _TYPE: key, _VALUE: self._encode(value.__getstate__(), around)}

    def _pairs(self, value: Mapping[Any, Any], around: tuple[int, ...]) -> list[Any]:
        return [[self._encode(key, around), self._encode(item, around)] for key, item in value.items()]

    def _key(self, kind: type[Any]) -> str:
        key = _key_of(kind)
        if key not in _PLAIN and not self.is_allowed(key):
            raise WorkflowCheckpointException(
                f"Checkpoint serialization blocked for type '{key}': pass it in allowed_checkpoint_types, "
                "or to agent_framework.register_checkpoint_type"
            )
        if self._find(key) is not kind:
            raise WorkflowCheckpointException(
                f"type '{key}' cannot be found by its name: define it at the top level of a module"
            )
        return key

    # -- and back

    def _decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        if _KIND not in value:
            return {key: self._decode(item) for key, item in value.items()}
        name: str = value[_KIND]
        content: Any = value.get(_VALUE)
        if name in _FROM_TEXT:
            return _FROM_TEXT[name](content)
        if name in _FROM_GROUP:
            return _FROM_GROUP[name]([self._decode(item) for item in content])
        if name in _FROM_PAIRS:
            return _FROM_PAIRS[name]([(self._decode(key), self._decode(item)) for key, item in content])
        if name == "default":
            pairs = [(self._decode(key), self._decode(item)) for key, item in content]
            return defaultdict(self._decode(value["factory"]), pairs)
        return self._decode_typed(name, self._find(value[_TYPE]), content)

    def _decode_typed(self, name: str, kind: type[Any], content: Any) -> Any:
        match name:
            case "type":
                return kind
            case "enum" if issubclass(kind, Enum):
                return kind(self._decode(content))
            case "message" if kind in (Message, Content):
                return kind.from_dict(self._decode(content))
            case "kind of" if issubclass(kind, _BASES):
                return kind(self._decode(content))
            case "object":
                return _with_state(kind, self._decode(content))
        raise WorkflowCheckpointException(
            f"a value of the unknown kind {name!r}: it may be written by a newer version of Clew"
        )

    def _find(self, key: str) -> type[Any]:
        """The type of this name, if it is allowed and really has this name."""
        if key in _PLAIN:
            return _PLAIN[key]
        if not self.is_allowed(key):
            raise WorkflowCheckpointException(
                f"Checkpoint deserialization blocked for type '{key}': pass it in allowed_checkpoint_types, "
                "or to agent_framework.register_checkpoint_type"
            )
        module, _, names = key.partition(":")
        found: Any = import_module(module)
        for name in names.split("."):
            found = getattr(found, name, None)
        if not isinstance(found, type) or _key_of(found) != key:
            raise WorkflowCheckpointException(f"there is no type '{key}': was it renamed or moved?")
        return found


def _key_of(kind: type[Any]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _with_state(kind: type[Any], state: Any) -> Any:
    """An object with this state, made without calling its constructor."""
    made = object.__new__(kind)
    if hasattr(kind, "__setstate__"):
        made.__setstate__(state)
        return made
    fields, slots = state if isinstance(state, tuple) else (state, None)
    for name, value in {**(fields or {}), **(slots or {})}.items():
        object.__setattr__(made, name, value)
    return made


# ── The checkpoints of workflows: a `CheckpointStorage` ───────────────────────────────────────────
# A checkpoint is a document of a session. A second document, named by workflow and time, points to it, so
# that the latest checkpoint is found without reading the others.

_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _Named(NamedTuple):
    """The fields of a checkpoint by which it is found."""

    checkpoint_id: str
    workflow_name: str
    timestamp: str


def _named(body: bytes) -> _Named:
    fields = json.loads(body)
    return _Named(fields["checkpoint_id"], fields["workflow_name"], fields["timestamp"])


class ClewCheckpointStorage:
    """Keeps the checkpoints of workflows in a Clew store, as JSON without pickle.

    Types of the framework can be kept, and types of yours that you name; no other type is ever loaded.
    """

    DEFAULT_SESSION: ClassVar[str] = "workflow-checkpoints"

    def __init__(
        self,
        store: clew.Store | clew.AsyncStore,
        *,
        session_id: str = DEFAULT_SESSION,
        allowed_checkpoint_types: Sequence[str] | None = None,
        run: clew.AsyncRun | None = None,
    ) -> None:
        """
        Args:
            store: Where checkpoints are kept.
            session_id: The session that holds the checkpoints. Workflows of the same name share their latest
                checkpoint only if they use the same session.
            allowed_checkpoint_types: As "module:qualname", beside those that were given to
                `register_checkpoint_type`.
            run: Write to the session of this run under its lease.
        """
        self._store, self._tasks = faces(store)
        self._session = _id(session_id)
        self._values = Values(frozenset(allowed_checkpoint_types or ()))
        self._run = run

    def session(self) -> clew.Session:
        """The session that holds the checkpoints. SessionNotFoundError if there is none."""
        return self._store.get(self._session)

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        fields = {name: self._values.encode(value) for name, value in checkpoint.to_dict().items()}
        try:
            body = encode(fields)
        except (TypeError, ValueError) as exc:
            raise WorkflowCheckpointException(
                f"checkpoint {checkpoint.checkpoint_id} cannot be written as JSON: {exc}"
            ) from exc
        named = _Named(checkpoint.checkpoint_id, checkpoint.workflow_name, checkpoint.timestamp)
        await self._tasks.transact(partial(_write, id=self._session, named=named, body=body), run=self._run)
        return checkpoint.checkpoint_id

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        body = await self._tasks.read(partial(_body, id=self._session, checkpoint=checkpoint_id))
        if body is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return self._decoded(body)

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Oldest first."""
        bodies = await self._tasks.read(partial(_bodies, id=self._session, workflow=workflow_name))
        return [self._decoded(body) for body in bodies]

    async def delete(self, checkpoint_id: str) -> bool:
        return await self._tasks.transact(
            partial(_delete, id=self._session, checkpoint=checkpoint_id), run=self._run
        )

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        reading = partial(_bodies, id=self._session, workflow=workflow_name, only_last=True)
        bodies = await self._tasks.read(reading)
        return self._decoded(bodies[0]) if bodies else None

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Oldest first."""
        return await self._tasks.read(partial(_ids, id=self._session, workflow=workflow_name))

    def _decoded(self, body: bytes) -> WorkflowCheckpoint:
        fields = json.loads(body)
        return WorkflowCheckpoint.from_dict({name: self._values.decode(fields[name]) for name in fields})


def _id(name: str) -> str:
    return session_id(name)


def _write(store: clew.Store, id: str, named: _Named, body: bytes) -> None:
    session = open_own(store, id, {"framework": FRAMEWORK})
    before = session.get_document(_document(named.checkpoint_id))
    if before is not None:
        session.delete_document(_signpost(_named(before)))
    session.set_document(_document(named.checkpoint_id), body)
    session.set_document(_signpost(named), named.checkpoint_id.encode(errors="surrogatepass"))


def _delete(store: clew.Store, id: str, checkpoint: str) -> bool:
    session = find_own(store, id, FRAMEWORK)
    body = None if session is None else session.get_document(_document(checkpoint))
    if session is None or body is None:
        return False
    session.delete_document(_document(checkpoint))
    session.delete_document(_signpost(_named(body)))
    return True


def _body(store: clew.Store, id: str, checkpoint: str) -> bytes | None:
    session = find_own(store, id, FRAMEWORK)
    return None if session is None else session.get_document(_document(checkpoint))


def _ids(store: clew.Store, id: str, workflow: str, *, only_last: bool = False) -> list[str]:
    session = find_own(store, id, FRAMEWORK)
    if session is None:
        return []
    found = session.documents(_signposts(workflow), newest_first=only_last, limit=1 if only_last else None)
    return [content.decode(errors="surrogatepass") for _, content in found]


def _bodies(store: clew.Store, id: str, workflow: str, *, only_last: bool = False) -> list[bytes]:
    return list(_present(_body(store, id, each) for each in _ids(store, id, workflow, only_last=only_last)))


def _present(bodies: Iterator[bytes | None]) -> Iterator[bytes]:
    return (body for body in bodies if body is not None)


def _document(checkpoint: str) -> str:
    return session_id("checkpoint", checkpoint)


def _signposts(workflow: str) -> str:
    return f"workflow/{_short(workflow)}/"


def _signpost(named: _Named) -> str:
    """Sorts by time."""
    moment = f"{_microseconds(named.timestamp):020d}"
    return f"{_signposts(named.workflow_name)}{moment}/{_short(named.checkpoint_id)}"


def _short(text: str) -> str:
    """Any text as one that fits into a name."""
    return blake3(text.encode(errors="surrogatepass")).hexdigest()[:32]


def _microseconds(timestamp: str) -> int:
    """Microseconds since 1970; 0 for a text that is no time."""
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return 0
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max((aware - _BEGINNING) // timedelta(microseconds=1), 0)
