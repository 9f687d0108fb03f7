"""ADK's state and events as records and messages."""

from __future__ import annotations

import copy
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

import msgspec
from blake3 import blake3
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from pydantic import BaseModel

import clew
from clew.adapters.common import decode, encode_model, session_id, with_numbers
from clew.core.log.ids import is_id
from clew.model import Json

# ── The sessions of ADK by their names, and their state ───────────────────────────────────────────
# The events on the path decide what the state is. Documents hold the state at one head, one document for
# each key, so that a change costs its own size and a read needs no event. After a rewind, or in a fork, the
# head is another one: then the state is computed from the events on the path, and the next append writes
# the documents again.

ADK: Final = "adk"
"""The first part of every id. One, two or three parts follow: an app, a user of it, a session of theirs."""

STATE_TAG: Final = "adk-state"
"""The tag of sessions that hold only the state of an app or a user: let retention rules keep them."""


class Key(NamedTuple):
    """The three names by which ADK knows a session."""

    app: str
    user: str
    session: str

    @property
    def id(self) -> str:
        return session_id(ADK, *self)

    @property
    def metadata(self) -> dict[str, Json]:
        return {**sessions_of(self.app, self.user), "session": self.session}


def sessions_of(app: str, user: str | None = None) -> dict[str, Json]:
    """The metadata that all sessions of an app, or of a user of it, have in common."""
    everybody: dict[str, Json] = {"framework": ADK, "kind": "session", "app": app}
    return everybody if user is None else {**everybody, "user": user}


def key_of(info: clew.SessionInfo) -> Key | None:
    """ADK's names of a listed session. A fork has the metadata of its base, so its own id is read.

    None: ADK has no name for this id.
    """
    app, user, session = (str(info.metadata.get(name, "")) for name in ("app", "user", "session"))
    key = Key(app, user, session)
    if key.id == info.id:
        return key
    start = session_id(ADK, app, user) + "/"
    if not info.id.startswith(start):
        return None
    key = Key(app, user, unquote(info.id.removeprefix(start)))
    return key if key.id == info.id else None


def state_of_app(app: str) -> tuple[str, dict[str, Json]]:
    """Id and metadata of the session that holds the state of an app."""
    return session_id(ADK, app), {"framework": ADK, "kind": "app", "app": app}


def state_of_user(app: str, user: str) -> tuple[str, dict[str, Json]]:
    return session_id(ADK, app, user), {"framework": ADK, "kind": "user", "app": app, "user": user}


# -- state

Values: TypeAlias = dict[str, msgspec.Raw]
"""Keys with the JSON text of their values, as the framework wrote it."""

INITIAL: Final = "adk.state"
"""A variable, since forks get those too: the state with which the session was created."""

_ALL: Final = "adk/"
_AT: Final = "adk/at"
_STATE: Final = "adk/state/"
_HASHED: Final = "~"

APP: Final = "app:"
USER: Final = "user:"
TEMP: Final = "temp:"


class _Actions(msgspec.Struct):
    state_delta: Values = msgspec.field(default_factory=dict)


class Logged(msgspec.Struct):
    """The fields of a stored event that matter for the state."""

    invocation_id: str | None = None
    """Each event has one, which may be empty; None: this is no event of ADK."""
    id: str = ""
    timestamp: float = 0.0
    actions: _Actions = msgspec.field(default_factory=_Actions)

    @property
    def delta(self) -> Values:
        return self.actions.state_delta


class Scopes(msgspec.Struct):
    """A change of state: the parts that the app, the user and the session have; keys without prefixes."""

    app: Values
    user: Values
    session: Values


class At(msgspec.Struct):
    """Where a session stands."""

    revision: str
    time: float
    """The time of the last event; of the creation if there is none."""
    event: str | None = None
    """The id of the last event."""


class Standing(NamedTuple):
    """Where a session stands, and its state there."""

    at: At
    state: Values


decode_values = msgspec.json.Decoder(Values).decode
_decode_logged = msgspec.json.Decoder(Logged).decode
_decode_at = msgspec.json.Decoder(At).decode
_decode_actions = msgspec.json.Decoder(_Actions).decode


def logged(raw: bytes) -> Logged | None:
    """The event in an entry; None: the entry is no event of ADK."""
    try:
        event = _decode_logged(raw)
    except msgspec.ValidationError:
        return None
    return None if event.invocation_id is None else event


def delta_of(actions: bytes) -> Values:
    """The state delta in the JSON of an event's actions."""
    return _decode_actions(actions).state_delta


