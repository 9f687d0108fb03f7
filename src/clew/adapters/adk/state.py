"""The sessions of ADK by their names, and their state.

The events on the path decide what the state is. Documents hold the state at one head, one document for each
key, so that a change costs its own size and a read needs no event. After a rewind, or in a fork, the head is
another one: then the state is computed from the events on the path, and the next append writes the documents
again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

import msgspec
from blake3 import blake3

import clew
from clew.adapters.common.jsontext import decode
from clew.adapters.common.sessions import session_id
from clew.core.log.ids import is_id
from clew.model import Json

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