def scopes_of(delta: Mapping[str, msgspec.Raw]) -> Scopes:
    scopes = Scopes({}, {}, {})
    for key, value in delta.items():
        if key.startswith(APP):
            scopes.app[key.removeprefix(APP)] = value
        elif key.startswith(USER):
            scopes.user[key.removeprefix(USER)] = value
        elif not key.startswith(TEMP):
            scopes.session[key] = value
    return scopes


def plain(values: Mapping[str, msgspec.Raw], prefix: str = "") -> dict[str, Any]:
    """New objects of the values: the caller may change them."""
    return {prefix + key: decode(bytes(value)) for key, value in values.items()}


def revision_of(head: clew.Head) -> str:
    return f"{head.branch}.{head.position}"


# -- documents


def kept_values(session: clew.Session | None) -> Values:
    """The state that is kept with a session."""
    return {} if session is None else _values(session.documents(_STATE))


def keep_values(session: clew.Session, values: Mapping[str, msgspec.Raw]) -> None:
    for key, value in values.items():
        content = b"{%s:%s}" % (json.dumps(key).encode(), bytes(value))
        session.set_document(_name(key), content)


def keep_initial(session: clew.Session, values: Mapping[str, msgspec.Raw]) -> None:
    """The state that the session is created with."""
    session.set_var(INITIAL, {key: json.loads(bytes(value)) for key, value in values.items()})


def keep_at(session: clew.Session, at: At) -> None:
    """Note that the documents hold the state at this revision."""
    session.set_document(_AT, msgspec.json.encode(at))


def keep_anew(session: clew.Session, values: Mapping[str, msgspec.Raw]) -> None:
    for name, _ in session.documents(_STATE):
        session.delete_document(name)
    keep_values(session, values)


def kept_at(session: clew.Session, revision: str) -> At | None:
    """Where the session stands; None: the documents hold the state of another revision."""
    content = session.get_document(_AT)
    at = None if content is None else _decode_at(content)
    return at if at is not None and at.revision == revision else None


def standing(session: clew.Session, head: clew.Head) -> Standing:
    documents = session.documents(_ALL)
    now = revision_of(head)
    for name, content in documents:
        if name == _AT and (at := _decode_at(content)).revision == now:
            return Standing(at, _values(documents))
    return fold(session, now)


def fold(session: clew.Session, revision: str) -> Standing:
    """Where a session stands, and its state, computed from the events on its path."""
    state = decode_values(json.dumps(session.get_var(INITIAL, {})))
    last: Logged | None = None
    for entry in session.entries():
        if entry.kind == "message" and (event := logged(entry.raw)) is not None:
            state.update(scopes_of(event.delta).session)
            last = event
    if last is None:
        return Standing(At(revision, session.info.created_at.timestamp()), state)
    return Standing(At(revision, last.timestamp, last.id), state)


def _values(documents: list[tuple[str, bytes]]) -> Values:
    values: Values = {}
    for name, content in documents:
        if name.startswith(_STATE):
            values.update(decode_values(content))
    return values


def _name(key: str) -> str:
    """The name of the document for a key; a key that cannot be a name is replaced by its hash."""
    name = _STATE + key
    if is_id(name) and not key.startswith(_HASHED):
        return name
    return f"{_STATE}{_HASHED}{blake3(key.encode()).hexdigest()}"


# ── Stored events as the framework's objects ──────────────────────────────────────────────────────

# -- copies

Maker: TypeAlias = Callable[[], Any]

_SHARED: Final = (str, int, float, bool, bytes, type(None), Enum)
"""Values of these types cannot change, so copies share them."""
_set: Final = object.__setattr__


def maker_of(value: Any) -> Maker:
    """Makes deep copies of a value, which must not be changed from now on.

    What copies can share is found once. Turn 400 of benchmarks.adapters.adk with the whole history takes
    70 ms of processor time with it, 99 with `model_copy(deep=True)`, and 121 if each event is parsed again.
    """
    return _maker(value) or (lambda: value)


def _maker(value: Any) -> Maker | None:
    """None: copies can share the value."""
    if isinstance(value, _SHARED):
        return None
    if isinstance(value, BaseModel):
        return _maker_of_model(value)
    if type(value) is dict:
        return partial(
            _make_dict, value, [(key, made) for key, one in value.items() if (made := _maker(one))]
        )
    if type(value) is list:
        return partial(
            _make_list, value, [(at, made) for at, one in enumerate(value) if (made := _maker(one))]
        )
    return partial(copy.deepcopy, value)


def _make_dict(value: dict[Any, Any], parts: list[tuple[Any, Maker]]) -> dict[Any, Any]:
    made = value.copy()
    for key, make in parts:
        made[key] = make()
    return made


def _make_list(value: list[Any], parts: list[tuple[int, Maker]]) -> list[Any]:
    made = value.copy()
    for at, make in parts:
        made[at] = make()
    return made


def _maker_of_model(model: BaseModel) -> Maker:
    kind = type(model)
    fields = maker_of(model.__dict__)
    extra, private = _maker(model.__pydantic_extra__), _maker(model.__pydantic_private__)
    given = model.__pydantic_fields_set__

    def make() -> BaseModel:
        made = kind.__new__(kind)
        _set(made, "__dict__", fields())
        _set(made, "__pydantic_fields_set__", given.copy())
        _set(made, "__pydantic_extra__", extra and extra())
        _set(made, "__pydantic_private__", private and private())
        return made

    return make


# -- events

_REMEMBERED: Final = 4 << 20
"""The most bytes of events in memory, as JSON. The objects take several times as much."""


_OFTEN_EMPTY: Final = (
    "state_delta",
    "artifact_delta",
    "requested_auth_configs",
    "requested_tool_confirmations",
)
"""Fields of an event's actions that are left out if they are empty."""


def raw_of(event: Event) -> bytes:
    """The JSON of an event as the framework's own services store it, without empty fields."""
    silent = {"actions": {name for name in _OFTEN_EMPTY if not getattr(event.actions, name)}}
    if not event.node_info.path:
        silent["node_info"] = {"path"}
    return text_of(event, exclude_none=True, exclude=silent)


def text_of(model: BaseModel, **options: Any) -> bytes:
    """The JSON of a model; `options` are those of `model_dump_json`."""
    return encode_model(
        model,
        lambda model: model.model_dump_json(**options).encode(),
        lambda model: model.model_dump(mode="json", **options),
    )


class ParsedEvents:
    """Makes events out of entries, and remembers the latest ones: ADK reads the whole history in every turn,
    and a copy of an event takes a fraction of the time.

    An entry never changes, so its event in memory cannot be outdated.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[Maker, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def of(self, entry: clew.Entry) -> Event:
        """A new event object, which the caller may change."""
        with self._lock:
            known = self._known.get(entry.id)
            if known is not None:
                self._known.move_to_end(entry.id)
        make = maker_of(Event.model_validate_json(with_numbers(entry.raw))) if known is None else known[0]
        if known is None:
            self._remember(entry.id, make, len(entry.raw))
        event: Event = make()
        return event

    def _remember(self, id: str, make: Maker, size: int) -> None:
        with self._lock:
            if id not in self._known:
                self._known[id] = (make, size)
                self._bytes += size
            while self._bytes > _REMEMBERED:
                _, (_, gone) = self._known.popitem(last=False)
                self._bytes -= gone


def usage_of(event: Event) -> dict[str, Any] | None:
    """The arguments of `add_usage` for the model call that made an event."""
    used = event.usage_metadata
    if used is None:
        return None
    model = event.model_version
    return {
        "model": model,
        "vendor": "google" if model and model.startswith("gemini") else None,
        "source": event.author or None,
        "input_tokens": (used.prompt_token_count or 0) + (used.tool_use_prompt_token_count or 0),
        "output_tokens": (used.candidates_token_count or 0) + (used.thoughts_token_count or 0),
        "cache_read_tokens": used.cached_content_token_count or 0,
        # The framework sets this beside the declared fields, for models that report it.
        "cache_write_tokens": getattr(used, "cache_creation_input_tokens", None) or 0,
        "reasoning_tokens": used.thoughts_token_count or 0,
    }


def wanted(session: clew.Session, config: GetSessionConfig) -> list[clew.Entry]:
    """The events that a caller wants, in the order in which they were appended."""
    most, since = config.num_recent_events, config.after_timestamp
    if most is None:
        return list(_events(session.entries(), since))
    found: list[clew.Entry] = []
    # The path may hold other entries, and events before `since`: then a second read is needed.
    for last in (most, None):
        found = list(islice(_events(session.entries(last=last, newest_first=True), since), most))
        if len(found) == most:
            break
    return found[::-1]


def _events(entries: Iterable[clew.Entry], since: float | None) -> Iterator[clew.Entry]:
    for entry in entries:
        event = logged(entry.raw) if entry.kind == "message" else None
        if event is not None and (since is None or event.timestamp >= since):
            yield entry
